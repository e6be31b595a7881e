"""Loops of which values say how many turns they take: to how many they are written out, and whether that was enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from tapml.errors import InputError
from tapml.files import unique
from tapml.importing.inputs import RawStep
from tapml.importing.onnx_run import read_by
from tapml.importing.onnx_sequence import MOST_STEPS
from tapml.importing.onnx_tensors import subgraphs
from tapml.importing.onnx_values import Known

Key = tuple[str, ...]
"""A node by the names of its outputs: a copy of it in another turn is the same."""

NONE = Known.of(np.zeros(1, np.int32))
"""The number of a loop that is finished."""

_ROOM = 2
"""Times the turns that the given inputs take: those of a later call may take more."""
_LEAST = 4


def key_of(node: Any) -> Key:
    """The same for all turns that a node is in."""
    return tuple(node.output)


class Turns:
    """The limits of one model's loops. `given`: by whoever imports it."""

    def __init__(self, model: Any, steps: Sequence[RawStep], given: int | None) -> None:
        self._model = model
        self._steps = steps
        self._given = given
        self._found: dict[Key, int] = {}
        self._notes: dict[Key, str] = {}

    @property
    def notes(self) -> list[str]:
        return list(self._notes.values())

    def below(self, most: int) -> bool:
        """Whether a limit is given that is less than a number of turns."""
        return self._given is not None and self._given < most

    def most(self, node: Any, described: str, fits: Callable[[int], bool], bound: int | None, taken: int | None) -> int:
        """To how many turns a loop is written out. `fits`: whether so many are few enough; `bound`: more are never
        taken; `taken`: by the given inputs, where that is known.

        Raises InputError where nothing says it.
        """
        key = key_of(node)
        if key not in self._found:
            most, said = self._limit(key, described, fits, taken)
            self._found[key] = most
            if bound is None or most < bound:
                self._notes[key] = f"{described} takes at most {most} turns{said}"
        return self._found[key]

    def _limit(self, key: Key, described: str, fits: Callable[[int], bool], taken: int | None) -> tuple[int, str]:
        if self._given is not None:
            return self._given, ", as was asked for: a call that needs more is refused"
        try:
            taken = self._counted.get(key, 0) if taken is None else taken
        except InputError as error:
            raise InputError(
                f"{described} has as many turns as values of the input say, and how many these are for the given "
                f"inputs cannot be counted ({error}): say how many there may be with --loop-limit N"
            ) from error
        room = min(max(_ROOM * taken, _LEAST), MOST_STEPS)
        more = ": a call that needs more is refused; --loop-limit N makes room for N"
        return (room if fits(room) else max(taken, 1)), f", and the given inputs take {taken}{more}"

    @cached_property
    def _counted(self) -> Mapping[Key, int]:
        return _counted(self._model, self._steps)


class Unfinished:
    """Loops that were written out to fewer turns than they may need: for each, by the name of an output that the model
    has for it, a number (int32 [1]) that is not 0 where a call needs more."""

    def __init__(self) -> None:
        self._scopes: list[dict[str, Any]] = [{}]
        self._names: dict[Key, str] = {}
        self.causes: dict[str, str] = {}
        """What is wrong where the number is not 0."""

    @property
    def found(self) -> Mapping[str, Any]:
        """Outside of all branches and turns."""
        return self._scopes[0]

    @contextmanager
    def inside(self) -> Iterator[dict[str, Any]]:
        """What is added meanwhile is given here alone: whoever asks says when it counts."""
        found: dict[str, Any] = {}
        self._scopes.append(found)
        try:
            yield found
        finally:
            self._scopes.pop()

    def name(self, node: Any, described: str, most: int, taken: Callable[[str], bool]) -> str:
        """Of a loop's number."""
        key = key_of(node)
        if key not in self._names:
            plain = f"{node.name or next(filter(None, node.output), 'loop')}.unfinished"
            name = unique(plain, lambda found: found in self.causes or taken(found))
            self._names[key] = name
            self.causes[name] = f"{described} needs more than the {most} turns that the model was carved with"
        return self._names[key]

    def add(self, found: Mapping[str, Any], either: Callable[[Any, Any], Any]) -> None:
        """Numbers by their names; `either` gives one that is not 0 where one of two is not."""
        scope = self._scopes[-1]
        for name, value in found.items():
            scope[name] = either(scope[name], value) if name in scope else value


def _counted(model: Any, steps: Sequence[RawStep]) -> Mapping[Key, int]:
    """The most turns that each Loop takes in a step, by ONNX's reference implementation.

    Raises InputError where it cannot compute what the loops depend on, or one takes more than `MOST_STEPS`.
    """
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

    found: dict[Key, int] = {}

    class Loop(OpRun):  # type: ignore[misc]  # has no types
        op_domain = ""

        def need_context(self) -> bool:
            return True

        def _run(self, most: Any, going: Any, *states: Any, context: Any = None, **_: Any) -> tuple[Any, ...]:
            names = self.body.input_names
            values = list(states[: len(names) - 2])
            rows: list[list[Any]] = [[] for _ in self.body.output_names[1 + len(values) :]]
            turn = 0
            while (going is None or bool(np.all(going))) and (most is None or turn < int(np.asarray(most).item())):
                if turn == MOST_STEPS:
                    raise InputError(f"the loop of {self.onnx_node.output[0]} takes more than {MOST_STEPS} turns")
                given = dict(zip(names, [np.array(turn, np.int64), np.array(True), *values], strict=True))
                going, *made = self._run_body({**(context or {}), **given})
                values = made[: len(values)]
                for row, value in zip(rows, made[len(values) :], strict=True):
                    row.append(value)
                turn += 1
            key = key_of(self.onnx_node)
            found[key] = max(found.get(key, 0), turn)
            return (*values, *(np.stack(row) if row else np.zeros([0]) for row in rows))

    part = _loops_of(model)
    try:
        evaluator = ReferenceEvaluator(part, new_ops=[Loop])
        for step in steps:
            with np.errstate(all="ignore"):
                evaluator.run(None, {value.name: step.arrays[value.name] for value in part.graph.input})
    except InputError:
        raise
    except Exception as error:  # whatever its operators raise
        raise InputError(f"onnx.reference: {type(error).__name__}: {error}"[:300]) from error
    return found


def _loops_of(model: Any) -> Any:
    """As much of a model as its loops need, and what holds them."""
    from onnx import helper

    graph = model.graph
    nodes, outputs, needed = [], [], set[str]()
    for node in reversed(graph.node):
        loops = _holds_loop([node])
        if loops or needed.intersection(node.output):
            nodes.append(node)
            needed.update(read_by(node))
            if loops:
                outputs.append(next(name for name in node.output if name))
    part = helper.make_graph(
        nodes[::-1],
        "loops",
        [value for value in graph.input if value.name in needed],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [tensor for tensor in graph.initializer if tensor.name in needed],
    )
    return helper.make_model(part, opset_imports=model.opset_import, ir_version=model.ir_version)


def _holds_loop(nodes: Iterable[Any]) -> bool:
    return any(node.op_type == "Loop" or any(_holds_loop(graph.node) for graph in subgraphs(node)) for node in nodes)
