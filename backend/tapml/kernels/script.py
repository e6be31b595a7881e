"""Reading a lowered model back from its TVMScript text, without letting the text run anything else."""

from __future__ import annotations

import ast

import tvm

from tapml.errors import InputError
from tapml.kernels.lower import Lowered, read_lowered
from tapml.kernels.quiet import quiet_tvm

_ROOTS = {"T", "R", "I", "cls"}
_BUILTINS = {"range", "float", "int", "bool", "True", "False", "None"}


def parse_script(text: str, input_count: int, source: str) -> Lowered:
    """A suite's `model/module.tvmscript` as a lowered module; `source` names it in errors.

    TVM's parser evaluates expressions of the text as Python, so everything but TVMScript's own vocabulary is
    refused first: a suite may come from a stranger. Raises InputError.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise InputError(f"{source} is damaged (line {error.lineno}: {error.msg}): carve the suite again") from error
    _check(tree, source)
    try:
        with quiet_tvm():
            module = tvm.script.from_source(text)
    except Exception as error:  # the parser raises several unrelated types
        raise InputError(f"TVM cannot read {source}: {str(error).strip()[-300:]}; carve the suite again") from error
    return read_lowered(module, input_count)


def _check(tree: ast.Module, source: str) -> None:
    known = _ROOTS | _BUILTINS | {"Module"} | _bound_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Lambda | ast.AsyncFunctionDef | ast.JoinedStr):
            bad = type(node).__name__
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            bad = node.attr
        elif isinstance(node, ast.Name) and (node.id.startswith("__") or node.id not in known):
            bad = node.id
        elif isinstance(node, ast.Call) and not _is_vocabulary(node.func):
            bad = ast.unparse(node.func)
        else:
            continue
        line = getattr(node, "lineno", 0)
        raise InputError(f"{source}, line {line}: {bad!r} is not TVMScript; refusing to read the file")


def _bound_names(tree: ast.Module) -> set[str]:
    names = {arg.arg for node in ast.walk(tree) if isinstance(node, ast.arguments) for arg in node.args}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def _is_vocabulary(function: ast.expr) -> bool:
    """T.x(...), R.x.y(...), cls.kernel(...), or a builtin of the list."""
    while isinstance(function, ast.Attribute):
        function = function.value
    return isinstance(function, ast.Name) and function.id in _ROOTS | _BUILTINS
