"""Calls at positions that nobody carved: a decoder is carved with a short prompt, and pages write longer texts.

Operators that read positions (those of a cache, tables of positions) run all along the capacity: the recorded rows of
the caches stay, and rows behind them are drawn from the recorded ones. Operators that read none but something of all
places (attention that a model computes by itself) are given that with all places filled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tapml.bounds import NotDerivable
from tapml.devices.messages import KernelMessages
from tapml.errors import DeviceError, DeviceLost, InputError
from tapml.locating.evidence import Evidence, Finding
from tapml.locating.examine import Examiner
from tapml.locating.of_positions import OfPositions
from tapml.locating.places import Places, drawn, not_yet, places_of
from tapml.locating.suspects import Examined, explained, program_of
from tapml.locating.trials import judged
from tapml.operators.program import OperatorProgram
from tapml.program.generation import POSITIONS
from tapml.program.graph import Graph, ValueKind, shown_by
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


Input = np.ndarray | Places | Callable[[np.ndarray], np.ndarray]
"""Of a call: the same in all, filled up to its positions, or made of them."""


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
        self._of_inputs = _of_inputs(self._graph)
        self._calls = 0
        generation = self.suite.generation
        self.capacity = generation.capacity if generation else 0
        self._places = generation.most_places if generation else 0
        values = self._graph.values
        self.positions = {value for value in self._graph.inputs if generation and values[value].name == POSITIONS}
        self._alone = OfPositions(self.suite, self.positions)

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
            passes = kernel in passing
            # What fails by itself and reads no positions is wrong at the carved ones already.
            given = [one for one in calls if passes or one is None or one.reads]
            if not given:
                continue
            done = [None if one is None else self._one(one, passing=passes) for one in given]
            (tried if all(one is not None for one in done) else left).append(kernel)
            # A call of fewer tokens tells positions better.
            later = next((one for one in done if isinstance(one, Later)), None)
            if later is not None:
                found[kernel] = later
        return found, self._described(tried, left)

    def calls(self, kernels: Sequence[str]) -> dict[str, list[Calls | None]]:
        """Of each of `kernels` that reads positions, or something of all places, for its test of the fewest tokens and
        for that of the most; None for one that cannot be called at other positions."""
        tests = self._tests(kernels)
        caches = self._caches() if tests else {}
        found = {
            kernel: [one for test in of_kernel for one in self._of(test, caches)] for kernel, of_kernel in tests.items()
        }
        return {kernel: calls for kernel, calls in found.items() if calls}

    def _described(self, tried: list[str], left: list[str]) -> TriedPositions:
        text = "no operator ran at positions beyond the carved ones"
        if tried:
            calls, last = counted(self._calls, "call"), self.capacity - 1
            text = f"{listed(tried, 6)} ran in {calls} at positions up to {last}, the last that fits"
        if left:
            text += f"; {listed(left, 6)} at carved positions only"
        return {"kernels": tried, "left_out": left, "calls": self._calls, "last": self.capacity - 1, "text": text}

    def _tests(self, kernels: Sequence[str]) -> dict[str, list[CarvedTest]]:
        """Of each kernel that reads positions, or something of all places, its tests of the fewest and of the most
        tokens."""
        nodes = {node.id for node in self._graph.kernel_nodes if any(map(self._moves, node.inputs))}
        found: dict[str, dict[int, CarvedTest]] = {}
        for test in self.suite.tests:
            if test.node in nodes and test.kernel in kernels:
                found.setdefault(test.kernel, {})[self._positions(test.step).size] = test
        return {kernel: [tests[n] for n in sorted({min(tests), max(tests)})] for kernel, tests in found.items()}

    def _moves(self, value: str) -> bool:
        """Is it another one for another position?"""
        shown = self._shown[value]
        return shown in self.positions or shown in self._alone.integers or self._is_of_places(shown)

    def _positions(self, step: int) -> np.ndarray:
        """Those that a carved step was given."""
        given = zip(self.suite.graphs[step].inputs, self.suite.manifest["steps"][step]["inputs"].values(), strict=True)
        ref = next(ref for value, ref in given if value in self.positions)
        return self.suite.tensors.get(TensorRef.from_json(ref))

    def _known(self, step: int) -> int:
        """How many places of a text are filled behind a carved step."""
        return int(self._positions(step).max(initial=0)) + 1

    def _given(self, test: CarvedTest) -> list[tuple[TensorRef, str]]:
        """A test's inputs, and the value of the graph that each shows."""
        node = next(node for node in self._graph.nodes if node.id == test.node)
        return [(ref, self._shown[value]) for ref, value in zip(test.inputs, node.inputs, strict=True)]

    def _caches(self) -> dict[str, np.ndarray]:
        """Value -> the state that it is before or after a call, with rows at all positions."""
        # The last step of the text: draws, which follow it, are of no position.
        numbers = [number for number, graph in enumerate(self.suite.graphs) if self.positions & {*graph.inputs}]
        step, graph = self.suite.manifest["steps"][numbers[-1]], self.suite.graphs[numbers[-1]]
        known = self._known(numbers[-1])
        found: dict[str, np.ndarray] = {}
        functions = self.suite.program.functions.values()
        for state, output in graph.left(step["outputs"]).items():
            ref = TensorRef.from_json(output)
            if len(ref.shape) != 3 or ref.shape[_AXIS] != self._places or not ref.dtype.startswith("float"):
                continue
            array = drawn(self.suite.tensors.get(ref), _AXIS, known)
            found |= {value: array for function in functions for value in function.states.get(state, ())}
        return found

    def _of(self, test: CarvedTest, caches: Mapping[str, np.ndarray]) -> list[Calls | None]:
        """None stands for calls that cannot be made; there are none of a test without positions and places."""
        inputs: list[Input] = []
        given = self._given(test)
        reads = any(value in self.positions or value in self._alone.integers for _, value in given)
        for ref, value in given:
            carved = self.suite.tensors.get(ref)
            if value in self.positions:
                inputs.append(partial(np.asarray, dtype=carved.dtype))
            elif value in self._alone.integers:
                inputs.append(partial(self._alone.at, ref, value, test.step))
            elif reads and value in caches:
                inputs.append(caches[value])
            elif self._is_of_places(value):
                found = None if reads and self._is_state(value) else self._places_of(carved, test)
                if found is None and reads:
                    return [None]
                inputs.append(carved if found is None else found)
            else:
                inputs.append(carved)
        if not reads and not any(isinstance(one, Places) for one in inputs):
            return []
        program = program_of(self.suite, test)
        if program is None:
            return [None]
        return [Calls(self, test, program, inputs, self._positions(test.step))]

    def _places_of(self, carved: np.ndarray, test: CarvedTest) -> Places | None:
        return places_of(carved, self.capacity, self._known(test.step))

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
        """Is it a state, or does it say something of all places as they are seen from the carved positions (a mask)?
        What is made of constants alone is the same at all positions."""
        found = self._graph.values[value]
        given = found.kind is ValueKind.INTERMEDIATE and value in self._of_inputs
        return self._is_state(value) or (given and self.capacity in found.type.shape)

    def _is_state(self, value: str) -> bool:
        functions = self.suite.program.functions.values()
        return any(value in pair for function in functions for pair in function.states.values())

    def _looked(self, calls: Calls, *, passing: bool) -> Later | None:
        test = calls.test
        nbytes = sum(ref.type.nbytes for ref in (*test.inputs, *test.outputs))
        places = [self.capacity - calls.tokens]  # all places are filled
        if calls.reads:
            places = starts(calls.tokens, self.capacity, max(_FEWEST, min(_CALLS, _MOST_BYTES // max(1, nbytes))))
        wrong = [place for place in places if calls.wrong(place)]
        if not wrong or (len(wrong) == len(places) and not passing):
            return None
        first = wrong[0]
        right = max((place for place in places if place < first), default=None if calls.reads else calls.carved)
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


def _of_inputs(graph: Graph) -> set[str]:
    """What follows from the inputs of a call, or from states."""
    found = {name for name, value in graph.values.items() if value.kind is ValueKind.INPUT}
    for node in graph.nodes:
        if found.intersection(node.inputs):
            found.update(node.outputs)
    return found


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
        inputs: Sequence[Input],
        positions: np.ndarray,
    ) -> None:
        """`positions`: the carved ones."""
        self.test = test
        self._call = owner.call
        self._program = program
        self._suite = owner.suite
        self._capacity = owner.capacity
        self._inputs = inputs
        self.carved = int(positions.min())
        self.tokens = positions.size
        self._known: dict[int, list[Evidence]] = {}

    @property
    def reads(self) -> bool:
        """Does it read positions, or what follows from them, or something of all places only?"""
        return any(callable(one) for one in self._inputs)

    @property
    def count(self) -> int:
        return len(self._known)

    def wrong(self, first: int) -> bool:
        return any(evidence.count for evidence in self.outputs(first))

    def outputs(self, first: int) -> list[Evidence]:
        """Of the call whose first token stands there."""
        if first not in self._known:
            inputs = self._at(first)
            found = judged(self._suite, self.test, self._program, inputs, self.given(first))
            self._known[first] = found if self.reads else [self._seen(one, first + self.tokens) for one in found]
        return self._known[first]

    def _seen(self, evidence: Evidence, end: int) -> Evidence:
        """Without what is wrong behind a call, which a mask hides."""
        hidden = not_yet(evidence.got.shape, self._capacity, end)
        known = evidence.accepted
        return replace(evidence, accepted=hidden if known is None else known | hidden)

    def given(self, first: int) -> list[np.ndarray]:
        """What the device gives for it. Raises DeviceError."""
        return self._call(self.test, self._at(first))

    def _at(self, first: int) -> list[np.ndarray]:
        """Of such a call."""
        end = first + self.tokens
        positions = np.arange(first, end)
        return [
            one.until(end) if isinstance(one, Places) else one(positions) if callable(one) else one
            for one in self._inputs
        ]
