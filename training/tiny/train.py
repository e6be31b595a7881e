#!/usr/bin/env python3
"""Train the tiny model: only PyTorch and numpy, one GPU (or a CPU, to see that it runs).

    python3 training/tiny/train.py --corpus build/tiny/corpus.npz --steps 6000 --output OUT

writes OUT/weights-*.npz (float32, parts of at most 12 MB) and OUT/training.json (settings, losses, held-out
perplexity). The order of documents and the initial weights follow from --seed; a run that ended early goes on
from --checkpoint.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from llama import Config, Llama

PART = 12 << 20  # bytes of a file of weights
BEGIN = 0  # never predicted: whoever generates gives it


class Corpus:
    """Tokens on the device; training documents in a new order every epoch, held-out ones as they are."""

    def __init__(self, path: Path, length: int, device: torch.device) -> None:
        with np.load(path) as data:
            self.names = [str(name) for name in data["names"]]
            self.vocabulary = int(data["vocabulary"])
            tokens, starts, sources = data["tokens"].astype(np.int32), data["starts"], data["sources"]
            held_out, sizes, repeats = data["held_out"], data["bytes"], data["repeats"]
        self.length = length
        self.tokens = torch.from_numpy(tokens).to(device)
        self.starts = torch.from_numpy(starts).to(device)
        trained = np.flatnonzero(~held_out)
        self.trained = torch.from_numpy(np.repeat(trained, repeats[sources[trained]])).to(device)
        self.held_out = torch.from_numpy(np.flatnonzero(held_out)).to(device)
        self.sources = torch.from_numpy(sources.astype(np.int64)).to(device)
        self.held_out_bytes = [int(sizes[held_out & (sources == at)].sum()) for at in range(len(self.names))]

    def joined(self, documents: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens of these documents one after another, and the source of each."""
        lengths = self.starts[documents + 1] - self.starts[documents]
        before = torch.cumsum(lengths, 0) - lengths
        places = torch.arange(int(lengths.sum()), device=lengths.device)
        places += torch.repeat_interleave(self.starts[documents] - before, lengths)
        return self.tokens[places].long(), torch.repeat_interleave(self.sources[documents], lengths)

    def epoch(self, seed: int, epoch: int) -> Tensor:
        """All windows of an epoch: [windows, length + 1]."""
        order = np.random.default_rng([seed, epoch]).permutation(len(self.trained))
        tokens, _ = self.joined(self.trained[torch.from_numpy(order).to(self.trained.device)])
        count = (len(tokens) - 1) // self.length
        return tokens[: count * self.length + 1].unfold(0, self.length + 1, self.length)

    def batches(self, seed: int, batch: int, first: int) -> Any:
        """Batches for ever, beginning at step `first`: which they are follows from seed and step alone."""
        epoch, step = 0, 0
        while True:
            windows = self.epoch(seed, epoch)
            count = len(windows) // batch
            if count == 0:
                raise SystemExit(f"an epoch has {len(windows)} windows, fewer than a batch of {batch}")
            if step + count > first:
                order = torch.from_numpy(np.random.default_rng([seed, epoch, 1]).permutation(len(windows)))
                order = order.to(windows.device)
                for at in range(max(first - step, 0), count):
                    yield windows[order[at * batch : (at + 1) * batch]]
            step, epoch = step + count, epoch + 1


def loss_of(model: Any, window: Tensor, reduction: str = "mean") -> Tensor:
    """Cross-entropy of every next token but the one that begins a document."""
    logits = model(window[:, :-1])
    targets = window[:, 1:].reshape(-1)
    return functional.cross_entropy(logits.flatten(0, 1).float(), targets, ignore_index=BEGIN, reduction=reduction)


@torch.no_grad()
def evaluate(model: Llama, corpus: Corpus, batch: int, autocast: torch.autocast) -> dict[str, dict[str, float]]:
    """Held-out loss of each source and of all: nats a token, perplexity, bits a byte.

    Held-out documents stand one after another and are cut into windows; a token sees what is before it in its window.
    """
    model.eval()
    tokens, sources = corpus.joined(corpus.held_out)
    length = corpus.length
    windows = functional.pad(tokens, (0, -(len(tokens) - 1) % length), value=BEGIN)
    windows = windows.unfold(0, length + 1, length)
    losses = []
    for at in range(0, len(windows), batch):
        with autocast:
            losses.append(loss_of(model, windows[at : at + batch], "none"))
    each = torch.cat(losses)[: len(tokens) - 1].double()
    counted = tokens[1:] != BEGIN
    results = {}
    for name in ["all", *corpus.names]:
        chosen = counted if name == "all" else counted & (sources[1:] == corpus.names.index(name))
        size = sum(corpus.held_out_bytes) if name == "all" else corpus.held_out_bytes[corpus.names.index(name)]
        total, count = float(each[chosen].sum()), int(chosen.sum())
        if count:
            results[name] = {
                "nats_a_token": total / count,
                "perplexity": math.exp(total / count),
                "bits_a_byte": total / math.log(2) / size,
                "tokens": count,
            }
    model.train()
    return results


