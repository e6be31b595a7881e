"""A model to compile: TVM Relax functions and, from the importers, their weights."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tapml.carving.judge import checked
from tapml.errors import InputError
from tapml.importing import import_model
from tapml.program import TensorType
from tapml.results.base import distrust


class Module:
    """Functions over tensors of static shape.

    `Module(ir_module)` takes a TVM Relax IRModule with one or several named functions; `tml.load` gives one from a
    model file.
    """

    def __init__(
        self,
        ir_module: tvm.IRModule,
        parameters: Mapping[str, np.ndarray] | None = None,
        input_count: int | None = None,
        limits: Mapping[int, str] | None = None,
    ) -> None:
        """`parameters`: weights by name, which are main's arguments after the first `input_count`. `limits`: places of
        main's outputs (int32 [1]) that are not 0 where a call asks for more than the model can do, with what is wrong
        then: such a call is refused.

        Raises InputError where there is no Relax function.
        """
        if not isinstance(ir_module, tvm.IRModule):
            found = f"{ir_module!r:.100}"
            raise InputError(f"{found} is no TVM IRModule; model files become modules by tml.load(...)")
        self.ir_module = ir_module
        self.parameters: dict[str, np.ndarray] = dict(parameters or {})
        self._input_count = input_count
        self.limits: dict[int, str] = dict(limits or {})
        self.checked = False
        """Whether it was run and held against an oracle when it was loaded."""
        self.functions: list[str] = [
            gv.name_hint for gv, f in ir_module.functions.items() if isinstance(f, relax.Function)
        ]
        if not self.functions:
            raise InputError("the module has no Relax function to compile")

    @property
    def main(self) -> str:
        """The function that `input` and `output` are of: "main", or the only one.

        Raises InputError where there are several and none is "main".
        """
        if "main" in self.functions:
            return "main"
        if len(self.functions) > 1:
            raise InputError(f"the module has several functions and none is main: {', '.join(self.functions)}")
        return self.functions[0]

    @cached_property
    def input(self) -> list[TensorType]:
        """Types of main's inputs, without the parameters: each has `shape` and `dtype`."""
        function = self.ir_module[self.main]
        count = len(function.params) if self._input_count is None else self._input_count
        return [_type(param.ty, f"input {param.name}") for param in function.params[:count]]

    @cached_property
    def output(self) -> list[TensorType]:
        """Types of main's outputs: each has `shape` and `dtype`, to allocate them by."""
        found = self.ir_module[self.main].ret_ty
        fields = found.fields if isinstance(found, relax.TupleType) else [found]
        return [_type(field, f"output {number}") for number, field in enumerate(fields)]

    def __repr__(self) -> str:
        return f"<tapml.Module {', '.join(self.functions)}>"


def _type(found: Any, what: str) -> TensorType:
    try:
        return TensorType(tuple(int(extent) for extent in found.shape.values), str(found.dtype))
    except (AttributeError, TypeError, ValueError):
        raise InputError(f"{what} is {found}: functions take and give tensors of static shape") from None


def load(
    source: str | Path,
    *,
    texts: Sequence[str] = (),
    input_arrays: Mapping[str, Path] | None = None,
    input_files: Sequence[Path] = (),
    random_inputs: bool = False,
    keep_disagreeing: bool = False,
    no_oracle: bool = False,
    loop_limit: int | None = None,
) -> Module:
    """A model as a Module: "minilm", a .onnx file or a .pt2 file; the inputs fix its shapes, as in `tapml carve`.
    `loop_limit`: the most turns of loops whose number depends on values, by default twice what the inputs take.

    It is run once on this machine, and held against ONNX Runtime or PyTorch. Raises InputError for what cannot be
    imported, and where the two disagree or an operator gives something else each time (a UserWarning with
    `keep_disagreeing`), or nothing can check it (unless `no_oracle`).
    """
    imported = import_model(
        str(source),
        texts=list(texts),
        input_arrays=dict(input_arrays or {}),
        input_files=list(input_files),
        random_inputs=random_inputs,
        loop_limit=loop_limit,
    )
    for line in distrust(str(source), checked(imported, keep_disagreeing=keep_disagreeing, no_oracle=no_oracle)):
        warnings.warn(line, stacklevel=2)
    limits = {imported.outputs.index(name): cause for name, cause in imported.limits.items()}
    module = Module(imported.module, dict(imported.parameters), len(imported.input_names), limits)
    module.checked = True
    return module
