"""A model's inputs of texts, by the tokenizer that came with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapml.compiled.call import function_of
from tapml.compiled.files import CompiledFiles
from tapml.errors import InputError
from tapml.program.graph import numpy_dtype
from tapml.text import counted, listed
from tapml.unicode import encodable

_SHOWN = 40
_OF_A_TOKEN = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
"""What Hugging Face's models call their inputs, and its tokenizers what they make of a text."""


def text_inputs(files: CompiledFiles, function: str | None, texts: Sequence[str]) -> dict[str, np.ndarray]:
    """The inputs of one call, a row for each text, filled up with 0 to the longest, or to the model's length where that
    is fixed.

    Raises InputError where the model has no tokenizer or other inputs than a text makes, where the package tokenizers
    is missing, and for a text that is empty or too long, or another number of texts than the model takes.
    """
    model = files.model
    found = function_of(model, function)
    tensors = {port.name: found.tensors[port.tensor] for port in found.inputs}
    if model.tokenizer is None:
        raise InputError(f"{files.path} has no tokenizer: give tensors, by --inputs or --input")
    if not tensors or tensors.keys() - _OF_A_TOKEN.keys() or any(len(t.shape) != 2 for t in tensors.values()):
        raise InputError(
            f"{files.path} takes {listed([*tensors], 8) or 'nothing'}, and a text makes {', '.join(_OF_A_TOKEN)}, each "
            "of texts and tokens: give tensors, by --inputs or --input"
        )
    encodings = _encoded(files, texts)
    rows, length = next(iter(tensors.values())).shape
    longest = max(len(encoding.ids) for encoding in encodings)
    most = length if isinstance(length, int) else _most(model.symbols, length)
    if isinstance(rows, int) and rows != len(texts):
        raise InputError(f"{files.path} takes {counted(rows, 'text')} in a call, and was given {len(texts)}")
    if most is not None and longest > most:
        text = max(zip(encodings, texts, strict=True), key=lambda pair: len(pair[0].ids))[1]
        raise InputError(
            f"the text {_short(text)!r} has {longest} tokens, {files.path} takes at most {most}: shorten it"
        )
    columns = length if isinstance(length, int) else longest
    if columns > longest and "attention_mask" not in tensors:
        raise InputError(f"{files.path} takes {columns} tokens and has no attention_mask: give a text of that length")
    arrays = {name: np.zeros((len(texts), columns), numpy_dtype(tensor.dtype)) for name, tensor in tensors.items()}
    for row, encoding in enumerate(encodings):
        for name, array in arrays.items():
            array[row, : len(encoding.ids)] = getattr(encoding, _OF_A_TOKEN[name])
    return arrays


def tokenizer_of(files: CompiledFiles) -> Any:
    """The tokenizer that a model brought, as `read_tokenizer` gives it. Raises InputError as it."""
    assert files.model.tokenizer is not None
    name = files.model.tokenizer.file
    return read_tokenizer(files.attachment(name), f"{files.path}: {name}")


def read_tokenizer(content: bytes, where: str) -> Any:
    """The tokenizer of a tokenizer.json, of the package tokenizers, without padding and truncation. `where`: whose it
    is, for people.

    Raises InputError where the package is missing, or the file is none that it can use.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise InputError("text needs the package tokenizers: pip install 'tapml[minilm]'") from error
    try:
        tokenizer = Tokenizer.from_str(content.decode())
    except Exception as error:  # the package raises Exception itself
        raise InputError(f"{where} is no tokenizer that can be used: {str(error)[:300]}") from error
    # What the file asks for is for other uses: a short text would be mostly padding, a long one lose its end unsaid.
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _encoded(files: CompiledFiles, texts: Sequence[str]) -> list[Any]:
    tokenizer = tokenizer_of(files)
    for text in texts:
        if not text.strip():
            raise InputError("--text is empty: give a sentence")
    return [tokenizer.encode(encodable(text, "--text")) for text in texts]


def _most(symbols: Sequence[Any], axis: Any) -> int | None:
    return next((symbol.maximum for symbol in symbols if symbol.name == axis), None)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
