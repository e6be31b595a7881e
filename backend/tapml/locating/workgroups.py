"""Which workgroup computes which element of a test's outputs: measured on a device, never guessed.

A launch's workgroups are numbered along x, then y, then z. For each bit of these numbers the kernel runs twice on
outputs that nobody has written yet, once with the workgroups that have the bit, once with those that have not: an
element is written in one of the two, and that is this bit of its workgroup's number. Written in both it is the work of
several, in neither of none. What came is looked at on the device: two numbers an element travel, for any runs.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapml.devices.commands import allocated, freed, message, uploaded
from tapml.devices.messages import kernel_message
from tapml.expressions import evaluate
from tapml.locating.cut_launch import cut
from tapml.program import TensorType
from tapml.protocol import methods
from tapml.protocol.kernels import Kernel
from tapml.suite import CarvedTest, KernelFile
from tapml.validation.context import JobContext

NOBODY = 0xFFFFFFFF
"""In place of a workgroup's number: none was seen to write the element."""
SEVERAL = 0xFFFFFFFE
"""More than one workgroup writes the element."""

_MOST_ELEMENTS = 1 << 24
"""Of a launch's outputs: each takes eight bytes more on the device."""
_MOST_BITS = 30

_RUNS = itertools.count()
_LANES = 64
_MOST_GROUPS = 65_535

_COLLECT = """\
// Which elements were written, that is are no longer 0xFF, in a run with the workgroups that `cut` names.
@group(0) @binding(0) var<storage, read> output : array<u32>;
@group(0) @binding(1) var<storage, read> cut : array<u32>;  // width, height, bit, value
@group(0) @binding(2) var<storage, read> size : array<u32>;  // elements, elements of a word
@group(0) @binding(3) var<storage, read_write> seen : array<u32>;  // of each element: bits when 0, bits when 1

@compute @workgroup_size(64)
fn collect(@builtin(global_invocation_id) id : vec3<u32>, @builtin(num_workgroups) groups : vec3<u32>) {
  let bits = 32u / size[1];
  let unwritten = 0xffffffffu >> (32u - bits);
  for (var word = id.x; word * size[1] < size[0]; word += groups.x * 64u) {
    for (var part = 0u; part < size[1]; part++) {
      let element = word * size[1] + part;
      if (element < size[0] && ((output[word] >> (part * bits)) & unwritten) != unwritten) {
        seen[2u * element + cut[3]] |= 1u << cut[2];
      }
    }
  }
}
"""


@dataclass(frozen=True)
class Workgroups:
    """Of one output: `grid` of the launch that writes it; `numbers`, uint32 of the output's shape: who computes each
    element, x + width * (y + height * z), or NOBODY or SEVERAL."""

    grid: tuple[int, int, int]
    numbers: np.ndarray


@dataclass(frozen=True)
class _Writing:
    """A launch, by its number, and the outputs that it alone writes, by theirs."""

    launch: int
    outputs: list[int]
    grid: tuple[int, int, int]

    @property
    def bits(self) -> int:
        return (math.prod(self.grid) - 1).bit_length()


def workgroups_of(
    context: JobContext, bundle: Mapping[str, Any], files: Sequence[KernelFile], test: CarvedTest
) -> dict[int, Workgroups]:
    """Output -> who computes its elements, for those of which it can be known; not those that several launches write or
    that are stored otherwise than by their dtype. `bundle`, `files`: the kernel's document and WGSL.

    Raises DeviceError where the device does not run the kernel so, for one because it has not one storage buffer more
    than the kernel binds, and Cancelled.
    """
    library = f"w{next(_RUNS)}"
    with context.blobs.holding([file.text.encode() for file in files]) as digests:
        try:
            load = methods.LoadCommand(library=library, kernels=[kernel_message(bundle, digests)])
            loaded = context.device.execute([load], check=context.cancel.check, hang_seconds=context.hang_seconds)
        finally:
            context.free(freed(library))
    name = loaded.result.variants[f"{library}/{bundle['kernel']}"]
    place = next(number for number, variant in enumerate(bundle["variants"]) if variant["name"] == name)
    variant = bundle["variants"][place]
    first = sum(len(before["entry_points"]) for before in bundle["variants"][:place])
    texts = [file.text for file in files[first : first + len(variant["entry_points"])]]
    found: dict[int, Workgroups] = {}
    for writing in _writing(bundle, variant, test):
        found |= _measured(context, bundle, variant, texts, test, writing)
    return found


