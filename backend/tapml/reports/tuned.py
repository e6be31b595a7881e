"""A table of times (tapml.tuned/1) on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tapml.compilers.auto.table import MeasuredKernel, Tuned
from tapml.text import counted


def show_tuned(console: Console, table: Tuned) -> None:
    """The fastest kernel of each operator, beside the fastest of each compiler."""
    console.print(Text(f"{table.device} ({', '.join(table.classes)}), by the clock of the {_CLOCKS[table.clock]}"))
    shown = Table(box=None, pad_edge=False)
    for name, justify in (("operator", "left"), ("tvm", "right"), ("native", "right"), ("fastest", "left")):
        shown.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for kernel in table.kernels:
        shown.add_row(Text(kernel.name), *map(Text, _cells(kernel)))
    console.print(shown)
    refused = sum(one.microseconds is None for kernel in table.kernels for one in kernel.candidates)
    timed = sum(len(kernel.candidates) for kernel in table.kernels) - refused
    without = f", {counted(refused, 'kernel')} without a time" if refused else ""
    console.print(Text(f"{counted(timed, 'kernel')} of {counted(len(table.kernels), 'operator')} timed{without}"))


_CLOCKS = {"gpu": "GPU", "cpu": "CPU", "wall": "machine"}


def _cells(kernel: MeasuredKernel) -> list[str]:
    times = {one.name: one.microseconds for one in kernel.candidates if one.microseconds is not None}
    by = {
        compiler: min((spent for name, spent in times.items() if name.split(".", 1)[0] == compiler), default=None)
        for compiler in ("tvm", "native")
    }
    return [*(_us(by[compiler]) for compiler in by), min(times, key=lambda name: times[name], default="")]


def _us(spent: float | None) -> str:
    return "" if spent is None else f"{spent:.1f} us" if spent < 1000 else f"{spent / 1000:.2f} ms"
