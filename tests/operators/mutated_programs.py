"""Programs of operators as they are, and changed at random: read, compiled and run. A process of its own runs this
file, so that a crash is seen: `python mutated_programs.py SEED COUNT` ends with 0 and a line of counts."""

from __future__ import annotations

import copy
import json
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from running_programs import lowered_of, made_up, run

from tapml.errors import InputError
from tapml.lowering.emit import prim_func
from tapml.operators.guard import guarded
from tapml.operators.program import (
    ARITHMETIC,
    BITWISE,
    COMPARISONS,
    DTYPES,
    FUNCTIONS_OF_ONE,
    FUNCTIONS_OF_TWO,
    PREDICATES,
    limits,
)
from tapml.operators.read import from_json
from tapml.platforms.reference import Reference

_NUMBERS = (0, 1, -1, 2, 3, 7, 64, 4096, 2**31 - 1, -(2**31), 2**31, 2**33, 2**62, 2**63 - 1, -(2**63), 10**30)
_MOST_TURNS = 1 << 16
_TOGETHER = 12


def seeds() -> list[Any]:
    """Documents with gathers, conditions, reductions, integers, floats and conversions."""
    loop = [["i", "int64", 4], ["j", "int64", 6]]
    axes = [["vi", "int64", 4, "spatial", "i"], ["vj", "int64", 6, "spatial", "j"]]

    def one(dtypes: list[str], value: Any, indices: list[Any] | None = None, **more: Any) -> Any:
        shapes: list[list[int]] = [[8, 6], [4, 6], [4, 6]]
        parameters = [{"name": f"p{n}", "dtype": d, "shape": shapes[n]} for n, d in enumerate(dtypes)]
        store = ["store", "p2", indices or ["vi", "vj"], value]
        block = {"name": "b", "loops": loop, "axes": axes, "body": [store], **more}
        return {"format": "tapml.operator/1", "operator": "x", "parameters": parameters, "blocks": [block]}

    place = ["load", "p1", "vi", "vj"]
    element, wide = ["load", "p0", "vi", "vj"], ["cast", "int64", place]
    padded = [
        "if_then_else",
        ["and", ["le", 1, "vi"], ["lt", "vj", 5]],
        ["load", "p0", ["sub", "vi", 1], ["add", "vj", 1]],
        ["float32", 0.0],
    ]
    shifted = ["shift_right", ["load", "p1", "vi", "vj"], ["bitwise_and", ["load", "p0", "vi", "vj"], ["int32", 7]]]
    total = one(
        ["float32", "float32", "float32"],
        ["add", ["load", "p2", "vi", 0], ["mul", ["load", "p0", "vi", "vj"], ["load", "p1", "vi", "vj"]]],
        ["vi", 0],
    )
    total["blocks"][0]["axes"] = [axes[0], ["vj", "int64", 6, "reduction", "j"]]
    total["blocks"][0]["first"] = [["store", "p2", ["vi", 0], ["float32", 0.0]]]
    chained = one(["float32", "int32", "float32"], ["load", "p0", ["load", "t", "vi", "vj"], "vj"])
    chained["temporaries"] = [{"name": "t", "dtype": "int32", "shape": [4, 6]}]
    wrapped = ["select", ["lt", place, ["int32", 0]], ["add", place, ["int32", 8]], place]
    chained["blocks"].insert(0, {**chained["blocks"][0], "body": [["store", "t", ["vi", "vj"], wrapped]]})
    return [
        one(["float32", "int32", "float32"], ["load", "p0", place, "vj"]),
        one(["float32", "int32", "float32"], ["load", "p0", wide, ["floormod", wide, 6]]),
        one(["float32", "float32", "float32"], ["load", "p0", ["cast", "int64", ["call", "floor", place]], "vj"]),
        one(["float32", "float32", "float32"], padded),
        one(["int32", "int32", "int32"], ["floordiv", ["load", "p0", "vi", "vj"], place]),
        one(["int32", "int32", "int32"], shifted),
        one(["float16", "float32", "int32"], ["cast", "int32", ["mul", ["cast", "float32", element], place]]),
        one(["float32", "int32", "float32"], ["load", "p0", "vi", "vj"], [["floormod", place, ["int32", 4]], "vj"]),
        one(["bool", "int64", "int32"], ["cast", "int32", ["or", ["load", "p0", "vi", "vj"], ["lt", place, 3]]]),
        one(["uint32", "uint32", "uint32"], ["sub", ["mul", ["load", "p0", "vi", "vj"], place], ["uint32", 3]]),
        total,
        chained,
    ]  # fmt: skip


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything in a document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths(inner, (*path, key))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


