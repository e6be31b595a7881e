"""The benchmark's cases: a model, and 1 to 11 of its kernels with one mistake each."""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from benchmarks.localization.mutate import Mutant, Operators, mutants
from tapml.files import sha256
from tapml.suite import Suite

MOST_BUGS = 11
CASES_A_MODEL = 36
"""Times six models: 216 cases."""


@dataclass(frozen=True)
class Bug:
    """One mutated kernel. `file` is the one that changes, for a kernel may have several."""

    kernel: str
    file: str
    mutant: Mutant

    def describe(self) -> dict[str, object]:
        mutant = self.mutant
        return {
            "kernel": self.kernel,
            "file": self.file,
            "operator": mutant.operator,
            "line": mutant.line,
            "description": mutant.description,
        }


@dataclass(frozen=True)
class Case:
    """`id` says all that is needed to make it again: model, seed and number."""

    id: str
    model: str
    bugs: tuple[Bug, ...]


class Mutable:
    """A suite's kernels that have WGSL, and the mutants of each."""

    def __init__(self, suite: Suite, operators: Operators | None = None) -> None:
        """`operators`: instead of `mutate.OPERATORS`."""
        self.suite = suite
        self._operators = operators

    @cached_property
    def bugs(self) -> dict[str, dict[str, list[Bug]]]:
        """Kernel -> mutation operator -> its bugs."""
        found: dict[str, dict[str, list[Bug]]] = {}
        for kernel in self.suite.kernels:
            by_operator: dict[str, list[Bug]] = {}
            for file in self.suite.kernel_files(kernel):
                for mutant in mutants(file.text, self._operators):
                    by_operator.setdefault(mutant.operator, []).append(Bug(kernel, file.name, mutant))
            if by_operator:
                found[kernel] = by_operator
        return found


@functools.cache
def _texts(suite: Suite, kernel: str) -> list[tuple[str, str]]:
    return [(file.name, file.text) for file in suite.kernel_files(kernel)]


def digest(suite: Suite, kernel: str, bug: Bug | None = None) -> str:
    """Of all WGSL of a kernel, with its bug where it has one. For suites that nobody edits."""
    texts = [bug.mutant.text if bug and name == bug.file else text for name, text in _texts(suite, kernel)]
    return sha256("".join(sha256(text) for text in texts))[:24]


def cases(model: str, suite: Suite, seed: int = 0, count: int = CASES_A_MODEL) -> list[Case]:
    """`count` cases of a model: 1 to 11 bugs by turns, the mutation operators about equally often where they apply."""
    bugs = Mutable(suite).bugs
    chance = random.Random(f"{seed} {model}")
    used: Counter[str] = Counter()
    made = []
    for number in range(count):
        kernels = chance.sample(sorted(bugs), min(1 + number % MOST_BUGS, len(bugs)))
        chosen = tuple(_bug(bugs[kernel], used, chance) for kernel in kernels)
        made.append(Case(f"{model}-{seed}-{number:02}", model, chosen))
    return made


def _bug(by_operator: dict[str, list[Bug]], used: Counter[str], chance: random.Random) -> Bug:
    """A bug by the operator that was used least so far of those that this kernel has a place for."""
    least = min(used[operator] for operator in by_operator)
    operator = chance.choice(sorted(name for name in by_operator if used[name] == least))
    used[operator] += 1
    return chance.choice(by_operator[operator])


def distinct(made: Iterable[Case]) -> list[Bug]:
    """The cases' bugs, each once."""
    return list({(bug.kernel, bug.file, bug.mutant.text): bug for case in made for bug in case.bugs}.values())
