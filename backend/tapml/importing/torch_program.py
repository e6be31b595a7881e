"""TVM's importer of exported programs, with each node's result held against what PyTorch says that it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import tvm
from tvm import relax
from tvm.relax import op
from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

from tapml.errors import InputError
from tapml.importing.external import call
from tapml.importing.model import Functions
from tapml.importing.relax_ir import Expr, tensor_dtype
from tapml.importing.torch_arithmetic import Converter
from tapml.importing.torch_complex import convert_complex, is_complex
from tapml.lowering.quiet import reason


class ProgramImporter(ExportedProgramImporter):  # type: ignore[misc]  # TVM has no types
    """`from_exported_program` as TVM's. Raises InputError naming operator and node that cannot be imported."""

    def __init__(self, converters: Mapping[str, Converter], functions: Functions, *, copies: bool = True) -> None:
        """`converters` replace TVM's own; `functions` compute the operators of their names. PyTorch computes what TVM
        lacks, fails to convert, or makes something else of than PyTorch does. Without `copies` the module's constants
        are the program's own memory."""
        if not copies:
            self._convert_pytorch_tensor_to_tvm = _shared
        self._own = converters
        self._functions = functions
        super().__init__()

    def create_convert_map(self) -> dict[str, Any]:
        self.theirs = super().create_convert_map()
        return defaultdict(lambda: self._convert)

    def _check_unsupported_func_type(self, nodes: Sequence[Any]) -> None:
        """They are computed elsewhere."""

    def _convert(self, node: Any) -> Any:
        name, package = node.target.__name__, str(node.target).partition(".")[0]
        own = package != "aten" and hasattr(node.target, "_schema")
        _check(node)
        failure = f"it is an operator of {package}, not of PyTorch" if own else "TVM's PyTorch importer lacks it"
        if name.partition(".")[0] not in self._functions:
            try:
                if is_complex(node):
                    return convert_complex(node, self, self._by_name)
                if name in self._own or name in self.theirs:
                    return self._by_name(node)
            except InputError as error:
                error.at(name, node.name)
                raise
            except Exception as error:  # TVM and its importer raise their own types, without a common base
                failure = f"TVM's PyTorch importer cannot convert it: {reason(error)}"
        try:
            return self._elsewhere(node)
        except InputError as error:
            raise InputError(
                f"the operator {name} (at {node.name}): {failure}, and {error}: export the model without it, or give a "
                "Python function that computes it with --external FILE.py",
                operator=name,
                node=node.name,
                reason=failure,
            ) from error

    def _by_name(self, node: Any) -> Any:
        name = node.target.__name__
        return self._as_in_torch(node, self._own[name](node, self) if name in self._own else self.as_tvm(node))

    def as_tvm(self, node: Any) -> Any:
        """What TVM's own converter makes of a node."""
        return self.theirs[node.target.__name__](node)

    def _as_in_torch(self, node: Any, made: Any) -> Any:
        """`made`, if it is a tensor of the shape that PyTorch gives: in PyTorch's dtype. Raises ValueError if not."""
        wanted, dtype = node.meta.get("val"), tensor_dtype(getattr(made, "ty", None))
        if dtype is None or not hasattr(wanted, "shape") or not isinstance(made.ty.shape, relax.ShapeExpr):
            return made
        sizes = [getattr(size, "value", None) for size in made.ty.shape.values]
        if len(sizes) != len(wanted.shape) or any(
            isinstance(size, int) and found not in (size, None) for size, found in zip(wanted.shape, sizes, strict=True)
        ):
            raise ValueError(f"it makes {made.ty.shape} of what is {list(wanted.shape)} in PyTorch")
        named = str(wanted.dtype).removeprefix("torch.")
        if dtype == named:
            return made
        if not same_kind(dtype, named):
            raise ValueError(f"it makes {dtype} of what is {named} in PyTorch")
        return self.block_builder.emit(op.astype(made, named))

    def _elsewhere(self, node: Any) -> Expr:
        """PyTorch computes it, or the function of its name."""
        name = str(node.target)
        own = name.split(".")[-2] if name.count(".") else name
        fields = {
            "source": "python" if own in self._functions else "torch",
            "operator": own if own in self._functions else name,
            "attributes": {key: _plain(value) for key, value in node.kwargs.items() if key not in _PLACES},
        }
        outputs = node.meta["val"]
        count = len(outputs) if isinstance(outputs, tuple | list) else 1
        made = call(fields, self.retrieve_args(node), [True] * count, self._functions)
        return self.block_builder.emit(made)


_PLACES = ("device", "layout", "pin_memory", "memory_format")
"""Where and how a tensor lies, which is not said of what is computed elsewhere."""


def _shared(tensor: Any) -> Any:
    return tvm.runtime.from_dlpack(tensor.detach().contiguous())


def _plain(value: Any) -> Any:
    """Of a dtype its name."""
    return str(value).removeprefix("torch.") if str(value).startswith("torch.") else value


def _check(node: Any) -> None:
    """Raises InputError for what has no size before it runs, and for random numbers."""
    import torch
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    name, found = node.target.__name__, node.meta.get("val")
    tensors = [one for one in (found if isinstance(found, tuple | list) else [found]) if hasattr(one, "shape")]
    if any(free_unbacked_symbols(tensor) for tensor in tensors):
        raise InputError(
            f"the size of what the operator {name} (at {node.name}) gives depends on the values of the input: write it "
            "with a fixed size, such as torch.where in place of a mask as an index, topk in place of nonzero",
            operator=name,
            node=node.name,
            reason="a size depends on values",
        )
    if name in _LOOPS:
        raise InputError(
            f"the operator {name} (at {node.name}) is a loop over a program of its own, which tapml does not carve: "
            "write it as a Python loop of a fixed number of turns, which torch.export unrolls",
            operator=name,
            node=node.name,
            reason="it is a loop",
        )
    draws = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) and not name.startswith(_SURE)
    if draws or (name == "native_dropout.default" and node.args[2] is not False):
        raise InputError(
            f"the operator {name} (at {node.name}) draws random numbers, which are others in each run: export the "
            "model in evaluation mode (model.eval()), or give them as an input",
            operator=name,
            node=node.name,
            reason="it draws random numbers",
        )


_LOOPS = ("while_loop", "scan", "map_impl", "map", "associative_scan")
"""Of torch.export's control flow."""

_SURE = ("native_dropout", "dropout", "_scaled_dot_product", "gru", "lstm", "rnn_")
"""Which draw none outside of training."""


def same_kind(one: str, other: str) -> bool:
    """Whether both are integers, or both floating-point numbers."""
    return all("int" in dtype for dtype in (one, other)) or all("float" in dtype for dtype in (one, other))
