"""A node of an ONNX model as a call of another implementation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax

from tapml.importing.external import call
from tapml.importing.model import Functions
from tapml.importing.relax_ir import Expr


def elsewhere(
    node: Any, inputs: Sequence[Expr | None], opsets: Mapping[str, int], functions: Functions, builder: Expr
) -> dict[str, Expr]:
    """The outputs that the model reads, by name: of the function with the operator's name, or of ONNX Runtime.

    Raises InputError where neither computes it.
    """
    from onnx import helper

    fields = {
        "source": "python" if node.op_type in functions else "onnx",
        "domain": node.domain,
        "version": opsets.get(node.domain, 1),
        "operator": node.op_type,
        "attributes": {found.name: _plain(helper.get_attribute_value(found)) for found in node.attribute},
    }
    made = builder.emit(call(fields, inputs, [bool(name) for name in node.output], functions))
    names = [name for name in node.output if name]
    if len(names) == 1:
        return {names[0]: made}
    return {name: builder.emit(relax.TupleGetItem(made, place)) for place, name in enumerate(names)}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
