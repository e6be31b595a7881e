"""Memory plans: nothing is overwritten that is still read, whatever the strategy; ranges of sizes."""

from __future__ import annotations

import dataclasses
import random
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import pytest

from building.graphs import random_graph
from building.ownership import Overwritten, check
from tapml.building import strategies
from tapml.building.buffers import Buffer
from tapml.building.plan import Placement
from tapml.building.planning import best, buffers_for_sizes, plan_for_range, plan_for_sizes, plans
from tapml.building.strategies import STRATEGIES, ends, total, with_offsets
from tapml.compiled.model import aligned
from tapml.errors import InputError
from tapml.expressions import ExpressionError, Symbol, evaluate
from tapml.program import Graph, Node, NodeKind, TensorType, Value, ValueKind
from tapml.program.intervals import interval
from tapml.program.program import Function, SymbolicType

INPUT, PARAMETER, INTERMEDIATE = ValueKind.INPUT, ValueKind.PARAMETER, ValueKind.INTERMEDIATE


@pytest.mark.parametrize("seed", range(60))
def test_no_plan_of_a_random_graph_lets_a_node_read_what_was_overwritten(seed: int) -> None:
    graph, kernels = random_graph(seed)
    graph.check()
    given = plans(graph, buffers_for_sizes(graph, kernels))
    for plan in given:
        check(plan, graph, kernels)
        assert plan.lower_bound <= plan.bytes <= plan.naive + 256 * len(plan.values), plan.strategy
    assert best(given).bytes == min(plan.bytes for plan in given)
    assert best(given) == plan_for_sizes(graph, kernels) == plan_for_sizes(graph, kernels)


