"""Attention as models have it, for tests of kernels."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

from tapml.importing.kernel_calls import call


def attending(scale: float, window: int = 0, softcap: float = 0.0, halved: bool = False, causal: bool = True) -> Any:
    """The last tokens of a text see all before them, or a window, or, unless it is `causal`, all see all; with weights
    in float16 or in float32."""

    def program(query: Any, keys: Any, values: Any) -> Any:
        (heads, n, size), (kv_heads, places, _), width = query.shape, keys.shape, values.shape[2]
        group = int(heads) // int(kv_heads)
        r, a, b, c = (
            te.reduce_axis((0, extent), name) for extent, name in ((size, "r"), *((places, x) for x in "abc"))
        )
        products = te.compute(
            (heads, n, places),
            lambda h, i, j: te.sum((query[h, i, r] * keys[h // group, j, r]).astype("float32"), axis=r),
            "products",
        )

        def score(h: Any, i: Any, j: Any) -> Any:
            found = products[h, i, j] * tirx.const(scale, "float32")
            if softcap:
                found = tirx.tanh(found / tirx.const(softcap, "float32")) * tirx.const(softcap, "float32")
            if not causal:
                return found
            own = i + places - n
            seen = tirx.all(j <= own, j > own - window) if window else j <= own
            return tirx.Select(seen, found, tirx.const(-1e30, "float32"))

        scores = te.compute(products.shape, score, "scores")
        most = te.compute((heads, n), lambda h, i: te.max(scores[h, i, a], axis=a), "most")
        weights = te.compute(scores.shape, lambda h, i, j: tirx.exp(scores[h, i, j] - most[h, i]), "weights")
        total = te.compute((heads, n), lambda h, i: te.sum(weights[h, i, b], axis=b), "total")

        def mixed(h: Any, i: Any, d: Any) -> Any:
            weight = weights[h, i, c] / total[h, i]
            if halved:
                return te.sum((weight.astype("float16") * values[h // group, c, d]).astype("float32"), axis=c)
            return te.sum(weight * values[h // group, c, d].astype("float32"), axis=c)

        sums = te.compute((heads, n, width), mixed, "mixed")
        return te.compute(sums.shape, lambda *at: sums[at].astype(query.dtype), "attended")

    return lambda builder, *tensors: call(builder, program, tensors, name="attention", alone=True)