def _writing(bundle: Mapping[str, Any], variant: Mapping[str, Any], test: CarvedTest) -> Iterator[_Writing]:
    launches = variant["launches"]
    bound = [_bound(variant, launch) for launch in launches]
    writers = Counter(argument for pairs in bound for argument, writes in pairs if writes)
    used = Counter(launch["entry_point"] for launch in launches)
    inputs = sum(argument["role"] == "input" for argument in bundle["arguments"])
    for number, launch in enumerate(launches):
        alone = {argument - inputs for argument, writes in bound[number] if writes and writers[argument] == 1}
        outputs = [
            output
            for output in sorted(alone)
            if 0 <= output < len(test.outputs) and not test.outputs[output].type.encoding
        ]
        width, height, depth = (evaluate(extent, test.sizes) for extent in launch["grid"])
        made = _Writing(number, outputs, (width, height, depth))
        elements = sum(test.outputs[output].type.size for output in outputs)
        if used[launch["entry_point"]] > 1 or not 0 < elements <= _MOST_ELEMENTS:
            continue
        if math.prod(made.grid) > 0 and made.bits <= _MOST_BITS:
            yield made


def _bound(variant: Mapping[str, Any], launch: Mapping[str, Any]) -> list[tuple[int, bool]]:
    """The arguments that a launch binds, and whether it may write them."""
    entry = next(entry for entry in variant["entry_points"] if entry["name"] == launch["entry_point"])
    storage = sorted((b for b in entry["bindings"] if b["access"] != "uniform"), key=lambda b: int(b["binding"]))
    return [
        (operand["argument"], binding["access"] == "read_write")
        for binding, operand in zip(storage, launch["operands"], strict=True)
        if "argument" in operand
    ]


