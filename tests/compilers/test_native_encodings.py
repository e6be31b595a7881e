"""Kernels of `compilers/native` in every encoding that they accept, within the bounds that a carve derives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relax

from compilers.encoded_kernels import EncodedCompiler
from compilers.test_native_products import CONVOLUTIONS, PRODUCTS, Case, carved
from everywhere import check_everywhere
from tapml.compilers.base import Progress
from tapml.compilers.native.compile import NATIVE, TEMPLATES, recognised
from tapml.compilers.native.encoded import encoded
from tapml.compilers.native.kernel import Launch
from tapml.compilers.native.layouts import Layout, tensor_layout, weights_layout
from tapml.jobs.job import JobSpecification, run_job
from tapml.kernels.bundle import CompiledKernel
from tapml.lowering.operator import Operator
from tapml.server import Server
from tapml.server.registry import detail
from tapml.suite import Suite
from tapml.validation.context import JobContext

op = relax.op


def sum_of(builder: Any, x: Any, y: Any) -> Any:
    return op.nn.relu(builder.emit(op.add(x, y)))


OTHERS: Mapping[str, Case] = {
    "element by element, five channels": (sum_of, [(1, 2, 3, 5), (1, 2, 3, 5)]),
    "element by element, eight channels": (sum_of, [(2, 3, 4, 8), (8,)]),
    "transposed": (lambda _, x: op.permute_dims(x, [0, 2, 1]), [(2, 40, 36)]),
    "softmax": (lambda _, x: op.nn.softmax(x), [(3, 4, 70)]),
    "softmax of fours": (lambda _, x: op.nn.softmax(x), [(5, 64)]),
    "norm": (lambda _, x, w, b: op.nn.layer_norm(x, w, b, axes=[-1]), [(7, 48), (48,), (48,)]),
    "mean of columns": (lambda _, x: op.mean(x, axis=[1]), [(2, 17, 12)]),
    "greatest of a window": (
        lambda _, x: op.nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2), padding=(1, 1, 1, 1)),
        [(1, 6, 11, 9)],
    ),
    "mean of a window": (lambda _, x: op.nn.avg_pool2d(x, pool_size=(2, 2)), [(2, 4, 6, 8)]),
    "of one element": (sum_of, [(1, 1), (1, 1)]),
    "of five axes": (sum_of, [(2, 3, 2, 4, 5), (2, 3, 2, 4, 5)]),
}


# ------------------------------------------------ where elements lie on the device

FIGURE = (1, 2, 3, 5)
"""The shape of the paper's figure."""


def in_order(shape: tuple[int, ...], pads: list[int], cut: tuple[int, ...], order: list[int]) -> Case:
    """The tensor padded with zeros behind each axis, cut into pieces, and these in another order."""

    def made(builder: Any, x: Any) -> Any:
        widths = [width for pad in pads for width in (0, pad)]
        whole = builder.emit(op.nn.pad(x, widths)) if any(pads) else x
        return op.permute_dims(builder.emit(op.reshape(whole, cut)), order)

    return made, [shape]


# The pieces are b, h, w, s, c4; of weights o/4, o%4, h, w, i/4, i%4.
PLACES: Mapping[str, Case] = {
    "slices": in_order(FIGURE, [0, 0, 0, 3], (1, 2, 3, 2, 4), [3, 1, 2, 0, 4]),
    "texture-2d": in_order(FIGURE, [0, 0, 0, 3], (1, 2, 3, 2, 4), [1, 3, 2, 0, 4]),
    "texture-2d-array": in_order(FIGURE, [0, 0, 0, 3], (1, 2, 3, 2, 4), [3, 1, 2, 0, 4]),
    "texture-3d": in_order(FIGURE, [0, 0, 0, 3], (1, 2, 3, 2, 4), [3, 1, 2, 0, 4]),
    "textures-2d": in_order((3, 2, 4, 7), [0, 0, 0, 1], (3, 2, 4, 2, 4), [3, 1, 2, 0, 4]),
    "texture-2d-of-ones": in_order((2, 3, 4, 5), [0, 0, 0, 0], (2, 3, 4, 5), [1, 3, 2, 0]),
    "four-textures-2d": in_order((5, 2, 1, 7), [3, 0, 0, 1], (2, 4, 2, 1, 2, 4), [1, 2, 3, 4, 0, 5]),
}


class Dumped:
    """Packs the operator's input, and writes what lies there to its output, texel by texel."""

    name, version = "native", NATIVE.version

    def __init__(self, kinds: Sequence[str]) -> None:
        self._kinds = kinds

    def compile(
        self, operators: Sequence[Operator], variants: Sequence[str], progress: Progress = lambda done, total: None
    ) -> dict[str, CompiledKernel]:
        return {one.name: self._kernel(one, kind) for one, kind in zip(operators, self._kinds, strict=True)}

    def _kernel(self, operator: Operator, kind: str) -> CompiledKernel:
        found = recognised(operator)
        assert found is not None
        (given,) = [buffer for buffer in found.program.parameters if buffer.name not in found.outputs]
        four = kind == "four-textures-2d"
        layout = weights_layout(kind, given.shape, "OHWI") if four else tensor_layout(kind, given.shape)
        launches = encoded(found, {given.name: layout}, TEMPLATES)
        assert launches is not None
        packing = launches[0]
        (output,) = found.outputs
        objects = packing.buffers[1:]
        text = dumping(layout, len(objects))
        dump = Launch(text, "dump", (*objects, output), (), (1, 1, 1), packing.temporaries)
        return NATIVE.document(operator, "256", [packing, dump], layouts={given.name: layout})


