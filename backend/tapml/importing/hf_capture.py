"""A transformers decoder as one torch.export program of a step, with its cache as buffers that it writes."""

from __future__ import annotations

import inspect
import re
import warnings
from dataclasses import dataclass
from typing import Any

import torch

from tapml.errors import InputError
from tapml.importing.hf_attention import attending, cache_append, cached_attention, own_attention
from tapml.importing.hf_lengths import lengths_of, told
from tapml.importing.hf_tables import with_tables

_EXAMPLE, _EXAMPLES_LAST = 5, 3
"""Tokens that it is exported with, and those that logits are wanted of: unlike any size of a model."""


@dataclass(frozen=True)
class LayerCache:
    """Shapes [heads, capacity, dim] of what a layer keeps."""

    keys: tuple[int, int, int]
    values: tuple[int, int, int]


class Step(torch.nn.Module):  # type: ignore[misc]  # torch has no types
    """Of `input_ids` [1, n], `positions` [n] and `last` [k], all int32: the logits [k, vocabulary] of tokens `last`.

    Keys and values of the tokens are put at their positions of the buffers `keys0`, `values0`, `keys1`, ..., one pair
    for each call of attention in the order of the calls.
    """

    def __init__(self, model: Any, caches: list[LayerCache]) -> None:
        super().__init__()
        self.model = model
        self._chooses = "logits_to_keep" in inspect.signature(model.forward).parameters
        for number, cache in enumerate(caches):
            self.register_buffer(f"keys{number}", torch.zeros(cache.keys))
            self.register_buffer(f"values{number}", torch.zeros(cache.values))

    def forward(self, input_ids: torch.Tensor, positions: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        with attending(_Caching(self, positions)):
            chosen = {"logits_to_keep": last.long()} if self._chooses else {}
            found = self.model(input_ids=input_ids, position_ids=positions.unsqueeze(0), use_cache=False, **chosen)
        logits = found.logits.squeeze(0)
        return logits if self._chooses else logits.index_select(0, last)


class _Caching:
    """Appends to the step's buffers, and attends to them."""

    def __init__(self, step: Step, positions: torch.Tensor) -> None:
        self._step = step
        self._positions = positions
        self._calls = 0

    def attend(self, query: Any, key: Any, value: Any, sinks: Any, scaling: float, window: int, softcap: float) -> Any:
        caches = []
        for name, new in (("keys", key), ("values", value)):
            buffer = getattr(self._step, f"{name}{self._calls}")
            appended = cache_append(buffer, new, self._positions)
            buffer.copy_(appended)
            caches.append(appended)
        self._calls += 1
        return cached_attention(query, *caches, self._positions, sinks, scaling, window, softcap)


class _Shapes:
    """Notes what a model's attention is given."""

    def __init__(self) -> None:
        self.found: list[tuple[Any, Any]] = []

    def attend(self, query: Any, key: Any, value: Any, *_: Any) -> Any:
        self.found.append((key.shape, value.shape))
        return query.new_zeros((query.shape[1], query.shape[0], value.shape[2]))


def cached_program(model: Any, capacity: int) -> Any:
    """The program of `Step`, for 1 to `capacity` tokens and a cache of as many; what depends on positions alone is read
    from tables. The model is left as it was.

    Raises InputError for a model that cannot be captured, or exported for any number of tokens.
    """
    if hasattr(model, "set_experts_implementation"):
        # Without loops over experts whose counts depend on the tokens.
        model.set_experts_implementation("batched_mm")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = _exported(model, _caches_of(model, capacity), capacity).run_decompositions({})
        _keep_caches_only(program)
        _sort_topk(program)
        lengths = lengths_of(model.config.get_text_config(), capacity)
        hint = f"; its configuration has {told(lengths)}: give --capacity {min(lengths.values())}" if lengths else ""
        return with_tables(program, "positions", capacity, hint)


def _caches_of(model: Any, capacity: int) -> list[LayerCache]:
    """What each call of attention keeps of a sequence of `capacity` tokens, in the order of the calls."""
    shapes = _Shapes()
    ids, positions = torch.zeros(1, 2, dtype=torch.int32), torch.arange(2, dtype=torch.int32)[None]
    with torch.no_grad(), own_attention(model), attending(shapes):
        _forward(model, ids, positions)
    if not shapes.found:
        raise InputError(f"{type(model).__name__} has no attention, and so no keys and values to be kept")
    return [LayerCache((key[0], capacity, key[2]), (value[0], capacity, value[2])) for key, value in shapes.found]


def _forward(model: Any, ids: torch.Tensor, positions: torch.Tensor) -> Any:
    if "position_ids" not in inspect.signature(model.forward).parameters:
        raise InputError(
            f"{type(model).__name__} takes no positions (position_ids), by which tapml says where a token stands: use "
            "another architecture",
            reason="it takes no positions",
        )
    return model(input_ids=ids, position_ids=positions, use_cache=False)


def _keep_caches_only(program: Any) -> None:
    """Nothing else is written: what a model notes besides, such as the frequencies that it used last, it computes anew
    at each call (or the comparison with the model finds out)."""
    signature = program.graph_signature
    output = next(node for node in program.graph.nodes if node.op == "output")
    kept = [
        place
        for place, spec in enumerate(signature.output_specs)
        if spec.target is None or re.fullmatch(r"(keys|values)\d+", spec.target)
    ]
    output.args = (tuple(output.args[0][place] for place in kept),)
    signature.output_specs[:] = [signature.output_specs[place] for place in kept]
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()


def _sort_topk(program: Any) -> None:
    """Of equal use to the model, which asked for any order (experts of a router): so all that compute it give the same
    one."""
    for node in program.graph.nodes:
        if node.op == "call_function" and node.target is torch.ops.aten.topk.default:
            node.args = node.args[:4]
            node.kwargs = {name: given for name, given in node.kwargs.items() if name != "sorted"}
    program.graph_module.recompile()


def _exported(model: Any, caches: list[LayerCache], capacity: int) -> Any:
    step = Step(model, caches).eval()
    ids = torch.zeros(1, _EXAMPLE, dtype=torch.int32)
    last = torch.arange(_EXAMPLE - _EXAMPLES_LAST, _EXAMPLE, dtype=torch.int32)
    arguments = ids, torch.arange(_EXAMPLE, dtype=torch.int32), last
    n, k = (torch.export.Dim(name, min=1, max=capacity) for name in "nk")
    try:
        with torch.no_grad(), own_attention(model):
            return torch.export.export(step, arguments, dynamic_shapes=({1: n}, {0: n}, {0: k}), strict=False)
    except InputError:
        raise
    except Exception as error:  # whatever PyTorch and the model's own code raise
        why = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise InputError(
            f"{type(model).__name__} cannot be exported for any number of tokens: {why[:300]}", reason=why[:300]
        ) from error
