"""The door for decoders of transformers: a prompt, and the steps that follow it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from tapml.errors import InputError
from tapml.importing.drawing import drawn_beside
from tapml.importing.exported_program import import_program, replace_tensors
from tapml.importing.hf_capture import cached_program, encoder_program
from tapml.importing.hf_compare import compare, compare_encoder
from tapml.importing.hf_encoder import SOURCE, Encoder, Source, has_encoder, most_source, other_source, source_of
from tapml.importing.hf_model import Decoder, asked, open_decoder, quiet
from tapml.importing.hf_rounded import round_activations
from tapml.importing.hf_step import Pool
from tapml.importing.inputs import RawStep
from tapml.importing.model import Functions, ImportedModel, Progress, Replace
from tapml.importing.torch_rounded import without_rounding
from tapml.program.generation import LOGITS, NEXT, Blocks, Generation, Part, call_inputs
from tapml.text import counted
from tapml.unicode import encodable

TOKENS, WANTED = "tokens", "wanted"
"""The symbols: how many of them a call takes, and of how many it gives logits, where that is not always one."""

PREFILL, DECODE = "prefill", "decode"
"""The functions: of some tokens, and of one, whose kernels are of their own."""

MOST_CAPACITY = 1024
"""Where nobody says how many tokens are to fit."""

_LENGTHS = ("max_target_positions", "max_position_embeddings", "max_seq_len", "n_positions")
"""What configurations call the tokens that a model takes."""

BLOCK = 16
"""Places of a block, where sequences share a cache."""

_MADE_UP = 7
"""Tokens of a prompt that nobody gave."""


@dataclass(frozen=True)
class Prompt:
    """Text, tokens, or None for tokens that are made up, and how many steps follow. `drafted`: tokens that a step
    behind these is given besides its own, and gives logits of; 0 for no such step. `source`: for an encoder, tokens or
    an array as the model takes it; None for one that is made up. `batch`: how many sequences there is to be room for,
    with tokens of several in a call; 0 where a call is of one. `draws`: is there to be a function that draws tokens?"""

    given: str | Sequence[int] | None
    steps: int
    drafted: int = 0
    source: Any = None
    batch: int = 0
    draws: bool = False

    @property
    def behind(self) -> int:
        """Tokens behind the prompt."""
        return self.steps + (self.drafted + 1 if self.drafted else 0) + bool(self.batch)


def import_decoder(
    path: Path,
    progress: Progress,
    functions: Functions,
    *,
    prompt: Prompt,
    capacity: int | None,
    chunk: int,
    seed: int,
    encoder: bool,
    replaced: Replace | None = None,
) -> ImportedModel:
    """As load.import_decoder, whose arguments these are. `replaced`: of a weight what stands in its place."""
    progress(f"reading {path.name}")
    decoder = open_decoder(path, seed)
    if replaced is not None:
        round_activations(decoder.model, replaced)
        replace_tensors(decoder.model.parameters(), replaced)
    source = _source(decoder, prompt.source, seed, encoder)
    if encoder and source is not None:
        return _import_encoder(decoder, source, progress, functions, synthetic=prompt.source is None, seed=seed)
    capacity = capacity_of(decoder, capacity, BLOCK if prompt.batch else 1)
    chunk = min(chunk, capacity)
    blocks = blocks_of(decoder, prompt.batch, capacity, chunk)
    pool = None if blocks is None else Pool(blocks.size, blocks.places)
    tokens = tokens_of(decoder, prompt, capacity, chunk, seed)
    progress(f"exporting {decoder.name}")
    with asked(decoder.model, "some tokens and what it keeps of them"):
        program, most = cached_program(decoder.model, capacity, source, pool=pool)
    chunk = min(chunk, most)
    if prompt.draws and chunk == 1 < most:
        raise InputError(
            f"{decoder.path}: calls of one token take none back, as a draw that the device is not sure of needs: give "
            "--chunk 2 or more, or leave out --draws"
        )
    if prompt.drafted and (most == 1 or source is not None):
        why = "takes one token a call" if most == 1 else "is given more than tokens"
        raise InputError(f"{decoder.path}: {decoder.name} {why}, and verifies no drafts: leave out --speculate")
    progress("comparing the export with transformers")
    with asked(decoder.model, "the tokens behind a prompt"):
        with without_rounding():
            worst = compare(decoder.model, program, capacity, chunk, source=source, pool=pool)
        following = greedy(decoder.model, tokens, prompt.behind, source)
    synthetic = prompt.given is None or (source is not None and prompt.source is None)
    written = [*tokens, *following]
    own = written[:-1] if blocks else written
    calls = _calls(own, len(tokens), chunk, prompt.drafted, blocks, capacity, synthetic=synthetic)
    if blocks:
        calls += _calls_together(written, len(tokens), chunk, blocks, capacity)
    sizes = {TOKENS: (1, chunk), WANTED: (1, chunk)} if most > 1 else {}
    if source is not None:
        calls = _with_source(decoder.model, calls, source)
        places = most_source(decoder.model)
        sizes |= {SOURCE: (1, places)} if places else {}
    note = f"the logits of its own attention differ by {worst:.1g} of the largest at most"
    imported = import_program(
        path,
        lambda: program,
        lambda _: calls,
        progress,
        functions,
        outputs=[LOGITS, NEXT],
        sizes=sizes,
        provenance=provenance_of(decoder, decoder.name, note, seed),
    )
    measured = _measured(decoder, imported, capacity if pool is None else pool.places)
    generation = generation_of(decoder, imported, prompt.drafted, capacity, chunk, *measured, blocks)
    found = imported.steps[0].expected
    logits = None if found is None else found[imported.outputs.index(LOGITS)]
    generation, beside = drawn_beside(generation, logits, tokens, decoder.path) if prompt.draws else (generation, {})
    if source is not None:
        only: dict[str, Any] = {"prefill": "main", "decode": "main", "given": [*cross_arrays(decoder.model, source)]}
        begin = decoder.special("decoder_start_token_id", generation.vocabulary)
        if begin:
            only["begin"] = begin[0]
        generation = generation.model_copy(update=only)
        return replace(imported, tokenizer=decoder.tokenizer, generation=generation, beside=beside)
    one = {symbol.name: 1 for symbol in imported.symbols}
    specialized = {PREFILL: {}, DECODE: one} if one else {DECODE: {}}
    return replace(imported, tokenizer=decoder.tokenizer, specialized=specialized, generation=generation, beside=beside)


def _import_encoder(
    decoder: Decoder, source: Source, progress: Progress, functions: Functions, *, synthetic: bool, seed: int
) -> ImportedModel:
    progress(f"exporting the encoder of {decoder.name}")
    with asked(decoder.model, "what its encoder leaves"):
        program = encoder_program(decoder.model, source)
        progress("comparing the export with transformers")
        with without_rounding():
            worst = compare_encoder(decoder.model, program, seed)
    places = most_source(decoder.model)
    given = [("the source", source, synthetic)]
    if other := other_source(decoder.model, source):
        given.append(("a source of another length", other, True))
    steps = [RawStep(what, {"source": next(iter(each.values())).numpy()}, made) for what, each, made in given]
    imported = import_program(
        decoder.path,
        lambda: program,
        lambda _: steps,
        progress,
        functions,
        outputs=list(cross_arrays(decoder.model, source)),
        sizes={SOURCE: (1, places)} if places else {},
        provenance=provenance_of(
            decoder,
            f"{decoder.name}, encoder",
            f"keys and values of its own encoder differ by {worst:.1g} of the largest at most",
            seed,
        ),
    )
    return replace(imported, tokenizer=decoder.tokenizer)


def provenance_of(decoder: Decoder, title: str, note: str, seed: int = 0) -> dict[str, Any]:
    return {
        "kind": "transformers",
        "source": f"{decoder.path.name} ({title})",
        "sha256": decoder.sha256,
        "title": title,
        "torch": torch.__version__,
        "notes": [
            f"captured from transformers {transformers.__version__}: {note}",
            *([f"weights are random numbers of seed {seed}"] if decoder.random else []),
            *decoder.notes,
        ],
    }


def greedy(model: Any, tokens: Sequence[int], count: int, source: Source | None = None) -> list[int]:
    """transformers' own next tokens, `count` of them, by its own cache and its eager attention: the most likely ones,
    whatever penalties a model's generation_config asks for."""
    own = model.generation_config
    model.generation_config = transformers.GenerationConfig(
        bos_token_id=own.bos_token_id, decoder_start_token_id=own.decoder_start_token_id
    )
    try:
        return _greedy(model, tokens, count, source)
    finally:
        model.generation_config = own


