"""How far what is chosen is behind the fastest of all that was measured."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tapml.compilers.auto.choice import chosen
from tapml.compilers.auto.combined import Offer
from tapml.compilers.auto.expected import offers
from tapml.compilers.auto.space import Candidate
from tapml.compilers.auto.table import Tuned
from tapml.lowering.operator import Operator


@dataclass(frozen=True)
class Behind:
    """Of an operator on a device: the candidate that runs there, its time, that of the fastest and of TVM's."""

    operator: str
    candidate: str
    microseconds: float
    fastest: float
    tvm: float | None

    @property
    def share(self) -> float:
        return self.microseconds / self.fastest - 1


def behind(
    operators: Mapping[str, tuple[str, Operator, Sequence[Candidate]]], truth: Tuned, tables: Sequence[Tuned]
) -> list[Behind]:
    """By digest of the operators, where `truth` has them: what a device of its class runs where kernels were chosen by
    `tables`, or by the model where there is none."""
    found = []
    for key, (name, _, candidates) in operators.items():
        kernel = truth.by_operator.get(key)
        if kernel is None:
            continue
        times = {(one.name, one.text): one.microseconds for one in kernel.candidates if one.microseconds}
        own = [one for one in candidates if (one.name, one.key) in times]
        known = [(table, table.by_operator[key]) for table in tables if key in table.by_operator]
        shipped = chosen(offers(own, known, {}))
        if not shipped:
            continue
        runs = _runs(shipped, truth.classes)
        spent = {one.name: times[one.name, one.key] for one in own}
        found.append(Behind(name, runs.name, spent[runs.name], min(spent.values()), spent.get("tvm")))
    return found


def _runs(shipped: Sequence[Offer], classes: Sequence[str]) -> Candidate:
    for name in classes:
        if all(name in expected for _, expected in shipped):
            return min(shipped, key=lambda offer: offer[1][name])[0]
    return shipped[0][0]


def line(what: str, device: str, found: Sequence[Behind]) -> str:
    """A row of the page's table."""
    shares = sorted(one.share for one in found)
    to_tvm = [one.microseconds / one.tvm for one in found if one.tvm]
    slower = sum(share > 1.05 for share in to_tvm)
    return (
        f"| {device} | {what} | {len(found)} | {100 * statistics.median(shares):.1f} % | "
        f"{100 * shares[int(0.9 * (len(shares) - 1))]:.0f} % | {100 * shares[-1]:.0f} % | "
        f"{slower} of {len(to_tvm)} | {max(to_tvm):.2f} |"
    )
