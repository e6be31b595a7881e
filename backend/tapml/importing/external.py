"""One operator run by another implementation: ONNX Runtime, ONNX's own, PyTorch, or a function, tapml's or given.

What is asked for may stand in a stranger's suite: of PyTorch only operators that compute a new tensor of tensors are
run, of ONNX only a single node without graphs or files, and functions only where they were given in this process.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tapml.errors import InputError
from tapml.formats import validated
from tapml.importing.dtypes import narrow_array
from tapml.importing.model import Array, Functions
from tapml.importing.onnx_run import OnnxReference, OnnxRuntime, Oracle
from tapml.importing.relax_ir import Expr, static_shape, tensor_dtype
from tapml.operators.draw import draw
from tapml.operators.external import External
from tapml.program.graph import numpy_dtype

Implementation = Callable[[Sequence[Array]], list[Array]]
"""From a node's inputs to its outputs, in the dtypes of the graph."""


def implementation(external: External, functions: Functions) -> Implementation:
    """What runs `external`. Raises InputError where it cannot be run here."""
    run = _run(external, functions)

    def called(inputs: Sequence[Array]) -> list[Array]:
        found = run([array.astype(numpy_dtype(dtype)) for array, dtype in zip(inputs, external.inputs, strict=True)])
        wanted = [dtype for dtype in external.outputs if dtype]
        if (dtypes := [str(array.dtype) for array in found]) != wanted:
            raise InputError(f"{external.who} gave {', '.join(dtypes)} in place of {', '.join(wanted)}")
        return [narrow_array(array, f"an output of {external.who}")[0] for array in found]

    return called


def _run(external: External, functions: Functions) -> Callable[[list[Array]], list[Array]]:
    """From inputs to outputs, in the implementation's own dtypes."""
    with _told(external):
        run = _SOURCES[external.source](external, functions)

    def called(inputs: list[Array]) -> list[Array]:
        with _told(external), np.errstate(all="ignore"):
            return [np.asarray(array) for array in run(inputs)]

    return called


@contextlib.contextmanager
def _told(external: External) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # whatever its author raises
        raise InputError(f"{external.who} cannot be run: {type(error).__name__}: {error}") from error


def _filled(operands: Any, tensors: Iterator[Any]) -> Any:
    """An external's operands with the next of `tensors` in each place of one."""
    if isinstance(operands, dict):
        return next(tensors)
    return [_filled(item, tensors) for item in operands] if isinstance(operands, list) else operands


def call(fields: Mapping[str, Any], operands: Sequence[Any], wanted: Sequence[bool], functions: Functions) -> Any:
    """The Relax call of an operator that `fields` describe: `operands` are expressions or literals, `wanted` says of
    each output whether the model reads it.

    It is run once to know its outputs: on the constants among its operands, and zeros. Raises InputError where that
    cannot be done.
    """
    arrays, tensors = [], []

    def operand(found: Any) -> Any:
        if isinstance(found, list | tuple):
            return [operand(item) for item in found]
        if not isinstance(found, relax.Expr):
            return found
        shape, dtype = static_shape(found.ty), tensor_dtype(found.ty)
        if shape is None or dtype is None:
            why = f"{fields['operator']} is computed elsewhere at fixed sizes only"
            raise InputError(f"{why}: give inputs of one size", reason=why)
        constant = isinstance(found, tvm.ir.GenericConst)
        arrays.append(found.value.numpy() if constant else np.zeros(shape, numpy_dtype(dtype)))
        tensors.append(found)
        return {"tensor": dtype}

    form = {**fields, "operands": operand(operands)}
    draft = validated(
        fields["operator"], External, {**form, "outputs": ["float32" if found else None for found in wanted]}, ""
    )
    results = [np.asarray(array) for array in _run(draft, functions)(arrays)]
    dtypes = iter([str(array.dtype) for array in results])
    external = External.model_validate({**form, "outputs": [next(dtypes) if found else None for found in wanted]})
    types = [relax.TensorType(array.shape, str(array.dtype)) for array in results]
    function = relax.ExternFunc(external.model_dump_json())
    return relax.op.call_dps_packed(function, relax.Tuple(tensors), types[0] if len(types) == 1 else types)


