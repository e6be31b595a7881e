"""The tunnel's server: each record once, whatever breaks, and nothing of whoever breaks a rule."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from simple_websocket import Client
from tunnel_client import DEVICE, STREAM, TASK, Tunnel, record

from tapml.errors import InputError
from tapml.field.service import tunnel as module
from tapml.field.service.limits import Limiter, Limits
from tapml.field.service.traffic import Kept
from tapml.field.service.tunnel import PATH, TunnelServer
from tapml.field.storage.records import Records

ORIGIN = "https://shop.example"


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path / "field.sqlite3")


@pytest.fixture
def url(records: Records) -> Iterator[str]:
    server = TunnelServer(records, lambda: 7, host="127.0.0.1", port=0, origins=[ORIGIN])
    yield f"ws://127.0.0.1:{server.port}{PATH}"
    server.stop()
    server.stop()


def numbers(records: Records) -> list[tuple[int, Any]]:
    return [(number, value) for _, _, number, value in records.values(TASK)]


def test_a_record_is_there_when_it_is_acknowledged_and_never_twice(url: str, records: Records) -> None:
    first = Tunnel(url)
    assert first.acknowledged == 0
    assert first.send(1, "a", {"b": [1.5]}) == {"acknowledged": 2}
    assert numbers(records) == [(1, "a"), (2, {"b": [1.5]})]
    # Its acknowledgement was lost: it comes again, with what is new.
    assert first.send(1, "a", {"b": [1.5]}, "c") == {"acknowledged": 3}
    # Behind a gap nothing is taken: what is missing has to come first.
    assert first.send(9, "z") == {"acknowledged": 3}
    first.socket.close()
    assert Tunnel(url).acknowledged == 3
    other = Tunnel(url, stream=STREAM[::-1])
    assert other.acknowledged == 0
    assert other.send(1, "d") == {"acknowledged": 1}
    assert records.traffic() == {"streams": 2, "records": 4}


def upgraded(url: str, path: str, origin: str, forwarded: str = "") -> tuple[int, str | None]:
    """Status, and when to come again."""
    with contextlib.closing(HTTPConnection(url.removeprefix("ws://").split("/")[0], timeout=120)) as connection:
        headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Origin": origin}
        headers |= {"X-Forwarded-For": forwarded} if forwarded else {}
        connection.request("GET", path, headers={**headers, "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="})
        answer = connection.getresponse()
        return answer.status, answer.headers["Retry-After"]


@pytest.mark.parametrize(
    "message",
    [
        "no JSON", "[]", b"\0", {"first": 0, "records": [record(1)]}, {"first": 1, "records": []},
        {"first": 1, "records": [record(1)] * 257}, {"first": 1, "records": [record(1, task="../x")]},
        {"first": 1, "records": [record(1, at=-1)]}, {"first": 1, "records": [record(1, name="")]},
        {"first": 1, "records": [record(1, more=1)]}, {"first": 2**60, "records": [record(1)]},
        '{"first": 1, "records": [' + "[" * 30_000, "x" * 300_000,
        json.dumps({"first": 1, "records": [record(0)]}).replace('"value": 0', '"value": NaN'),
    ],
)  # fmt: skip
def test_whoever_sends_something_else_is_told_and_loses_the_connection(
    url: str, records: Records, message: Any
) -> None:
    client = Tunnel(url)
    assert client.ask(message).keys() == {"error"}
    with pytest.raises(Exception, match="1008"):
        client.socket.receive(20)
    assert records.traffic()["records"] == 0
    assert Tunnel(url).send(1, "a") == {"acknowledged": 1}


def test_who_sends_too_much_or_comes_from_elsewhere(
    url: str, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BYTES_PER_SECOND", 0)
    client = Tunnel(url, Origin=ORIGIN)
    answers = [client.send(at, "x" * 200_000) for at in range(1, 7)]
    assert [answer.get("acknowledged") for answer in answers] == [1, 2, 3, 4, 5, None]
    assert "too much" in answers[-1]["error"]
    assert upgraded(url, PATH, ORIGIN)[0] == 101
    assert upgraded(url, PATH, "https://elsewhere.example")[0] == 403
    assert upgraded(url, PATH + "/other", ORIGIN)[0] == 404


@pytest.fixture
def limited(records: Records) -> Iterator[str]:
    """By a clock that stands still: of an address 256 kB a second, and 5.2 MB at once."""
    limiter = Limiter(Limits(address=4, device=4), lambda: 50.0)
    server = TunnelServer(
        records, lambda: 7, host="127.0.0.1", port=0, origins=[ORIGIN], limiter=limiter, proxies=1
    )  # fmt: skip
    yield f"ws://127.0.0.1:{server.port}{PATH}"
    server.stop()


def connected(url: str, at: int, address: str) -> Tunnel:
    name = f"device-{at:010}"
    return Tunnel(url, device=name, stream=name, **{"X-Forwarded-For": address})


def test_an_address_has_not_all_connections_for_itself(limited: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_OF_ADDRESS", 2)
    kept = [connected(limited, at, "192.0.2.1") for at in range(2)]
    assert upgraded(limited, PATH, ORIGIN, "192.0.2.1") == (429, "60")
    assert connected(limited, 2, "192.0.2.2").send(1, "a") == {"acknowledged": 1}
    assert [one.send(1, "a") for one in kept] == [{"acknowledged": 1}] * 2


def test_devices_of_one_address_send_no_more_than_an_address_may(limited: str) -> None:
    devices = [connected(limited, at, "192.0.2.1") for at in range(6)]
    sent = 0
    # A megabyte of each, which a device may send at once.
    while "acknowledged" in (told := devices[sent // 5].send(sent % 5 + 1, "x" * 200_000)):
        sent += 1
    assert sent == 26
    assert told == {"error": "this address sends too much: come again in 1 s", "wait": 1}
    assert connected(limited, 7, "192.0.2.2").send(1, "x" * 200_000) == {"acknowledged": 1}


def test_who_says_no_hello_is_not_waited_for(url: str, records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_HEAD_SECONDS", 0.2)
    silent = Client(url)
    with pytest.raises(Exception, match="closed"):
        silent.receive(20)
    port = int(url.split(":")[2].split("/")[0])
    with pytest.raises(InputError, match="another port"):
        TunnelServer(records, lambda: 7, host="127.0.0.1", port=port, origins=[])


def test_who_connects_too_often_is_told_when_to_come_again(records: Records) -> None:
    limiter = Limiter(Limits(address=0.01, device=0.001), lambda: 50.0)
    server = TunnelServer(
        records, lambda: 7, host="127.0.0.1", port=0, origins=[ORIGIN], limiter=limiter, proxies=1
    )  # fmt: skip
    url = f"ws://127.0.0.1:{server.port}{PATH}"
    try:
        assert Tunnel(url, **{"X-Forwarded-For": "192.0.2.1"}).send(1, "a") == {"acknowledged": 1}
        assert upgraded(url, PATH, ORIGIN, "192.0.2.1") == (429, "100")
        # The proxy appends whom it saw; what the client wrote before is no address of its own.
        assert upgraded(url, PATH, ORIGIN, "198.51.100.7, 192.0.2.1") == (429, "100")
        again = Client(url, headers={"X-Forwarded-For": "192.0.2.2"})
        again.send(json.dumps({"tunnel": 1, "device": DEVICE, "stream": STREAM}))
        told = json.loads(again.receive(20) or "")
        assert told == {"error": "this device connects too often: come again in 1000 s", "wait": 1000}
    finally:
        server.stop()


def test_records_are_counted_again_when_that_is_worth_it(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    now, takes, counted = [100.0], [3.0], [0]

    def count() -> list[Any]:
        now[0] += takes[0]
        counted[0] += 1
        return []

    monkeypatch.setattr(records, "emitted", count)
    kept = Kept(records, lambda: now[0])

    def asked_at(moment: float) -> int:
        now[0] = moment
        assert kept() == ({"streams": 0, "records": 0}, [])
        return counted[0]

    assert [asked_at(moment) for moment in (100, 104, 162.9)] == [1, 1, 1]
    takes[0] = 0.01
    assert [asked_at(moment) for moment in (163, 163.5, 164.1)] == [2, 2, 3]


_SERVER = """
import sys, time
from pathlib import Path
from tapml.field.service.limits import Limiter, Limits
from tapml.field.service.traffic import Kept
from tapml.field.service.tunnel import TunnelServer
from tapml.field.storage.records import Records
server = TunnelServer(Records(Path(sys.argv[1])), lambda: 7, host="127.0.0.1", port=0, origins=[])
print(server.port, flush=True)
time.sleep(600)
"""


def test_a_server_that_is_killed_has_what_it_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "field.sqlite3"
    acknowledged = 0
    for _ in range(2):
        with subprocess.Popen([sys.executable, "-c", _SERVER, str(path)], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            client = Tunnel(f"ws://127.0.0.1:{int(process.stdout.readline())}{PATH}")
            assert client.acknowledged is not None
            assert client.acknowledged >= acknowledged
            acknowledged = client.acknowledged
            for _ in range(5):
                values = range(acknowledged + 1, acknowledged + 4)
                acknowledged = client.send(acknowledged + 1, *values)["acknowledged"]
            # One more is on its way, and whether it arrives is not known.
            more = [record(value) for value in range(acknowledged + 1, acknowledged + 4)]
            client.socket.send(json.dumps({"first": acknowledged + 1, "records": more}))
            process.kill()
    found = [value for _, _, _, value in Records(path).values(TASK)]
    assert len(found) >= acknowledged >= 30
    assert sorted(found) == list(range(1, len(found) + 1))
