"""Calls at positions that nobody carved: a decoder is carved with a short prompt, and pages write longer texts.

Operators that read positions (those of a cache, tables of positions) run all along the capacity: the recorded rows of
the caches stay, and rows behind them are drawn from the recorded ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from tapml.bounds import NotDerivable
from tapml.devices.messages import KernelMessages
from tapml.errors import DeviceError, DeviceLost, InputError
from tapml.locating.evidence import Evidence, Finding
from tapml.locating.examine import Examiner
from tapml.locating.suspects import Examined, explained, program_of
from tapml.locating.trials import judged
from tapml.operators.program import OperatorProgram
from tapml.program.generation import POSITIONS
from tapml.program.graph import ValueKind, shown_by
from tapml.results.locate import TriedPositions
from tapml.suite import CarvedTest, Suite, TensorRef
from tapml.text import counted, listed
from tapml.validation.context import JobContext

_CALLS = 40
"""Of a test, spread over the capacity."""

_MOST_BYTES = 512 << 20
"""Of what all calls of a test take: there are fewer of large ones, and _FEWEST at least."""

_FEWEST = 12
_AXIS = 1
"""Of positions in a cache [kv heads, capacity, head dim]."""

_STRENGTH = 0.9
_SPARED = 0.95
"""Of the right elements so many stay right by an explanation that is worth more than the position."""

_TRIED = 3
"""Other wrong calls on which an explanation has to hold."""


@dataclass(frozen=True)
class Later:
    """A kernel that is wrong at some positions and right at others."""

    examined: Examined
    text: str


def starts(tokens: int, capacity: int, most: int) -> list[int]:
    """First positions of calls of so many tokens, in order: all along the capacity where `most` calls do, else around
    powers of two, and the rest spread evenly."""
    last = capacity - tokens
    whole = {*range(0, last + 1, tokens), last}
    if len(whole) <= most:
        return sorted(whole)
    powers = [1 << n for n in range(capacity.bit_length()) if 1 << n <= last]
    found = dict.fromkeys([last, 0, *(p for power in reversed(powers) for p in (power, max(0, power - tokens)))])
    spread = np.linspace(0, last, max(2, most - len(found))).astype(int).tolist()
    return sorted([*found, *(place for place in spread if place not in found)][:most])


class LaterPositions:
    """Of one decoder's kernels, on one device."""

    def __init__(self, context: JobContext, messages: KernelMessages) -> None:
        self._context = context
        self.suite: Suite = context.suite
        self._messages = messages
        self._examiner = Examiner(context, messages)
        self._graph = self.suite.model_graph
        self._shown = shown_by(self._graph)
        self._calls = 0
        generation = self.suite.generation
        self._capacity = generation.capacity if generation else 0
        values = self._graph.values
        self.positions = {value for value in self._graph.inputs if generation and values[value].name == POSITIONS}

    def run(self, kernels: Sequence[str], passing: Set[str]) -> tuple[dict[str, Later], TriedPositions | None]:
        """Those of `kernels` that are wrong from some position on, or at some, and what was tried; None for a model
        that generates nothing. `passing`: kernels that pass their carved tests. Raises DeviceLost and Cancelled."""
        found: dict[str, Later] = {}
        tried: list[str] = []
        left: list[str] = []
        by_kernel = self.calls(kernels)
        if not by_kernel:
            return found, None
        for kernel, calls in by_kernel.items():
            done = [None if one is None else self._one(one, passing=kernel in passing) for one in calls]
            (tried if all(one is not None for one in done) else left).append(kernel)
            # A call of fewer tokens tells positions better.
            later = next((one for one in done if isinstance(one, Later)), None)
            if later is not None:
                found[kernel] = later
        return found, self._described(tried, left)

    def calls(self, kernels: Sequence[str]) -> dict[str, list[Calls | None]]:
        """Of each of `kernels` that reads positions, for its test of the fewest tokens and for that of the most; None
        for one that cannot be called at other positions."""
        tests = self._tests(kernels)
        caches = self._caches() if tests else {}
        return {kernel: [self._of(test, caches) for test in found] for kernel, found in tests.items()}

    def _described(self, tried: list[str], left: list[str]) -> TriedPositions:
        text = "no operator ran at positions beyond the carved ones"
        if tried:
            calls, last = counted(self._calls, "call"), self._capacity - 1
            text = f"{listed(tried, 6)} ran in {calls} at positions up to {last}, the last that fits"
        if left:
            text += f"; {listed(left, 6)} at carved positions only"
        return {"kernels": tried, "left_out": left, "calls": self._calls, "last": self._capacity - 1, "text": text}

    def _tests(self, kernels: Sequence[str]) -> dict[str, list[CarvedTest]]:
        """Of each kernel that reads positions a test of each number of tokens, those of few before those of many."""
        nodes = {
            node.id
            for node in self._graph.kernel_nodes
            if any(self._shown[value] in self.positions for value in node.inputs)
        }
        found: dict[str, dict[int, CarvedTest]] = {}
        for test in self.suite.tests:
            if test.node in nodes and test.kernel in kernels:
                tokens = next(ref.shape[0] for ref, value in self._given(test) if value in self.positions)
                found.setdefault(test.kernel, {})[tokens] = test
        return {kernel: [tests[n] for n in sorted({min(tests), max(tests)})] for kernel, tests in found.items()}

    def _given(self, test: CarvedTest) -> list[tuple[TensorRef, str]]:
        """A test's inputs, and the value of the graph that each shows."""
        node = next(node for node in self._graph.nodes if node.id == test.node)
        return [(ref, self._shown[value]) for ref, value in zip(test.inputs, node.inputs, strict=True)]

    def _caches(self) -> dict[str, np.ndarray]:
        """Value -> the state that it is before or after a call, with rows at all positions."""
        step, graph = self.suite.manifest["steps"][-1], self.suite.graphs[-1]
        positions = next(
            ref for value, ref in zip(graph.inputs, step["inputs"].values(), strict=True) if value in self.positions
        )
        known = int(self.suite.tensors.get(TensorRef.from_json(positions)).max(initial=0)) + 1
        chance = np.random.default_rng(0)
        found: dict[str, np.ndarray] = {}
        functions = self.suite.program.functions.values()
        for state, output in graph.left(step["outputs"]).items():
            ref = TensorRef.from_json(output)
            if len(ref.shape) != 3 or ref.shape[_AXIS] != self._capacity or not ref.dtype.startswith("float"):
                continue
            array = self.suite.tensors.get(ref).copy()
            rows = chance.integers(0, known, self._capacity - known)
            factors = chance.uniform(0.5, 1.6, array[:, known:].shape)
            array[:, known:] = array[:, :known][:, rows] * factors
            found |= {value: array for function in functions for value in function.states.get(state, ())}
        return found

    def _of(self, test: CarvedTest, caches: Mapping[str, np.ndarray]) -> Calls | None:
        program = program_of(self.suite, test)
        given = self._given(test)
        if program is None or any(self._is_of_places(value) and value not in caches for _, value in given):
            return None
        return Calls(self, test, program, given, caches)

    def _one(self, calls: Calls, *, passing: bool) -> Later | str | None:
        """What is wrong with the kernel; "" where nothing is, or where it fails and is wrong everywhere: that is no
        matter of positions. None where it could not be tried."""
        try:
            return self._looked(calls, passing=passing) or ""
        except DeviceLost:
            raise
        except (
            DeviceError,
            InputError,
            NotDerivable,
            ArithmeticError,
            LookupError,
            MemoryError,
            TypeError,
            ValueError,
        ):
            return None  # what cannot be run, or computed, is not tried

    def _is_of_places(self, value: str) -> bool:
        """Is it a state, or does it say something of all places as they are seen from the carved positions (a mask)?"""
        functions = self.suite.program.functions.values()
        if any(value in pair for function in functions for pair in function.states.values()):
            return True
        found = self._graph.values[value]
        return found.kind is ValueKind.INTERMEDIATE and self._capacity in found.type.shape

    def _looked(self, calls: Calls, *, passing: bool) -> Later | None:
        test = calls.test
        nbytes = sum(ref.type.nbytes for ref in (*test.inputs, *test.outputs))
        places = starts(calls.tokens, self._capacity, max(_FEWEST, min(_CALLS, _MOST_BYTES // max(1, nbytes))))
        wrong = [place for place in places if calls.wrong(place)]
        if not wrong or (len(wrong) == len(places) and not passing):
            return None
        first = wrong[0]
        right = max((place for place in places if place < first), default=None)
        while right is not None and first - right > 1:
            middle = (first + right) // 2
            right, first = (right, middle) if calls.wrong(middle) else (middle, first)
        return self._later(
            calls, sorted({first, *(place for place in places if place >= first)}), first, passing=passing
        )

    def _later(self, calls: Calls, behind: list[int], first: int, *, passing: bool) -> Later:
        """`first`: the first wrong call; `behind`: it, and those after it that were tried."""
        # The call before ended one position earlier, and is right.
        shift = calls.tokens - 1 if first else 0
        position = first + shift
        again = [place for place in behind if not calls.wrong(place)]
        bad = [str(place + shift) for place in behind if calls.wrong(place)]
        if again:
            text = f"wrong at position{'s' if len(bad) > 1 else ''} {listed(bad, 6)}"
        else:
            where = f"position {position}" if calls.tokens == 1 else f"the call of positions {first} to {position}"
            text = f"wrong from {where} on" if first else "wrong at all positions"
        tried = "positions" if calls.tokens == 1 else f"calls of {calls.tokens} tokens"
        text += f" ({'right before; ' if first else ''}{calls.count} {tried} tried)"
        outputs = calls.outputs(first)
        others = [calls.outputs(place) for place in behind if place != first and calls.wrong(place)][:_TRIED]
        found = [(place, _doubted(one)) for place, one in explained(self.suite, calls.test, outputs, others)]
        details = {
            "position": position,
            "tokens": calls.tokens,
            "calls": calls.count,
            "right_later": len(again),
            "carved_pass": passing,
        }
        found.append((0, Finding("position", text, _STRENGTH, details)))
        found.sort(key=lambda item: -item[1].strength)
        return Later(Examined(calls.test, outputs, found, 0), text)

    def call(self, test: CarvedTest, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """What the device gives. Raises DeviceError."""
        self._context.cancel.check()
        self._calls += 1
        pieces = [ref.type.encoded(array).tobytes() for ref, array in zip(test.inputs, inputs, strict=True)]
        with self._context.blobs.holding(pieces) as digests:
            refs = [replace(ref, digest=digest) for ref, digest in zip(test.inputs, digests, strict=True)]
            runs = self._examiner.run([replace(test, inputs=tuple(refs))], 1).get(test.id)
        if not runs:
            raise DeviceError("it does not run at a later position")
        return runs[0]


def _doubted(finding: Finding) -> Finding:
    """Said behind the position where right elements would be wrong with it, too."""
    doubtful = finding.details.get("unchanged", 1.0) < _SPARED
    return replace(finding, strength=min(finding.strength, _STRENGTH - 0.05)) if doubtful else finding


class Calls:
    """Of one test, at positions; each is made once."""

    def __init__(
        self,
        owner: LaterPositions,
        test: CarvedTest,
        program: OperatorProgram,
        given: Sequence[tuple[TensorRef, str]],
        caches: Mapping[str, np.ndarray],
    ) -> None:
        self.test = test
        self._call = owner.call
        self._program = program
        self._suite = owner.suite
        tensors = owner.suite.tensors
        self._inputs = [caches[value] if value in caches else tensors.get(ref) for ref, value in given]
        self._place = next(n for n, (_, value) in enumerate(given) if value in owner.positions)
        self.tokens = given[self._place][0].shape[0]
        self._known: dict[int, list[Evidence]] = {}

    @property
    def count(self) -> int:
        return len(self._known)

    def wrong(self, first: int) -> bool:
        return any(evidence.count for evidence in self.outputs(first))

    def outputs(self, first: int) -> list[Evidence]:
        """Of the call whose first token stands there."""
        if first not in self._known:
            inputs = self._at(first)
            self._known[first] = judged(self._suite, self.test, self._program, inputs, self.given(first))
        return self._known[first]

    def given(self, first: int) -> list[np.ndarray]:
        """What the device gives for it. Raises DeviceError."""
        return self._call(self.test, self._at(first))

    def _at(self, first: int) -> list[np.ndarray]:
        """Of such a call."""
        found = [*self._inputs]
        found[self._place] = np.arange(first, first + self.tokens, dtype=found[self._place].dtype)
        return found
