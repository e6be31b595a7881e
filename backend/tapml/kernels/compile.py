"""Operators to WGSL with TVM's WebGPU code generator, cached by content."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm.s_tir import dlight

from tapml.cache import cache_dir
from tapml.files import sha256, write_json
from tapml.graph import TensorType
from tapml.kernels.analysis import numerics
from tapml.kernels.bundle import FORMAT, CompiledKernel, WgslFile, bindings, requirements, workgroup_size
from tapml.kernels.launches import LaunchError, LaunchPlan, plan_launches
from tapml.kernels.lower import Lowered
from tapml.kernels.quiet import quiet_tvm

# Raised whenever this module would write something else for the same PrimFunc.
_GENERATION = 1

WEBGPU = {"kind": "webgpu", "max_num_threads": 256}
_WASM = {"kind": "llvm", "mtriple": "wasm32-unknown-unknown-wasm"}

# Fewer than this are compiled faster than a second process starts (measured: 50 ms a kernel).
_WORTH_A_PROCESS = 8


def webgpu_target() -> tvm.target.Target:
    """256 invocations a workgroup: WebGPU's default limit, which every device has."""
    return tvm.target.Target(WEBGPU, host=_WASM)


def schedule(module: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    """Thread-bind every PrimFunc of `module` for a GPU target (dlight's rules, first that fits)."""
    gpu = dlight.gpu
    rules = gpu.Matmul(), gpu.GEMV(), gpu.Reduction(), gpu.GeneralReduction(), gpu.Fallback()
    with target:
        return dlight.ApplyDefaultSchedule(*rules)(module)


def compile_kernels(
    lowered: Lowered, names: Sequence[str], progress: Callable[[int, int], None] = lambda done, total: None
) -> dict[str, CompiledKernel]:
    """Every named kernel of `lowered` as WGSL and metadata; `progress(done, total)` as they finish.

    A kernel that TVM cannot generate has no files and says why in `document["unsupported"]`.
    """
    keys = {name: _key(lowered, name) for name in names}
    missing = [name for name in names if _load(keys[name]) is None]
    helper = _start_helper(lowered, missing[1::2], keys) if len(missing) >= _WORTH_A_PROCESS else None
    done = len(names) - len(missing)
    started = time.monotonic()
    progress(done, len(names))
    for name in missing[0::2] if helper else missing:
        _store(keys[name], compile_kernel(lowered, name))
        done += 1
        progress(done, len(names))
    if helper:
        # It has as much to do as this process had; one that hangs is not waited for.
        helper.join(5 + 3 * (time.monotonic() - started))
        helper.kill()
    result = {}
    for name in names:
        # Also what the helper left behind, should it have died.
        kernel = _load(keys[name]) or _store(keys[name], compile_kernel(lowered, name))
        result[name] = kernel
    progress(len(names), len(names))
    return result


def compile_kernel(lowered: Lowered, name: str) -> CompiledKernel:
    """One kernel, not from the cache."""
    prim_func = lowered.kernel(name)
    document = _describe(lowered, name, prim_func)
    try:
        info, texts, plan = _generate(name, prim_func)
    except LaunchError as error:
        return CompiledKernel({**document, "unsupported": str(error)}, [])
    except Exception as error:  # TVM raises its own types, without a common base
        reason = _last_line(error)
        return CompiledKernel(
            {**document, "unsupported": f"TVM's WebGPU code generator cannot compile it: {reason}"}, []
        )
    files, entry_points = [], []
    arguments = document["arguments"]
    for number, (entry_point, text) in enumerate(texts.items()):
        file = WgslFile(f"{name}.wgsl" if number == 0 else f"{name}.{number + 1}.wgsl", text)
        files.append(file)
        entry_points.append(_entry_point(entry_point, file, info[entry_point], plan, arguments))
    document["entry_points"] = entry_points
    document["dispatches"] = [
        {
            "shapes": [argument["shape"] for argument in arguments],
            "launches": plan.launches,
            "temporaries": plan.temporaries,
        }
    ]
    largest = max([TensorType(tuple(a["shape"]), a["dtype"]).nbytes for a in arguments] + plan.temporaries)
    document["requires"] = requirements([f.text for f in files], largest)
    return CompiledKernel(document, files)


def _describe(lowered: Lowered, name: str, prim_func: Any) -> dict[str, Any]:
    node = lowered.graph.nodes_of(name)[0]
    arguments = []
    for parameter, value in zip(prim_func.params, (*node.inputs, *node.outputs), strict=True):
        tensor = lowered.graph.values[value].type
        role = "output" if value in node.outputs else "input"
        arguments.append({"name": parameter.name, "dtype": tensor.dtype, "shape": list(tensor.shape), "role": role})
    found = numerics(prim_func)
    return {
        "format": FORMAT,
        "kernel": name,
        "generator": {"name": "tvm", "version": tvm.__version__, "target": WEBGPU},
        "source_sha256": sha256(prim_func.script(show_meta=True)),
        "arguments": arguments,
        "numerics": {
            "accumulation_length": found.accumulation_length,
            "builtins": list(found.builtins),
            "operations": found.operations,
        },
        "entry_points": [],
        "dispatches": [],
        "requires": {"features": [], "limits": {}},
        "unsupported": None,
    }


def _generate(name: str, prim_func: Any) -> tuple[dict[str, Any], dict[str, str], LaunchPlan]:
    target = webgpu_target()
    capture = _CaptureSplit()
    with quiet_tvm():
        scheduled = schedule(tvm.IRModule({name: prim_func}), target)[name].with_attr("global_symbol", name)
        with tvm.transform.PassContext(opt_level=3, instruments=[capture]):
            library = tvm.tirx.build(scheduled, target)
    webgpu = next(module for module in library.imports if module.kind == "webgpu")
    info = json.loads(webgpu.inspect_source("func_info"))
    hosts = [f for f in capture.module.functions.values() if not f.attrs.get("tirx.is_global_func")]
    if len(hosts) != 1:
        raise LaunchError(f"{name} has {len(hosts)} host functions instead of one")
    return info, _split(webgpu.inspect_source()), plan_launches(hosts[0], info)


@tvm.ir.instrument.pass_instrument
class _CaptureSplit:
    """Keeps the module as it is once host and device code are apart: the host part holds the launches."""

    module: Any = None

    def run_after_pass(self, module: Any, info: Any) -> None:
        if info.name == "tirx.SplitHostDevice":
            self.module = module


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


def _entry_point(
    name: str, file: WgslFile, info: dict[str, Any], plan: LaunchPlan, arguments: list[dict[str, Any]]
) -> dict[str, Any]:
    launch = next(entry for entry in plan.launches if entry["entry_point"] == name)
    buffers = [argument for argument in launch["arguments"] if "scalar" not in argument]
    described = []
    for binding in bindings(file.text):
        known: dict[str, Any] = {}
        if binding["binding"] < len(buffers):
            source = buffers[binding["binding"]]
            known = dict(source)
            if "argument" in source:
                argument = arguments[source["argument"]]
                known |= {"dtype": argument["dtype"], "shape": argument["shape"]}
        described.append({**binding, **known})
    return {
        "name": name,
        "file": file.name,
        "generated_sha256": sha256(file.text),
        "workgroup_size": workgroup_size(file.text),
        "bindings": described,
        "info": {key: info[key] for key in ("name", "arg_types", "launch_param_tags")},
    }


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__


# ---------------------------------------------------------------- cache


def _key(lowered: Lowered, name: str) -> str:
    text = lowered.kernel(name).script(show_meta=True)
    return sha256(json.dumps([_GENERATION, FORMAT, tvm.__version__, WEBGPU, name, text]))


def _path(key: str) -> Path:
    return cache_dir() / "kernels" / key[:2] / f"{key}.json"


def _load(key: str) -> CompiledKernel | None:
    try:
        stored = json.loads(_path(key).read_text())
        return CompiledKernel(stored["document"], [WgslFile(**file) for file in stored["files"]])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # a damaged entry is made again


def _store(key: str, kernel: CompiledKernel) -> CompiledKernel:
    files = [{"name": file.name, "text": file.text} for file in kernel.files]
    write_json(_path(key), {"document": kernel.document, "files": files})
    return kernel


def _start_helper(
    lowered: Lowered, names: Sequence[str], keys: dict[str, str]
) -> multiprocessing.process.BaseProcess | None:
    """Compile `names` into the cache in a second process, on the second core.

    Forked, since TVM objects cannot be sent to another process (and threads gain 10 %: scheduling is Python).
    Only where forking is safe: Linux, no other Python thread that might hold a lock, and no PyTorch, whose thread
    pools do not survive it (the child hangs).
    """
    unsafe = sys.platform != "linux" or threading.active_count() > 1 or "torch" in sys.modules
    if unsafe or (os.cpu_count() or 1) < 2:
        return None

    def work() -> None:
        for name in names:
            _store(keys[name], compile_kernel(lowered, name))

    helper = multiprocessing.get_context("fork").Process(target=work, daemon=True)
    helper.start()
    return helper