def _measured(
    context: JobContext,
    bundle: Mapping[str, Any],
    variant: Mapping[str, Any],
    texts: Sequence[str],
    test: CarvedTest,
    writing: _Writing,
) -> dict[int, Workgroups]:
    types = [test.outputs[output].type for output in writing.outputs]
    if writing.bits == 0:
        # One workgroup: there is nothing to tell apart.
        return {
            output: Workgroups(writing.grid, np.zeros(found.shape, np.uint32))
            for output, found in zip(writing.outputs, types, strict=True)
        }
    changed = _cut_kernel(bundle, variant, texts, writing.launch)
    if changed is None:
        return {}
    document, cut_texts = changed
    width, height, _ = writing.grid
    cuts = [np.array([width, height, bit, value], np.uint32) for bit in range(writing.bits) for value in (0, 1)]
    sizes = [np.array([found.size, 4 // (found.nbytes // found.size)], np.uint32) for found in types]
    pieces = [
        *(text.encode() for text in (*cut_texts, _COLLECT)),
        *(array.tobytes() for array in (*cuts, *sizes)),
        *(bytes(8 * found.size) for found in types),
    ]
    library = f"w{next(_RUNS)}"
    try:
        with context.blobs.holding(pieces) as digests:
            codes = digests[: len(cut_texts) + 1]
            # Without what it overwrites: who writes an element is asked, not what.
            kernel = kernel_message(document, codes[:-1]).model_copy(update={"overwrites": []})
            collectors = [_collector(place, found, codes[-1]) for place, found in enumerate(types)]
            load = methods.LoadCommand(library=library, kernels=[kernel, *collectors])
            commands = [load, *_runs(library, kernel.kernel, test, writing, len(cuts), digests[len(codes) :])]
            arrays = context.execute(commands, [_seen_type(found) for found in types])
    finally:
        context.free(freed(library))
    return {
        output: Workgroups(writing.grid, _numbers(seen, writing).reshape(found.shape))
        for output, found, seen in zip(writing.outputs, types, arrays, strict=True)
    }


def _runs(
    library: str, kernel: str, test: CarvedTest, writing: _Writing, cuts: int, digests: Sequence[str]
) -> Iterator[methods.Command]:
    """`digests`: of the cuts, then of each output's size, then of zeros for what is seen of each."""

    def put(name: str, digest: str, found: TensorType) -> methods.Command:
        return uploaded(f"{library}/{name}", digest, found)

    for place, ref in enumerate(test.inputs):
        yield put(f"i{place}", ref.digest, ref.type)
    for number, digest in enumerate(digests[:cuts]):
        yield put(f"cut{number}", digest, TensorType((4,), "uint32"))
    measured = list(enumerate(writing.outputs))
    behind = digests[cuts:]
    for place, output in measured:
        yield put(f"size{place}", behind[place], TensorType((2,), "uint32"))
        yield put(f"seen{place}", behind[len(measured) + place], _seen_type(test.outputs[output].type))
    given = [
        f"{library}/{what}{n}" for what, refs in (("i", test.inputs), ("o", test.outputs)) for n in range(len(refs))
    ]
    for number in range(cuts):
        for place, ref in enumerate(test.outputs):
            yield allocated(f"{library}/o{place}", ref.type)
        run = [*given, f"{library}/cut{number}"]
        yield methods.CallCommand(library=library, kernel=kernel, sizes=dict(test.sizes), arguments=run)
        for place, output in measured:
            names = [f"o{output}", f"cut{number}", f"size{place}", f"seen{place}"]
            arguments = [f"{library}/{name}" for name in names]
            yield methods.CallCommand(library=library, kernel=_collector_name(place), sizes={}, arguments=arguments)
    for place, _ in measured:
        yield methods.DownloadCommand(tensor=f"{library}/seen{place}")


def _cut_kernel(
    bundle: Mapping[str, Any], variant: Mapping[str, Any], texts: Sequence[str], launch: int
) -> tuple[dict[str, Any], list[str]] | None:
    """The kernel with this variant alone, and its texts: a launch takes one argument more, which says who runs."""
    name = variant["launches"][launch]["entry_point"]
    place = next(number for number, entry in enumerate(variant["entry_points"]) if entry["name"] == name)
    entry = variant["entry_points"][place]
    binding = 1 + max((int(found["binding"]) for found in entry["bindings"]), default=-1)
    text = cut(texts[place], name, binding)
    if text is None:
        return None
    entries, launches = list(variant["entry_points"]), list(variant["launches"])
    entries[place] = {**entry, "bindings": [*entry["bindings"], {"binding": binding, "access": "read"}]}
    operands = [*launches[launch]["operands"], {"argument": len(bundle["arguments"])}]
    launches[launch] = {**launches[launch], "operands": operands}
    document = {**bundle, "variants": [{**variant, "entry_points": entries, "launches": launches}]}
    return document, [*texts[:place], text, *texts[place + 1 :]]


def _collector_name(place: int) -> str:
    return f"tapml collect {place}"


def _collector(place: int, found: TensorType, code: str) -> Kernel:
    """Takes an output, a cut, the output's size, and what was seen of it before."""
    groups = min(_MOST_GROUPS, -(-found.nbytes // (4 * _LANES)))
    access = ["read", "read", "read", "read_write"]
    entry = {
        "name": "collect",
        "file": "collect.wgsl",
        "code": code,
        "bindings": [{"binding": number, "access": one} for number, one in enumerate(access)],
    }
    operands = [{"argument": number} for number in range(len(access))]
    launch = {"entry_point": "collect", "operands": operands, "uniforms": [], "grid": [groups, 1, 1]}
    requires: dict[str, Any] = {"features": [], "limits": {}}
    variant = {"name": "any", "requires": requires, "entry_points": [entry], "launches": [launch], "temporaries": []}
    fields = {"kernel": _collector_name(place), "symbols": [], "variants": [variant]}
    return message(Kernel, fields, "the kernel that looks at outputs")


def _seen_type(found: TensorType) -> TensorType:
    return TensorType((found.size, 2), "uint32")


def _numbers(seen: np.ndarray, writing: _Writing) -> np.ndarray:
    without, having = seen[:, 0], seen[:, 1]
    every = np.uint32((1 << writing.bits) - 1)
    numbers = np.where(without & having, np.uint32(SEVERAL), having)
    return np.where((without | having) == every, numbers, np.uint32(NOBODY)).astype(np.uint32)
