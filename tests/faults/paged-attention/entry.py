"""Attention over a paged KV cache that takes the last page for full."""

from typing import Any

import numpy as np
from tvm import te, tirx

from gallery import Case, Edit, Fault, Wgsl
from operators import random, te_model

HEADS, SIZE, PAGE, POOL = 2, 16, 4, 16
TOKENS = 13


def attention(q: te.Tensor, keys: te.Tensor, values: te.Tensor, table: te.Tensor, length: te.Tensor) -> te.Tensor:
    """One query a head; token t lies in page table[t // PAGE] at t % PAGE."""
    reach = table.shape[0] * PAGE
    n, k, t = te.reduce_axis((0, SIZE), "n"), te.reduce_axis((0, reach), "k"), te.reduce_axis((0, reach), "t")
    s = te.reduce_axis((0, reach), "s")
    dot = te.compute(
        (HEADS, reach),
        lambda h, i: te.sum(q[h, n] * keys[table[i // PAGE], h, i % PAGE, n], axis=n),
        name="dot",
    )
    scores = te.compute(
        (HEADS, reach),
        lambda h, i: tirx.if_then_else(i < length[0], dot[h, i] * SIZE**-0.5, tirx.const(-1e30, "float32")),
        name="scores",
    )
    most = te.compute((HEADS,), lambda h: te.max(scores[h, k], axis=k), name="most")
    weights = te.compute((HEADS, reach), lambda h, i: te.exp(scores[h, i] - most[h]), name="weights")
    total = te.compute((HEADS,), lambda h: te.sum(weights[h, t], axis=t), name="total")
    mixed = te.compute(
        (HEADS, SIZE),
        lambda h, j: te.sum(weights[h, s] * values[table[s // PAGE], h, s % PAGE, j], axis=s),
        name="mixed",
    )
    return te.compute((HEADS, SIZE), lambda h, j: mixed[h, j] / total[h], name="out")


def inputs() -> dict[str, np.ndarray]:
    """The query and the cache of a transformer's second layer, of random weights, after 13 tokens.

    The pool's pages hold an earlier sequence's tokens where this one has not written.
    """
    import torch  # here, for it takes seconds to load
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=HEADS * SIZE, intermediate_size=64, num_hidden_layers=2, num_attention_heads=HEADS
    )
    model = transformers.LlamaForCausalLM(config).eval()
    queries: list[Any] = []
    projection = model.model.layers[1].self_attn.q_proj
    projection.register_forward_hook(lambda module, given, result: queries.append(result))
    earlier, tokens = random(60).integers(0, 64, (1, POOL * PAGE)), random(61).integers(0, 64, (1, TOKENS))
    with torch.no_grad():
        old, new = (model(torch.from_numpy(ids), use_cache=True).past_key_values for ids in (earlier, tokens))
    table = random(62).permutation(POOL)[: -(-TOKENS // PAGE)].astype(np.int32)

    def paged(of: str) -> np.ndarray:
        pool, own = (getattr(cache.layers[1], of)[0].numpy() for cache in (old, new))
        pages = pool.reshape(HEADS, POOL, PAGE, SIZE).transpose(1, 0, 2, 3).copy()
        for t in range(TOKENS):
            pages[table[t // PAGE], :, t % PAGE] = own[:, t]
        return pages.astype(np.float32)

    return {
        # Long enough that some tokens matter more than others, as in a trained model.
        "q": (8 * queries[1][0, -1].numpy()).reshape(HEADS, SIZE).astype(np.float32),
        "keys": 8 * paged("keys"),
        "values": paged("values"),
        "table": table,
        "length": np.array([TOKENS], np.int32),
    }


FAULT = Fault(
    title="a paged-attention kernel that reads past the sequence's end in its last page",
    sources=("https://doi.org/10.1145/3728957",),
    how="The KV cache of a real (tiny, random) Llama in pages; the mask ends with the last page instead of the last "
    "token, so that what an earlier sequence left there is attended to.",
    model=lambda: te_model("paged_attention", attention, inputs()),
    correct=Case(Wgsl("correct.wgsl", ((HEADS, 1, 1),))),
    faulty=Case(Edit("t < u32(length[0])", "t < 16u"), verdicts=("fail",), words=("32 of 32",)),
    pattern="noise",
    says="32 of 32 elements are wrong",
)
