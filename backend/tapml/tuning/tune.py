"""`tapml tune`: a table of times (tapml.tuned/1) of a model's operators on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tapml.compilers.auto.digest import digest, judged_sizes
from tapml.compilers.auto.space import SPLITS, candidates
from tapml.compilers.auto.table import FORMAT, Measured, MeasuredKernel, Tuned
from tapml.kernels.device_class import SOFTWARE, device_classes
from tapml.lowering.operator import Operator
from tapml.tuning.timing import Timed, Timing, clock


@dataclass(frozen=True)
class Told:
    """Of an operator that was measured: the fastest two compilers have, where they have one."""

    name: str
    done: int
    total: int
    seconds: dict[str, float]
    """Compiler -> the least time of its candidates."""
    best: str
    """The fastest candidate's name; empty where none ran."""


def tune(
    operators: Iterable[tuple[str, Operator]],
    timing: Timing,
    told: Callable[[Told], None] = lambda one: None,
    ended: Callable[[], bool] = lambda: False,
) -> Tuned:
    """Times of all candidates of these operators, each under its name for people. Those that two of them have in common
    are measured once. A GPU in software has no candidates that share out sums to fill a large one. Operators that
    TVM or the native compiler has no kernel of leave nothing to choose, and are left out.

    Where `ended` says so, the table has what was measured until then. Raises DeviceLost where the device goes, and what
    `timing.check` raises before.
    """
    adapter = timing.device.hello.adapter.model_dump()
    software = SOFTWARE in device_classes(adapter)
    wanted: dict[str, tuple[str, Operator]] = {}
    for name, operator in operators:
        if (key := digest(operator)) is not None:
            wanted.setdefault(key, (name, operator))
    kernels: list[MeasuredKernel] = []
    everything: list[Timed] = []
    for done, (key, (name, operator)) in enumerate(wanted.items(), 1):
        found = candidates([operator], (1,) if software else SPLITS).get(operator.name, [])
        try:
            timed = timing.of(operator, found) if found else []
        except Exception:
            if ended():
                break
            raise
        if timed:
            everything += timed
            sizes = judged_sizes(operator)
            kernels.append(
                MeasuredKernel(operator=key, name=name[:100], sizes=sizes, candidates=[*map(_measured, timed)])
            )
        told(_told(name, done, len(wanted), timed))
    hello = timing.device.hello
    shown = " ".join(filter(None, (hello.name, adapter["vendor"], adapter["architecture"], adapter["description"])))
    return Tuned(
        format=FORMAT,
        classes=device_classes(adapter),
        device=shown[:200],
        clock=clock(iter(everything)),
        kernels=kernels,
    )


def _measured(one: Timed) -> Measured:
    microseconds = None if one.seconds is None else round(1e6 * one.seconds, 3)
    found = one.candidate
    return Measured(name=found.name, text=found.key, microseconds=microseconds, refused=one.refused)


def _told(name: str, done: int, total: int, timed: Sequence[Timed]) -> Told:
    known = [(one.seconds, one.candidate) for one in timed if one.seconds is not None]
    seconds: dict[str, float] = {}
    for spent, candidate in known:
        seconds[candidate.compiler] = min(spent, seconds.get(candidate.compiler, spent))
    best = min(known, key=lambda pair: pair[0])[1].name if known else ""
    return Told(name, done, total, seconds, best)
