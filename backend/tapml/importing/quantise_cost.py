"""How far a quantised model's results are from those of the model that it was: no matter of right or wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tapml.importing.model import Array, ImportedModel


def of_outputs(model: ImportedModel, plain: Sequence[Sequence[Array] | None]) -> dict[str, Any] | None:
    """Of the outputs that oracles give of both, for the same inputs: `plain` of the model as it was. None where there
    are none."""
    found: dict[str, list[tuple[Array, Array]]] = {}
    for step, before in zip(model.steps, plain, strict=True):
        if step.expected is not None and before is not None:
            for place, name in enumerate(model.outputs):
                if place not in model.states.values() and step.expected[place].shape == before[place].shape:
                    found.setdefault(name, []).append((before[place], step.expected[place]))
    outputs = {name: of_pairs(pairs) for name, pairs in found.items()}
    return {"outputs": outputs} if outputs else None


def of_pairs(pairs: Sequence[tuple[Array, Array]]) -> dict[str, float]:
    """Of arrays before and after: `cosine`, the least, `max_abs_difference` and `largest`, of what was before; of
    integers the share that are `equal`."""
    if pairs[0][0].dtype.kind != "f":
        return {"equal": float(np.mean([np.mean(before == after) for before, after in pairs]))}
    return {
        "cosine": min(_cosine(before, after) for before, after in pairs),
        "max_abs_difference": max(_largest(_wide(before) - _wide(after)) for before, after in pairs),
        "largest": max(_largest(before) for before, _ in pairs),
    }


def of_logits(before: Array, after: Array, following: Sequence[int]) -> dict[str, Any]:
    """Of the logits `[tokens, words]` of a text: `cosine`, the least of a token's, `max_abs_difference`,
    `kl_divergence`, the mean of what the distributions differ by, in nats, `agree`, at how many tokens the likeliest
    next one is the same, and the `perplexity` of the tokens that follow each, before and after."""
    first, second = map(_log_softmax, (before, after))
    places = np.arange(len(following))
    return {
        "tokens": len(before),
        "cosine": min(_cosine(a, b) for a, b in zip(before, after, strict=True)),
        "max_abs_difference": _largest(_wide(before) - _wide(after)),
        "largest": _largest(before),
        "kl_divergence": float((np.exp(first) * (first - second)).sum(-1).mean()),
        "agree": int((before.argmax(-1) == after.argmax(-1)).sum()),
        "perplexity": [float(np.exp(-found[places, [*following]].mean())) for found in (first, second)],
    }


def said(cost: Mapping[str, Any]) -> str:
    """In words."""
    return "; ".join(_said(cost))


def _said(cost: Mapping[str, Any]) -> Iterator[str]:
    if "logits" in cost:
        found = cost["logits"]
        before, after = found["perplexity"]
        yield (
            f"over {found['tokens']} tokens of {cost['text']} the likeliest next one is the same at {found['agree']}, "
            f"perplexity is {after:.4g} in place of {before:.4g}, the mean KL divergence {found['kl_divergence']:.2g}, "
            f"and logits have a cosine of {found['cosine']:.4f} at least"
        )
    for name, found in cost.get("outputs", {}).items():
        if "equal" in found:
            yield f"{100 * found['equal']:.4g} % of {name} are equal"
        else:
            difference = f"{found['max_abs_difference']:.2g} of {found['largest']:.3g}"
            yield f"{name} differs by up to {difference}, cosine {found['cosine']:.6f}"


def _wide(array: Array) -> Array:
    return np.asarray(array, np.float64)


def _largest(array: Array) -> float:
    return float(np.abs(_wide(array)).max(initial=0))


def _cosine(before: Array, after: Array) -> float:
    a, b = _wide(before).reshape(-1), _wide(after).reshape(-1)
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / length if length else float(not (a.any() or b.any()))


def _log_softmax(logits: Array) -> Array:
    shifted = _wide(logits) - _wide(logits).max(-1, keepdims=True)
    found: Array = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return found
