"""What a compiled model would touch at given sizes, word by word, to hold the verifier against: it shares nothing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tapml.encodings import stored
from tapml.expressions import evaluate

_MOST_WORDS = 2**22
_MOST_STEPS = 20_000
_MOST_CORNERS = 6
_NOBODY, _GARBAGE = -1, -2
_RANGES = {"int32": (-(2**31), 2**31 - 1), "uint32": (0, 2**32 - 1)}
_ELEMENTS = {**_RANGES, "int8": (-128, 127), "uint8": (0, 255)}


class TooLarge(Exception):
    """More memory or steps than are simulated."""


class Violation(Exception):
    """It would touch what it must not."""


def need(holds: bool, what: str) -> None:
    if not holds:
        raise Violation(what)


def simulate(document: Any) -> int:
    """Run every function at corners of the symbols' ranges, reading the ends of what may be read. Gives how many runs
    there were; raises Violation, and TooLarge where not even one was small enough."""
    _check_weights(document["weights"])
    runs, left_out = 0, 0
    for function in document["functions"].values():
        for sizes in itertools.islice(_corners(document["symbols"]), _MOST_CORNERS):
            for reads_least in (True, False):
                try:
                    _Run(document, function, sizes, reads_least).run()
                    runs += 1
                except TooLarge:
                    left_out += 1
    if left_out and not runs:
        raise TooLarge
    return runs


def _corners(symbols: Any) -> Iterator[dict[str, int]]:
    names = [found["name"] for found in symbols]
    ends = [(found["minimum"], found["maximum"], (found["minimum"] + found["maximum"]) // 2) for found in symbols]
    for values in itertools.product(*ends):
        yield dict(zip(names, values, strict=True))


def _check_weights(weights: Any) -> None:
    ends = [0] * len(weights["buffers"])
    for shard in weights["shards"]:
        need(shard["buffer"] < len(ends) and shard["offset"] == ends[shard["buffer"]], "a shard leaves a gap")
        ends[shard["buffer"]] += shard["bytes"] * (2 if shard.get("stored") else 1)
    need(ends == weights["buffers"], "shards do not cover the weights")


class _Run:
    def __init__(self, document: Any, function: Any, sizes: dict[str, int], reads_least: bool) -> None:
        self.document, self.function, self.sizes = document, function, sizes
        self.reads_least = reads_least
        self.steps = 0
        self.roots: list[int] = []
        self.nbytes: list[int] = []
        self.shapes: list[list[int]] = []
        for number, tensor in enumerate(function["tensors"]):
            view = tensor.get("view")
            self.roots.append(number if view is None else self.roots[view])
            shape = [evaluate(extent, sizes) for extent in tensor["shape"]]
            need(all(extent >= 0 for extent in shape), "an extent is negative")
            self.shapes.append(shape)
            self.nbytes.append(_stored_bytes(shape, tensor))
        self._check_ranges()
        self.memory: dict[tuple[str, int], np.ndarray] = {}
        for kind, counts in (("weights", document["weights"]["buffers"]), ("arena", function["arena"])):
            self._allocate(kind, counts)
        states = [
            max(4, _stored_bytes([evaluate(extent, sizes) for extent in state["shape"]], state))
            for state in document["states"]
        ]
        self._allocate("state", states)
        for kind in ("input", "output"):
            self._allocate(kind, [max(4, self.nbytes[port["tensor"]]) for port in function[kind + "s"]])
        for number, tensor in enumerate(function["tensors"]):
            if tensor["at"][0] in ("input", "state"):
                self._words(number)[:] = self.roots[number]

    def _check_ranges(self) -> None:
        """Of inputs that are indices: their ends are elements, or there is none between them."""
        for port in self.function["inputs"]:
            if (ends := port.get("range")) is not None:
                tensor = self.function["tensors"][port["tensor"]]
                least, most = (evaluate(end, self.sizes) for end in ends)
                low, high = _ELEMENTS[tensor["dtype"]]
                need(low <= least and most <= high, "a range of indices is beyond the input's dtype")

    def _allocate(self, kind: str, counts: list[int]) -> None:
        for number, count in enumerate(counts):
            if count // 4 > _MOST_WORDS:
                raise TooLarge
            self.memory[kind, number] = np.full(count // 4, _NOBODY, np.int32)

    def run(self) -> None:
        self._block(self.function["code"], dict(self.sizes))
        for port in self.function["outputs"]:
            self._read(port["tensor"])
        for number, tensor in enumerate(self.function["tensors"]):
            if tensor["at"][0] == "state":
                self._read(number)

    def _words(self, number: int, begin: int = 0, end: int | None = None) -> np.ndarray:
        """The words of a tensor, or of a part of it, in bytes."""
        at = self.function["tensors"][number]["at"]
        end = max(4, self.nbytes[number]) if end is None else end
        buffer = self.memory.get((at[0], at[1]))
        need(buffer is not None, "there is no such buffer")
        assert buffer is not None
        offset = at[2] if len(at) == 3 else 0
        need(offset % 256 == 0 and begin % 4 == 0 and end % 4 == 0, "bytes are not aligned")
        need(0 <= begin <= end and offset + end <= 4 * len(buffer), "bytes lie outside of the buffer")
        return buffer[(offset + begin) // 4 : (offset + end) // 4]

    def _read(self, number: int, begin: int = 0, end: int | None = None) -> None:
        words = self._words(number, begin, end)
        if self.function["tensors"][number]["at"][0] != "weights":
            need(bool((words == self.roots[number]).all()), f"tensor {number} is read, and is not what was written")

    def _write(self, number: int, what: int | None = None) -> None:
        need(self.function["tensors"][number]["at"][0] not in ("weights", "input"), "a weight or an input is written")
        self._words(number)[:] = self.roots[number] if what is None else what

    def _block(self, code: Any, names: dict[str, int]) -> None:
        for found in code:
            self.steps += 1
            if self.steps > _MOST_STEPS:
                raise TooLarge
            getattr(self, f"run_{found['op']}")(found, names)

    def run_let(self, found: Any, names: dict[str, int]) -> None:
        need(found["name"] not in names, "a name stands twice")
        names[found["name"]] = evaluate(found["value"], names)

    def run_fill(self, found: Any, names: dict[str, int]) -> None:
        self._write(found["tensor"])

    def run_copy(self, found: Any, names: dict[str, int]) -> None:
        tensors = [self.function["tensors"][found[end]] for end in ("from", "to")]
        need(tensors[0]["at"][:2] != tensors[1]["at"][:2], "a copy is within a buffer")
        if found.get("bytes") is None:
            need(self.nbytes[found["from"]] == self.nbytes[found["to"]], "a copy is of other bytes")
            self._read(found["from"])
            self._write(found["to"])
            return
        count = evaluate(found["bytes"], names)
        for end in ("from", "to"):
            begin = evaluate(found.get(f"{end}_offset", 0), names)
            need(
                begin >= 0 and count >= 0 and begin + count <= self.nbytes[found[end]],
                "a part lies outside of a tensor",
            )
            self._read(found[end], begin, begin + count)
        need(tensors[1]["at"][0] not in ("weights", "input"), "a weight or an input is written")

    def run_read(self, found: Any, names: dict[str, int]) -> None:
        tensor = self.function["tensors"][found["tensor"]]
        index = evaluate(found["index"], names)
        need(0 <= index < math.prod(self.shapes[found["tensor"]]), "an element is read that is not there")
        low, high = _RANGES[tensor["dtype"]]
        need(tensor.get("encoding") is None and low <= found["minimum"] <= found["maximum"] <= high, "a range is none")
        self._read(found["tensor"])
        need(found["name"] not in names, "a name stands twice")
        names[found["name"]] = found["minimum" if self.reads_least else "maximum"]

    def run_if(self, found: Any, names: dict[str, int]) -> None:
        self._block(found["then"] if evaluate(found["condition"], names) else found.get("else", []), dict(names))

    def run_loop(self, found: Any, names: dict[str, int]) -> None:
        count = evaluate(found["count"], names)
        need(0 <= count <= found["most"], "a loop makes more turns than it may")
        need(found["variable"] not in names, "a name stands twice")
        for turn in range(count):
            self._block(found["body"], {**names, found["variable"]: turn})
            if found.get("until") is not None:
                self._read(found["until"])
                need(self.nbytes[found["until"]] == 4, "a loop ends by what is not one word")
                if self.reads_least:
                    break

    def run_call(self, found: Any, names: dict[str, int]) -> None:
        for tensor in found["inputs"]:
            self._read(tensor)
        for tensor in found["outputs"]:
            self._write(tensor)
        for tensor in found["outputs"]:
            self._read(tensor)

    def run_dispatch(self, found: Any, names: dict[str, int]) -> None:
        kernel = self.document["kernels"][found["kernel"]]
        given = found.get("sizes", {})
        sizes = {s["name"]: evaluate(given.get(s["name"], s["name"]), names) for s in kernel["symbols"]}
        for symbol in kernel["symbols"]:
            need(symbol["minimum"] <= sizes[symbol["name"]] <= symbol["maximum"], "a size is out of the kernel's range")
        temporaries = found.get("temporaries", [])
        operands = [*found["operands"], *temporaries]
        need(len(found["operands"]) == len(kernel["arguments"]), "operands are not as many as arguments")
        for number, argument in zip(found["operands"], kernel["arguments"], strict=True):
            tensor = self.function["tensors"][number]
            same = all(tensor.get(field) == argument.get(field) for field in ("dtype", "encoding"))
            need(
                same and self.shapes[number] == [evaluate(e, sizes) for e in argument["shape"]], "an operand is another"
            )
            if argument["role"] == "input":
                self._read(number)
        for variant in kernel["variants"]:
            self._variant(variant, operands, len(found["operands"]), sizes)
        self._in_place(kernel, found["operands"])
        self._dispatch_writes(found, kernel, temporaries)

    def _in_place(self, kernel: Any, operands: list[int]) -> None:
        """An output that overwrites an input finds that in its bytes, where no launch binds it besides."""
        for number, argument in enumerate(kernel["arguments"]):
            before = argument.get("overwrites")
            if before is None:
                continue
            need(argument["role"] == "output" and kernel["arguments"][before]["role"] == "input", "roles are others")
            need(self.roots[operands[number]] == self.roots[operands[before]], "an output does not begin as its input")
            for variant in kernel["variants"]:
                bound = [operand.get("argument") for launch, _ in _launches(variant) for operand in launch["operands"]]
                need(before not in bound, "a launch binds what an output overwrites")

    def _dispatch_writes(self, found: Any, kernel: Any, temporaries: list[int]) -> None:
        inputs = [n for n, a in zip(found["operands"], kernel["arguments"], strict=True) if a["role"] == "input"]
        outputs = found["operands"][len(inputs) :]
        for number in temporaries:
            self._write(number, _GARBAGE)
        for number in outputs:
            self._write(number)
        for number in outputs:
            self._read(number)
        # Kernels may write an output before they have read an input: neither may lie in the other.
        spoilt = self._spoilt(kernel, found["operands"], len(inputs))
        for number in inputs:
            if number not in spoilt and self.roots[number] not in {self.roots[n] for n in spoilt}:
                self._read(number)
        for number in spoilt:
            self._write(number, _GARBAGE)

    def _spoilt(self, kernel: Any, operands: list[int], inputs: int) -> set[int]:
        """Inputs that a launch may write."""
        found = set()
        for variant in kernel["variants"]:
            for launch, bindings in _launches(variant):
                for binding, operand in zip(bindings, launch["operands"], strict=True):
                    number = operand.get("argument", inputs)
                    if binding["access"] == "read_write" and number < inputs:
                        found.add(operands[number])
        return found

    def _variant(self, variant: Any, operands: list[int], arguments: int, sizes: dict[str, int]) -> None:
        for number, count in enumerate(variant["temporaries"]):
            need(
                0 <= evaluate(count, sizes) <= max(4, self.nbytes[operands[arguments + number]]),
                "a temporary is too small",
            )
        for launch, bindings in _launches(variant):
            need(all(0 <= evaluate(extent, sizes) <= 2**32 for extent in launch["grid"]), "a grid is none")
            for uniform in launch["uniforms"]:
                if uniform["dtype"] in _RANGES:
                    low, high = _RANGES[uniform["dtype"]]
                    need(low <= evaluate(uniform["value"], sizes) <= high, "a uniform is out of its range")
            access: dict[Any, str] = {}
            for binding, operand in zip(bindings, launch["operands"], strict=True):
                number = operand["argument"] if "argument" in operand else arguments + operand["temporary"]
                tensor = self.function["tensors"][operands[number]]
                bound = access.setdefault(tuple(tensor["at"][:2]), binding["access"])
                need(bound == binding["access"], "a launch reads and writes a buffer")
                writes = binding["access"] == "read_write"
                need(not writes or tensor["at"][0] not in ("weights", "input"), "a weight or an input is written")


def _launches(variant: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Each with its storage bindings."""
    entry_points = {found["name"]: found for found in variant["entry_points"]}
    for launch in variant["launches"]:
        bindings = sorted(entry_points[launch["entry_point"]]["bindings"], key=lambda found: found["binding"])
        yield launch, [found for found in bindings if found["access"] != "uniform"]


def _stored_bytes(shape: list[int], tensor: Any) -> int:
    extents, dtype = stored(shape, tensor["dtype"], tensor.get("encoding"))
    return -(-math.prod(extents) * np.dtype(dtype).itemsize // 4) * 4
