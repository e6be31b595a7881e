"""What an encoder is given, whose outputs a model attends to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapml.compiled.call import function_of
from tapml.compiled.files import CompiledFiles
from tapml.compiled.text import tokenizer_of
from tapml.unicode import encodable


def encoder_inputs(files: CompiledFiles, source: str | Sequence[int] | np.ndarray) -> dict[str, np.ndarray]:
    """Of a text, of tokens, or of an array as the encoder takes it. Raises InputError where a text is given and it has
    no tokenizer."""
    if isinstance(source, str):
        source = list(tokenizer_of(files).encode(encodable(source, "the source")).ids)
    array = source if isinstance(source, np.ndarray) else np.array([list(source)], np.int32)
    return {function_of(files.model).inputs[0].name: array}