class Maker:
    """Expressions at random, of a dtype that is asked for."""

    def __init__(self, buffers: list[Any], random: np.random.Generator) -> None:
        self._random = random
        self._buffers = buffers

    def one(self, dtype: str, depth: int = 0) -> Any:
        """Of these names every kind there is, over any values."""
        loads = [buffer for buffer in self._buffers if buffer["dtype"] == dtype]
        kinds = [
            "constant",
            "constant",
            *(["variable"] * 3 if dtype == "int64" else []),
            *(["load"] * 2 if loads else []),
        ]
        if depth < 4:
            kinds += ["cast", "choice", "operation", "operation", *(["function"] if "float" in dtype else [])]
        kind = str(self._random.choice(kinds))
        if kind == "constant":
            return self._constant(dtype)
        if kind == "variable":
            return str(self._random.choice(["vi", "vj"]))
        if kind == "load":
            buffer = loads[self._random.integers(len(loads))]
            return ["load", buffer["name"], *(self.index(depth + 1) for _ in buffer["shape"])]
        if kind == "cast":
            return ["cast", dtype, self.one(str(self._random.choice(DTYPES)), depth + 1)]
        if kind == "choice":
            name = str(self._random.choice(["if_then_else", "select"]))
            return [name, self.one("bool", depth + 1), self.one(dtype, depth + 1), self.one(dtype, depth + 1)]
        if kind == "function":
            function = str(self._random.choice([*FUNCTIONS_OF_ONE, *FUNCTIONS_OF_TWO]))
            return ["call", function, *(self.one(dtype, depth + 1) for _ in range(1 + (function in FUNCTIONS_OF_TWO)))]
        return self._operation(dtype, depth)

    def index(self, depth: int) -> Any:
        return self.one(str(self._random.choice(["int64", "int64", "int32", "uint32", "int8"])), depth)

    def _operation(self, dtype: str, depth: int) -> Any:
        if dtype == "bool":
            name = str(self._random.choice([*COMPARISONS, *COMPARISONS, "and", "or", *PREDICATES]))
            if name in PREDICATES:
                return ["call", name, self.one(str(self._random.choice(["float16", "float32"])), depth + 1)]
            inner = "bool" if name in ("and", "or") else str(self._random.choice(DTYPES))
            return [name, self.one(inner, depth + 1), self.one(inner, depth + 1)]
        names = ARITHMETIC if "float" in dtype else (*ARITHMETIC, *BITWISE)
        return [str(self._random.choice(names)), self.one(dtype, depth + 1), self.one(dtype, depth + 1)]

    def _constant(self, dtype: str) -> Any:
        if dtype == "bool":
            return bool(self._random.integers(2))
        if "float" in dtype:
            return [dtype, [1.5, -3e4, "nan", "inf", 0.0][self._random.integers(5)]]
        value = int(_NUMBERS[self._random.integers(len(_NUMBERS))]) if self._random.random() < 0.5 else 1
        low, high = limits(dtype)
        return [dtype, max(low, min(high, value, 2**63 - 1))]


def slots(document: Any) -> list[tuple[list[Any], int, str]]:
    """Where an expression stands: (list, place in it, dtype; "" for an index)."""
    dtypes = {buffer["name"]: buffer["dtype"] for buffer in [*document["parameters"], *document.get("temporaries", [])]}
    found: list[tuple[list[Any], int, str]] = []

    def inside(value: Any) -> None:
        if isinstance(value, list):
            if value and value[0] == "load":
                found.extend((value, place, "") for place in range(2, len(value)))
            for inner in value:
                inside(inner)

    for block in document["blocks"]:
        for statement in [*block.get("first", []), *block["body"]]:
            found.append((statement, 3, dtypes[statement[1]]))
            found.extend((statement[2], place, "") for place in range(len(statement[2])))
            inside(statement[2])
            inside(statement[3])
    return found


def mutant(document: Any, random: np.random.Generator) -> Any:
    """A copy with one to three things changed."""
    made = copy.deepcopy(document)
    buffers = [*made["parameters"], *made.get("temporaries", [])]
    if random.random() < 0.2:
        buffers[random.integers(len(buffers))]["dtype"] = str(random.choice(DTYPES))
    maker = Maker(buffers, random)
    for _ in range(int(random.integers(1, 4))):
        places = slots(made)
        holder, place, dtype = places[random.integers(len(places))]
        holder[place] = maker.one(dtype) if dtype else maker.index(1)
    if random.random() < 0.2:
        anything(made["blocks"], random)
    return made


def anything(blocks: Any, random: np.random.Generator) -> None:
    """Change something in place, of right form or not."""
    found = [path for path in paths(blocks) if path]
    path = found[random.integers(len(found))]
    holder, key = at(blocks, path[:-1]), path[-1]
    if isinstance(holder[key], int):
        holder[key] = int(_NUMBERS[random.integers(len(_NUMBERS))])
    else:
        holder[key] = copy.deepcopy(at(blocks, found[random.integers(len(found))]))


def main(seed: int, count: int) -> None:
    random = np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    known = seeds()
    ready = []
    for number in range(count):
        document = known[number % len(known)]
        if number >= len(known):
            document = mutant(document, random)
        name = f"x{number}"
        try:
            program = from_json({**json.loads(json.dumps(document)), "operator": name}, name, "x.json")
            guarded(program)
            prim_func(program)
        except InputError:
            counts["refused"] += 1
            continue
        if program.turns > _MOST_TURNS:
            counts["long"] += 1
            continue
        ready.append((program, document))
        if len(ready) == _TOGETHER or number == count - 1:
            run_all(ready, random, counts)
            ready.clear()
    if ready:
        run_all(ready, random, counts)
    print(json.dumps(counts))


def run_all(ready: list[Any], random: np.random.Generator, counts: Counter[str]) -> None:
    """Compile together, run each; what is written around a tensor ends the process."""
    try:
        reference = Reference(lowered_of([program for program, _ in ready]))
    except InputError as error:
        if len(ready) == 1:
            print(error, json.dumps(ready[0][1]), file=sys.stderr)
            counts["not compiled"] += 1
            return
        for one in ready:
            run_all([one], random, counts)
        return
    for program, document in ready:
        arrays = [made_up(buffer, random) for buffer in program.parameters]
        print(json.dumps(document), file=sys.stderr, flush=True)  # the last one is known where it crashes
        if not all(found.intact for found in run(reference, program, arrays)):
            raise SystemExit(f"it wrote outside of its tensors: {json.dumps(document)}")
        counts["ran"] += 1


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
