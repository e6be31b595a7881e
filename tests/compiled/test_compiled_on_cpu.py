"""Compiled models run on this machine: host programs by hand, with loops, branches, states and host modules."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiled_models import chained, looped
from tapml.compiled.files import CompiledFiles, write_folder
from tapml.compiled.model import CompiledModel
from tapml.errors import InputError
from tapml.platforms.compiled import CompiledOnCpu, run_on_cpu

SCALE = np.float32([1, 2, 3, 4])


def operator(name: str, shape: list[Any], loops: list[Any], value: Any, inputs: str, symbols: list[str]) -> Any:
    """One that stores `value` in every element of its output."""
    axes = [f"v{axis}" for axis in range(len(shape))]
    return {
        **{"format": "tapml.operator/2", "operator": name, "pattern": None, "symbols": symbols, "temporaries": []},
        "parameters": [{"name": each, "dtype": "float32", "shape": shape} for each in (*inputs, "y")],
        "blocks": [
            {
                "name": name,
                "loops": loops,
                "axes": [[axis, *loop[1:], "spatial", loop[0]] for axis, loop in zip(axes, loops, strict=True)],
                "body": [["store", "y", axes, value]],
            }
        ],
    }


ADD = ["add", ["load", "a", "v0"], ["load", "b", "v0"]]
TOTAL = ["mul", ["load", "a", "v0", "v1"], ["float32", 3.0]]


def files(folder: Path, document: Any, operators: list[Any], weights: bytes = b"") -> CompiledFiles:
    parts = {f"operators/{found['operator']}.json": json.dumps(found).encode() for found in operators}
    attachments = [
        {"name": name, "sha256": sha256(data).hexdigest(), "bytes": len(data)} for name, data in parts.items()
    ]
    parts[f"weights/{sha256(weights).hexdigest()}.bin"] = weights
    model = CompiledModel.model_validate({**document, "attachments": attachments})
    folder.mkdir(exist_ok=True)
    write_folder(folder, model, parts.__getitem__)
    return CompiledFiles(folder)


def looped_files(folder: Path, change: Callable[[Any], None] = lambda code: None) -> CompiledFiles:
    document = looped()
    change(document["functions"]["main"]["code"])
    add = operator("add", [4], [["i", "int64", 4]], ADD, "ab", [])
    return files(folder, document, [add], SCALE.tobytes())


def inputs(rows: int, flag: int) -> dict[str, np.ndarray]:
    return {"x": np.arange(4 * rows, dtype=np.float32).reshape(rows, 4), "flag": np.int32([0, 0, flag])}


def finished_above(limit: float) -> dict[str, dict[str, Callable[..., Any]]]:
    return {"sampling": {"finished": lambda given: [np.int32([given[0][0] > limit])]}}


def test_a_loop_carries_a_state_and_ends_when_it_is_told(tmp_path: Path) -> None:
    model = CompiledOnCpu(looped_files(tmp_path), finished_above(10))
    given = inputs(5, flag=0)
    found = model.run(given)
    # 1, 1 + 0, 1 + 0 + 4, 1 + 0 + 4 + 8: three turns of five.
    totals = SCALE + np.cumsum(given["x"], axis=0)
    np.testing.assert_array_equal(found["sum"], totals[2])
    np.testing.assert_array_equal(found["rows"][:3], totals[:3])
    assert np.isnan(found["rows"][3:]).all()  # as they were filled
    again = model.run(inputs(1, flag=0))
    np.testing.assert_array_equal(again["sum"], totals[2] + given["x"][0])


def test_a_branch_is_taken_by_what_the_device_holds(tmp_path: Path) -> None:
    for flag, more in ((5, 0), (6, 1)):
        model = CompiledOnCpu(looped_files(tmp_path), finished_above(1e9))
        found = model.run(inputs(2, flag))
        np.testing.assert_array_equal(found["sum"], SCALE * (1 + more) + inputs(2, flag)["x"].sum(axis=0))


def test_a_loop_of_no_turns_is_left_out(tmp_path: Path) -> None:
    found = CompiledOnCpu(looped_files(tmp_path), {}).run(inputs(0, flag=0))
    assert found["rows"].shape == (0, 4)
    np.testing.assert_array_equal(found["sum"], SCALE)


def test_a_call_that_fails_leaves_the_states(tmp_path: Path) -> None:
    model = CompiledOnCpu(looped_files(tmp_path), finished_above(1e9))
    with pytest.raises(InputError, match="model: flagged, of flag, is 11, and must be from 0 to 10"):
        model.run(inputs(2, flag=11))
    np.testing.assert_array_equal(model.run(inputs(0, flag=0))["sum"], SCALE)


def test_host_functions_are_held_to_what_the_program_says(tmp_path: Path) -> None:
    opened = looped_files(tmp_path)
    with pytest.raises(InputError, match=r"model calls sampling.finished, a host function that was not given"):
        CompiledOnCpu(opened).run(inputs(1, flag=0))
    with pytest.raises(InputError, match=r"finished gave float64\[1\], and must give int32\[1\]"):
        CompiledOnCpu(opened, {"sampling": {"finished": lambda given: [np.zeros(1)]}}).run(inputs(1, flag=0))


def test_a_model_that_is_not_proven_does_not_run(tmp_path: Path) -> None:
    def without_the_state(code: Any) -> None:
        code[3]["body"][2]["to"] = 0

    with pytest.raises(InputError, match=r"main: instruction 6 \(copy\): x is an input, which nothing may write"):
        run_on_cpu(looped_files(tmp_path, without_the_state), [inputs(1, flag=0)])


def test_operators_are_compiled_at_the_sizes_of_a_call(tmp_path: Path) -> None:
    loops = [["i", "int64", "n"], ["j", "int64", 4]]
    total = operator("total", ["n", 4], loops, TOTAL, "a", ["n"])
    add = operator("add", ["m"], [["i", "int64", "m"]], ADD, "ab", ["m"])
    opened = files(tmp_path, chained(), [add, total])
    arrays = [np.random.default_rng(n).normal(size=(n, 4)).astype(np.float32) for n in (1, 3, 8)]
    run = run_on_cpu(opened, [{"x": array} for array in arrays], repeat=1)
    for array, found in zip(arrays, run.outputs, strict=True):
        np.testing.assert_array_equal(found["y"], (array + array) * np.float32(3) + array)
    assert len(run.call_seconds) == 3 + 1
    with pytest.raises(InputError, match="n is 9, and must be from 1 to 8"):
        run_on_cpu(opened, [{"x": np.zeros((9, 4), np.float32)}])
