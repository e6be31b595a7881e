"""The tensors of an ONNX file: where their bytes are, and whether there are as many as it says."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from tapml.errors import InputError


def check_tensors(model: Any, path: Path) -> None:
    """Raises InputError naming the first tensor that is larger or smaller than its bytes, or lies outside the model's
    own folder, however it gets there.
    """
    from onnx import TensorProto

    for tensor in tensors(model.graph):
        where = f"{path}: the tensor {tensor.name[:200]!r}"
        if any(extent < 0 for extent in tensor.dims):
            raise InputError(f"{where} has the shape {list(tensor.dims)[:32]}: export the model again")
        count = math.prod(tensor.dims)
        if tensor.data_location == TensorProto.EXTERNAL:
            _check_external(tensor, count, where, path)
        elif tensor.HasField("raw_data"):
            _check_length(tensor, count, len(tensor.raw_data), where)
        else:
            fields = ("float", "int32", "int64", "uint64", "double", "string")
            held = max(len(getattr(tensor, f"{field}_data")) for field in fields)
            # Complex numbers take two entries, and of 4-bit ones two share an entry.
            if not held / 2 <= count <= 2 * held:
                raise InputError(f"{where} says that it has {count} elements, and holds {held}: export the model again")


def tensors(graph: Any) -> Iterator[Any]:
    """All that hold data: weights and constants, also of the graphs inside nodes."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("sparse_tensor"):
                yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
        for inner in subgraphs(node):
            yield from tensors(inner)


def subgraphs(node: Any) -> Iterator[Any]:
    """The graphs inside a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _check_length(tensor: Any, count: int, found: int, where: str) -> None:
    wanted = _nbytes(tensor, count)
    if wanted is not None and wanted != found:
        raise InputError(f"{where} says that it takes {wanted} bytes, and holds {found}: export the model again")


_PACKED = {"UINT4", "INT4", "FLOAT4E2M1", "UINT2", "INT2", "STRING"}
"""Several in a byte, or of no fixed size."""


def _nbytes(tensor: Any, count: int) -> int | None:
    """None for what is packed, and for types that ONNX does not know."""
    from onnx import TensorProto, helper

    try:
        if TensorProto.DataType.Name(tensor.data_type) in _PACKED:
            return None
        return count * int(helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)
    except (KeyError, ValueError, TypeError):
        return None


def _check_external(tensor: Any, count: int, where: str, path: Path) -> None:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    what = f"external data file {location[:200]!r} (for {tensor.name[:200]})"
    parts = PurePosixPath(location).parts
    if not parts or "\0" in location or PurePosixPath(location).is_absolute() or ".." in parts:
        raise InputError(f"{path}: its {what} is not in the model's folder: put it there and export the model again")
    if PureWindowsPath(location).drive or "\\" in location:
        raise InputError(f"{path}: its {what} has no name that every system takes: export the model again")
    place = path.parent
    for part in parts:
        place = place / part
        if place.is_symlink():
            raise InputError(f"{path}: its {what} is behind a link, {place}: copy what it leads to there")
    try:
        offset, length = (int(entries.get(key) or default) for key, default in (("offset", 0), ("length", -1)))
    except ValueError as error:
        raise InputError(f"{where}: its place in the {what} is no number: export the model again") from error
    if not place.is_file():
        raise InputError(f"{path}: its external data file {location} (for {tensor.name}) is missing")
    size = place.stat().st_size - offset
    held = size if "length" not in entries else length
    if offset < 0 or not 0 <= held <= size:
        raise InputError(f"{where} is outside of its {what}: export the model again")
    wanted = _nbytes(tensor, count)
    if wanted is not None and (held < wanted if "length" not in entries else held != wanted):
        raise InputError(f"{where} says that it takes {wanted} bytes, and holds {held}: export the model again")
