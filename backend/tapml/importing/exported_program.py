"""Programs of torch.export; the door for .pt2 files, which torch.export.save writes."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from tapml.errors import InputError
from tapml.files import sha256
from tapml.importing.assemble import assemble
from tapml.importing.converted import converted
from tapml.importing.inputs import GatherSteps, InputSpec, RawStep
from tapml.importing.model import Array, Functions, ImportedModel, Intermediate, Progress, Replace
from tapml.importing.named import with_names
from tapml.importing.sizes import LONGEST, Bounds, Sizes
from tapml.importing.torch_constants import compute_constants
from tapml.importing.torch_detail import exactly, in_detail, intermediates, outputs_exactly
from tapml.importing.torch_export import decomposed, load
from tapml.importing.torch_fixes import converters, known
from tapml.importing.torch_widened import NOTE, widened
from tapml.lowering.quiet import reason


def import_exported_program(
    path: Path, gather: GatherSteps, progress: Progress, functions: Functions, replaced: Replace | None = None
) -> ImportedModel:
    """Import a file of torch.export.save, as `import_program` does; `replaced`: of a weight what stands in its place.
    Raises InputError where it is none."""
    import torch

    def loaded() -> Any:
        program = load(path)
        if replaced is not None:
            _round_products(program, replaced)
            replace_tensors((tensor for _, tensor in _tensors(program)), replaced)
        return program

    progress(f"reading {path.name}")
    provenance = {
        "kind": "exported_program",
        "source": path.name,
        "sha256": sha256(path.read_bytes()),
        "title": path.stem,
        "torch": torch.__version__,
    }
    return import_program(path, loaded, gather, progress, functions, provenance=provenance)


def _round_products(program: Any, replaced: Replace) -> None:
    from tapml.importing.torch_rounded import round_products

    round_products(program, lambda tensor: _replaceable(tensor) and replaced.rounds(_array(tensor)))


def replace_tensors(tensors: Iterable[Any], replaced: Replace) -> None:
    """Write what stands in their place into tensors of PyTorch."""
    import torch

    with torch.no_grad():
        for tensor in tensors:
            if _replaceable(tensor) and (new := replaced(_array(tensor))) is not None:
                tensor.copy_(torch.from_numpy(new))


def _replaceable(tensor: Any) -> bool:
    return str(tensor.dtype) in ("torch.float32", "torch.float16")


def import_program(
    path: Path,
    loaded: Callable[[], Any],
    gather: GatherSteps,
    progress: Progress,
    functions: Functions,
    *,
    provenance: Mapping[str, Any],
    outputs: Sequence[str] = (),
    sizes: Mapping[str, tuple[int, int]] = MappingProxyType({}),
    detailed: bool = False,
    weighted: bool = True,
) -> ImportedModel:
    """Import an exported program for the shapes of the given inputs; PyTorch itself is its oracle.

    `path` is what it came from, for people; `loaded` gives it, the same each time. `gather` gives the steps for the
    program's inputs, which have the names torch.export gave them.
    `functions` compute the operators of their names; `outputs` are called as torch.export has it, or as given here.
    `sizes` are names and ranges, in the order in which they are met, for the program's symbols, which have none.
    `detailed` makes every value an output, as `ImportedModel.in_detail` wants it. Not `weighted`: nothing is run, no
    parameter is read (its memory need not exist), the model has no steps, and the program is `in_core` already. Raises
    InputError where nothing computes an operator.
    """
    import torch

    program = loaded()
    notes = [NOTE] if widened(program) else []
    called = _called(program, sizes)
    specs = _specs(program, path, called)
    functional = decomposed(program, path, known(functions), begun=not weighted)
    compute_constants(functional, known(functions))
    written = _written(functional)
    if changed := [name for name, _ in functional.named_parameters() if name in written]:
        raise InputError(
            f"{path}: the program writes the parameter {changed[0]} at every call: make it a buffer (register_buffer) "
            "where that is meant; where a model changes its weights at its first call, call it once and export it then",
            reason="it writes a parameter",
        )
    buffers = {
        name: _array(buffer).copy() if weighted else np.zeros(tuple(buffer.shape), np.float32)
        for name, buffer in functional.named_buffers()
        if name in written
    }
    if twice := buffers.keys() & {spec.name for spec in specs}:
        raise InputError(f"{path}: {min(twice)} is an input and a buffer that the model writes: rename one of them")
    given = gather(specs)
    steps = [dataclasses.replace(step, arrays={**buffers, **step.arrays}) for step in given]
    states = {name: written.index(name) for name in buffers}
    outputs = [*written, *(outputs or map(str, program.graph_signature.user_outputs))]

    def closer() -> ImportedModel:
        found = import_program(
            path,
            loaded,
            lambda _: list(steps),  # with the buffers as they are now: what runs a program in PyTorch writes them
            lambda _: None,
            functions,
            provenance=provenance,
            sizes=sizes,
            detailed=True,
        )
        return dataclasses.replace(found, functions=functions)

    def between(second: bool) -> Iterator[Intermediate]:
        assert expected is not None
        try:
            yield from intermediates(program, steps, written, expected, exact=second)
        except Exception as error:  # as below
            raise InputError(f"PyTorch could not run the model in detail: {reason(error)}") from error

    def second() -> tuple[str, list[list[Array]]]:
        try:
            if detailed:
                found = outputs_exactly(functional, steps, written)
            else:
                with exactly():
                    found = _run(program, steps, [spec.name for spec in specs], written)
        except Exception as error:  # as below
            raise InputError(f"PyTorch could not run the model in float64: {reason(error)}") from error
        return f"{oracle}, each operator in float64", found

    if weighted:
        progress("running the model in PyTorch")
    oracle: str | None = f"torch {torch.__version__}" if weighted else None
    missing: str | None = None if weighted else "it has no weights"
    expected: list[list[Array]] | None = None
    try:
        if detailed:
            detail = in_detail(functional, steps, written)
            outputs, expected, steps, states = detail.said, detail.expected, detail.steps, {}
        elif weighted:
            expected = _run(program, steps, [spec.name for spec in specs], written)
    except Exception as error:  # whatever the model's own operators raise
        oracle, missing = None, f"PyTorch could not run the model on these inputs: {reason(error)}"
    progress("converting to Relax")
    _pass_in_and_out(functional, buffers)
    bounds = _bounds(functional)
    sized = Sizes(specs, steps, {**bounds, **sizes})
    # What it writes has a size of its own.
    shapes = [sized.shapes.get(name, list(array.shape)) for name, array in steps[0].arrays.items()]
    module, names = converted(path, "PyTorch", lambda: _convert(functional, shapes, bounds, functions, weighted))
    unread = None if weighted else {tensor.data_ptr() for _, tensor in functional.named_parameters()}
    return assemble(
        module,
        tensors=((name, _array(tensor)) for name, tensor in _tensors(functional) if weighted or name not in written),
        unread=unread,
        steps=steps,
        symbols=sized.symbols,
        names=names,
        expected=expected,
        outputs=outputs,
        states=states,
        oracle=oracle,
        oracle_missing=missing,
        again=lambda: _run(program, steps, [spec.name for spec in specs], written),
        second=None if expected is None else second,
        intermediates=None if detailed or expected is None else between,
        in_detail=None if detailed else closer,
        provenance={**provenance, "notes": [*provenance.get("notes", ()), *notes]},
    )


def _called(program: Any, sizes: Iterable[str]) -> dict[str, str]:
    """What the program's symbols are called, where `sizes` has names for them."""
    met = [
        str(size)
        for node in program.graph.nodes
        if node.op == "placeholder"
        for size in getattr(node.meta.get("val"), "shape", ())
        if not isinstance(size, int)
    ]
    return dict(zip(dict.fromkeys(met), sizes, strict=False))


