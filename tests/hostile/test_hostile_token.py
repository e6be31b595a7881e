"""The pairing token goes to nobody who does not have it already."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from hostile_requests import CHANGE, SOCKET, UPGRADE
from werkzeug.routing import Rule
from werkzeug.test import TestResponse

from tapml.server.local import create_app
from tapml.server.security import INVITATION_SECONDS, Security
from tapml.server.state import State
from tapml.suite import Suite

METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE")


@pytest.fixture
def state(suite: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[State]:
    """Open to the network, as `tapml serve --host 0.0.0.0` is."""
    monkeypatch.setenv("TAPML_DATA", str(tmp_path / "data"))
    made = State(Security("0.0.0.0"), url="http://0.0.0.0:1")
    made.suites.add(suite.path)
    yield made
    made.close()


def token_of(state: State) -> str:
    assert state.security.token is not None
    return state.security.token


def address(rule: Rule) -> str:
    """A path that the rule takes, of what there is where it has a name for it."""
    known = {
        "suite_id": "small",
        "test_id": "n000.s0",
        "share_id": "A" * 22,
        "digests": "0" * 64,
        "name": "runner/index.html",
    }
    _, built = rule.build({name: known.get(name.lstrip("_"), "x") for name in rule.arguments}) or ("", "")
    assert built.startswith("/")
    return built


def addresses(state: State) -> list[str]:
    app = create_app(state)
    routes = [address(rule) for rule in app.url_map.iter_rules()]
    assert len(routes) > 20
    sockets = [SOCKET, "/socket.io/?EIO=4&transport=polling", "/socket.io/?EIO=4&transport=polling&j=0", "/socket.io/x"]
    return [*routes, *sockets, "/unknown", "/static/nothing", "/s/short", "//x", "/%00", "/runner/", "/suites/%0d%0ax"]


def wrong(token: str) -> list[dict[str, Any]]:
    """Requests' arguments, of who has no token, or none that is right."""
    guesses = [
        "",
        "wrong",
        token[:-1],
        token + "x",
        token.swapcase(),
        token[::-1],
        "\0",
        "é" * 8,
        secrets.token_urlsafe(24),
    ]
    return [
        {},
        *({"query_string": {"token": guess}} for guess in guesses),
        *({"headers": {"Cookie": f"tapml-token={guess}"}} for guess in guesses if guess.isascii() and guess != "\0"),
        {"headers": {"Authorization": f"Bearer {token}"}},  # the right one, at a place that is none
        {"headers": {"X-Token": token}},
        {"query_string": "token=a&token=b"},
        {"query_string": "token"},
    ]


def shown(response: TestResponse) -> bytes:
    return str(response.headers).encode() + response.get_data()


def test_no_answer_to_a_wrong_token_has_the_right_one(state: State) -> None:
    token = token_of(state)
    app = create_app(state)
    walked = 0
    for path in addresses(state):
        base = path.partition("?")[2]
        for arguments in wrong(token):
            asked = dict(arguments)
            if base and "query_string" in asked:
                continue  # an address with a query of its own; its other forms are asked
            # Another client each time: none may have got a cookie from an answer before.
            for method in METHODS if arguments in wrong(token)[:3] else ("GET",):
                headers = {**CHANGE, **asked.pop("headers", {})} if "headers" in asked else dict(CHANGE)
                response = app.test_client().open(path, method=method, headers=headers, **asked)
                assert token.encode() not in shown(response), (method, path, arguments)
                assert "Set-Cookie" not in response.headers, (method, path, arguments)
                if not state.security.shared(response.request.environ):
                    assert response.status_code in (400, 403), (method, path, arguments, response.status_code)
                walked += 1
    assert walked > 1000


def test_websockets_want_the_token_before_they_open(state: State) -> None:
    app = create_app(state)
    for more in ("", "&token=wrong", f"&token={token_of(state)}x"):
        response = app.test_client().get(SOCKET + more, headers=UPGRADE)
        assert response.status_code == 403
        assert token_of(state).encode() not in shown(response)


