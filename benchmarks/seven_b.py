"""A Llama of the shape of 7B, without weights: from its configuration to program and WGSL of prefill and decode, and
the same from the cache; over the paper's 40.1 s (Table 7, on a Ryzen 9 5900X) and 2 s.

Each is a process of its own, imports of PyTorch and TVM included. CPU seconds are told besides: a machine may be busy.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

GOAL, FROM_CACHE = 40.1, 2.0
CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.json"
        config.write_text(json.dumps(CONFIG))
        print(f"{'':24}{'seconds':>10}{'CPU':>10}{'goal':>10}{'ratio':>10}{'CPU ratio':>12}")
        row("from the configuration", config, Path(folder), GOAL)
        facts = row("from the cache", config, Path(folder), FROM_CACHE)
    if not facts["from_cache"]:
        sys.exit("the cache had nothing of it")
    weights = facts["weights"]["elements"]
    print(f"{weights:,} numbers, {facts['kernels']} kernels, {facts['wgsl_bytes']:,} bytes of WGSL, ", end="")
    print(", ".join(f"{count} calls of kernels in {name}" for name, count in facts["dispatches"].items()))


def row(what: str, config: Path, folder: Path, goal: float) -> dict[str, Any]:
    """Print what it took. Kernels and all else are made anew, in a cache that is empty the first time."""
    shown = folder / "facts.json"
    command = [sys.executable, "-m", "tapml", "build", "--hf", str(config), "--no-weights"]
    command += ["-o", str(folder / "made"), "--force", "--json", str(shown)]
    begun, used = time.perf_counter(), cpu()
    made = subprocess.run(command, env={**os.environ, "TAPML_CACHE": str(folder / "cache")}, capture_output=True)
    seconds, cpu_seconds = time.perf_counter() - begun, cpu() - used
    if made.returncode:
        sys.exit(made.stderr.decode())
    print(f"{what:24}{seconds:10.1f}{cpu_seconds:10.1f}{goal:10.1f}{seconds / goal:10.2f}{cpu_seconds / goal:12.2f}")
    facts: dict[str, Any] = json.loads(shown.read_text())
    return facts


def cpu() -> float:
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime


if __name__ == "__main__":
    main()