def _specs(program: Any, path: Path, called: Mapping[str, str]) -> list[InputSpec]:
    examples = _examples(program)
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    varying = {str(size) for node in placeholders.values() for size in getattr(node.meta.get("val"), "shape", ())}
    specs = []
    for position, name in enumerate(program.graph_signature.user_inputs):
        value = placeholders[name].meta.get("val") if isinstance(name, str) else name
        if not hasattr(value, "shape"):
            raise InputError(
                f"{path}: the input {name} is {value!r} and no tensor: export the model with tensor inputs only"
            )
        if derived := _derived(value.shape, varying):
            raise InputError(
                f"{path}: the input {name} has the size {derived}, which follows from another one that no input has: "
                "tapml takes sizes that vary by themselves: export it with a Dim for that size, or with a fixed one",
                reason="a size that follows from another one",
            )
        shape = tuple(size if isinstance(size, int) else called.get(str(size), str(size)) for size in value.shape)
        example = examples[position] if position < len(examples) else None
        dtype = str(value.dtype).removeprefix("torch.")
        specs.append(InputSpec(str(name), dtype, shape, _table_rows(placeholders[name]), example))
    return specs


def _derived(shape: Iterable[Any], varying: Collection[str]) -> str:
    """The first size that is an expression of others than those that inputs have; empty where there is none."""
    found = (str(size) for size in shape if not isinstance(size, int))
    return next((size for size in found if not set(re.findall(r"[A-Za-z_]\w*", size)) <= set(varying)), "")


def _examples(program: Any) -> list[tuple[int, ...]]:
    """The shapes of the inputs it was exported with, where the file has them."""
    from torch.utils import _pytree

    leaves = _pytree.tree_leaves(program.example_inputs) if program.example_inputs else []
    return [tuple(map(int, leaf.shape)) for leaf in leaves if hasattr(leaf, "shape")]


