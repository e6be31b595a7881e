"""Operators to WGSL with TVM's WebGPU code generator, cached by content."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import tvm
from tvm import tirx
from tvm_ffi import structural_walk

from tapml.compilers.base import Finish, Progress, described
from tapml.compilers.store import load, store
from tapml.compilers.tvm.folding import without_surplus_workgroup
from tapml.compilers.tvm.functions import functions_of
from tapml.compilers.tvm.launches import LaunchError, LaunchPlan
from tapml.compilers.tvm.names import of_function, with_plain_names
from tapml.compilers.tvm.schedules import ANY, PLAIN, schedule
from tapml.compilers.tvm.spelling import SpellingError, spelled
from tapml.compilers.tvm.subgroups import SUBGROUP_SIZE, same_in_wgsl, uses_subgroups, without_idle_enable
from tapml.compilers.tvm.variants import BASE, VariantSpec, combine, parse_specs
from tapml.expressions import evaluate, symbols_of
from tapml.files import sha256
from tapml.kernels.bundle import CompiledKernel, WgslFile, bindings, requirements, workgroup_size
from tapml.kernels.document import FORMAT
from tapml.lowering.operator import Operator
from tapml.lowering.quiet import quiet_tvm, reason
from tapml.memory import give_back, only_new_garbage
from tapml.processes import Shared
from tapml.program.program import SymbolicType

# Raised whenever this module would write something else for the same PrimFunc, functions of ours that it calls aside.
_GENERATION = 22

_MANY_DIVISIONS = 64

_WASM = {"kind": "llvm", "mtriple": "wasm32-unknown-unknown-wasm"}

_WORTH_A_PROCESS = 8
"""Fewer than this are compiled faster than a second process starts (measured: 50 ms a kernel)."""

_AT_ONCE = 8
"""Kernels after which what compiling them leaves is given back: half a megabyte each."""


def webgpu_target(spec: VariantSpec = BASE) -> tvm.target.Target:
    """TVM's target of a variant, with a host that runs in wasm."""
    return tvm.target.Target(spec.target, host=_WASM)


class TvmCompiler:
    """TVM as one of the compilers (tapml.compilers.base)."""

    name = "tvm"
    version = str(tvm.__version__)

    def compile(
        self,
        operators: Sequence[Operator],
        variants: Sequence[str] = (BASE.name,),
        progress: Progress = lambda done, total: None,
    ) -> dict[str, CompiledKernel]:
        """As all compilers do. Kernels are taken from the cache where they were made before.

        `variants` are specs: the most invocations of a workgroup ("256", "1024"), "+subgroups" behind it where TVM may
        count on subgroups of 32. A kernel has those variants that differ in what they require, most demanding first.
        """
        with self.begun(operators, variants) as finish:
            return finish(progress)

    @contextlib.contextmanager
    def begun(self, operators: Sequence[Operator], variants: Sequence[str]) -> Iterator[Finish]:
        """As `Beginning.begun`."""
        specs = parse_specs(variants)
        own = [operator for operator in operators if operator.external is None]
        jobs = [_Job(operator, spec, _key(operator, spec)) for operator in own for spec in specs]
        made = {job.key: load(job.key) for job in jobs}
        missing = [job for job in jobs if made[job.key] is None]
        shared = Shared([(job.key, job.done) for job in missing] if len(missing) >= _WORTH_A_PROCESS else [])

        def finish(progress: Progress) -> dict[str, CompiledKernel]:
            finished = itertools.count(len(jobs) - len(missing))
            progress(next(finished), len(jobs))
            with only_new_garbage():
                for number, (key, kernel) in enumerate(shared.results(), 1):
                    made[key] = kernel
                    progress(next(finished), len(jobs))
                    if number % _AT_ONCE == 0:
                        give_back()
            # All of them, or what a process that died has left.
            for job in missing:
                if made[job.key] is None:
                    made[job.key] = job.done()
                    progress(next(finished), len(jobs))
            found: dict[str, list[tuple[VariantSpec, CompiledKernel]]] = {}
            for job in jobs:
                if (compiled := made[job.key]) is not None:
                    found.setdefault(job.operator.name, []).append((job.spec, compiled))
            return {name: combine(candidates) for name, candidates in found.items()}

        with shared:
            yield finish

    def check(self, operators: Sequence[Operator], variants: Sequence[str]) -> None:
        """Raises InputError for variants that it does not know."""
        parse_specs(variants)


TVM = TvmCompiler()


