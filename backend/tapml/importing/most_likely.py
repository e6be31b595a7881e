"""The operator that chooses tokens greedily (hf_choice.py), as a kernel. compilers/cache has a faster one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvm import te, tirx

from tapml.importing.kernel_calls import call
from tapml.lowering.by_hand import by_hand


def converters() -> Mapping[str, Callable[[Any, Any], Any]]:
    """By the operator's name as torch.export spells it."""
    return {"most_likely.default": _node}


def _node(node: Any, importer: Any) -> Any:
    (logits,) = (importer.env[argument] for argument in node.args)
    found = by_hand("most_likely")
    return call(importer.block_builder, most_likely, [logits], name="most_likely", alone=True, attributes=found)


def most_likely(logits: Any) -> Any:
    """As hf_choice.most_likely: of logits [n, vocabulary] int32 [n]."""
    n, words = logits.shape
    none, infinity = tirx.const(int(words), "int32"), tirx.infinity(str(logits.dtype))
    over = [te.reduce_axis((0, words), name) for name in ("most", "equal", "unknown")]

    def place(axis: Any, wanted: Any) -> Any:
        """Of the first element that is `wanted`; `none` where there is none."""
        return te.min(tirx.Select(wanted, axis.var.astype("int32"), none), axis=axis)

    highest = te.compute((n,), lambda i: te.max(logits[i, over[0]], axis=over[0]), "highest")
    first = te.compute((n,), lambda i: place(over[1], logits[i, over[1]] == highest[i]), "first")
    unknown = te.compute((n,), lambda i: place(over[2], tirx.isnan(logits[i, over[2]])), "unknown")

    def chosen(i: Any) -> Any:
        # Of nothing but minus infinity nothing is the highest, whatever a maximum begins with.
        lowest = tirx.Select(first[i] < none, first[i], tirx.const(0, "int32"))
        finite = tirx.all(first[i] < none, highest[i] < infinity, highest[i] > -infinity)
        known = tirx.Select(finite, lowest, -1 - lowest)
        return tirx.Select(unknown[i] < none, -1 - unknown[i], known)

    return te.compute((n,), chosen, "chosen")
