"""What `make bench-kernels` times, and its table."""

from __future__ import annotations

import re
from typing import Any

from benchmarks.kernels.candidates import plan
from benchmarks.kernels.table import least, table
from benchmarks.kernels.works import works


def test_each_parameter_of_a_template_is_a_kernel_of_its_own() -> None:
    work = next(one for one in works(small=True) if one.name == "GEMV 4096x4096")
    planned = plan(work, sweep=re.compile(""))
    assert planned["rotated"] == [1]
    assert [found["role"] for found in planned["arguments"]] == ["input", "input", "output"]
    compilers, swept = planned["candidates"][:2], planned["candidates"][2:]
    assert [one["compiler"] for one in compilers] == ["tvm", "native"]
    splits = [one for one in swept if one["parameters"].startswith("split ")]
    assert len({one["launches"][0]["text"] for one in splits}) == len(splits) > 10
    assert len({tuple(one["launches"][0]["grid"]) for one in splits}) > 2


def measured(tvm: float, native: float) -> dict[str, Any]:
    times = (("tvm", "", tvm), ("native", "", native), ("native", "split 8 lanes", native / 2))
    candidates = [{"compiler": who, "parameters": parameters, "us": us} for who, parameters, us in times]
    work = {"name": "GEMV", "dtype": "float16", "goal": 10, "candidates": candidates}
    return {"device": "a GPU", "works": [work, {"name": "add", "dtype": "float32", "goal": None, "error": "lost"}]}


def test_times_stand_beside_each_other_and_of_several_runs_those_of_the_highest_clock() -> None:
    slow, fast = measured(60, 30), measured(20, 11)
    assert "| GEMV f16 | 60.0 | 30.0 | 0.50 | 10 | 3.00 | split 8 lanes | 15.0 |" in table(slow, "a GPU")
    assert "| add f32 | lost |" in table(slow, "a GPU")
    assert table(least([slow, fast]), "a GPU").splitlines()[4:] == ["| GEMV f16 | 20.0 | 11.0 | 0.55 | 10 | 1.10 |"]