def _greedy(model: Any, tokens: Sequence[int], count: int, source: Source | None) -> list[int]:
    ids = torch.tensor([list(tokens)])
    given = (
        {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if source is None
        # As it is: else a token that begins texts is put before it.
        else {**source, "decoder_input_ids": ids, "decoder_start_token_id": ids[0, 0].item()}
    )
    with torch.no_grad(), quiet():
        # Not a model's own: Whisper's knows of languages and times.
        found = transformers.GenerationMixin.generate(
            model,
            **given,
            max_new_tokens=count,
            min_new_tokens=count,
            do_sample=False,
            num_beams=1,
            use_cache=True,
            eos_token_id=None,
            pad_token_id=0,
        )
    return [int(token) for token in found[0, len(tokens) :]]


def _with_source(model: Any, calls: Sequence[RawStep], source: Source) -> list[RawStep]:
    """The calls with what the encoder left, and the last once more with another source."""
    cross = cross_arrays(model, source)
    made = [replace(call, arrays={**call.arrays, **cross}) for call in calls]
    if other := other_source(model, source):
        arrays = {**calls[-1].arrays, **cross_arrays(model, other)}
        made.append(RawStep(f"{calls[-1].description}, a source of another length", arrays, True))
    return made


def cross_arrays(model: Any, source: Source) -> dict[str, np.ndarray]:
    """What the model's own encoder leaves for its decoder's cross-attention, by the names of its inputs."""
    with torch.no_grad(), quiet():
        found = Encoder(model)(*source.values())
    return {f"cross_{name}": tensor.numpy() for name, tensor in found.items()}


def _source(decoder: Decoder, given: Any, seed: int, encoder: bool) -> Source | None:
    if has_encoder(decoder.model):
        return source_of(decoder.model, given, seed)
    if encoder or given is not None:
        raise InputError(f"{decoder.path}: {decoder.name} has no encoder: leave out --encoder and its source")
    return None


def generation_of(
    decoder: Decoder,
    imported: ImportedModel,
    drafted: int,
    capacity: int,
    chunk: int,
    vocabulary: int,
    bytes_per_token: int,
    blocks: Blocks | None = None,
) -> Generation:
    """How tokens are generated with it. `vocabulary`: logits that there are."""
    first = PREFILL if imported.symbols else DECODE
    begin, end = (decoder.special(name, vocabulary) for name in ("bos_token_id", "eos_token_id"))
    return Generation(
        prefill=first,
        decode=DECODE,
        verify=first if drafted or blocks else None,
        next=NEXT,
        chunk=chunk,
        capacity=capacity,
        vocabulary=vocabulary,
        end=end,
        begin=begin[0] if begin else None,
        bytes_per_token=bytes_per_token,
        blocks=blocks,
    )


def _measured(decoder: Decoder, imported: ImportedModel, places: int) -> tuple[int, int]:
    """How many logits there are, which may be more than words, and the bytes of a token's keys and values, of which
    there is room for `places`."""
    first = imported.steps[0]
    logits = None if first.expected is None else first.expected[imported.outputs.index(LOGITS)]
    words = int(decoder.config.vocab_size if logits is None else logits.shape[-1])
    caches = [first.inputs[name].nbytes for name in imported.states if name.startswith(("keys", "values"))]
    return words, sum(caches) // places


def _most(decoder: Decoder) -> int | None:
    """Tokens that the model takes, where its configuration says so."""
    return next((found for name in _LENGTHS if (found := getattr(decoder.config, name, None))), None)


def capacity_of(decoder: Decoder, wanted: int | None, block: int = 1) -> int:
    """In blocks of so many tokens."""
    most = _most(decoder)
    if wanted is None:
        return max(block, min(most or MOST_CAPACITY, MOST_CAPACITY) // block * block)
    if wanted % block:
        raise InputError(
            f"--capacity {wanted} is no multiple of {block}, and the cache of a batch is in blocks of that many "
            f"tokens: give --capacity {-(-wanted // block) * block}"
        )
    if most is not None and wanted > most:
        raise InputError(f"{decoder.path}: {decoder.name} takes {most} tokens: give a --capacity of at most that")
    return wanted


def blocks_of(decoder: Decoder, batch: int, capacity: int, chunk: int) -> Blocks | None:
    """For so many sequences; None where a call is of one."""
    if not batch:
        return None
    if chunk < 2:
        raise InputError(f"{decoder.path}: calls of one token have no batch: give a --chunk of 2 or more")
    return Blocks(input="blocks", size=BLOCK, count=batch * (capacity // BLOCK))


def tokens_of(decoder: Decoder, prompt: Prompt, capacity: int, chunk: int, seed: int) -> list[int]:
    words = int(decoder.config.vocab_size)
    if prompt.given is None:
        count = max(2, min(_MADE_UP, capacity - prompt.steps))
        found = [int(token) for token in np.random.default_rng(seed).integers(0, words, count)]
    else:
        found = encoded(decoder, prompt.given) if isinstance(prompt.given, str) else [*prompt.given]
    if len(found) < 2 or prompt.steps < 1:
        raise InputError(
            f"the prompt has {counted(len(found), 'token')}, and {prompt.steps} behind it are to be carved: a decoder "
            "is carved with a prompt of two or more, and at least one behind it"
        )
    if prompt.drafted >= chunk:
        raise InputError(
            f"{prompt.drafted} drafted tokens and the one before them are more than the {chunk} that a call takes: "
            "give a larger --chunk, or fewer to --speculate"
        )
    if outside := [token for token in found if not 0 <= token < words]:
        raise InputError(
            f"the prompt has token {outside[0]}, and the vocabulary of {decoder.name} goes from 0 to {words - 1}"
        )
    if len(found) + prompt.behind > capacity:
        raise InputError(
            f"{len(found)} tokens and {prompt.behind} behind them are more than the {capacity} that fit in the cache: "
            f"give a shorter prompt{', or a larger --capacity' if capacity < (_most(decoder) or capacity + 1) else ''}"
        )
    return found


def encoded(decoder: Decoder, text: str) -> list[int]:
    from tokenizers import Tokenizer

    if decoder.tokenizer is None:
        raise InputError(f"{decoder.path} has no tokenizer.json: give the prompt as tokens, --prompt-ids 1,2,3")
    return list(Tokenizer.from_str(decoder.tokenizer).encode(encodable(text, "the prompt")).ids)


def _calls(
    tokens: Sequence[int],
    prompt: int,
    chunk: int,
    drafted: int,
    blocks: Blocks | None,
    capacity: int,
    *,
    synthetic: bool,
) -> list[RawStep]:
    """The prompt in chunks, then token by token; at the end a token with `drafted` ones, where there are any."""
    single = len(tokens) - drafted
    begins = [*range(0, prompt, chunk), *range(prompt, single)]
    calls = []
    for begin, end in zip(begins, [*begins[1:], len(tokens)], strict=True):
        arrays = call_inputs(tokens[begin:end], begin, every=bool(drafted) and end == len(tokens))
        if blocks is not None:
            arrays[blocks.input] = blocks.first(end - begin, capacity)
        what = f"prompt, tokens {begin} to {end - 1}" if begin < prompt else f"token {begin}"
        calls.append(RawStep(what, arrays, synthetic))
    return calls


def _calls_together(tokens: Sequence[int], prompt: int, chunk: int, blocks: Blocks, capacity: int) -> list[RawStep]:
    """Another text in other blocks, the prompt without its first token; then a token of the text that was before, of
    this one, and of a third where there is room, all in one call."""
    each = capacity // blocks.size
    own, other, third = (range(each * number, each * (number + 1)) for number in range(3))
    # In no order: where a text lies is not to matter.
    behind = tokens[1 : min(prompt, chunk + 1)]
    beside = Part(behind, 0, other[::-1])
    parts = [Part(tokens[-1:], len(tokens) - 1, own), Part(tokens[:1], len(behind), other[::-1])]
    if blocks.count > each * 2 and chunk > 2:
        parts.append(Part(tokens[prompt - 1 : prompt], 0, third))
    return [
        RawStep("another text", blocks.call([beside], capacity), True),
        RawStep("a token of each text", blocks.call(parts, capacity), True),
    ]