def _table_rows(node: Any) -> int | None:
    """The rows of the smallest embedding table that `node` indexes, followed through views and
    casts.
    """
    rows, pending, seen = [], [node], set()
    while pending:
        current = pending.pop()
        seen.add(current)
        for user in current.users:
            operator = str(user.target)
            if "embedding" in operator and user.args[1] is current:
                rows.append(int(user.args[0].meta["val"].shape[0]))
            elif re.search(r"aten\.(view|reshape|unsqueeze|to|_to_copy|clone|contiguous)\.", operator):
                pending += [user] if user not in seen else []
    return min(rows, default=None)


def _written(functional: Any) -> list[str]:
    """Names of the buffers and inputs that the program writes, in the order of its outputs, of which they are the
    first."""
    return [spec.target for spec in functional.graph_signature.output_specs if spec.target is not None]


def _pass_in_and_out(functional: Any, buffers: Iterable[str]) -> None:
    """Make `buffers` inputs of the program, and all that it writes outputs: TVM drops what is written, and takes
    buffers for constants."""
    from torch.export.graph_signature import InputKind, OutputKind

    for spec in functional.graph_signature.input_specs:
        if spec.kind is InputKind.BUFFER and spec.target in buffers:
            functional.constants.pop(spec.target, None)
            spec.kind, spec.target = InputKind.USER_INPUT, None
    for spec in functional.graph_signature.output_specs:
        spec.kind, spec.target = OutputKind.USER_OUTPUT, None


def _run(program: Any, steps: Sequence[RawStep], inputs: Sequence[str], written: Sequence[str]) -> list[list[Array]]:
    """What each step gives, one after the other, for buffers keep what is written: `written`, then the outputs."""
    import torch
    from torch.utils import _pytree

    module = program.module()
    for name, buffer in module.named_buffers():  # which are the program's own: another run may have left something
        if name in written:
            buffer.copy_(torch.from_numpy(steps[0].arrays[name]))
    found = []
    for step in steps:
        tensors = {name: torch.tensor(step.arrays[name]) for name in inputs}
        arguments, named = _pytree.tree_unflatten([*tensors.values()], program.call_spec.in_spec)
        with torch.no_grad():
            leaves = _pytree.tree_leaves(module(*arguments, **named))
        left = {**dict(module.named_buffers()), **tensors}
        outputs = [*(left[name] for name in written), *(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))]
        found.append([_array(output).copy() for output in outputs])
    return found


def _bounds(program: Any) -> dict[str, tuple[int, int]]:
    """Of the program's symbols; sizes without an end go as far as tapml takes them."""
    found = {}
    for symbol, values in program.range_constraints.items():
        low, high = (int(bound) if abs(bound) < LONGEST else LONGEST for bound in (values.lower, values.upper))
        # PyTorch says 2 also where it takes 1.
        found[str(symbol)] = (low if low > 2 else 1, high)
    return found


def _convert(
    program: Any, shapes: Sequence[Sequence[Any]], bounds: Bounds, functions: Functions, weighted: bool
) -> tuple[Any, dict[str, str]]:
    """The module, and what the program calls its variables."""
    import tvm
    from tvm import relax

    from tapml.importing.torch_program import ProgramImporter

    importer = ProgramImporter(converters(bounds), functions, copies=weighted)
    module = importer.from_exported_program(
        program,
        keep_params_as_input=False,
        unwrap_unit_return_tuple=True,
        no_bind_return_tuple=False,
        custom_convert_map=None,
    )
    found = {value: _place(node) for node, value in importer.env.items() if isinstance(value, relax.DataflowVar)}
    module, names = with_names(module, found)
    bound = {
        axis: size
        for parameter, shape in zip(module["main"].params, shapes, strict=True)
        for axis, size in zip(parameter.ty.shape.values, shape, strict=True)
        if tvm.ir.is_prim_var(axis)
    }
    return (relax.transform.BindSymbolicVars(bound, "main")(module) if bound else module), names


def _place(node: Any) -> str:
    """What a call of PyTorch's graph is called, behind the module of the source's that makes it."""
    path, *_ = list((node.meta.get("nn_module_stack") or {}).values())[-1:] or [("",)]
    return f"{path[0]}/{node.name}" if path[0] else str(node.name)


def _tensors(program: Any) -> list[tuple[str, Any]]:
    """Parameters, buffers and constants by name; tensors that share their memory (tied weights)
    once.
    """
    found, shared = [], set()
    for group in (program.named_parameters(), program.named_buffers(), program.constants.items()):
        for name, tensor in group:
            if hasattr(tensor, "detach") and (tensor.data_ptr(), tensor.shape) not in shared:
                shared.add((tensor.data_ptr(), tensor.shape))
                found.append((name, tensor))
    return found


def _array(tensor: Any) -> Array:
    """A tensor's values; bfloat16, which numpy lacks, as float32 holds them."""
    tensor = tensor.detach().cpu()
    return np.asarray((tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy())
