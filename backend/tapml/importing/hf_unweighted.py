"""A decoder of a configuration alone: what it computes, without a byte of weights.

Its parameters are memory that was never touched, which is none: nothing here reads them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tapml.errors import InputError
from tapml.importing.exported_program import import_program
from tapml.importing.hf_capture import cached_program
from tapml.importing.hf_encoder import has_encoder
from tapml.importing.hf_import import DECODE, PREFILL, TOKENS, WANTED, capacity_of, generation_of, provenance_of
from tapml.importing.hf_kept import kept_by
from tapml.importing.hf_model import asked, decoder_of, with_untouched_weights
from tapml.importing.inputs import RawStep
from tapml.importing.model import ImportedModel, Progress
from tapml.importing.torch_export import in_core
from tapml.program.generation import LOGITS, NEXT, call_inputs

_CALLS = [RawStep("tokens", call_inputs([0, 0], 0), True), RawStep("a token", call_inputs([0], 2), True)]
"""For their shapes: what differs is a symbol."""

_NOTE = "it has no weights, and was not compared with transformers"


def import_unweighted(path: Path, progress: Progress, *, capacity: int | None, chunk: int) -> ImportedModel:
    """The decoder of a config.json, or of that of a folder, whose weights are not looked at: as `import_decoder` gives
    it, without steps; of its parameters there are names and types.

    Raises InputError for what transformers cannot make, and for a model whose states only running it tells.
    """
    progress(f"reading {path.name}")
    dtypes = []

    def made(config: Any) -> Any:
        dtypes.append(config.get_text_config().dtype)  # the model is made in float32
        return with_untouched_weights(config)

    decoder = decoder_of(path, made)
    what = decoder.name
    if has_encoder(decoder.model):
        raise InputError(f"{path}: {what} has an encoder: without weights, decoders by themselves are made only")
    capacity = capacity_of(decoder, capacity)
    progress(f"exporting {what}")
    without_weights = FakeTensorMode(allow_non_fake_inputs=True)
    with asked(decoder.model, "what it keeps of two tokens, without its weights"), without_weights:
        kept = kept_by(decoder.model, capacity)
    if kept.states:
        raise InputError(
            f"{path}: what {what} begins with ({min(kept.states)}) shows only when it is run: give its weights",
            reason="it has states of a recurrence",
        )
    with asked(decoder.model, "some tokens and what it keeps of them"):
        program, most = cached_program(decoder.model, capacity, kept=kept, functional=in_core)
    chunk = min(chunk, most, capacity)
    imported = import_program(
        path,
        lambda: program,
        lambda _: _CALLS,
        progress,
        {},
        outputs=[LOGITS, NEXT],
        sizes={TOKENS: (1, chunk), WANTED: (1, chunk)},
        provenance=provenance_of(decoder, what, _NOTE),
        weighted=False,
    )
    own = {f"model.{name}" for name, _ in decoder.model.named_parameters()} if torch.float16 in dtypes else set()
    one = {symbol.name: 1 for symbol in imported.symbols}
    words = int(decoder.config.vocab_size)
    bytes_per_token = 4 * sum(heads * dim for pair in kept.pairs.values() for heads, dim in pair)
    return replace(
        imported,
        specialized={PREFILL: {}, DECODE: one},
        halves={name for name, _ in imported.parameters if name.removesuffix(".T") in own},
        generation=generation_of(decoder, imported, 0, capacity, chunk, words, bytes_per_token),
    )
