"""Activations that are rounded to 8 bits (activations.py) in PyTorch: the operator, and programs that have it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import torch

from tapml.importing.activations import LARGEST, LEAST

_ROUNDS = ContextVar("tapml_rounds", default=True)


@contextlib.contextmanager
def without_rounding() -> Iterator[None]:
    """Activations stay what they are meanwhile: two ways to compute a model differ by whole steps where they are
    rounded, and by a float32's last places where they are not."""
    before = _ROUNDS.set(False)
    try:
        yield
    finally:
        _ROUNDS.reset(before)


@torch.library.custom_op("tapml::int8_rounded", mutates_args=())  # type: ignore[untyped-decorator]  # torch has no types
def int8_rounded(data: torch.Tensor) -> torch.Tensor:
    """The numbers that 8-bit integers with a scale for each row of `data` [..., inner] stand for."""
    if not _ROUNDS.get():
        return data.clone()
    wide = data.float()
    greatest = wide.abs().amax(-1, keepdim=True).clamp_min(LEAST)
    integers = torch.floor(wide * (LARGEST / greatest) + 0.5)
    return (integers * (greatest / LARGEST)).to(data.dtype)


@int8_rounded.register_fake
def _(data):  # type: ignore[no-untyped-def]  # as above
    return torch.empty_like(data)


_PRODUCTS = {"linear.default": 0, "matmul.default": 0, "mm.default": 0, "addmm.default": 1}
"""PyTorch's products, and which of their operands is what a weight multiplies, behind which that comes."""

_TURNED = ("t.default", "numpy_T.default", "transpose.int", "permute.default", "detach.default", "alias.default")
"""What gives a matrix, or that matrix transposed."""


def round_products(program: Any, rounds: Callable[[torch.Tensor], bool]) -> None:
    """Put the operator before each product of an exported program with a weight of which `rounds` says so. Each has its
    own: a program may write in place what two of them read."""
    held = {**program.constants, **program.state_dict}
    targets = {spec.arg.name: spec.target for spec in program.graph_signature.input_specs if spec.target is not None}
    weights: set[Any] = set()
    for node in program.graph.nodes:
        if node.op == "placeholder":
            tensor = held.get(targets.get(node.name, ""))
            weights |= {node} if isinstance(tensor, torch.Tensor) and rounds(tensor) else set()
        elif _named(node) in _TURNED and node.args[0] in weights:
            weights.add(node)
    for node in [*program.graph.nodes]:
        place = _PRODUCTS.get(_named(node))
        if place is None or node.args[place + 1] not in weights:
            continue
        data = node.args[place]
        with program.graph.inserting_before(node):
            rounded = program.graph.call_function(torch.ops.tapml.int8_rounded.default, (data,))
        rounded.meta = {**node.meta, "val": torch.empty_like(data.meta["val"])}
        node.update_arg(place, rounded)
    program.graph_module.recompile()


def _named(node: Any) -> str:
    """Of an operator of PyTorch, its name."""
    return node.target.__name__ if node.op == "call_function" and str(node.target).startswith("aten.") else ""
