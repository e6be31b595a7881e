"""An ONNX file with other weights: as a file, for whoever computes an ONNX model reads one."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from tapml.errors import InputError
from tapml.importing.model import ImportedModel, Replace
from tapml.importing.onnx_file import files, fingerprint, read
from tapml.importing.onnx_rounded import Rounded, round_products
from tapml.importing.onnx_tensors import tensors

_MOST_INSIDE = 1 << 30
"""Bytes of a file that holds its weights itself: protobuf writes no 2 GB."""

_Result = TypeVar("_Result")


def import_replaced(path: Path, replaced: Replace, importer: Callable[[Path, Rounded], ImportedModel]) -> ImportedModel:
    """What `importer` makes of a copy of the file in which these tensors are replaced, and what products with them are
    given is rounded, of which it is told. The copy is there as long as something of the model may read it. Raises
    InputError where it cannot be written."""
    folder = _Folder()
    copy = folder.path / path.name
    sha256 = fingerprint(files(read(path), path))
    try:
        rounded = _write(path, copy, replaced)
    except OSError as error:
        raise InputError(f"{copy} cannot be written: {error.strerror}: make room in {folder.path.parent}") from error
    model = importer(copy, rounded)

    def keeping(function: Callable[..., _Result] | None) -> Callable[..., _Result] | None:
        return function and folder.keeping(function)

    return replace(
        model,
        provenance={**model.provenance, "sha256": sha256},
        again=keeping(model.again),
        second=keeping(model.second),
        intermediates=keeping(model.intermediates),
        in_detail=keeping(model.in_detail),
    )


class _Folder:
    """A temporary one, which goes with the last that knows it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="tapml-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def keeping(self, function: Callable[..., _Result]) -> Callable[..., _Result]:
        """The function, which knows it."""

        def called(*given: Any) -> _Result:
            assert self.path
            return function(*given)

        return called


def _write(path: Path, copy: Path, replaced: Replace) -> Rounded:
    import onnx
    from onnx import TensorProto, numpy_helper
    from onnx.external_data_helper import load_external_data_for_model

    model = read(path)
    load_external_data_for_model(model, str(path.parent))
    rounded = round_products(model, replaced.rounds, path)
    for tensor in tensors(model.graph):
        if tensor.data_type not in (TensorProto.FLOAT, TensorProto.FLOAT16) or len(tensor.dims) != 2:
            continue
        if (new := replaced(numpy_helper.to_array(tensor))) is not None:
            tensor.CopyFrom(numpy_helper.from_array(new, tensor.name))
    outside = model.ByteSize() > _MOST_INSIDE
    onnx.save(model, copy, save_as_external_data=outside, location=f"{copy.name}.data" if outside else None)
    return rounded
