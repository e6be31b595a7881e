"""Which states grow: those that go to kernels alone which take any size of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tapml.building.growing import BLOCK, grown
from tapml.expressions import Symbol
from tapml.program import Node, NodeKind, ValueKind
from tapml.program.program import Function, Program, State, SymbolicType, SymbolicValue

CAPACITY = 256
CACHE = (2, CAPACITY, 8)


def argument(role: str, shape: Sequence[Any] = CACHE, grows: int | None = None) -> dict[str, Any]:
    own = {} if grows is None else {"grows": grows}
    return {"name": "x", "dtype": "float32", "shape": list(shape), "role": role, **own}


def kernels(**changes: Any) -> dict[str, Any]:
    """`append` writes rows into a cache, `attend` reads two of them."""
    append = [argument("input", grows=1), argument("input", ["n", 8]), argument("output", grows=1)]
    attend = [argument("input", grows=1), argument("input", grows=1), argument("output", ["n", 8])]
    found = {"append": append, "attend": attend, **changes}
    n = {"name": "n", "minimum": 1, "maximum": 4}
    return {name: {"kernel": name, "symbols": [n], "arguments": taken} for name, taken in found.items()}


def program(
    nodes: Sequence[tuple[str, Sequence[str], str]] = (), states: Mapping[str, SymbolicType] | None = None
) -> Program:
    """Rows go to the caches keys and values, which are attended to; then come `nodes`."""
    types = {"keys": SymbolicType(CACHE, "float32"), "values": SymbolicType(CACHE, "float32"), **(states or {})}
    calls = [
        ("append", ("keys", "rows"), "keys.after"),
        ("append", ("values", "rows"), "values.after"),
        ("attend", ("keys.after", "values.after"), "y"),
        *nodes,
    ]
    rows = SymbolicType(("n", 8), "float32")
    values = {"rows": SymbolicValue("rows", "", rows, ValueKind.INPUT)}
    values |= {name: SymbolicValue(name, "", found, ValueKind.INPUT) for name, found in types.items()}
    for _, _, made in calls:
        found = types.get(made.removesuffix(".after"), SymbolicType(CACHE, "float32") if made == "seen" else rows)
        values[made] = SymbolicValue(made, "", found, ValueKind.INTERMEDIATE)
    made_nodes = [
        Node(f"n{number}", NodeKind.VIEW if kernel == "reshape" else NodeKind.KERNEL, kernel, tuple(given), (made,))
        for number, (kernel, given, made) in enumerate(calls)
    ]
    pairs = {name: (name, f"{name}.after") for name in ("keys", "values")}
    outputs = ("y", *(after for _, after in pairs.values()))
    function = Function(values, made_nodes, ("rows", *types), outputs, states=pairs)
    declared = tuple(State(name, types[name], None) for name in pairs)
    return Program((Symbol(name="n", minimum=1, maximum=4),), {"main": function}, declared)


def sizes(found: Any) -> list[Any]:
    return [state.type.shape[1] for state in found.states]


def test_caches_become_as_long_as_a_sequence_decides() -> None:
    found = grown(program(), kernels(), (), CAPACITY)
    assert found.symbol == Symbol(name="places", minimum=BLOCK, maximum=CAPACITY)
    assert sizes(found) == ["places", "places"]
    values = found.functions["main"].values
    assert {name for name, value in values.items() if "places" in value.type.shape} == {
        *("keys", "keys.after", "values", "values.after")
    }
    append = found.documents["append"]
    assert [taken["shape"] for taken in append["arguments"]] == [[2, "places", 8], ["n", 8], [2, "places", 8]]
    assert [symbol["name"] for symbol in append["symbols"]] == ["n", "places"]
    # Of a size that the model has already it is another.
    taken = grown(program(), kernels(), [Symbol(name="places", minimum=1, maximum=2)], CAPACITY)
    assert taken.name not in (None, "places")


@pytest.mark.parametrize(
    ("made", "documents"),
    [
        pytest.param(
            program(), kernels(append=[argument("input"), argument("input"), argument("output")]), id="no kernel"
        ),
        pytest.param(
            program([("read", ("keys.after",), "z")]),
            kernels(read=[argument("input"), argument("output", ["n", 8])]),
            id="a kernel of one size besides",
        ),
        pytest.param(program([("reshape", ("keys.after",), "z")]), kernels(), id="a view"),
        pytest.param(
            program([("make", (), "seen"), ("attend", ("seen", "values.after"), "z")]),
            kernels(make=[argument("output")]),
            id="a kernel that takes what is no state, too",
        ),
        pytest.param(program(states={"keys": SymbolicType(CACHE, "int32")}), kernels(), id="another dtype"),
        pytest.param(program(states={"keys": SymbolicType((2, 128, 8), "float32")}), kernels(), id="another size"),
    ],
)
def test_one_that_cannot_grow_keeps_all_that_share_a_kernel_with_it(made: Program, documents: Any) -> None:
    found = grown(made, documents, (), CAPACITY)
    assert (found.symbol, found.documents, found.states) == (None, documents, made.states)


def test_a_model_that_does_not_generate_or_fits_into_the_first_places_stays_as_it_is() -> None:
    for capacity in (None, BLOCK):
        assert grown(program(), kernels(), (), capacity).symbol is None
