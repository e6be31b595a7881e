"""Products with weights that are integers in words, of random ones, for tests of the kernels that compute them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tapml.carving.carve import carve
from tapml.compilers.choose import CHOICES
from tapml.expressions import Symbol
from tapml.importing.activations import ROUNDED, rounded
from tapml.importing.kernel_calls import call
from tapml.importing.model import ImportedModel, Step
from tapml.importing.quantise import Q4F32, Q8, Kind
from tapml.importing.quantise_module import packed_variables, quantised_module
from tapml.importing.quantise_uses import uses_of
from tapml.suite import Suite

op = relax.op

UINT4 = Kind("uint4", 4, 32, False, None)
"""As MatMulNBits has them: each group has a zero point."""
UINT4_OF_16 = Kind("uint4", 4, 16, False, 8)
UINT8 = Kind("uint8", 8, None, False, None)
UINT8_OF_64 = Kind("uint8", 8, 64, False, 128)
KINDS = (Q4F32, Q8, UINT4, UINT4_OF_16, UINT8, UINT8_OF_64)


def plain(_: Any, product: Any, *others: Any) -> Any:
    return product


def with_bias(builder: Any, product: Any, bias: Any, residual: Any) -> Any:
    """And GELU, and a residual."""
    sums = builder.emit(op.nn.gelu(builder.emit(op.add(product, bias))))
    return op.add(sums, residual)


@dataclass(frozen=True)
class Product:
    """`[*rows, inner]` by the transposed weight `[columns, inner]`, and what follows; of the rows one may be "n"."""

    kind: Kind
    rows: tuple[int | str, ...]
    columns: int
    inner: int
    after: Callable[..., Any] = plain
    spread: float = 0.0
    """Of how many powers of two, up and down, elements, rows and scales are apart."""
    rounded: bool = False
    """Whether rows are rounded to 8-bit integers before."""
    changed: Callable[[np.ndarray], None] = lambda _: None
    """What becomes of the random rows, in place."""


def carved(
    cases: Mapping[str, Product], folder: Path, dtype: str = "float32", n: int | None = None, compiler: str = "native"
) -> Suite:
    """A suite of them all; where `n` is given, "n" is a symbol, and n at the carve."""
    builder, random = relax.BlockBuilder(), np.random.default_rng(2)
    symbol = tvm.tirx.Var("n", "int64")
    given: dict[relax.Var, np.ndarray] = {}
    weights: dict[relax.Var, Product] = {}
    calls: list[tuple[Product, list[relax.Var]]] = []

    def spread(found: np.ndarray, by: float) -> np.ndarray:
        return found * np.exp2(random.uniform(-by, by, found.shape))

    for name, case in cases.items():
        types = [(*case.rows, case.inner), (case.columns, case.inner)]
        if case.after is with_bias:
            types += [(case.columns,), (*case.rows, case.columns)]
        own = []
        for place, shape in enumerate(types):
            kind = relax.TensorType([symbol if size == "n" else size for size in shape], dtype)
            variable = relax.Var(f"{name.replace(' ', '_')}_{place}", kind)
            own.append(variable)
            if place == 1:
                weights[variable] = case
                continue
            found = random.normal(size=[n if size == "n" else size for size in shape])
            if not place:
                found = spread(found, case.spread) * spread(np.ones((*found.shape[:-1], 1)), case.spread)
            if not place:
                case.changed(found)
            given[variable] = found.astype(dtype)
        calls.append((case, own))
    with builder.function("main", [variable for _, own in calls for variable in own]):
        with builder.dataflow():
            results = []
            for case, (data, weight, *others) in calls:
                if case.rounded:
                    data = call(builder, rounded, [data], name=ROUNDED, alone=True)
                product = builder.emit(op.matmul(data, builder.emit(op.permute_dims(weight))))
                results.append(builder.emit(builder.normalize(case.after(builder, product, *others))))
            result = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(result)
    module = builder.finalize()
    packed = {
        variable: packed_variables(variable, str(variable.name), weights[variable].kind, False) for variable in weights
    }
    module = quantised_module(module, uses_of(module, [*weights]), packed)
    arrays = {str(variable.name): array for variable, array in given.items()}
    for variable, case in weights.items():
        parts = packed[variable]
        words, scales = (tuple(int(d) for d in part.ty.shape.values) for part in (parts.words, parts.scales))
        arrays[str(parts.words.name)] = random.integers(0, 2**32, words, np.uint64).astype(np.uint32)
        of_line = spread(np.full((scales[0], 1), 0.02), case.spread)
        arrays[str(parts.scales.name)] = (
            (spread(np.ones(scales), case.spread) * of_line).astype(np.float16).astype(np.float32)
        )
        if parts.zeros is not None:
            top = 2**case.kind.bits
            arrays[str(parts.zeros.name)] = random.integers(0, top, scales).astype(np.float32)
    names = [str(parameter.name) for parameter in module["main"].params]
    model = ImportedModel(
        module=module,
        input_names=names,
        parameters=[],
        steps=[Step("all", {name: arrays[name] for name in names}, False, None)],
        provenance={"kind": "test", "source": "test", "sha256": "0" * 64, "notes": []},
        outputs=list(cases),
        symbols=[] if n is None else [Symbol(name="n", minimum=1, maximum=100)],
    )
    return carve(model, folder / "products.suite", name="products", compilers=CHOICES[compiler])
