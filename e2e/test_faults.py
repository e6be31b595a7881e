"""What goes wrong in practice: closed browsers, Ctrl-C, restarted servers, taken ports."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import psutil
import pytest

from conftest import command, free_port, read_json, serving, tapml
from process_watch import processes_named
from tapml.browsers import start


@pytest.mark.slow
def test_the_runner_page_survives_a_server_restart(suite: Path, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    port = free_port()
    with serving(suite, port) as url:
        browser = start("chromium", f"{url}/runner")
        try:
            first = tapml("validate", suite, "--device", url, "--kernel", "softmax", "--json", out)
            assert first.code == 0, first.err
        except BaseException:
            browser.close()
            raise
    with browser, serving(suite, port):
        again = tapml("validate", suite, "--device", url, "--kernel", "softmax", "--json", out)
        assert again.code == 0, again.err
        assert {test["verdict"] for test in read_json(out)["tests"]} == {"pass"}


def test_any_browser_that_is_opened_becomes_the_device(suite: Path, tmp_path: Path) -> None:
    """--device open, with Firefox in the part of the person who opens the address."""
    out = tmp_path / "result.json"
    process = subprocess.Popen(
        command("validate", suite, "--device", "open", "--kernel", "softmax", "--json", out),
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    said = ""
    while "open http://127.0.0.1:" not in said:
        said = process.stderr.readline()
        assert said, "the command ended before it said where to open it"
    with start("firefox", said.split("open ")[1].strip()):
        process.communicate(timeout=600)
    assert process.returncode == 0
    (device,) = read_json(out)["devices"]
    assert "Firefox" in device["name"]


@pytest.mark.slow
def test_a_closed_browser_loses_only_its_own_tests(suite: Path, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    process = subprocess.Popen(
        command("validate", suite, "--device", "chromium", "--device", "firefox", "--json", out),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    seen = ""
    # Chromium compiles for seconds; its first compiled kernel is the middle of its run.
    while "Chrom" not in seen or "compiling" not in seen:
        seen = process.stderr.readline()
        assert seen, "the run ended before any kernel was compiled"
    for child in processes_named("chromium", psutil.Process(process.pid)):
        with contextlib.suppress(psutil.NoSuchProcess):  # some end with their parent
            child.kill()
    process.communicate(timeout=600)
    assert process.returncode == 1
    document = read_json(out)
    lost = next(device["id"] for device in document["devices"] if "Chrom" in device["name"])
    for test in document["tests"]:
        if test["device"] != lost:
            assert test["verdict"] == "pass"
        elif test["verdict"] != "pass":
            assert test["verdict"] == "error"
            assert "device lost" in test["message"]
    assert any(test["verdict"] == "error" for test in document["tests"])
    assert not document["interrupted"]


@pytest.mark.parametrize("device", ["chromium", "node-dawn"])
def test_ctrl_c_keeps_what_was_validated_and_leaves_no_process(suite: Path, tmp_path: Path, device: str) -> None:
    out = tmp_path / "result.json"
    process = subprocess.Popen(
        command("validate", suite, "--device", device, "--json", out),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    said = ""
    while "validating" not in said:
        said = process.stderr.readline()
        assert said, "the command ended before it validated anything"
    children = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all processes of the command
    process.communicate(timeout=600)
    assert process.returncode == 130
    document = json.loads(out.read_text())
    assert document["interrupted"]
    assert {test["verdict"] for test in document["tests"]} == {"pass"}
    assert len(document["tests"]) < 101
    _, alive = psutil.wait_procs(children, timeout=120)
    assert not alive


def test_a_taken_port_is_one_clear_error(suite: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ran = tapml("serve", suite, "--port", str(port))
    assert ran.code == 2
    assert f"cannot listen on 127.0.0.1:{port}" in ran.err
    assert "--port" in ran.err
    assert "Traceback" not in ran.err


def test_an_unreachable_server_is_one_clear_error(suite: Path) -> None:
    ran = tapml("validate", suite, "--device", f"http://127.0.0.1:{free_port()}")
    assert ran.code == 2
    assert "cannot reach a tapml server" in ran.err
    assert "tapml serve" in ran.err


def test_an_unknown_device_is_one_clear_error(suite: Path) -> None:
    ran = tapml("validate", suite, "--device", "netscape")
    assert ran.code == 2
    assert "netscape" in ran.err
    assert "chromium" in ran.err
