"""make bench-llama: its table, its made-up weights, and models that write on a device what this machine computes."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from benchmarks.whole_models.llama.__main__ import main
from benchmarks.whole_models.llama.site import facts, pack
from benchmarks.whole_models.llama.table import shares, summary, table

FACTS = {
    "prompt": 1024,
    "context": 1280,
    "rounds": 3,
    "tokens": 64,
    "weights": {"f16": 6_400_000_000, "q8": 3_200_000_000},
}
KERNELS = [{"kernel": "matmul", "dispatches": 28, "ms": 12.5}]
LINE = {
    "name": "f16",
    "prefill": {"gpu": [64.0, 128.0, 65.0], "kernels": KERNELS},
    "decode": {"gpu": [2.0, 2.5, 2.25], "kernels": KERNELS},
    "written": {"ids": [1, 2], "prefill": 128.0, "decode": 2.5},
}


def test_speeds_are_of_the_medians() -> None:
    assert summary(LINE, 1024, 6_400_000_000) == {
        "prefill_ms": 65.0,
        "prefill_tokens_s": pytest.approx(1024 / 0.065),
        "decode_ms": 2.25,
        "decode_tokens_s": pytest.approx(1 / 0.00225),
        "weights_gb_s": pytest.approx(6.4 / 0.00225),
        "written_tokens_s": pytest.approx(400),
        "written_prefill_tokens_s": pytest.approx(8000),
    }


def test_a_model_that_could_not_be_measured_has_a_row_that_says_why() -> None:
    lines = [{"device": "a GPU"}, LINE, {"name": "q8", "error": "the device was lost"}]
    head, _, _, _, *rows = table(lines, FACTS).splitlines()
    assert "a GPU: a prompt of 1,024 tokens" in head
    assert rows == [
        "| f16 | 6.40 GB | 65.0 | 15,754 | 2.25 | 444.4 | 2,844 GB/s | 8,000 | 400.0 |",
        "| q8 | 3.20 GB | the device was lost |||||||",
    ]
    assert table(lines, FACTS, "a machine, yesterday").startswith("a machine, yesterday: ")
    assert "f16    decode      12.500 ms   28 x matmul" in shares(LINE)


def test_what_only_this_machine_reads_is_not_packed(tmp_path: Path) -> None:
    site = tmp_path / "llama"
    for name in ("q8.tapml/model.json", "q8.tapml/operators/matmul.json", "f16.tapml/model.json"):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text("{}")
    (site / "measure.mjs").write_text("")
    (site / "q8.made").write_text("")
    pack(site, ["q8"], tmp_path / "llama.tar.gz")
    with tarfile.open(tmp_path / "llama.tar.gz") as packed:
        files = [entry.name for entry in packed if entry.isfile()]
    assert files == ["llama/measure.mjs", "llama/q8.tapml/model.json"]


@pytest.mark.slow
@pytest.mark.torch
def test_small_ones_write_what_this_machine_computes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, site = tmp_path / "lines.json", tmp_path / "llama"
    assert main(["--small", "--stored", "f16,q844", "--folder", str(site), "--json", str(found)]) == 0
    device, *lines = [json.loads(line) for line in found.read_text().splitlines()]
    assert device["device"]
    assert [line["name"] for line in lines] == ["f16", "q844"]
    for line in lines:
        assert len(line["written"]["ids"]) == 8
        assert all(ms > 0 for name in ("prefill", "decode") for ms in line[name]["gpu"])
    known = facts(site)["weights"]
    matrices = 2 * 512 * 128 + 2 * 2 * (2 * 128 * 128 + 2 * 64 * 128 + 3 * 256 * 128)  # bytes, of float16
    # Beside these: norms, tables of positions, and matrices below 64 kB, in float32.
    assert matrices < known["f16"] < 1.7 * matrices
    assert known["q844"] < 0.5 * known["f16"]
    again = capsys.readouterr().out
    assert main(["--small", "--stored", "f16,q844", "--folder", str(site), "--of", str(found)]) == 0
    assert capsys.readouterr().out == again
