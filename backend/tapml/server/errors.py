"""Every error of the application as {"error": sentence}, and as a page where a person opened the address."""

from __future__ import annotations

from flask import Flask, Response, jsonify, request
from werkzeug.exceptions import ClientDisconnected, HTTPException, NotFound, RequestEntityTooLarge

from tapml.errors import InputError
from tapml.files import cannot_write, is_full
from tapml.server.connections import ENVIRON_KEY
from tapml.server.error_page import error_page, wants_page


def json_errors(app: Flask) -> None:
    """Register what turns exceptions into answers."""

    @app.after_request
    def for_people(response: Response) -> Response:
        if response.status_code < 400 or response.mimetype != "application/json" or not wants_page(request.environ):
            return response
        found = response.get_json()
        response.set_data(error_page(response.status_code, found["error"]))
        response.mimetype = "text/html"
        return response

    @app.errorhandler(HTTPException)
    def http_error(error: HTTPException) -> tuple[Response, int]:
        if isinstance(error, NotFound) and error.description == NotFound.description:
            return jsonify({"error": "there is no such page: / lists what is served"}), 404
        return jsonify({"error": error.description}), error.code or 500

    @app.errorhandler(ClientDisconnected)
    def broken_off(error: ClientDisconnected) -> tuple[Response, int]:
        connection, _ = request.environ.get(ENVIRON_KEY, (None, None))
        status, sentence = (connection and connection.refusal) or (400, "the body is shorter than it says")
        return jsonify({"error": sentence}), status

    @app.errorhandler(RequestEntityTooLarge)
    def too_large(error: RequestEntityTooLarge) -> tuple[Response, int]:
        told = error.description != RequestEntityTooLarge.description
        sentence = error.description if told else f"this body is larger than {request.max_content_length} bytes"
        return jsonify({"error": sentence}), 413

    @app.errorhandler(InputError)
    def input_error(error: InputError) -> tuple[Response, int]:
        told = {name: found for name, found in error.refusal().items() if found is not None}
        return jsonify({"error": str(error), **told}), 400

    @app.errorhandler(OSError)
    def disk_full(error: OSError) -> tuple[Response, int]:
        if not is_full(error):
            raise error
        return jsonify({"error": cannot_write(error.filename or "to the server's disk", error)}), 507