@pytest.mark.parametrize("fault", ["ends early", "same arena", "too small", "view elsewhere"])
def test_the_check_finds_plans_that_are_wrong(fault: str) -> None:
    found = 0
    for seed in range(30):
        graph, kernels = random_graph(seed)
        wanted = buffers_for_sizes(graph, kernels)
        if fault == "ends early":
            short = [dataclasses.replace(b, last=max(b.first, b.last - 1)) for b in wanted]
            plan = plans(graph, short)[0]
        elif fault == "same arena":
            plan = plans(graph, [dataclasses.replace(b, apart=frozenset()) for b in wanted])[0]
        elif fault == "too small":
            plan = plans(graph, [dataclasses.replace(b, bytes=max(4, b.bytes // 8 * 4)) for b in wanted])[0]
        else:
            plan = plans(graph, wanted)[0]
            views = [n.outputs[0] for n in graph.nodes if n.kind is NodeKind.VIEW and n.outputs[0] in plan.values]
            plan = dataclasses.replace(plan, values={v: p for v, p in plan.values.items() if v not in views[:1]})
        try:
            check(plan, graph, kernels)
        except (AssertionError, Overwritten):
            found += 1
    assert found > 20


def chain(count: int, size: int = 256) -> tuple[Graph, dict[str, object]]:
    """x -> v1 -> ... , each a float32 tensor."""
    names = ["x", *(f"v{number}" for number in range(1, count + 1))]
    values = {n: Value(n, n, TensorType((size,), "float32"), INPUT if n == "x" else INTERMEDIATE) for n in names}
    nodes = [Node(f"n{i}", NodeKind.KERNEL, "f", (names[i],), (names[i + 1],)) for i in range(count)]
    return Graph(values, nodes, ("x",), (names[-1],)), {"f": elementwise()}


def elementwise(temporaries: tuple[object, ...] = ()) -> dict[str, object]:
    bindings = [{"binding": 0, "access": "read_write"}, {"binding": 1, "access": "read"}]
    launch = {"entry_point": "main", "operands": [{"argument": 1}, {"argument": 0}]}
    variant = {"entry_points": [{"name": "main", "bindings": bindings}], "launches": [launch]}
    return {"kernel": "f", "variants": [{**variant, "temporaries": list(temporaries)}]}


def test_a_chain_takes_two_arenas_in_turn() -> None:
    graph, kernels = chain(12)
    plan = plan_for_sizes(graph, kernels)
    assert plan.arenas == (1024, 1024)
    assert plan.bytes == plan.lower_bound
    assert plan.naive == 11 * 1024
    arenas = [plan.values[f"v{number}"].arena for number in range(1, 12)]
    assert arenas == [0, 1] * 5 + [0] or arenas == [1, 0] * 5 + [1]
    assert "x" not in plan.values
    assert "v12" not in plan.values


def test_a_residual_sum_takes_three() -> None:
    """Each of x, f(x) and x + f(x) is read where another is written."""
    types = TensorType((64,), "float32")
    values = {n: Value(n, n, types, INPUT if n == "i" else INTERMEDIATE) for n in ("i", "x", "y", "sum", "o")}
    add = elementwise()
    variant = add["variants"][0]
    variant["entry_points"][0]["bindings"].append({"binding": 2, "access": "read"})
    variant["launches"][0]["operands"] = [{"argument": 2}, {"argument": 0}, {"argument": 1}]
    nodes = [
        Node("a", NodeKind.KERNEL, "f", ("i",), ("x",)),
        Node("b", NodeKind.KERNEL, "f", ("x",), ("y",)),
        Node("c", NodeKind.KERNEL, "add", ("x", "y"), ("sum",)),
        Node("d", NodeKind.KERNEL, "f", ("sum",), ("o",)),
    ]
    plan = plan_for_sizes(Graph(values, nodes, ("i",), ("o",)), {"f": elementwise(), "add": add})
    assert plan.arenas == (256, 256, 256)


def test_no_arena_exceeds_the_largest_buffer_unless_a_tensor_does() -> None:
    wanted = [Buffer(f"v{n}", 1024, 0, 9, frozenset()) for n in range(5)] + [Buffer("w", 5000, 0, 9, frozenset())]
    for name, strategy in STRATEGIES.items():
        ends: dict[int, int] = {}
        for place in strategy(wanted, 2048).values():
            ends[place.arena] = max(ends.get(place.arena, 0), place.end)
        assert max(ends.values()) == 5000, name
        assert sum(end > 2048 for end in ends.values()) == 1, name


def turns(count: int) -> list[Buffer]:
    """Tensors of a model that does much the same again and again: most are read soon, some in a later turn."""
    made = random.Random(7)
    lives = [made.choice([1, 1, 2]) if n % 30 else made.choice([35, 70]) for n in range(count)]
    sizes = [made.choice([4, 128, 512, 640, 1536]) for _ in range(count)]
    return [
        Buffer(f"v{n}", size, n, min(n + life, count), frozenset({f"v{n - 1}", f"v{n + 1}"}))
        for n, (size, life) in enumerate(zip(sizes, lives, strict=True))
    ]


@pytest.mark.parametrize("name", STRATEGIES)
def test_four_times_the_tensors_take_about_four_times_the_work(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytecode instructions that are executed are counted; if tensors were compared in pairs it were 16 times."""
    monkeypatch.setattr(strategies, "_MOST_TRIES", 4)
    few, many = (instructions(lambda n=n: STRATEGIES[name](turns(n), 2**28)) for n in (150, 600))
    assert many < 6 * few


def instructions(called: Callable[[], object]) -> int:
    """How many bytecode instructions a call takes."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    former = sys.gettrace()
    sys.settrace(trace)
    try:
        called()
    finally:
        sys.settrace(former)
    return count


@pytest.mark.parametrize("seed", range(12))
def test_each_tensor_lies_where_comparing_it_with_every_other_puts_it(seed: int) -> None:
    graph, kernels = random_graph(seed, nodes=50)
    wanted = buffers_for_sizes(graph, kernels)
    most = random.Random(seed).choice([2**28, 12000, 4096])
    for order in (wanted, sorted(wanted, key=lambda found: -found.bytes)):
        assert with_offsets(order, most) == compared_in_pairs(order, most)
    best = min((STRATEGIES[name](wanted, most) for name in STRATEGIES if name.startswith("greedy")), key=total)
    refined = STRATEGIES["refined"](wanted, most)
    assert refined == refined_in_pairs(wanted, most)
    assert total(refined) <= total(best)


def compared_in_pairs(order: Sequence[Buffer], most: int) -> dict[Any, Placement]:
    found: dict[Any, Placement] = {}
    for buffer in order:
        best = None
        sizes = ends(found)
        for number, size in sizes.items():
            if any(found[name].arena == number for name in buffer.apart if name in found):
                continue
            met = [found[b.name] for b in order if b.name in found and b.meets(buffer)]
            offset, gaps = 0, []
            for place in sorted((place for place in met if place.arena == number), key=lambda place: place.offset):
                if place.offset - offset >= buffer.bytes:
                    gaps.append((place.offset - offset, offset))
                offset = max(offset, aligned(place.end))
            offset = min(gaps)[1] if gaps else offset
            if offset + buffer.bytes <= max(size, most):
                grown = max(0, offset + buffer.bytes - size), number, offset
                best = min(best or grown, grown)
        _, number, offset = best or (0, len(sizes), 0)
        found[buffer.name] = Placement(number, offset, buffer.bytes)
    return found


def refined_in_pairs(buffers: Sequence[Buffer], most: int) -> dict[Any, Placement]:
    """With every order that is tried placed from its begin."""
    least = max(sum(buffer.bytes for buffer in live) for live in strategies.live_at(buffers).values())
    orders = [list(order(buffers)) for order in strategies._ORDERS.values()]
    best, order = min(((compared_in_pairs(o, most), o) for o in orders), key=lambda found: total(found[0]))
    tries, better = 0, True
    while better and total(best) > least:
        better = False
        tops = ends(best)
        places = [n for n, b in enumerate(order) if best[b.name].end == tops[best[b.name].arena]]
        for place, to in ((n, to) for n in places for to in dict.fromkeys((0, n // 4, n // 2)) if to < n):
            changed = [*order[:to], order[place], *order[to:place], *order[place + 1 :]]
            found = compared_in_pairs(changed, most)
            tries += 1
            if total(found) < total(best):
                best, order, better = found, changed, True
                break
            if tries == 100:
                return best
    return best


def symbolic(*shape: object) -> tuple[Function, tuple[Symbol, ...]]:
    values = {
        name: Value(name, name, SymbolicType(shape, "float16"), INPUT if name == "x" else INTERMEDIATE)
        for name in ("x", "y", "z", "o")
    }
    nodes = [
        Node("n0", NodeKind.KERNEL, "f", ("x",), ("y",)),
        Node("n1", NodeKind.VIEW, "reshape", ("y",), ("z",)),
        Node("n2", NodeKind.KERNEL, "f", ("z",), ("o",)),
    ]
    symbols = (Symbol(name="n", minimum=1, maximum=100), Symbol(name="m", minimum=2, maximum=7))
    return Function(values, nodes, ("x",), ("o",)), symbols


def test_a_plan_for_a_range_serves_every_size_in_it() -> None:
    function, symbols = symbolic("n", ["mul", "m", ["ceildiv", "n", 3]])
    kernels = {"f": elementwise((["mul", "n", 12],))}
    plan = plan_for_range(function, kernels, symbols)
    assert plan.values["y"] == plan.values["z"]
    assert plan.values["y"].bytes == 100 * 7 * 34 * 2
    for n in (1, 2, 50, 99, 100):
        for m in (2, 7):
            graph = function.at({"n": n, "m": m})
            check(plan, graph, kernels)
            assert plan_for_sizes(graph, kernels).bytes <= plan.bytes
    assert plan_for_sizes(function.at({"n": 1, "m": 2}), kernels).bytes < plan.bytes / 100


def test_what_has_no_size_is_refused() -> None:
    function, symbols = symbolic("n", ["floordiv", "n", ["sub", "m", 2]])
    with pytest.raises(InputError, match=r"^there is no memory plan: n // \(m - 2\)|may divide by zero"):
        plan_for_range(function, {"f": elementwise()}, symbols)
    with pytest.raises(InputError, match="node n0 calls the kernel f, and there is none"):
        plan_for_range(function, {}, symbols)
    huge = (Symbol(name="n", minimum=1, maximum=2**52), symbols[1])
    with pytest.raises(InputError, match=r"value y may take .* bytes: give its symbols a smaller range"):
        plan_for_range(symbolic("n", "n")[0], {"f": elementwise()}, huge)


def test_a_kernel_that_reads_what_it_writes_is_refused() -> None:
    graph, kernels = chain(3)
    kernels["f"]["variants"][0]["launches"][0]["operands"] = [{"argument": 1}, {"argument": 1}]
    with pytest.raises(InputError, match="node n0 reads and writes v1 in one dispatch, which WebGPU refuses"):
        plan_for_sizes(graph, kernels)


@pytest.mark.parametrize(
    ("expression", "low", "high"),
    [
        (5, 5, 5),
        ("n", 1, 100),
        (["sub", "n", "m"], -6, 98),
        (["mul", ["sub", "m", 4], ["sub", "m", 4]], -6, 9),
        (["floordiv", "n", "m"], 0, 50),
        (["ceildiv", ["sub", 0, "n"], "m"], -50, 0),
        (["floormod", "n", 8], 0, 7),
        (["floormod", "m", 8], 2, 7),
        (["floormod", "n", -8], -7, 0),
        (["min", "n", "m"], 1, 7),
        (["max", "n", ["mul", "m", 20]], 40, 140),
    ],
)
def test_an_interval_holds_every_value(expression: object, low: int, high: int) -> None:
    symbols = symbolic("n")[1]
    assert interval(expression, symbols) == (low, high)
    values = [evaluate(expression, {"n": n, "m": m}) for n in range(1, 101) for m in range(2, 8)]
    assert low <= min(values)
    assert max(values) <= high


def test_an_interval_has_no_divisor_of_zero_and_no_strangers() -> None:
    symbols = symbolic("n")[1]
    with pytest.raises(ExpressionError, match="may divide by zero"):
        interval(["floormod", "n", ["sub", "m", 3]], symbols)
    with pytest.raises(ExpressionError, match="there is no symbol k here"):
        interval(["add", "n", "k"], symbols)
