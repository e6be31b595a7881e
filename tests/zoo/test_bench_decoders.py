"""make bench-decoders goes on with records of the code that is here, and with no others."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks import carved
from benchmarks.decoders.__main__ import BENCHMARK
from benchmarks.pool import COMPILER

from tapml.zoo.code import code
from tapml.zoo.configurations import CONFIGURATIONS


def record(name: str, **said: Any) -> dict[str, Any]:
    return {"name": name, "outcome": "refused", "why": "it is a test's", "verdicts": {}, **said}


def test_records_of_other_code_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [name for name in CONFIGURATIONS if name.startswith("qwen")][:3]
    of_now, other, unknown = names
    records = tmp_path / "records.jsonl"
    kept = [record(of_now, codes=[code()]), record(other, codes=["f00 (torch 1)"]), record(unknown)]
    records.write_text("".join(json.dumps(one) + "\n" for one in kept))
    made: list[str] = []

    class Workers:
        def __init__(self, waiting: Sequence[str], *_: object) -> None:
            made.extend(waiting)

        def run(self) -> Iterator[dict[str, Any]]:
            yield from (record(name, codes=[code()]) for name in made)

    monkeypatch.setattr(carved, "Pool", Workers)
    monkeypatch.setenv(COMPILER, "tvm")  # what the command sets for its workers ends with this test
    monkeypatch.setattr(
        sys, "argv", ["x", "--resume", "--records", str(records), "--only", f"^({'|'.join(names)})$", "--devices", ""]
    )
    assert BENCHMARK.main() == 0
    assert made == [other, unknown]
    said = "made again, for their records are of other code or another compiler"
    assert f"{said}: {other}, {unknown}" in capsys.readouterr().err
    # What was made stands behind what it replaces.
    made.clear()
    assert BENCHMARK.main() == 0
    assert made == []
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--compiler", "native"])
    assert BENCHMARK.main() == 0
    assert made == names
