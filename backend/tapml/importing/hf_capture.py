"""A transformers decoder as one torch.export program of a step, with its cache as buffers that it writes."""

from __future__ import annotations

import contextlib
import io
import traceback
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tapml.errors import InputError
from tapml.importing.hf_attention import own_attention
from tapml.importing.hf_encoder import SOURCE, Encoder, Source, most_source
from tapml.importing.hf_kept import Kept, kept_by
from tapml.importing.hf_lengths import lengths_of, told
from tapml.importing.hf_model import quiet
from tapml.importing.hf_rotary import fixed_frequencies
from tapml.importing.hf_step import Pool, PooledStep, Step
from tapml.importing.hf_tables import with_tables

_EXAMPLE, _EXAMPLES_LAST = 5, 3
"""Tokens that it is exported with, and those that logits are wanted of: unlike any size of a model."""

_MODELS = "transformers"
"""The folder of models' own code."""

Functional = Callable[[Any], Any]


def cached_program(
    model: Any,
    capacity: int,
    source: Source | None = None,
    *,
    kept: Kept | None = None,
    pool: Pool | None = None,
    functional: Functional = lambda program: program.run_decompositions({}),
) -> tuple[Any, int]:
    """The program of a step with a cache of `capacity` tokens, and how many it takes at most: `capacity`, or 1 where
    the model has a recurrence. What depends on positions alone is read from tables. The model is left as it was.
    `source`: what its encoder is given, for one that has an encoder; `kept`: what it keeps, where that is known;
    `pool`: of a program whose calls have tokens of several sequences, with `blocks` as one input more;
    `functional` makes a program of the exported one that writes nothing in place.

    Raises InputError for a model that cannot be captured, or exported for any number of tokens.
    """
    if hasattr(model, "set_experts_implementation"):
        # Without loops over experts whose counts depend on the tokens.
        model.set_experts_implementation("batched_mm")
    with quiet(), fixed_frequencies(model, capacity):
        kept = kept or kept_by(model, capacity, source)
        most = 1 if kept.states else capacity
        if pool is not None:
            _check_pooled(model, kept, source)
        with own_attention(model) if kept.interface else contextlib.nullcontext():
            program = functional(_any_way(model, kept, capacity, most, source, pool))
        pairs = [f"{name}{number}" for number in kept.pairs for name in ("keys", "values")]
        _keep_caches_only(program, {*pairs, *kept.states})
        _tidy(program)
        lengths = lengths_of(model.config.get_text_config(), capacity)
        hint = f"; its configuration has {told(lengths)}: give --capacity {min(lengths.values())}" if lengths else ""
        return with_tables(program, "positions", capacity, hint), most


def encoder_program(model: Any, source: Source) -> Any:
    """The program of the encoder: of the source, the decoder's `cross_keysN` and `cross_valuesN`. Raises InputError for
    one that cannot be exported for any number of tokens."""
    most = most_source(model)
    sizes = ({1: torch.export.Dim(SOURCE, min=1, max=most)},) if most else None
    with quiet():
        program = _exported(model, Encoder(model), tuple(source.values()), sizes).run_decompositions({})
        _tidy(program)
    return program


def _check_pooled(model: Any, kept: Kept, source: Source | None) -> None:
    why = (
        "attends to what its encoder leaves, which is one source's"
        if source is not None
        else "keeps states of a recurrence, which are of one sequence"
        if kept.states
        else None
        if kept.interface
        else "computes attention by itself, over the cache of one sequence"
    )
    if why is not None:
        raise InputError(f"{type(model).__name__} {why}: leave out --batch", reason="its calls are of one sequence")


