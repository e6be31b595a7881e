"""Loops that are split without a theorem prover: as TVM splits them."""

from typing import Any

import pytest
import tvm
from tvm import s_tir, te
from tvm.s_tir import dlight

from tapml.compilers.tvm.compile import webgpu_target
from tapml.compilers.tvm.splits import splits_without_prover


def _loop(extent: int) -> Any:
    x = te.placeholder((extent,), name="x")
    return te.create_prim_func([x, te.compute((extent,), lambda i: x[i] + 1.0, name="y")])


def _in_turn() -> Any:
    schedule = s_tir.Schedule(_several())
    total, last = schedule.get_sblock("total"), schedule.get_sblock("y")
    schedule.fuse(*schedule.get_loops(last))
    schedule.compute_at(total, schedule.get_loops(last)[-1])
    schedule.decompose_reduction(total, schedule.get_loops(total)[-1])
    return schedule.mod["main"]


def _split(function: Any, factors: list[int | None], *, own: bool) -> str:
    schedule = s_tir.Schedule(function)
    (loop,) = schedule.get_loops(schedule.get_sblock("y"))
    if own:
        with splits_without_prover():
            parts = schedule.split(loop, factors)
    else:
        parts = schedule.split(loop, factors)
    # The parts are loops of this schedule still.
    schedule.bind(parts[0], "blockIdx.x")
    schedule.bind(parts[-1], "threadIdx.x")
    return str(schedule.mod.script())


@pytest.mark.parametrize("extent", [3, 64, 100, 128, 3200])
@pytest.mark.parametrize("factors", [[None, 64], [64, None], [50, 64], [None, 8, 8], [4, None, 16]])
def test_a_loop_is_split_as_tvm_does_it(extent: int, factors: list[int | None]) -> None:
    function = _loop(extent)
    try:
        expected = _split(function, factors, own=False)
    except s_tir.ScheduleError:
        with pytest.raises(s_tir.ScheduleError):
            _split(function, factors, own=True)
    else:
        assert _split(function, factors, own=True) == expected


def test_blocks_in_turn_are_split_as_tvm_does_it() -> None:
    def split(schedule: Any) -> str:
        schedule.split(schedule.get_loops(schedule.get_sblock("y"))[0], [None, 64])
        return str(schedule.mod.script())

    expected = split(s_tir.Schedule(_in_turn(), enable_check=False))
    with splits_without_prover():
        assert split(s_tir.Schedule(_in_turn(), enable_check=False)) == expected


def _several() -> Any:
    x = te.placeholder((3, 35, 7), name="x")
    k = te.reduce_axis((0, 7), name="k")
    total = te.compute((3, 35), lambda i, j: te.sum(x[i, j, k], axis=k), name="total")
    return te.create_prim_func([x, te.compute((3, 35), lambda i, j: total[i, j] * 2.0, name="y")])


def _symbolic() -> Any:
    n = tvm.tirx.Var("n", "int64")
    x = te.placeholder((n, 7), name="x")
    return te.create_prim_func([x, te.compute((n, 7), lambda i, j: x[i, j] + 1.0, name="y")])


@pytest.mark.parametrize("function", [_several(), _symbolic(), _loop(3200)])
@pytest.mark.parametrize("rule", [dlight.gpu.Fallback(), dlight.gpu.Reduction(), dlight.gpu.GeneralReduction()])
def test_rules_give_what_they_gave(function: Any, rule: Any) -> None:
    def scheduled() -> str:
        with webgpu_target():
            return str(dlight.ApplyDefaultSchedule(rule)(tvm.IRModule({"main": function})).script())

    expected = scheduled()
    with splits_without_prover():
        assert scheduled() == expected
