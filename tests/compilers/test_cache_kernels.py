"""The kernels of a cache by hand, on a device: attention that reads no further than it looks, rows in their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tvm import relax

import tapml as tml
from tapml.compilers.cache.attention import LANES, TOKENS
from tapml.compilers.choose import compile_operators
from tapml.importing.cached_attention import cached_attention
from tapml.importing.kernel_calls import call
from tapml.lowering.by_hand import by_hand
from tapml.lowering.lower import lower


@dataclass(frozen=True)
class Case:
    heads: int
    kv_heads: int
    dim: int
    width: int
    capacity: int
    window: int = 0
    softcap: float = 0.0
    sinks: bool = False
    bias: int = 0
    """Heads of a bias; 0: none."""
    scaling: float = 0.3

    @property
    def also(self) -> Sequence[str]:
        return [name for name in ("sinks", "bias") if getattr(self, name)]

    @property
    def options(self) -> Mapping[str, float]:
        return {"scaling": self.scaling, "window": self.window, "softcap": self.softcap}


CASES = {
    "a tile and a bit": Case(4, 2, 16, 16, 3 * LANES - 40),
    "window over a tile's end": Case(2, 1, 8, 12, 3 * LANES, window=LANES - 3),
    "rows of no vectors, columns beyond the lanes": Case(2, 2, 6, LANES + 70, 40, softcap=2.0),
    "sinks and a short window": Case(4, 1, 32, 64, 70, window=5, sinks=True),
    "a bias for each head": Case(4, 2, 8, 8, LANES + 20, bias=4),
    "one bias, and sinks": Case(4, 2, 8, 8, LANES + 20, bias=1, sinks=True, softcap=3.0),
}


@pytest.fixture(scope="module")
def device() -> Iterator[Any]:
    found = tml.webgpu("node-dawn")
    yield found
    found.close()


def attending(case: Case, n: int) -> Any:
    """A module whose main is one call of the operator."""
    shapes = {
        "query": (case.heads, n, case.dim),
        "keys": (case.kv_heads, case.capacity, case.dim),
        "values": (case.kv_heads, case.capacity, case.width),
        "positions": (n,),
        **({"sinks": (case.heads,)} if case.sinks else {}),
        **({"bias": (case.bias, n, case.capacity)} if case.bias else {}),
    }
    builder = relax.BlockBuilder()
    given = [
        relax.Var(name, relax.TensorType(shape, "int32" if name == "positions" else "float32"))
        for name, shape in shapes.items()
    ]
    with builder.function("main", given):
        with builder.dataflow():
            made = call(
                builder,
                lambda *tensors: cached_attention(
                    *tensors[:4], **dict(zip(case.also, tensors[4:], strict=True)), **case.options
                ),
                given,
                name="cached_attention",
                alone=True,
                attributes=by_hand("cached_attention", *case.also, **case.options),
            )
            out = builder.emit_output(made)
        builder.emit_func_output(out)
    return builder.finalize()


def expected(case: Case, query: Any, keys: Any, values: Any, positions: Any, *others: Any) -> np.ndarray:
    """In float64, place by place."""
    also = dict(zip(case.also, others, strict=True))
    found = np.zeros((len(positions), case.heads, case.width))
    for h in range(case.heads):
        kv = h * case.kv_heads // case.heads
        for i, position in enumerate(positions):
            begin = max(position - case.window + 1, 0) if case.window else 0
            seen = slice(begin, position + 1)
            scores = keys[kv, seen].astype(np.float64) @ query[h, i] * case.scaling
            if case.softcap:
                scores = np.tanh(scores / case.softcap) * case.softcap
            if case.bias:
                scores += also["bias"][h % case.bias, i, seen]
            weights = np.exp(scores)
            total = weights.sum() + (np.exp(np.float64(also["sinks"][h])) if case.sinks else 0)
            found[i, h] = weights @ values[kv, seen] / total
    return found


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("n", [1, TOKENS + 1])
def test_attention_to_every_part_of_a_cache(case: Case, n: int, device: Any) -> None:
    """What lies behind the position, and before the window, is NaN: it must not be read, let alone counted."""
    random = np.random.default_rng(1)
    with tml.upload(tml.compile(attending(case, n), target=device), device) as library:
        main = library["main"]
        ends = {1, 2, case.window + 2, LANES - 1, LANES, LANES + 1, 2 * LANES, case.capacity - 1, case.capacity}
        for end in sorted(end for end in ends if n <= end <= case.capacity):
            positions = np.arange(end - n, end, dtype=np.int32)
            arrays = [
                random.normal(size=(case.heads, n, case.dim)).astype(np.float32) * 3,
                random.normal(size=(case.kv_heads, case.capacity, case.dim)).astype(np.float32),
                random.normal(size=(case.kv_heads, case.capacity, case.width)).astype(np.float32),
                positions,
                *([random.normal(size=case.heads).astype(np.float32)] if case.sinks else []),
                *([random.normal(size=(case.bias, n, case.capacity)).astype(np.float32)] if case.bias else []),
            ]
            wanted = expected(case, *arrays)
            for cache in arrays[1:3]:
                cache[:, end:] = np.nan
                if case.window:
                    cache[:, : max(end - n - case.window + 1, 0)] = np.nan
            got = tml.allocate(wanted.shape, "float32", device)
            main(*(tml.tensor(array, device) for array in arrays), got)
            np.testing.assert_allclose(got.numpy(), wanted, atol=2e-5, rtol=1e-5, err_msg=f"up to {end}")


def test_what_it_is_not_written_for_is_left_to_tvm() -> None:
    case = Case(2, 1, 8, 8, 16)
    (known,) = lower(attending(case, 1), 4).operators
    made = compile_operators([known], ("256",))[known.name].document
    assert (made["compiler"]["name"], len(made["variants"][0]["launches"])) == ("cache", 1)
    other = attending(case, 1)
    name = next(found for found in other.functions if found.name_hint != "main")
    more = by_hand("cached_attention", **case.options, alibi=1.0)
    other[name] = other[name].with_attr(more)
    (unknown,) = lower(other, 4).operators
    assert compile_operators([unknown], ("256",))[unknown.name].document["compiler"]["name"] == "tvm"