def _any_way(model: Any, kept: Kept, capacity: int, most: int, source: Source | None, pool: Pool | None) -> Any:
    """Some models count tokens by what came before, and some cannot bear to be told by a tensor."""
    if most > 1:
        count, first = _EXAMPLE, _EXAMPLE - _EXAMPLES_LAST
        n, k = (torch.export.Dim(name, min=1, max=most) for name in "nk")
        sizes: tuple[Any, ...] | None = ({1: n}, {0: n}, {0: k})
    else:
        count, first, sizes = 1, 0, None
    positions = torch.arange(count, dtype=torch.int32)
    arguments: tuple[Any, ...] = (torch.zeros(1, count, dtype=torch.int32), positions, positions[first:].clone())
    if source is not None:
        with torch.no_grad():
            cross = Encoder(model)(*source.values())
        places = most_source(model)
        size = {1: torch.export.Dim(SOURCE, min=1, max=places)} if places else None
        arguments, sizes = (*arguments, cross), (*(sizes or (None,) * 3), dict.fromkeys(cross, size))
    make = partial(Step, model, kept, capacity)
    if pool is not None and sizes is not None:
        blocks = torch.zeros(count, capacity // pool.block, dtype=torch.int32)
        arguments, sizes = (*arguments, blocks), (*sizes, {0: sizes[1][0]})
        make = partial(PooledStep, model, kept, capacity, pool=pool)
    try:
        return _exported(model, make(counts=True), arguments, sizes)
    except InputError:
        return _exported(model, make(counts=False), arguments, sizes)


def _keep_caches_only(program: Any, kept: Collection[str]) -> None:
    """Nothing else is written: what a model notes besides, such as the frequencies that it used last, it computes anew
    at each call (or the comparison with the model finds out)."""
    signature = program.graph_signature
    output = next(node for node in program.graph.nodes if node.op == "output")
    places = [place for place, spec in enumerate(signature.output_specs) if spec.target is None or spec.target in kept]
    output.args = (tuple(output.args[0][place] for place in places),)
    signature.output_specs[:] = [signature.output_specs[place] for place in places]
    program.graph.eliminate_dead_code()


def _sort_topk(program: Any) -> None:
    """Of equal use to the model, which asked for any order (experts of a router): so all that compute it give the same
    one."""
    for node in program.graph.nodes:
        if node.op == "call_function" and node.target is torch.ops.aten.topk.default:
            node.args = node.args[:4]
            node.kwargs = {name: given for name, given in node.kwargs.items() if name != "sorted"}


def _tidy(program: Any) -> None:
    _drop_assertions(program)
    _sort_topk(program)
    _settle_sizes(program)
    program.graph_module.recompile()  # once: it writes the code of all layers


def _drop_assertions(program: Any) -> None:
    """The number of tokens is what it may be, and types are what they were."""
    for node in program.graph.nodes:
        if node.op == "call_function" and "assert" in str(node.target):
            program.graph.erase_node(node)
    program.graph.eliminate_dead_code()


def _settle_sizes(program: Any) -> None:
    """Sizes that are the same for any number of tokens become that number: max(0, 1 - n) is 0."""
    for node in program.graph.nodes:
        size = node.meta.get("val") if node.op == "call_function" else None
        if isinstance(size, torch.SymInt):
            bounds = size.node.shape_env.bound_sympy(size.node.expr)
            if bounds.lower == bounds.upper:
                node.replace_all_uses_with(int(bounds.lower))
    program.graph.eliminate_dead_code()


def _exported(model: Any, step: torch.nn.Module, arguments: tuple[Any, ...], sizes: Any) -> Any:
    """Raises InputError where PyTorch or the model's own code does."""
    try:
        # Of what fails PyTorch prints the graph so far, hundreds of lines, beside what it raises.
        with torch.no_grad(), contextlib.redirect_stderr(io.StringIO()):
            # What has to hold of n is asserted: as a guard, "n * 64 == 64 * n" was more than PyTorch could prove.
            return torch.export.export(
                step.eval(),
                arguments,
                dynamic_shapes=sizes,
                strict=False,
                prefer_deferred_runtime_asserts_over_guards=True,
            )
    except InputError:
        raise
    except Exception as error:  # whatever PyTorch and the model's own code raise
        why = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise InputError(
            f"{type(model).__name__} cannot be exported for any number of tokens{_line(error)}: {why[:300]}: use "
            "another architecture",
            reason=why[:300],
        ) from error


def _line(error: Exception) -> str:
    """Of a model's own code, where it raised: PyTorch names symbols that say nothing to its reader."""
    frames = traceback.extract_tb(error.__traceback__)
    found = [frame for frame in frames if _MODELS in Path(frame.filename).parts]
    if not found:
        return ""
    name, text = Path(found[-1].filename).name, (found[-1].line or "").strip().rstrip(":")
    return f" (line {found[-1].lineno} of {name}, {text})"
