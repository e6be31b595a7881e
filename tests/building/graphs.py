"""Random graphs, and kernels that touch what these pass them."""

from __future__ import annotations

import random
from typing import Any

from tapml.program import Graph, Node, NodeKind, TensorType, Value, ValueKind


def random_graph(seed: int, nodes: int = 40) -> tuple[Graph, dict[str, Any]]:
    """Of kernel nodes with up to four inputs, three outputs, temporaries and several dispatches, and of views, also of
    views, inputs and outputs."""
    made = random.Random(seed)
    values: dict[str, Value] = {}
    kernels: dict[str, Any] = {}
    calls: list[Node] = []

    def value(kind: ValueKind, size: int | None = None) -> str:
        name = f"v{len(values)}"
        size = made.choice([0, 1, 3, 64, 65, 300, 1000, made.randrange(1, 5000)]) if size is None else size
        values[name] = Value(name, "", TensorType((size,), "float16"), kind)
        return name

    inputs = [value(ValueKind.INPUT), value(ValueKind.PARAMETER)]
    for number in range(nodes):
        recent = list(values)[-made.choice([2, 6, 100]) :]
        if made.random() < 0.25:
            shown = made.choice(recent)
            calls.append(Node(f"n{number}", NodeKind.VIEW, "reshape", (shown,), (view(values, shown),)))
            continue
        given = tuple(made.choice(recent) for _ in range(made.randrange(1, 5)))
        results = tuple(value(ValueKind.INTERMEDIATE) for _ in range(made.choice([1, 1, 1, 2, 3])))
        kernels[f"k{number}"] = random_kernel(made, f"k{number}", len(given), len(results))
        calls.append(Node(f"n{number}", NodeKind.KERNEL, f"k{number}", given, results))
    outputs = made.sample(list(values), made.randrange(1, 4))
    return Graph(values, calls, tuple(inputs[:1]), tuple(outputs)), kernels


def view(values: dict[str, Value], shown: str) -> str:
    name = f"v{len(values)}"
    count = values[shown].type.size
    values[name] = Value(name, "", TensorType((1, count), "float16"), ValueKind.INTERMEDIATE)
    return name


def random_kernel(made: random.Random, name: str, inputs: int, outputs: int) -> dict[str, Any]:
    """Of one variant or two: a dispatch to its temporaries, if it has such, and one for each output."""
    variants = []
    for number in range(made.choice([1, 1, 2])):
        temporaries = [made.randrange(1, 4000) for _ in range(made.choice([0, 0, 1, 3]))]
        results = [{"argument": inputs + position} for position in range(outputs)]
        scratch = [{"temporary": position} for position in range(len(temporaries))]
        given = [{"argument": position} for position in range(inputs)]
        stages = [(given, scratch), (scratch, results)] if scratch else [(given, results)]
        entry_points, launches = [], []
        for stage, (read, written) in enumerate(stages):
            access = ["read"] * len(read) + ["read_write"] * len(written)
            bindings = [{"binding": 2 * place, "access": found} for place, found in enumerate(access)]
            bindings.append({"binding": 1, "access": "uniform"})
            entry_points.append({"name": f"stage{stage}", "bindings": bindings})
            launches.append({"entry_point": f"stage{stage}", "operands": [*read, *written]})
        variants.append(
            {"name": str(number), "entry_points": entry_points, "launches": launches, "temporaries": temporaries}
        )
    return {"kernel": name, "variants": variants}
