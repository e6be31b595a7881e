"""What the pages are made of: ONNX Runtime Web as npm has it, tapml's modules, and tiny as each takes it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.web_generation.decoder import continued, write_decoder
from benchmarks.web_runtimes.site import PAGES as SHARED
from benchmarks.web_runtimes.site import RUNTIME, put, put_packaged
from tapml.cli.demo_writing import CAPACITY, CHUNK, PROMPT, STEPS
from tapml.models import folder_of

PAGES = Path(__file__).parent / "pages"
_MODULES = ("tapml-runtime.js", "tapml-preparing.js", "tapml-tokenizer.js", "tapml-generation.js")
ORT = ("ort/ort.jspi.bundle.min.mjs", "ort/ort-wasm-simd-threaded.jspi.wasm")


def make_site(folder: Path, packages: Path, tokens: int) -> None:
    """Make all that pages load in `folder`, anew but for tapml's model. `packages` keeps what was downloaded."""
    folder = folder.resolve()
    for name in ORT:
        put_packaged(folder, name, packages)
    for name in _MODULES:
        put(folder / "tapml" / name, (RUNTIME.parent / name).read_bytes())
    for page in (*PAGES.iterdir(), SHARED / "session.js"):
        put(folder / page.name, page.read_bytes())
    model = folder_of("tiny")
    write_decoder(model, folder / "ort/tiny.onnx")
    put(folder / "asked.json", json.dumps(_asked(model, folder / "ort/tiny.onnx", tokens)).encode())
    if not (folder / "tapml/tiny.tapml").is_dir():
        sizes = {"--steps": STEPS, "--capacity": CAPACITY, "--chunk": CHUNK}
        words = [str(word) for option in sizes.items() for word in option]
        build = [sys.executable, "-m", "tapml", "build", "--hf", str(model), "--prompt", PROMPT, *words]
        subprocess.run([*build, "-o", str(folder / "tapml/tiny.tapml")], check=True)


def _asked(model: Path, onnx: Path, tokens: int) -> dict[str, object]:
    """The prompt and what transformers continues it with, greedily. ONNX Runtime has to give the same here:
    else the file is not that model."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    prompt = AutoTokenizer.from_pretrained(model)(PROMPT).input_ids
    found = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    written = found.generate(
        torch.tensor([prompt]), do_sample=False, repetition_penalty=1.0, min_new_tokens=tokens, max_new_tokens=tokens,
        pad_token_id=1,
    )  # fmt: skip
    expected = written[0, len(prompt) :].tolist()
    if continued(onnx, prompt, tokens) != expected:
        raise SystemExit("the ONNX file continues otherwise than transformers")
    config = found.config
    shape = {"layers": config.num_hidden_layers, "groups": config.num_key_value_heads, "size": config.head_dim}
    return {"prompt": prompt, "tokens": tokens, "expected": expected, **shape}