def call_of_onnx(
    node: Any, inputs: Sequence[Expr | None], opsets: Mapping[str, int], functions: Functions, builder: Expr
) -> dict[str, Expr]:
    """A node of an ONNX model as a call of the function with the operator's name, of ONNX Runtime, or, where that
    refuses it, of ONNX's reference implementation: the outputs that the model reads, by name.

    Raises InputError where none computes it.
    """
    from onnx import helper

    fields = {
        "domain": node.domain,
        "version": opsets.get(node.domain, 1),
        "operator": node.op_type,
        "attributes": {found.name: _plain(helper.get_attribute_value(found)) for found in node.attribute},
    }
    wanted = [bool(name) for name in node.output]
    if node.op_type in functions:
        found = call({**fields, "source": "python"}, inputs, wanted, functions)
    else:
        try:
            found = call({**fields, "source": "onnx"}, inputs, wanted, functions)
        except InputError as refused:
            try:
                found = call({**fields, "source": "onnx_reference"}, inputs, wanted, functions)
            except InputError:
                raise refused from None
    made = builder.emit(found)
    names = [name for name in node.output if name]
    if len(names) == 1:
        return {names[0]: made}
    return {name: builder.emit(relax.TupleGetItem(made, place)) for place, name in enumerate(names)}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _onnx(
    external: External, functions: Functions, start: Callable[[bytes], Oracle] = OnnxRuntime
) -> Callable[[list[Array]], Sequence[Any]]:
    from onnx import ValueInfoProto, helper

    names = [f"x{number}" for number in range(len(external.inputs))]
    given = [name or "" for name in _filled(external.operands, iter(names))]
    outputs = [f"y{number}" if dtype else "" for number, dtype in enumerate(external.outputs)]
    node = helper.make_node(external.operator, given, outputs, domain=external.domain)
    node.attribute.extend(helper.make_attribute(name, value) for name, value in external.attributes.items())
    dtypes = [helper.np_dtype_to_tensor_dtype(numpy_dtype(dtype)) for dtype in external.inputs]
    takes = [helper.make_tensor_value_info(name, dtype, None) for name, dtype in zip(names, dtypes, strict=True)]
    results = [name for name in outputs if name]
    graph = helper.make_graph([node], "one", takes, [ValueInfoProto(name=name) for name in results])
    versions = {"": _OPSET, external.domain: external.version}
    opsets = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
    runtime = _started(start, model.SerializeToString())
    return lambda arrays: runtime.run(results, dict(zip(names, arrays, strict=True)))


@functools.lru_cache(100)
def _started(start: Callable[[bytes], Oracle], model: bytes) -> Oracle:
    """Kept: an operator is run at its import, and again when it is carved."""
    return start(model)


# Of the one-node model; that of the operator's own set is the node's.
_OPSET, _IR_VERSION = 17, 8


_TORCH_DTYPES = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool")


def _torch(external: External, functions: Functions) -> Callable[[list[Array]], Sequence[Any]]:
    try:
        import torch
    except ImportError as error:
        raise InputError(f"{external.who} needs PyTorch: pip install 'tapml[torch]'") from error
    overload: Any = torch.ops
    for part in external.operator.split("."):
        overload = getattr(overload, part, None)
    # Others read files, or write into what they are given.
    public = external.operator.startswith("aten.") and not external.operator.startswith("aten._")
    schema = overload._schema if isinstance(overload, torch._ops.OpOverload) else None
    if (
        not public
        or schema is None
        or schema.is_mutable
        or not any("Tensor" in str(taken.type) for taken in schema.arguments[:1])
    ):
        what = "it is no function of tensors" if public else "it is internal to PyTorch"
        raise InputError(f"{external.title} is no operator that tapml runs by PyTorch: {what}")

    attributes = dict(external.attributes)
    if isinstance(dtype := attributes.get("dtype"), str):
        attributes["dtype"] = getattr(torch, dtype) if dtype in _TORCH_DTYPES else dtype

    def run(arrays: list[Array]) -> Sequence[Any]:
        tensors = iter([torch.from_numpy(array.copy()) for array in arrays])
        with torch.no_grad():
            found = overload(*_filled(external.operands, tensors), **attributes)
        return [one.numpy() for one in (found if isinstance(found, tuple | list) else [found])]

    return run


def _python(external: External, functions: Functions) -> Callable[[list[Array]], Sequence[Any]]:
    function = functions.get(external.operator)
    if function is None:
        raise InputError(
            f"{external.operator} was computed by a Python function when it was carved, and a suite holds no code: "
            "give the function again (offload and locate take --external FILE.py); carved tests run without it"
        )

    def run(arrays: list[Array]) -> Sequence[Any]:
        found = function(*_filled(external.operands, iter(arrays)), **external.attributes)
        return found if isinstance(found, tuple | list) else [found]

    return run


_OWN = {"draw": draw}


def _tapml(external: External, functions: Functions) -> Callable[[list[Array]], Sequence[Any]]:
    function = _OWN.get(external.operator)
    if function is None:
        raise InputError(f"tapml has no function {external.operator}: a later version may have it")
    return lambda arrays: function(*_filled(external.operands, iter(arrays)), **external.attributes)


_SOURCES: Mapping[str, Callable[[External, Functions], Callable[[list[Array]], Sequence[Any]]]] = {
    "onnx": _onnx,
    "onnx_reference": functools.partial(_onnx, start=OnnxReference),
    "torch": _torch,
    "python": _python,
    "tapml": _tapml,
}
