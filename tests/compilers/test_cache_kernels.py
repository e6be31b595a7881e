"""The kernels of a cache by hand, on a device: attention that reads no further than it looks, rows in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from tvm import relax

import tapml as tml
from tapml.compilers.auto.caches import LONG
from tapml.compilers.cache.attention import LANES, TOKENS
from tapml.compilers.choose import CHOICES, compile_operators
from tapml.compilers.native.compile import generated
from tapml.importing.cached_attention import cache_append, cached_attention
from tapml.importing.kernel_calls import call
from tapml.locating.barriers import unordered
from tapml.lowering.by_hand import by_hand
from tapml.lowering.lower import lower

BLOCK = 8


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
    blocks: int = 0
    """That the caches have, of BLOCK places each; 0: they are of one text."""

    @property
    def also(self) -> Sequence[str]:
        return [name for name in ("sinks", "bias", "blocks") if getattr(self, name)]

    @property
    def options(self) -> Mapping[str, float]:
        paged = {"block": BLOCK} if self.blocks else {}
        return {"scaling": self.scaling, "window": self.window, "softcap": self.softcap, **paged}

    @property
    def places(self) -> int:
        return self.blocks * BLOCK or self.capacity


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


NATIVE = ("one bias, and sinks",)
"""Cases of which the kernels of the template are run each time: they take a while to compile on a CPU."""


@pytest.fixture
def compiled_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """What makes the kernels of libraries: the one by hand ("auto"), or the template ("native")."""

    def chosen(name: str) -> None:
        made = partial(compile_operators, compilers=CHOICES[name])
        monkeypatch.setattr("tapml.api.library.compile_operators", made)

    return chosen


def attending(case: Case, n: int) -> Any:
    """A module whose main is one call of the operator."""
    shapes = {
        "query": (case.heads, n, case.dim),
        "keys": (case.kv_heads, case.places, case.dim),
        "values": (case.kv_heads, case.places, case.width),
        "positions": (n,),
        **({"sinks": (case.heads,)} if case.sinks else {}),
        **({"bias": (case.bias, n, case.capacity)} if case.bias else {}),
        **({"blocks": (n, case.capacity // BLOCK)} if case.blocks else {}),
    }
    return _calling(cached_attention, "cached_attention", shapes, case.also, case.options)


def _calling(
    operator: Any,
    what: str,
    shapes: Mapping[str, tuple[int, ...]],
    also: Sequence[str] = (),
    options: Mapping[str, float] = MappingProxyType({}),
) -> Any:
    """A module whose main is one call of an operator."""
    builder = relax.BlockBuilder()
    given = [
        relax.Var(name, relax.TensorType(shape, "int32" if name in ("positions", "blocks") else "float32"))
        for name, shape in shapes.items()
    ]
    with builder.function("main", given):
        with builder.dataflow():
            made = call(
                builder,
                lambda *tensors: operator(
                    *tensors[: len(tensors) - len(also)],
                    **dict(zip(also, tensors[len(tensors) - len(also) :], strict=True)),
                    **options,
                ),
                given,
                name=what,
                alone=True,
                attributes=by_hand(what, *also, **options),
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


def _every_case() -> Iterator[Any]:
    for compiler in ("auto", "native"):
        for name, case in CASES.items():
            marks = [pytest.mark.slow] if compiler == "native" and name not in NATIVE else []
            yield pytest.param(compiler, case, id=f"{compiler} {name}", marks=marks)


@pytest.mark.parametrize(("compiler", "case"), [*_every_case()])
@pytest.mark.parametrize("n", [1, TOKENS + 1])
def test_attention_to_every_part_of_a_cache(
    compiler: str, case: Case, n: int, device: Any, compiled_by: Callable[[str], None]
) -> None:
    """What lies behind the position, and before the window, is NaN: it must not be read, let alone counted."""
    compiled_by(compiler)
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


PAGED = ("window over a tile's end", "a bias for each head", "one bias, and sinks")


@pytest.mark.parametrize("case", [CASES[name] for name in PAGED], ids=PAGED)
def test_attention_of_several_texts_whose_blocks_lie_anywhere(case: Case, device: Any) -> None:
    """Blocks of no text, and what lies behind a text's position, are NaN: they must not be read."""
    random = np.random.default_rng(2)
    each = -(-case.capacity // BLOCK)
    case = replace(case, capacity=each * BLOCK, blocks=3 * each + 1)
    ends = [1, LANES + 3, each * BLOCK, 2 * BLOCK]
    tables = random.permutation(case.blocks)[: 3 * each].reshape(3, each)
    # The last one shares two blocks, which are all that it has, with the second.
    tables = np.concatenate([tables, tables[1:2]]).astype(np.int32)
    texts = [
        [random.normal(size=(case.kv_heads, case.capacity, size)).astype(np.float32) for size in (case.dim, case.width)]
        for _ in ends
    ]
    texts[3] = texts[1]
    n = len(ends)
    positions = np.array([end - 1 for end in ends], np.int32)
    query = random.normal(size=(case.heads, n, case.dim)).astype(np.float32)
    others = [
        *([random.normal(size=case.heads).astype(np.float32)] if case.sinks else []),
        *([random.normal(size=(case.bias, n, case.capacity)).astype(np.float32)] if case.bias else []),
    ]
    caches = [np.full((case.kv_heads, case.places, size), np.nan, np.float32) for size in (case.dim, case.width)]
    wanted = []
    for t, (end, table, text) in enumerate(zip(ends, tables, texts, strict=True)):
        own = [other[:, t : t + 1] if other.ndim == 3 else other for other in others]
        wanted.append(expected(replace(case, blocks=0), query[:, t : t + 1], *text, positions[t : t + 1], *own))
        for at in range(end):
            for cache, rows in zip(caches, text, strict=True):
                cache[:, table[at // BLOCK] * BLOCK + at % BLOCK] = rows[:, at]
    arrays = [query, *caches, positions, *others, tables]
    with tml.upload(tml.compile(attending(case, n), target=device), device) as library:
        got = tml.allocate((n, case.heads, case.width), "float32", device)
        library["main"](*(tml.tensor(array, device) for array in arrays), got)
        np.testing.assert_allclose(got.numpy(), np.concatenate(wanted), atol=2e-5, rtol=1e-5)


def test_rows_of_several_texts_are_put_into_their_blocks(device: Any) -> None:
    """And nowhere else: those at no position of a text are left out."""
    heads, n, dim, count = 2, 4, 5, 6
    shapes = {"cache": (heads, count * BLOCK, dim), "new": (heads, n, dim), "positions": (n,), "blocks": (n, 2)}
    module = _calling(cache_append, "cache_append", shapes, ["blocks"], {"block": BLOCK})
    (operator,) = lower(module, len(shapes)).operators
    assert compile_operators([operator], ("256",))[operator.name].document["compiler"]["name"] == "cache"
    random = np.random.default_rng(3)
    cache, new = (random.normal(size=shapes[name]).astype(np.float32) for name in ("cache", "new"))
    positions = np.array([0, BLOCK + 3, 2 * BLOCK, -1], np.int32)
    blocks = np.array([[5, 0], [0, 3], [1, 2], [4, 2]], np.int32)
    wanted = cache.copy()
    wanted[:, 5 * BLOCK], wanted[:, 3 * BLOCK + 3] = new[:, 0], new[:, 1]
    for where in (device, tml.cpu()):
        with tml.upload(tml.compile(module, target=where), where) as library:
            got = tml.tensor(cache, where)
            given = [tml.tensor(array, where) for array in (cache, new, positions, blocks)]
            library["main"](*given, got)
            np.testing.assert_array_equal(got.numpy(), wanted, err_msg=str(where))


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


@pytest.mark.parametrize(("places", "by"), [(LONG - 1, "cache"), (LONG, "native")])
@pytest.mark.parametrize("n", [1, 3])
def test_auto_takes_the_template_for_long_caches(n: int, places: int, by: str) -> None:
    (operator,) = lower(attending(Case(4, 2, 16, 16, places), n), 4).operators
    made = compile_operators([operator], ("256",), compilers=CHOICES["auto"])[operator.name].document
    assert made["compiler"]["name"] == by


def test_workgroups_share_the_keys_of_a_long_cache(device: Any, compiled_by: Callable[[str], None]) -> None:
    """One token: two dispatches, of parts and of what they come to, at whatever size the cache has grown to."""
    compiled_by("native")
    case = Case(4, 2, 16, 24, 8 * LANES, sinks=True, softcap=5.0)
    library = tml.compile(attending(case, 1), target=device)
    (operator,) = lower(attending(case, 1), 5).operators
    document = compile_operators([operator], ("256",), compilers=CHOICES["native"])[operator.name].document
    (variant,) = document["variants"]
    assert (document["compiler"]["name"], len(variant["launches"])) == ("native", 2)
    assert [argument.get("grows") for argument in document["arguments"]] == [None, 1, 1, None, None, None]
    random = np.random.default_rng(4)
    with tml.upload(library, device) as uploaded:
        for position in (0, LANES, case.capacity - 1):
            arrays = [
                random.normal(size=(case.heads, 1, case.dim)).astype(np.float32) * 3,
                random.normal(size=(case.kv_heads, case.capacity, case.dim)).astype(np.float32),
                random.normal(size=(case.kv_heads, case.capacity, case.width)).astype(np.float32),
                np.array([position], np.int32),
                random.normal(size=case.heads).astype(np.float32),
            ]
            wanted = expected(case, *arrays)
            got = tml.allocate(wanted.shape, "float32", device)
            uploaded["main"](*(tml.tensor(array, device) for array in arrays), got)
            np.testing.assert_allclose(got.numpy(), wanted, atol=2e-5, rtol=1e-5, err_msg=f"at {position}")


@pytest.mark.parametrize("n", [1, 5])
def test_every_barrier_within_attention_is_needed(n: int) -> None:
    """And those that there are order all that invocations hand to each other, as `tapml locate` reads the text."""
    case = CASES["sinks and a short window"]
    (operator,) = lower(attending(case, n), 5).operators
    (launch,) = generated(operator) or []
    assert unordered(launch.text) is None
    barrier = "workgroupBarrier();"
    _, *parts = launch.text.split(barrier)
    # The first one is for a share without keys: where there are any, others follow it.
    for left_out in range(1, len(parts)):
        before, after = parts[:left_out], parts[left_out:]
        text = launch.text.split(barrier)[0] + barrier + barrier.join(before) + barrier.join(after)
        assert unordered(text) is not None, left_out
