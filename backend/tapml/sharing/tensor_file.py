"""A test as one safetensors file: tensors "inputs.0", "outputs.0", "bounds.0", the document in its metadata."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from tapml.errors import InputError
from tapml.sharing.document import parse
from tapml.sharing.repro import Repro, of_memory

_KEY = "tapml"


def safetensors_file(repro: Repro) -> bytes:
    """The file's bytes."""
    return bytes(save(repro.arrays, metadata={_KEY: repro.document.model_dump_json()}))


def read_safetensors(where: Path | str, data: bytes) -> Repro:
    """Inverse of `safetensors_file`. Raises InputError for any other file, and for a damaged one."""
    try:
        arrays = load(data)
        length = int.from_bytes(data[:8], "little")
        metadata = json.loads(data[8 : 8 + length]).get("__metadata__", {})
    except (SafetensorError, ValueError, KeyError) as error:
        raise InputError(f"{where} is no readable safetensors file: {error}") from error
    if not isinstance(metadata, dict) or not isinstance(metadata.get(_KEY), str):
        raise InputError(f"{where} holds tensors, but no test: export it with `tapml export SUITE TEST --safetensors`")
    document = parse(where, metadata[_KEY])
    tensors = {}
    for name, tensor in document.named_tensors.items():
        if name in arrays:
            tensors[tensor.digest] = np.ascontiguousarray(arrays[name]).tobytes()
    return of_memory(where, document, tensors)
