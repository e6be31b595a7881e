"""Programs of torch.export: from a file, and to PyTorch's core operators."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import re
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tapml.errors import InputError
from tapml.importing.dtypes import lacking, stored
from tapml.importing.torch_complex import split_constants
from tapml.importing.torch_decompositions import own, remaining
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
        if unknown and _registered(unknown[1].partition(".")[0]):
            return load(path)
        if unknown:
            package = _OWNERS.get(unknown[1].partition(".")[0], "").partition(".")[0]
            raise InputError(
                f"{path} uses the operator {unknown[1]}, which is not part of PyTorch: "
                f"{f'install {package}, which has it, or ' if package else ''}export the model without it",
                operator=unknown[1],
                reason="it is no operator of PyTorch",
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


_OWNERS = {"transformers": "transformers.integrations.moe", "torchvision": "torchvision"}
"""Packages with operators of their own, and what to import to have them; a file may name no others."""


def _registered(package: str) -> bool:
    """Whether the operators of a package have come by importing it."""
    if package not in _OWNERS or _OWNERS[package] in sys.modules:
        return False
    try:
        importlib.import_module(_OWNERS[package])
    except ImportError:
        return False
    return True


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


def in_core(program: Any) -> Any:
    """The program in PyTorch's core operators and those that replace some of these here; it writes nothing in place."""
    return _in_parts(program, own())


def decomposed(program: Any, path: Path, converted: Callable[[str], bool], *, begun: bool = False) -> Any:
    """The program in operators that the importer converts, as far as there are any: `converted` says of one whether it
    does. None writes in place: what is written are further outputs. `begun`: it is `in_core` already.

    Raises InputError where PyTorch cannot, or a tensor is of a dtype that nothing in WebGPU stands for.
    """
    try:
        with warnings.catch_warnings(), _quiet("torch._subclasses.fake_tensor"):
            warnings.simplefilter("ignore")
            functional = program if begun else in_core(program)
            done: set[Any] = set()
            # What PyTorch makes of an operator may hold further ones.
            while new := {op: part for op, part in remaining(_nodes(functional), converted).items() if op not in done}:
                functional = _in_aten(functional, new)
                done |= new.keys()
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
    _give_its_own(functional)
    split_constants(functional)
    _check_dtypes(functional, path)
    for node in functional.graph.nodes:
        if getattr(node.target, "__name__", "") == "with_effects":
            name = getattr(node.args[1], "__name__", str(node.args[1]))
            raise InputError(
                f"{path}: the operator {name} (at {node.name}) does something besides what it gives (it checks, or "
                "prints): export the model without it",
                operator=name,
                node=node.name,
                reason="it has effects",
            )
    # What the oracle's run asserts need not be asserted again.
    for node in reversed(functional.graph.nodes):
        if node.op == "call_function" and str(node.target).startswith("aten._assert") and not node.users:
            functional.graph.erase_node(node)
    functional.graph.eliminate_dead_code()
    return functional


def _give_its_own(functional: Any) -> None:
    """PyTorch lets what it decomposes share its constants' dictionary with what it was made of, which stays the oracle:
    what changes here must not change there."""
    functional._state_dict, functional._constants = dict(functional.state_dict), dict(functional.constants)


def _in_parts(program: Any, parts: Mapping[Any, Any]) -> Any:
    """In PyTorch's core operators, and some of these by `parts`."""
    import torch

    table = torch.export.default_decompositions()
    table.update(parts)
    try:
        return program.run_decompositions(table)
    except Exception:  # whatever its operators raise
        with _views_as_reshapes(program):
            return program.run_decompositions(table)


def _in_aten(program: Any, parts: Mapping[Any, Any]) -> Any:
    """By those of `parts` that do not end in the primitives of PyTorch's own compiler."""
    try:
        made = _in_parts(program, parts)
        failed = any(getattr(node.target, "namespace", "") == "prims" for node in _nodes(made))
    except Exception:  # whatever they raise
        failed = True
    if not failed:
        return made
    if len(parts) > 1:
        for operator, part in parts.items():
            program = _in_aten(program, {operator: part})
    return program


def _nodes(program: Any) -> list[Any]:
    """Of all its graphs."""
    return [node for found in program.graph_module.modules() if hasattr(found, "graph") for node in found.graph.nodes]


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
    """Raises InputError naming the first tensor, and the operator that makes it, of a dtype that nothing stands for:
    complex tensors may be between operators only."""
    for node in functional.graph.nodes:
        dtype = str(getattr(node.meta.get("val"), "dtype", "")).removeprefix("torch.")
        within = node.op == "call_function" and not any(user.op == "output" for user in node.users)
        if lacking(dtype) and not (within and dtype.startswith("complex")):
            try:
                stored(dtype)
            except InputError as error:
                if node.op == "call_function":
                    error.at(node.target.__name__, node.name)
                    raise error.within(str(path)) from None
                raise error.within(f"{path}: {node.name}") from None
