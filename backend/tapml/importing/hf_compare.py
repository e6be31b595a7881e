"""Whether an exported step with its cache computes what the model does without one.

What exists only in a mask, and what changes with the length of a sequence, is lost by the export without a word. So the
two are compared on a sequence that is longer than every window and chunk of the model's configuration.
"""

from __future__ import annotations

import inspect
import itertools
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from tapml.errors import InputError
from tapml.importing.hf_encoder import Encoder, Source, most_source, source_of
from tapml.importing.hf_kept import CACHES
from tapml.importing.hf_lengths import lengths_of, told
from tapml.importing.hf_step import Pool

_ALLOWED = 1e-4
"""Of the largest logit: rounding moves logits by some 1e-6 of it."""

_BEYOND = 9
"""Tokens behind the longest of them."""

_LONG_SOURCE = 300
"""Tokens of an encoder's source that are tried at most."""

_SINGLE = 4
"""Tokens at the end that are given one by one."""


def compare(
    model: Any,
    program: Any,
    capacity: int,
    chunk: int,
    seed: int = 0,
    source: Source | None = None,
    pool: Pool | None = None,
) -> float:
    """The largest difference of logits, over the largest logit, for a sequence of random tokens that is given to the
    program in chunks of up to `chunk`, then one by one, and to the model as a whole, up to each of its lengths; and
    with a `pool` for several sequences whose tokens are in calls together.

    Raises InputError where it is more than rounding, with the first position and what the configuration says of it.
    """
    config = model.config.get_text_config()
    lengths = lengths_of(config, capacity)
    # A text has more than a block, too.
    known = max(*lengths.values(), 0 if pool is None else 2 * pool.block, 0)
    longest = min(capacity, known + _BEYOND + _SINGLE)
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, config.vocab_size, (1, longest), generator=generator)
    worst = 0.0
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cross = [] if source is None else [Encoder(model)(*source.values())]
        found = list(_stepwise(program, ids, chunk, cross, pool and capacity // pool.block))
        for length in sorted({min(length, longest) for length in lengths.values()} | {longest}):
            given = {"input_ids" if source is None else "decoder_input_ids": ids[:, :length], **(source or {})}
            expected = model(**given, use_cache=False).logits[0]
            if not bool(expected.isfinite().all()):
                raise InputError(
                    f"{type(model).__name__} gives logits that are NaN or infinite, in transformers itself: look at "
                    "its weights and its configuration",
                    reason="the model's own logits are not finite",
                )
            largest = float(expected.abs().max())
            for last, logits in found:
                if last < length:
                    difference = float((logits - expected[last]).abs().max())
                    if not difference <= _ALLOWED * largest:
                        _check_itself(model, ids[:, : last + 1], source, logits, expected[last], largest)
                        raise _differs(model, lengths, last, length, difference, largest)
                    worst = max(worst, difference / (largest or 1.0))
        if pool is not None:
            worst = max(worst, _compare_together(model, program, ids, capacity, chunk, pool))
    return worst


def _compare_together(model: Any, program: Any, ids: torch.Tensor, capacity: int, chunk: int, pool: Pool) -> float:
    """The same for sequences of several lengths, whose blocks lie anywhere."""
    length = ids.shape[1]
    sequences = [ids[0], ids[0].flip(0)[: length // 2 + 1], ids[0, -5:]][: pool.places // capacity]
    expected = [model(sequence[None], use_cache=False).logits[0] for sequence in sequences]
    order = torch.randperm(pool.places // pool.block, generator=torch.Generator().manual_seed(1))
    tables = order[: len(sequences) * (capacity // pool.block)].reshape(len(sequences), -1).int()
    module, worst = program.module(), 0.0
    done = [0] * len(sequences)
    sizes = itertools.cycle((1, 3, 1, 2, max(1, chunk // 2)))
    try:
        while any(end < len(sequence) for end, sequence in zip(done, sequences, strict=True)):
            room = chunk
            owners: list[int] = []
            at: list[int] = []
            for number, sequence in enumerate(sequences):
                count = min(next(sizes), len(sequence) - done[number], room)
                owners += [number] * count
                at += range(done[number], done[number] + count)
                done[number] += count
                room -= count
            tokens = torch.stack([sequences[number][place] for number, place in zip(owners, at, strict=True)]).int()
            every = torch.arange(len(at), dtype=torch.int32)
            logits, _ = module(tokens[None], torch.tensor(at, dtype=torch.int32), every, tables[owners])
            for row, number, place in zip(logits, owners, at, strict=True):
                largest = float(expected[number].abs().max())
                difference = float((row - expected[number][place]).abs().max())
                if not difference <= _ALLOWED * largest:
                    raise InputError(
                        f"{type(model).__name__}, exported for several sequences, differs from transformers' own at "
                        f"position {place} of one of them, by {difference:.2g}, where logits reach {largest:.2g}: "
                        "leave out --batch",
                        reason="tokens of several sequences in one call change one another",
                    )
                worst = max(worst, difference / (largest or 1.0))
    finally:
        _clear(program)
    return worst


def compare_encoder(model: Any, program: Any, seed: int) -> float:
    """The largest difference of what an encoder leaves, over the largest value, for another source than that it was
    exported with, as long as it takes. Raises InputError where it is more than rounding."""
    source = source_of(model, None, seed + 1)
    places = most_source(model)
    if places:
        generator = torch.Generator().manual_seed(seed)
        ids = torch.randint(0, model.config.vocab_size, (1, min(places, _LONG_SOURCE)), generator=generator)
        source = {name: ids.int() for name in source}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, expected = program.module()(*source.values()), Encoder(model)(*source.values())
    worst = max(
        float((found[name] - wanted).abs().max() / wanted.abs().max().clamp_min(1e-30))
        for name, wanted in expected.items()
    )
    if not worst <= _ALLOWED:
        raise InputError(
            f"the encoder of {type(model).__name__}, exported, differs from transformers' own by {worst:.2g} of the "
            "largest value: use another architecture",
            reason="the exported encoder differs from the model's",
        )
    return worst


def _stepwise(
    program: Any, ids: torch.Tensor, chunk: int, others: Sequence[Any], blocks: int | None
) -> Iterator[tuple[int, torch.Tensor]]:
    """The last position of each call, and its logits. `blocks`: of a text, where calls say which."""
    module = program.module()
    length, begin = ids.shape[1], 0
    # Of all sorts of lengths, so that ends of chunks lie everywhere in windows.
    sizes = itertools.chain((1, 2, 3, 5), itertools.cycle((chunk, max(1, chunk // 2 - 1))))
    try:
        while begin < length:
            left = length - begin - _SINGLE
            count = min(next(sizes), chunk, left) if left > 0 else 1
            positions = torch.arange(begin, begin + count, dtype=torch.int32)
            last = torch.tensor([count - 1], dtype=torch.int32)
            table = [] if blocks is None else [torch.arange(blocks, dtype=torch.int32).repeat(count, 1)]
            logits, _ = module(ids[:, begin : begin + count].int(), positions, last, *others, *table)
            begin += count
            yield begin - 1, logits[0]
    finally:
        _clear(program)


def _clear(program: Any) -> None:
    """The module's buffers are the program's own: what stays there is what its caches begin with."""
    for name in program.graph_signature.buffers_to_mutate.values():
        program.state_dict[name].zero_()


def _check_itself(
    model: Any,
    ids: torch.Tensor,
    source: Source | None,
    exported: torch.Tensor,
    expected: torch.Tensor,
    largest: float,
) -> None:
    """Of the last of `ids`. Raises InputError where transformers with its own cache gives what the export does, and
    something else than for all tokens at once: it is not the export that loses something."""
    argument = next(name for name in CACHES if name in inspect.signature(model.forward).parameters)
    held: dict[str, Any] = dict(source or {})
    for token in ids.T[:, None]:
        found = model(**{"input_ids" if source is None else "decoder_input_ids": token}, **held, use_cache=True)
        held[argument] = getattr(found, argument)
    own = found.logits[0, -1]
    difference = float((own - expected).abs().max())
    if float((own - exported).abs().max()) <= _ALLOWED * largest < difference:
        raise InputError(
            f"{type(model).__name__} of transformers computes otherwise token by token, with its own cache, than for "
            f"all tokens at once: logits of token {ids.shape[1]} differ by {difference:.2g}, and reach {largest:.2g}: "
            "use another architecture",
            reason="transformers' own cache gives other logits",
        )


def _differs(
    model: Any, lengths: Mapping[str, int], last: int, length: int, difference: float, largest: float
) -> InputError:
    # What sets in at a length shows behind it, or makes of a shorter sequence something else.
    passed = {name: found for name, found in lengths.items() if found <= last + 1 or found < length}
    why = f"its configuration has {told(passed)}: what" if passed else "what"
    # Shorter sequences were compared before this one, and positions before this one.
    right = max((found for found in lengths.values() if found < length), default=last)
    mend = f", or give --capacity {right}" if right else " (no --capacity helps: the first tokens differ)"
    return InputError(
        f"{type(model).__name__}, exported with a cache, differs from transformers' own at position {last} of {length}:"
        f" by {difference:.2g}, where logits reach {largest:.2g}; {why} a model does in its mask only, or by the "
        f"length of a sequence, is lost: use another architecture{mend}",
        reason=f"the export differs from the model at position {last} of {length}",
    )
