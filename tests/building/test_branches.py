"""What only one side of a choice needs runs only where it is chosen, and gives the same."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tapml.building.branches import Branch, Item, with_branches
from tapml.building.moves import with_moves
from tapml.operators.choice import is_choice
from tapml.operators.read import read_document
from tapml.program import Node, NodeKind, ValueKind
from tapml.program.graph import shown_by
from tapml.program.program import Function, SymbolicType, SymbolicValue

FLAGS = ("p", "q")
INPUTS = (*FLAGS, "a", "b", "c")


def function(
    calls: Sequence[tuple[str, ...]], outputs: Sequence[str], states: Mapping[str, tuple[str, str]] | None = None
) -> Function:
    """Calls as kernel, inputs and output: `f` of any, `choose` of a flag and two others, `view` of one. A value of the
    name `flag...` is a number."""
    kinds = {**dict.fromkeys(INPUTS, ValueKind.INPUT), **{call[-1]: ValueKind.INTERMEDIATE for call in calls}}
    types = {name: SymbolicType((1,), "int32") for name in kinds if name in FLAGS or name.startswith("flag")}
    values = {
        name: SymbolicValue(name, name, types.get(name, SymbolicType((4,), "float32")), kind)
        for name, kind in kinds.items()
    }
    nodes = [
        Node(f"n{i}", NodeKind.VIEW if kernel == "view" else NodeKind.KERNEL, kernel, tuple(given), (made,))
        for i, (kernel, *given, made) in enumerate(calls)
    ]
    return Function(values, nodes, INPUTS, tuple(outputs), states=states or {})


def computed(kernel: str, given: Sequence[Any], name: str) -> Any:
    """A number where one is made, else what was computed of what."""
    if kernel == "choose":
        return given[1] if given[0] else given[2]
    if kernel in ("copy", "view"):
        return given[0]
    return len(str(given)) % 2 if name.startswith("flag") else (name, *given)


def run_all(found: Function, held: dict[str, Any]) -> list[Any]:
    for node in found.nodes:
        held[node.outputs[0]] = computed(node.kernel, [held[value] for value in node.inputs], node.outputs[0])
    return [held[value] for value in found.outputs]


class Run:
    """Of a function with branches: what is not written when it is read is no value, and the nodes that ran."""

    def __init__(self, found: Function, held: Mapping[str, Any]) -> None:
        self.moves = with_moves(found)
        befores = {state: before for state, (before, _) in found.states.items()}
        flow = with_branches(self.moves, befores, {"choose"}, {})
        self.names = {value: befores[state] for value, state in self.moves.states.items()}
        self.held = dict(held)
        self.ran: list[str] = []
        self.shown = shown_by(flow.function)
        self.block(flow.items)
        self.outputs = [self.value(value) for value in self.moves.outputs]
        self.states = {state: self.value(before) for state, before in befores.items()}

    def value(self, name: str) -> Any:
        return self.held[self.shown[name]]

    def block(self, items: Sequence[Item]) -> None:
        for item in items:
            if isinstance(item, Branch):
                self.block(item.then if self.value(item.number) else item.otherwise)
                continue
            if item.kind is NodeKind.VIEW:
                continue
            (made,) = item.outputs
            kernel = "copy" if item.kernel == self.moves.copy else item.kernel
            # What a side makes may be written where it is wanted: its name says what it is of.
            name = made if kernel != "f" else self.original(item)
            self.held[self.names.get(made, made)] = computed(kernel, [self.value(v) for v in item.inputs], name)
            self.ran.append(item.id)

    def original(self, node: Node) -> str:
        return next(found.outputs[0] for found in self.moves.function.nodes if found.id == node.id)


TWO = [("f", "a", "x"), ("f", "x", "y"), ("f", "b", "z"), ("choose", "p", "y", "z", "r"), ("f", "r", "end")]


@pytest.mark.parametrize(
    ("calls", "outputs", "ran"),
    [
        (TWO, ["end"], {1: "n0 n1 n4", 0: "n2 n4"}),
        # What is needed elsewhere, too, runs always.
        (TWO, ["end", "x"], {1: "n0 n1 n4", 0: "n0 n2 n4"}),
        # Two results by one number; the number is of a view.
        ([("f", "a", "flag"), ("view", "flag", "flag2"), ("f", "a", "x"), ("f", "x", "y"),
          ("choose", "flag", "x", "b", "r"), ("choose", "flag2", "y", "b", "s")], ["r", "s"], None),
        # One in the other, by another number.
        ([("f", "a", "x"), ("choose", "q", "x", "b", "r"), ("f", "r", "y"), ("choose", "p", "y", "c", "s")], ["s"],
         {1: "n0 n2", 0: "n3.2"}),
        # Nothing to leave out.
        ([("choose", "p", "a", "b", "r")], ["r"], {1: "n0", 0: "n0"}),
    ],
)  # fmt: skip
def test_what_runs(calls: list[tuple[str, ...]], outputs: list[str], ran: Mapping[int, str] | None) -> None:
    for p in (0, 1):
        given = {"p": p, "q": 1, "a": "a", "b": "b", "c": "c"}
        found = Run(function(calls, outputs), given)
        assert found.outputs == run_all(function(calls, outputs), dict(given))
        if ran is not None:
            assert sorted(found.ran) == ran[p].split()


def test_a_state_is_written_behind_the_side_that_reads_it() -> None:
    calls = [("f", "b", "next"), ("f", "b", "x"), ("f", "a", "end"), ("choose", "p", "x", "end", "r")]
    for p in (0, 1):
        found = Run(function(calls, ["r", "next"], {"s": ("b", "next")}), {"p": p, "q": 0, "a": "a", "b": "b", "c": ""})
        assert found.outputs == [("x", "b") if p else ("end", "a")]
        assert found.states == {"s": ("next", "b")}


def test_random_functions_give_the_same() -> None:
    left_out = 0
    for seed in range(300):
        draw = random.Random(seed)
        flags, others, calls = [*FLAGS], ["a", "b", "c"], []
        for number in range(draw.randrange(1, 25)):
            kind = draw.choice(["f", "f", "f", "choose", "choose", "flag", "view"])
            if kind == "flag":
                calls.append(("f", *draw.sample(others, 1), f"flag{number}"))
                flags.append(f"flag{number}")
                continue
            given = draw.choices(others[-6:], k=2)
            calls.append(
                ("choose", draw.choice(flags[-2:]), *given, f"v{number}")
                if kind == "choose"
                else (kind, *given[: 1 if kind == "view" else 2], f"v{number}")
            )
            others.append(f"v{number}")
        outputs = draw.choices(others[-4:], k=2)
        states = {"s": ("c", others[-1])} if draw.random() < 0.5 else {}
        made = function(calls, [*outputs, *(after for _, after in states.values())], states)
        held = {**{flag: draw.randrange(2) for flag in FLAGS}, "a": "a", "b": "b", "c": "c"}
        found, expected = Run(made, held), run_all(made, dict(held))
        after = {made.outputs.index(value) for _, value in states.values()}
        assert found.outputs == [value for n, value in enumerate(expected) if n not in after], seed
        assert found.states == {state: expected[made.outputs.index(after)] for state, (_, after) in states.items()}
        left_out += len({node.id for node in made.nodes} - {name.split(".")[0] for name in found.ran})
    assert left_out > 300


# ------------------------------------------------ which operators choose


def operator(value: Any, *, shapes: Sequence[Any] = ([1], [4], [4], [4]), dtype: str = "int32") -> Any:
    names = ("number", "a", "b", "made")
    dtypes = (dtype, "float32", "float32", "float32")
    return {
        "format": "tapml.operator/2", "operator": "choose", "pattern": 8, "symbols": [], "temporaries": [],
        "parameters": [
            {"name": n, "dtype": d, "shape": list(s)} for n, d, s in zip(names, dtypes, shapes, strict=True)
        ],
        "blocks": [{"name": "choose", "loops": [["i", "int64", 4]], "axes": [["v", "int64", 4, "spatial", "i"]],
                    "body": [["store", "made", ["v"], value]]}],
    }  # fmt: skip


NUMBER, A, B = ["load", "number", 0], ["load", "a", "v"], ["load", "b", "v"]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (operator(["select", ["ne", ["cast", "int64", NUMBER], 0], A, B]), True),
        (operator(["select", ["ne", ["cast", "int64", NUMBER], 1], A, B]), False),
        (operator(["select", ["eq", ["cast", "int64", NUMBER], 0], A, B]), False),
        (operator(["select", ["ne", ["cast", "int64", NUMBER], 0], B, A]), False),
        (operator(["select", ["ne", ["cast", "int64", NUMBER], 0], A, ["load", "b", 0]]), False),
        (operator(["add", A, B]), False),
        (operator(["select", ["ne", ["cast", "int64", NUMBER], 0], A, B], shapes=([2], [4], [4], [4])), False),
    ],
)
def test_what_is_a_choice(document: Any, expected: bool) -> None:
    assert is_choice(read_document(document, "choose", "choose.json", {})) == expected


def test_there_are_no_more_branches_than_a_compiled_model_may_have() -> None:
    calls: list[tuple[str, ...]] = []
    before = "a"
    for number in range(450):
        calls += [("f", before, f"x{number}"), ("choose", "pq"[number % 2], f"x{number}", before, f"r{number}")]
        before = f"r{number}"
    flow = with_branches(with_moves(function(calls, [before])), {}, {"choose"}, {})
    assert sum(isinstance(item, Branch) for item in flow.items) == 400
    found = function(calls, [before])
    held = {"p": 1, "q": 0, "a": "a", "b": "b", "c": "c"}
    assert Run(replace(found), held).outputs == run_all(found, dict(held))