def dumping(layout: Layout, objects: int) -> str:
    """Of textures each texel, of a buffer each element, in order."""
    texture = layout.texture
    kind = "array<f32>" if texture is None else f"texture_{texture.dimension.replace('-', '_')}<f32>"
    space = "<storage, read>" if texture is None else ""
    lines = [f"@group(0) @binding({n}) var{space} t{n} : {kind};" for n in range(objects)]
    lines += [
        f"@group(0) @binding({objects}) var<storage, read_write> y : array<f32>;",
        "@compute @workgroup_size(1) fn dump() {",
        "  var at = 0;",
    ]
    for n in range(objects):
        if texture is None:
            lines.append(f"  for (; at < {np.prod(layout.extents)}; at++) {{ y[at] = t{n}[at]; }}")
            continue
        width, height, depth = texture.size
        place = {"2d": "vec2(x, y_)", "2d-array": "vec2(x, y_), z", "3d": "vec3(x, y_, z)"}[texture.dimension]
        lines += [
            f"  for (var z = 0; z < {depth}; z++) {{ for (var y_ = 0; y_ < {height}; y_++) {{",
            f"    for (var x = 0; x < {width}; x++) {{ for (var c = 0; c < {texture.channels}; c++) {{",
            f"      y[at] = textureLoad(t{n}, {place}, 0)[c]; at++;",
            "    } }",
            "  } }",
        ]
    return "\n".join([*lines, "}", ""])


def wrong(suite: Suite, device: str) -> dict[str, Any]:
    """What did not pass, by kernel."""
    with Server() as server:
        context = JobContext(suite, [server.state.device(device)], server.state.blobs)
        document = run_job(JobSpecification(kind="validation", devices=[device], save=False, record=False), context)
    assert document["tests"]
    return {
        test["kernel"]: (test.get("variant"), test.get("message"))
        for test in document["tests"]
        if test["verdict"] != "pass"
    }


def textures(suite: Suite) -> int:
    """How many variants have some."""
    return sum(bool(variant.get("textures")) for name in suite.kernels for variant in suite.bundle(name)["variants"])


def test_some_kernels_are_right_with_all_that_they_read_and_write_in_an_encoding(tmp_path: Path) -> None:
    name = "element by element, five channels"
    compiler = EncodedCompiler(lambda name: name.endswith(".out"))
    suite = carved({"1 x 1": CONVOLUTIONS["1 x 1"], name: OTHERS[name]}, tmp_path, compilers=[compiler])
    assert textures(suite) == 10
    assert wrong(suite, "node-dawn") == {}


@pytest.mark.parametrize("kinds", [("slices", "texture-2d", "textures-2d", "texture-2d-of-ones", "four-textures-2d"),
                                   ("texture-2d-array",), ("texture-3d",)])  # fmt: skip
def test_elements_lie_where_the_figures_have_them(tmp_path: Path, kinds: Sequence[str]) -> None:
    """In what a kernel wrote on the device: the tensor of the paper's first figure in buffers and textures, and the
    weights of its second one as four textures. Several kinds have the elements in the same order."""
    suite = carved({kind: PLACES[kind] for kind in kinds}, tmp_path, compilers=[Dumped(kinds)])
    assert wrong(suite, "node-dawn") == {}


def test_textures_of_float16_are_right(tmp_path: Path) -> None:
    """WGSL reads and writes them as f32."""
    cases = {"1 x 1": CONVOLUTIONS["1 x 1"], "norm": OTHERS["norm"]}
    suite = carved(cases, tmp_path, "float16", compilers=[EncodedCompiler(lambda name: name.startswith("texture-2d"))])
    formats = {found["format"] for name in suite.kernels for one in suite.bundle(name)["variants"]
               for found in one.get("textures", [])}  # fmt: skip
    assert formats == {"rgba16float"}
    assert wrong(suite, "deno") == {}


def test_a_compiled_model_has_textures(tmp_path: Path) -> None:
    compiler = EncodedCompiler(lambda name: name in ("texture-3d", "texture-2d.o4"), alone=True)
    names = ("element by element, five channels", "norm")
    suite = carved(
        {"1 x 1": CONVOLUTIONS["1 x 1"], **{name: OTHERS[name] for name in names}}, tmp_path, compilers=[compiler]
    )
    assert textures(suite) == 3
    told = [encodings for kernel in detail("", suite)["kernels"] for encodings in kernel["encodings"].values()]
    assert len(told) == 3
    assert any(text.startswith("texture-3d (w * B + b, h, d * S + s)[c4]") for one in told for text in one.values())
    with Server() as server:
        check_everywhere(suite, server)


@pytest.mark.slow
@pytest.mark.parametrize("cases", [PRODUCTS, CONVOLUTIONS, OTHERS], ids=["products", "convolutions", "others"])
def test_kernels_are_right_in_every_encoding(tmp_path: Path, cases: Mapping[str, Case]) -> None:
    assert wrong(carved(cases, tmp_path, compilers=[EncodedCompiler()]), "node-dawn") == {}
