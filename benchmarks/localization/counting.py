"""From accusations to false positives and false negatives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.localization.equivalence import CLASSES, DETECTABLE


@dataclass
class Count:
    """Of some cases. `bugs` and `found` by class of mutant (equivalence.py): how many there are, and how many were
    accused. `suspicious`: how many of the others of each class were suspicious. `innocent`: kernels that were not
    mutated; `accused`, `suspected`: those of them that were accused, or suspicious."""

    cases: int = 0
    bugs: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    suspicious: Counter[str] = field(default_factory=Counter)
    innocent: int = 0
    accused: int = 0
    suspected: int = 0
    seconds: list[float] = field(default_factory=list)

    def add(
        self,
        kernels: Collection[str],
        bugs: Iterable[Mapping[str, Any]],
        accused: Collection[str],
        seconds: float,
        suspicious: Collection[str] = (),
    ) -> None:
        """A case: the suite's kernels, its bugs with their `kernel` and `class`, and who was accused or suspicious."""
        mutated = {}
        for bug in bugs:
            mutated[bug["kernel"]] = bug["class"]
        self.cases += 1
        self.bugs.update(mutated.values())
        self.found.update(kind for kernel, kind in mutated.items() if kernel in accused)
        missed = {kernel: kind for kernel, kind in mutated.items() if kernel not in accused}
        self.suspicious.update(kind for kernel, kind in missed.items() if kernel in suspicious)
        self.innocent += len(kernels) - len(mutated)
        self.accused += sum(kernel in accused for kernel in kernels if kernel not in mutated)
        self.suspected += sum(kernel in suspicious for kernel in kernels if kernel not in mutated)
        self.seconds.append(seconds)

    @property
    def injected(self) -> int:
        return self.bugs.total()

    @property
    def reports(self) -> int:
        """Kernels accused, rightly or not."""
        return self.found.total() + self.accused

    @property
    def missed(self) -> int:
        """False negatives: bugs that can be seen on any implementation, and were not."""
        return self.bugs[DETECTABLE] - self.found[DETECTABLE]

    @property
    def false_positive_share(self) -> float:
        """Of the reports, as the paper has it."""
        return self.accused / self.reports if self.reports else 0.0

    @property
    def false_negative_share(self) -> float:
        """Of the bugs that can be seen."""
        return self.missed / self.bugs[DETECTABLE] if self.bugs[DETECTABLE] else 0.0

    def __add__(self, other: Count) -> Count:
        return Count(
            self.cases + other.cases,
            self.bugs + other.bugs,
            self.found + other.found,
            self.suspicious + other.suspicious,
            self.innocent + other.innocent,
            self.accused + other.accused,
            self.suspected + other.suspected,
            self.seconds + other.seconds,
        )


def by_operator(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, tuple[int, int, int]]]:
    """Mutation operator -> class -> (bugs, those accused, those that are suspicious instead), over the cases' records
    (run.py)."""
    found: dict[str, dict[str, list[int]]] = {}
    for record in records:
        for bug in record["bugs"]:
            entry = found.setdefault(bug["operator"], {kind: [0, 0, 0] for kind in CLASSES})[bug["class"]]
            entry[0] += 1
            entry[1] += bug["kernel"] in record["accused"]
            entry[2] += bug["kernel"] in record["suspicious"]
    return {name: {kind: (a, b, c) for kind, (a, b, c) in kinds.items()} for name, kinds in found.items()}
