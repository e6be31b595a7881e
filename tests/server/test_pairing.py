"""How a phone becomes a device: what the page is told, and the code that the phone reads."""

from __future__ import annotations

import re

import pytest

from helpers import FakeRunner, all_pass
from tapml.server import pairing as module
from tapml.server.local import create_app
from tapml.server.pairing import pairing, url_elsewhere
from tapml.server.security import Security
from tapml.server.state import State


def test_a_link_names_an_address_that_others_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_leaving", lambda family: "10.1.2.3")
    found = pairing("https://0.0.0.0:8808", Security("0.0.0.0"))
    assert re.fullmatch(r"https://10\.1\.2\.3:8808/runner\?pair=[\w-]{22}", found["link"])
    assert found["secure"] is True
    named = pairing("http://box.local:1", Security("box.local"))
    assert named["link"].startswith("http://box.local:1/runner?pair=")
    assert named["secure"] is False
    assert pairing("http://[fd00::1]:1", Security("fd00::1"))["link"].startswith("http://[fd00::1]:1/")
    # What the terminal says of a server that listens everywhere.
    assert url_elsewhere("https://0.0.0.0:8808") == "https://10.1.2.3:8808"
    assert url_elsewhere("http://[::]:1") == "http://10.1.2.3:1"
    assert url_elsewhere("http://127.0.0.1:1") is None
    # The square has its border, and the path its dark modules.
    size, path = found["qr"]["size"], found["qr"]["path"]
    assert size > 29
    assert path.startswith("M4 4h1v1h-1zM5 4")


def test_on_loopback_there_is_no_link_but_the_address_to_listen_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_leaving", lambda family: "10.1.2.3")
    for host in ("127.0.0.1", "localhost"):
        found = pairing(f"http://{host}:8808", Security(host))
        assert (found["link"], found["qr"], found["address"]) == (None, None, "10.1.2.3")
    monkeypatch.setattr(module, "_leaving", lambda family: None)
    assert pairing("http://0.0.0.0:8808", Security("0.0.0.0"))["link"] is None


def test_a_device_that_went_is_told_with_the_reason() -> None:
    state = State(Security("127.0.0.1"), url="http://127.0.0.1:1")
    client = create_app(state).test_client()
    runner = FakeRunner(state.hub, all_pass)
    state.hub.left(lambda device: True, "its page was closed")
    found = client.get("/api/devices").json
    assert found["connected"] == []
    assert [(gone["id"], gone["why"]) for gone in found["gone"]] == [(runner.device.id, "its page was closed")]
    state.close()
