"""make bench-llama PEERS=1: its table, and the ONNX model, which is the model that tapml builds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.web_runtimes.chromium import PageFailed
from benchmarks.whole_models.llama import peers
from benchmarks.whole_models.llama.models import SMALL_OF_PEERS, STORED, make
from benchmarks.whole_models.llama.peer import here, kinds_of, write_peer

import tapml as tml

STARTED = {
    "userAgent": "Mozilla/5.0 HeadlessChrome/156.0.0.0",
    "adapter": {"vendor": "a", "architecture": "GPU", "description": ""},
}


def _site(folder: Path, *models: str) -> Path:
    for name in models:
        (folder / f"peers/{name}").mkdir(parents=True)
        (folder / f"peers/{name}/peer.json").write_text("{}")
    (folder / "asked.json").write_text(json.dumps({"models": ["q8"], "prompt": 1000, "context": 1280, "rounds": 3}))
    return folder


def _run(prefill: float, decode: float, logits: list[float | None]) -> dict[str, Any]:
    calls = {"prefill": prefill, "decode": decode}
    shared = {"whole": [9.0], "first": 20.0, "passes": 4, "logits": logits}
    return {"loaded": 1000.0, **{call: {**shared, "gpu": [ms, 3 * ms, ms]} for call, ms in calls.items()}}


def _measured(monkeypatch: pytest.MonkeyPatch, runs: dict[str, dict[str, Any]]) -> None:
    """`runs`: what pages give, by what they are asked for; the others fail."""

    def session(chromium: str, site: Path, runtime: str, loads: Sequence[str], *_: object) -> dict[str, Any]:
        if runtime not in runs:
            raise PageFailed(f"{runtime}, run: out of memory")
        return {"start": STARTED, "run": runs[runtime]}

    monkeypatch.setattr(peers, "session", session)


def test_speeds_and_logits_are_set_against_those_of_tapml(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site = _site(tmp_path, "q8-half", "q8-single")
    ours, near, same = [1.0, -4.0, 2.0], [1.0, -4.0, 2.04], [1.0, -4.0, 2.0]
    runs = {
        "ours q8": _run(100, 2, [*ours]),
        "peer q8-half": _run(150, 5, [*near]),
        "peer q8-single": _run(400, 8, [*same]),
    }
    _measured(monkeypatch, runs)
    arguments = ["--site", str(site), "--json", str(tmp_path / "found.json")]
    assert peers.main(arguments) == 0
    head, _, _, _, *rows = capsys.readouterr().out.splitlines()
    assert head.startswith("Chrome/156.0.0.0 on a GPU: a prompt of 1,000 tokens in one call, and a token behind 1,280.")
    assert rows == [
        "| q8 | @tapml/runtime | float32 | 100.00 | 10,000 | 1.00 | 2.00 | 500 | 1.00 |  |",
        f"| q8 | {peers.PEER} | float16 | 150.00 | 6,667 | 1.50 | 5.00 | 200 | 2.50 | 1e-02 |",
        f"| q8 | {peers.PEER} | float32 | 400.00 | 2,500 | 4.00 | 8.00 | 125 | 4.00 | 0e+00 |",
    ]
    found = json.loads((tmp_path / "found.json").read_text())["models"]["q8"]["runtimes"]
    assert found["half"]["decode"] | {"off": 0} == {
        "gpu": 5, "least": 5, "whole": 9, "first": 20, "passes": 4, "off": 0, "same": True,
    }  # fmt: skip

    monkeypatch.setitem(runs, "peer-grows q8-single", _run(400, 8, [1.0, -4.0, 2.0]))
    assert peers.main([*arguments, "--grows", "--kinds", "single"]) == 0


@pytest.mark.parametrize(
    ("kind", "logits", "said"),
    [
        ("single", [1.0, -4.0, 2.04], "1e-02 WRONG"),
        ("half", [1.0, -4.0, 2.5], "1e-01 WRONG"),
        ("half", [1.0, None, 2.0], "inf WRONG"),
        ("half", [1.0, -4.0], "inf WRONG"),
    ],
)
def test_logits_that_rounding_does_not_explain_are_wrong(
    kind: str, logits: list[float | None], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    site = _site(tmp_path, f"q8-{kind}")
    _measured(monkeypatch, {"ours q8": _run(100, 2, [1.0, -4.0, 2.0]), f"peer q8-{kind}": _run(150, 5, logits)})
    assert peers.main(["--site", str(site)]) == 1
    assert capsys.readouterr().out.splitlines()[-1].endswith(f"| {said} |")


def test_a_model_that_does_not_run_has_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site = _site(tmp_path, "q8-half")
    _measured(monkeypatch, {"ours q8": _run(100, 2, [1.0])})
    assert peers.main(["--site", str(site)]) == 1
    told = capsys.readouterr()
    assert told.out.splitlines()[-1] == f"| q8 | {peers.PEER} | float16 | does not run it |||||||"
    assert "q8: peer q8-half, run: out of memory" in told.err
    with pytest.raises(SystemExit):
        peers.main(["--site", str(site), "--kinds", "halves"])
    assert "--kinds halves: the peer's models are half, half-int8, single" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("stored", ["f16", "q844"])
def test_the_onnx_model_gives_the_logits_of_tapmls(stored: str, tmp_path: Path) -> None:
    make(tmp_path / "ours.tapml", SMALL_OF_PEERS, STORED[stored], "tvm")
    model = tml.load_model(tmp_path / "ours.tapml")
    text = np.array([[(at * 7919 + 17) % 512 for at in range(SMALL_OF_PEERS.context + 1)]], np.int32)
    prompt, context = SMALL_OF_PEERS.prompt, SMALL_OF_PEERS.context
    spans = [(0, prompt), (prompt, context), (context, context + 1)]
    calls = [
        {
            "input_ids": text[:, begin:end],
            "positions": np.arange(begin, end, dtype=np.int32),
            "last": np.array([end - begin - 1], np.int32),
        }
        for begin, end in spans
    ]
    prefilled, _, decoded = model.run_calls(calls, function="prefill").outputs
    bounds = {"half": 2e-2, "half-int8": 1e-1, "single": 1e-4}
    for kind in kinds_of(stored):
        write_peer(tmp_path / kind, SMALL_OF_PEERS, stored, kind, files=True)
        found = here(tmp_path / kind, prompt, context, 512)
        for name, ours in (("prefill", prefilled), ("decode", decoded)):
            expected = np.asarray(ours["logits"]).ravel()
            assert np.abs(found[name] - expected).max() < bounds[kind] * np.abs(expected).max(), (kind, name)
