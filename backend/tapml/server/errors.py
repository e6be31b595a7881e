"""Every error of the application as {"error": sentence}."""

from __future__ import annotations

from flask import Flask, Response, jsonify, request
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from tapml.errors import InputError


def json_errors(app: Flask) -> None:
    """Register what turns exceptions into answers."""

    @app.errorhandler(HTTPException)
    def http_error(error: HTTPException) -> tuple[Response, int]:
        return jsonify({"error": error.description}), error.code or 500

    @app.errorhandler(RequestEntityTooLarge)
    def too_large(error: RequestEntityTooLarge) -> tuple[Response, int]:
        told = error.description != RequestEntityTooLarge.description
        sentence = error.description if told else f"this body is larger than {request.max_content_length} bytes"
        return jsonify({"error": sentence}), 413

    @app.errorhandler(InputError)
    def input_error(error: InputError) -> tuple[Response, int]:
        return jsonify({"error": str(error)}), 400