def compile_variant(operator: Operator, spec: VariantSpec = BASE) -> CompiledKernel:
    """One variant as a kernel of its own: a document whose `variants` hold it, or that says what is unsupported."""
    document = described(TVM, operator, source_sha256=sha256(operator.prim_func.script(show_meta=True)))
    try:
        texts, plan, _ = _generate(operator, spec)
    except Exception as error:  # TVM raises its own types, without a common base
        ours = isinstance(error, LaunchError | SpellingError)
        said = str(error) if ours else f"TVM's WebGPU code generator cannot compile it: {reason(error)}"
        return CompiledKernel({**document, "unsupported": said}, [])
    files = [WgslFile(f"{number}.wgsl", text) for number, text in enumerate(texts.values(), 1)]
    least = {symbol.name: symbol.minimum for symbol in operator.symbols}
    types = [SymbolicType(tuple(found["shape"]), found["dtype"]) for found in operator.arguments]
    largest = max(
        [found.at(least, operator.name).nbytes for found in types]
        + [evaluate(size, least) for size in plan.temporaries]
    )
    requires = requirements([file.text for file in files], largest)
    if any(uses_subgroups(file.text) for file in files):
        requires["limits"]["subgroupMinSize"] = SUBGROUP_SIZE
    variant = {
        "name": spec.name,
        "requires": requires,
        "entry_points": [
            {
                "name": entry_point,
                "file": file.name,
                "generated_sha256": sha256(file.text),
                "workgroup_size": workgroup_size(file.text),
                "bindings": bindings(file.text),
            }
            for entry_point, file in zip(texts, files, strict=True)
        ],
        "launches": plan.launches,
        "temporaries": plan.temporaries,
    }
    return CompiledKernel({**document, "variants": [variant]}, files)


def chosen(operator: Operator, spec: VariantSpec = BASE) -> Any:
    """The operator's PrimFunc scheduled as its kernel is. Raises what TVM raises where it has none."""
    return _generate(operator, spec).scheduled


class _Generated(NamedTuple):
    texts: dict[str, str]
    """Entry point -> WGSL."""
    plan: LaunchPlan
    scheduled: Any


def _generate(operator: Operator, spec: VariantSpec) -> _Generated:
    operator = with_plain_names(operator)
    # Tiles of several sizes are guarded and divided by symbols for each element: drivers compile that for minutes.
    several = len({symbol for size in operator.sizes.values() for symbol in symbols_of(size)}) > 1
    for first in (PLAIN, 0) if several else (0, PLAIN):
        with contextlib.suppress(Exception):  # what a rule makes of an operator need not be built
            found = _generate_scheduled(operator, spec, first)
            if first or several or sum(text.count("let rdiv") for text in found.texts.values()) < _MANY_DIVISIONS:
                return found
    return _generate_scheduled(operator, spec, ANY)


def _generate_scheduled(operator: Operator, spec: VariantSpec, first: int) -> _Generated:
    name = operator.name
    target = webgpu_target(spec)
    capture = _Capture()
    with quiet_tvm():
        scheduled = schedule(tvm.IRModule({name: operator.prim_func}), target, first)[name]
        with tvm.transform.PassContext(opt_level=3, instruments=[capture]):
            library = tvm.tirx.build(scheduled.with_attr("global_symbol", of_function(name)), target)
    webgpu = next(module for module in library.imports if module.kind == "webgpu")
    info = json.loads(webgpu.inspect_source("func_info"))
    hosts = [f for f in capture.module.functions.values() if not f.attrs.get("tirx.is_global_func")]
    if len(hosts) != 1:
        raise LaunchError(f"{name} has {len(hosts)} host functions instead of one")
    texts = {
        entry: spelled(without_surplus_workgroup(without_idle_enable(text)), capture.constants)
        for entry, text in _split(webgpu.inspect_source()).items()
    }
    if any(f"array<{small}>" in text for text in texts.values() for small in ("i8", "u8")):
        raise LaunchError(
            "TVM writes buffers of 8-bit numbers or bools, which WGSL has not: store them packed, in WGSL by hand"
        )
    if not all(map(same_in_wgsl, texts.values())):
        raise LaunchError(f"TVM's subgroup operations in {name} mean something else in WGSL")
    return _Generated(texts, LaunchPlan(hosts[0], info, operator), scheduled)


@tvm.ir.instrument.pass_instrument
class _Capture:
    """Keeps the module as it is once host and device code are apart: the host part holds the launches. And the
    floating-point constants, once functions such as erf are written out."""

    module: Any = None

    def __init__(self) -> None:
        self.constants: set[float] = set()

    def run_after_pass(self, module: Any, info: Any) -> None:
        if info.name == "tirx.SplitHostDevice":
            self.module = module
        elif info.name == "tirx.LowerIntrin":
            for function in module.functions.values():
                structural_walk(function.body, (tirx.FloatImm, lambda found: self.constants.add(float(found.value))))


def _split(source: str) -> dict[str, str]:
    """Entry point -> WGSL. TVM prints all in one text, each under a heading that stands twice."""
    texts = {}
    for part in source.split("// Function: ")[1:]:
        entry_point, _, rest = part.partition("\n")
        entry_point = entry_point.strip()
        if f"fn {entry_point}" in rest:
            body = rest.split("\n", 1)[1] if rest.startswith("//---") else rest
            trimmed = body.rstrip().removesuffix("//----------------------------------------").rstrip()
            texts[entry_point] = trimmed + "\n"
    return texts


class _Job(NamedTuple):
    """A variant to compile, and where the cache keeps it."""

    operator: Operator
    spec: VariantSpec
    key: str

    def done(self) -> CompiledKernel:
        return store(self.key, compile_variant(self.operator, self.spec))


def _key(operator: Operator, spec: VariantSpec) -> str:
    """Where the cache keeps a variant of a kernel."""
    text = operator.prim_func.script(show_meta=True)
    symbols = [symbol.model_dump() for symbol in operator.symbols]
    text += functions_of(text) + json.dumps([symbols, [*operator.sizes.values()], operator.arguments])
    return sha256(json.dumps([_GENERATION, FORMAT, tvm.__version__, spec.target, operator.name, text]))
