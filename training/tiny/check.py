#!/usr/bin/env python3
"""What the tiny model is worth, by transformers on the CPU: samples, and what rounding its weights costs.

.venv/bin/python training/tiny/check.py backend/tapml/models/tiny --trained build/tiny/trained
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM, set_seed

from export import weights_of

PROMPTS = (
    "It is a truth universally acknowledged, that",
    "In the beginning",
    "COMPUTER, n. ",
    "browser (noun):",
    "moonwalk (verb):",
    "kernel panic (jargon):",
    "Python: tempfile",
    "Once upon a time there was",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trained", type=Path, help="train.py's output, to compare float16 with float32")
    parser.add_argument("--corpus", type=Path, default=Path("build/tiny/corpus.npz"))
    parser.add_argument("--windows", type=int, default=40, help="windows of 1,024 held-out tokens to compare on")
    parser.add_argument("--tokens", type=int, default=60, help="tokens of a sample")
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    tokenizer = Tokenizer.from_file(str(options.folder / "tokenizer.json"))
    model = LlamaForCausalLM.from_pretrained(options.folder, dtype=torch.float32)
    for prompt in PROMPTS:
        ids = torch.tensor([tokenizer.encode(prompt).ids])
        for sampled in (False, True):
            set_seed(0)
            written = model.generate(ids, do_sample=sampled, max_new_tokens=options.tokens, max_length=None)
            print(f"--- {'sampled' if sampled else 'greedy'}: {tokenizer.decode(written[0].tolist())}")
    if options.trained:
        windows = held_out(options.corpus, options.windows)
        rounded = nats(model, windows)
        exact = {name: torch.from_numpy(array) for name, array in weights_of(options.trained).items()}
        model.load_state_dict({**exact, "lm_head.weight": exact["model.embed_tokens.weight"]})
        whole = nats(model, windows)
        print(f"perplexity of {windows.numel()} held-out tokens: {np.exp(rounded):.4f} with weights in float16,")
        print(f"{np.exp(whole):.4f} in float32")
    return 0


def held_out(corpus: Path, count: int) -> torch.Tensor:
    """Windows of held-out tokens, spread over all of them."""
    with np.load(corpus) as data:
        starts, tokens = data["starts"], data["tokens"].astype(np.int64)
        joined = np.concatenate([tokens[starts[at] : starts[at + 1]] for at in np.flatnonzero(data["held_out"])])
    windows = torch.from_numpy(joined[: len(joined) // 1024 * 1024].reshape(-1, 1024))
    return windows[:: max(1, len(windows) // count)][:count]


def nats(model: LlamaForCausalLM, windows: torch.Tensor) -> float:
    """The mean loss a token, the beginnings of documents left out."""
    total = count = 0.0
    for window in windows:
        logits = model(window[None]).logits[0, :-1]
        targets = window[1:]
        total += float(torch.nn.functional.cross_entropy(logits, targets, ignore_index=0, reduction="sum"))
        count += int((targets != 0).sum())
    return total / count


if __name__ == "__main__":
    sys.exit(main())