def test_another_servers_cookie_is_no_hindrance(state: State) -> None:
    """All servers of a host share its cookies, whatever bytes are in them."""
    client = create_app(state).test_client(use_cookies=False)
    wanted = f"x=\xff\xfe; tapml-token={token_of(state)}"
    assert client.get("/api/suites", headers={"Cookie": wanted}).status_code == 200
    assert client.get("/api/suites", headers={"Cookie": "tapml-token=\xff\xfe"}).status_code == 403


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_cookie_of_the_right_token_is_for_this_server_alone(state: State, scheme: str) -> None:
    client = create_app(state).test_client()
    answer = client.get(f"/runner?token={token_of(state)}", base_url=f"{scheme}://box:1")
    assert answer.status_code == 200
    (cookie,) = answer.headers.getlist("Set-Cookie")
    parts = [part.strip() for part in cookie.split(";")]
    assert parts[0] == f"tapml-token={token_of(state)}"
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(parts)
    assert ("Secure" in parts) == (scheme == "https")
    assert "Domain" not in cookie
    # And once: the token is not handed out for the cookie.
    again = client.get("/runner", base_url=f"{scheme}://box:1")
    assert again.status_code == 200
    assert token_of(state).encode() not in shown(again)


def test_a_page_that_was_opened_with_the_token_is_shown_without_it(state: State) -> None:
    client: FlaskClient = create_app(state).test_client()
    opened = {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    answer = client.get(f"/runner?token={token_of(state)}&profile=no-f16", headers=opened)
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/runner?profile=no-f16"
    assert answer.headers["Cache-Control"] == "no-store"
    assert client.get("/runner?profile=no-f16", headers=opened).status_code == 200
    # A strict cookie would not come along where another site's link led here: the page drops the token itself.
    stranger = create_app(state).test_client()
    linked = {**opened, "Sec-Fetch-Site": "cross-site"}
    assert stranger.get(f"/runner?token={token_of(state)}", headers=linked).status_code == 200


def test_a_pairing_link_pairs_one_browser_once(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    app = create_app(state)
    holder = {"headers": {**CHANGE, "Cookie": f"tapml-token={token_of(state)}"}}
    described = app.test_client(use_cookies=False).post("/api/pairings", **holder).json
    assert token_of(state) not in str(described)
    link = described["link"].partition("/runner")[2]
    # Neither by another way nor at another place is it used up, nor worth anything.
    for method, path in (("HEAD", "/runner"), ("POST", "/runner"), ("GET", "/api/suites"), ("GET", "/static/x")):
        answer = app.test_client().open(path + link, method=method, headers=CHANGE)
        assert answer.status_code == 403, (method, path)
        assert "Set-Cookie" not in answer.headers, (method, path)
    opened = {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    phone = app.test_client()
    answer = phone.get("/runner" + link, headers=opened)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/runner")
    assert phone.get("/api/devices").status_code == 200
    again = app.test_client().get("/runner" + link)
    assert (again.status_code, "has been used" in again.text) == (403, True)
    # The phone that reloads the address it was given is paired still.
    assert phone.get("/runner" + link).status_code == 200
    late = app.test_client(use_cookies=False).post("/api/pairings", **holder).json["link"].partition("/runner")[2]
    now = time.monotonic()
    monkeypatch.setattr("tapml.server.security.time.monotonic", lambda: now + INVITATION_SECONDS + 1)
    assert app.test_client().get("/runner" + late).status_code == 403


def test_only_so_many_pairing_links_wait(state: State) -> None:
    codes = [state.security.invite() for _ in range(25)]
    assert [state.security.redeem([code]) for code in codes] == [False] * 5 + [True] * 20


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example", "/suites/../../evil.example"])
def test_nobody_is_sent_elsewhere(state: State, path: str) -> None:
    answer = create_app(state).test_client().get(
        path, query_string={"token": token_of(state)}, headers={"Sec-Fetch-Site": "none"}
    )  # fmt: skip
    assert not answer.headers.get("Location", "/").startswith(("//", "/\\", "http"))


def test_a_shared_page_does_not_reach_beyond_itself(state: State) -> None:
    client = create_app(state).test_client()
    for path in (
        "/static/share/../runner/index.html",
        "/static/share/%2e%2e/webui/index.html",
        "/s/" + "A" * 22 + "/../x",
    ):
        assert client.get(path).status_code == 403, path
