"""Programs of torch.export: from a file, and to PyTorch's core operators."""

from __future__ import annotations

import contextlib
import io
import logging
import re
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tapml.errors import InputError
from tapml.importing.dtypes import lacking, stored
from tapml.lowering.quiet import reason


def load(path: Path) -> Any:
    """The program in a file. Raises InputError where there is none, or PyTorch cannot load it."""
    import torch

    # PyTorch logs the cause at length and raises only a pointer to the log.
    try:
        with _quiet("torch.export") as log:
            return torch.export.load(path)
    except Exception as error:  # zip, pickle, version and key errors alike
        unknown = re.search(r"failed to resolve torch\.ops\.([\w.]+)", log.getvalue())
        if unknown:
            raise InputError(
                f"{path} uses the operator {unknown.group(1)}, which is not part of PyTorch: "
                "export the model without it"
            ) from error
        why = reason(error)
        if _is_saved(path):
            raise InputError(
                f"{path} was written by torch.export.save, but PyTorch {torch.__version__} itself cannot load it "
                f"({why}): export and save it again with this version of PyTorch, and see that torch.export.load takes "
                "the file",
                reason=why,
            ) from error
        raise InputError(
            f"{path} is not a program that torch.export.save wrote ({why}): give the file that "
            "torch.export.save(torch.export.export(model, inputs), FILE) writes",
            reason=why,
        ) from error


@contextlib.contextmanager
def _quiet(name: str) -> Iterator[io.StringIO]:
    """What is logged under a name, which is shown to nobody else."""
    log, logger = io.StringIO(), logging.getLogger(name)
    handlers, logger.handlers = logger.handlers, [logging.StreamHandler(log)]
    propagate, logger.propagate = logger.propagate, False
    try:
        yield log
    finally:
        logger.handlers, logger.propagate = handlers, propagate


def _is_saved(path: Path) -> bool:
    """Whether it is an archive of torch.export.save, of any version."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(
                re.search(r"(archive_format|serialized_exported_program|models/.*)\b", n) for n in archive.namelist()
            )
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return False


def decomposed(program: Any, path: Path) -> Any:
    """The program in PyTorch's core operators, of which none writes in place: what is written are further outputs.

    Raises InputError where PyTorch cannot, or a tensor is of a dtype that nothing in WebGPU stands for.
    """
    try:
        with warnings.catch_warnings(), _quiet("torch._subclasses.fake_tensor"):
            warnings.simplefilter("ignore")
            try:
                functional = program.run_decompositions()
            except Exception:  # whatever its operators raise
                with _views_as_reshapes(program):
                    functional = program.run_decompositions()
    except Exception as error:
        # The cause comes first, and the model's own line last but one: all else is for who debugs PyTorch.
        cause, line = str(error).strip().partition("\n")[0], re.search(r"\n +(.+)\nUse tlparse", str(error))
        what = repr(line[1]) if line else "it"
        mend = (
            "such as with a tensor of positions (index_copy, index_select) in place of a number that depends on values "
            "(.item())"
            if ".item()" in what or re.search(r"unbacked|data.dependent|\bu\d", str(error))
            else "or with another version of PyTorch"
        )
        raise InputError(
            f"{path}: PyTorch {_torch_version()} cannot decompose {what} into its core operators ({cause}): write that "
            f"in another way and export again, {mend}",
            operator=_failed_operator(str(error)),
            reason=cause,
        ) from error
    _check_dtypes(functional, path)
    # What the oracle's run asserts need not be asserted again.
    for node in reversed(functional.graph.nodes):
        if node.op == "call_function" and str(node.target).startswith("aten._assert") and not node.users:
            functional.graph.erase_node(node)
    functional.graph.eliminate_dead_code()
    return functional


def _failed_operator(said: str) -> str | None:
    """The operator that PyTorch ran when it failed."""
    found = re.search(r"%\w+ : .*?call_function\[target=torch\.ops\.([\w.]+)\]", said)
    return found[1] if found else None


@contextlib.contextmanager
def _views_as_reshapes(program: Any) -> Iterator[None]:
    """A view is of strides that PyTorch's own decomposition changes (that of attention does); a reshape is of none."""
    import torch

    aten = torch.ops.aten
    views = [node for node in program.graph.nodes if node.target is aten.view.default]
    for node in views:
        node.target = aten.reshape.default
    try:
        yield
    finally:
        for node in views:
            node.target = aten.view.default


def _torch_version() -> str:
    import torch

    return str(torch.__version__)


def _check_dtypes(functional: Any, path: Path) -> None:
    """Raises InputError naming the first tensor, and the operator that makes it, of a dtype that nothing stands for."""
    for node in functional.graph.nodes:
        dtype = str(getattr(node.meta.get("val"), "dtype", "")).removeprefix("torch.")
        if lacking(dtype):
            try:
                stored(dtype)
            except InputError as error:
                if node.op == "call_function":
                    error.at(node.target.__name__, node.name)
                    raise error.within(str(path)) from None
                raise error.within(f"{path}: {node.name}") from None