def rate(step: int, steps: int, warm_up: int, peak: float, spent: float = 0.0) -> float:
    """The learning rate: linear at first, then half a cosine down to nothing at the last step.

    `spent` is the part of the time that is over: where time ends before steps do, the rate follows it.
    """
    if step < warm_up:
        return peak * (step + 1) / warm_up
    done = max((step - warm_up) / max(1, steps - warm_up), min(1.0, spent))
    return peak * 0.5 * (1 + math.cos(math.pi * done))


def save_weights(model: Llama, folder: Path) -> None:
    """weights-0.npz, weights-1.npz, ...: float32, by parameter name."""
    parts: list[dict[str, Any]] = [{}]
    for name, parameter in model.named_parameters():
        array = parameter.detach().float().cpu().numpy()
        if sum(found.nbytes for found in parts[-1].values()) + array.nbytes > PART:
            parts.append({})
        parts[-1][name] = array
    for at, part in enumerate(parts):
        np.savez(folder / f"weights-{at}.npz", **part)


def main() -> int:
    options = arguments()
    begun = time.monotonic()
    device = torch.device(options.device)
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    corpus = Corpus(options.corpus, options.length, device)
    config = Config(vocab_size=corpus.vocabulary, **json.loads(options.config))
    model = Llama(config, options.dropout).to(device)
    decayed = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": options.weight_decay}, {"params": others, "weight_decay": 0.0}],
        lr=options.rate,
        betas=(0.9, 0.95),
        fused=device.type == "cuda",
    )
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")
    step, history = 0, list[dict[str, Any]]()
    if options.checkpoint and options.checkpoint.exists():
        saved = torch.load(options.checkpoint, map_location=device, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step, history = saved["step"], saved["history"]
        print(f"goes on at step {step} of {options.checkpoint}")
    running = torch.compile(model) if options.compile else model
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{parameters} parameters, {len(corpus.tokens)} tokens, {config}", flush=True)
    options.output.mkdir(parents=True, exist_ok=True)

    def report(loss: float) -> None:
        found = evaluate(model, corpus, options.batch, autocast)
        spent = time.monotonic() - begun
        history.append({"step": step, "train_loss": loss, "seconds": spent, "held_out": found})
        shown = " ".join(f"{name} {one['perplexity']:.2f}" for name, one in found.items())
        print(
            f"step {step} loss {loss:.4f} after {spent:.0f} s, {timed / max(1e-9, clock):,.0f} tokens a second;"
            f" held out: {found['all']['bits_a_byte']:.4f} bits a byte, perplexity {shown}",
            flush=True,
        )

    first, clock, timed, since = step, 0.0, 0, time.monotonic()
    batches = corpus.batches(options.seed, options.batch, step)
    loss = torch.zeros(())
    while step < options.steps and time.monotonic() - begun < options.seconds:
        window = next(batches)
        spent = (time.monotonic() - begun) / options.seconds
        for group in optimizer.param_groups:
            group["lr"] = rate(step, options.steps, options.warm_up, options.rate, spent)
        with autocast:
            loss = loss_of(running, window)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step == first + 10:  # compiling is over
            loss.item()  # waits for the device
            clock, timed, since = 0.0, 0, time.monotonic()
        timed += options.batch * options.length
        if step % options.report == 0 and step < options.steps:
            last = loss.item()
            clock += time.monotonic() - since
            report(last)
            if options.checkpoint:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save({**state, "step": step, "history": history}, options.checkpoint)
            since = time.monotonic()
    last = loss.item()
    clock += time.monotonic() - since
    report(last)
    exact = torch.autocast(device.type, torch.bfloat16, enabled=False)
    torch.set_float32_matmul_precision("highest")
    final = evaluate(model, corpus, options.batch, exact)
    save_weights(model, options.output)
    document = {
        "config": asdict(config),
        "parameters": parameters,
        "options": {name: str(value) for name, value in vars(options).items() if not isinstance(value, Path)},
        "steps": step,
        "tokens": step * options.batch * options.length,
        "tokens_a_second": timed / max(1e-9, clock),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "held_out_float32": final,
        "history": history,
    }
    (options.output / "training.json").write_text(json.dumps(document, indent=1) + "\n")
    for name, one in final.items():
        print(f"held out, float32: {name:8} perplexity {one['perplexity']:7.3f}, {one['bits_a_byte']:.4f} bits a byte")
    print(f"ended at step {step} of {options.steps} after {time.monotonic() - begun:.0f} s")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--corpus", type=Path, default=Path("build/tiny/corpus.npz"))
    add("--output", type=Path, default=Path("build/tiny/trained"))
    add("--checkpoint", type=Path, help="written at every report; a run begins where it ended")
    add("--config", default="{}", help="JSON: sizes other than llama.Config has")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    add("--compile", action=argparse.BooleanOptionalAction, default=torch.cuda.is_available())
    add("--steps", type=int, default=6000)
    add("--seconds", type=float, default=math.inf, help="end after so long, with the learning rate at nothing")
    add("--batch", type=int, default=64, help="windows of a step")
    add("--length", type=int, default=1024, help="tokens of a window")
    add("--rate", type=float, default=3e-3)
    add("--warm-up", type=int, default=200)
    add("--weight-decay", type=float, default=0.1)
    add("--dropout", type=float, default=0.0)
    add("--seed", type=int, default=0)
    add("--report", type=int, default=500, help="steps between looks at the held-out text")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
