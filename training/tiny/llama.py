"""Llama in plain PyTorch, parameter by parameter named as in transformers' LlamaForCausalLM."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Config:
    """Sizes of the model, by the names of transformers' LlamaConfig."""

    vocab_size: int = 4096
    hidden_size: int = 256
    intermediate_size: int = 768
    num_hidden_layers: int = 6
    num_attention_heads: int = 8
    num_key_value_heads: int = 2
    max_position_embeddings: int = 1024
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000.0

    def as_transformers(self) -> dict[str, Any]:
        """What transformers' config.json says of the same model."""
        sizes = asdict(self)
        theta = sizes.pop("rope_theta")
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            **sizes,
            "head_dim": self.hidden_size // self.num_attention_heads,
            "hidden_act": "silu",
            "attention_bias": False,
            "attention_dropout": 0.0,
            "mlp_bias": False,
            "initializer_range": 0.02,
            "rope_parameters": {"rope_type": "default", "rope_theta": theta},
            "rope_theta": theta,
            "tie_word_embeddings": True,
            "use_cache": True,
            "bos_token_id": 0,
            "eos_token_id": 1,
            "pad_token_id": None,
            "dtype": "float16",
        }


class RMSNorm(nn.Module):
    """y = x / rms(x) * weight, the mean in float32."""

    def __init__(self, size: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon)
        return self.weight * scaled.to(x.dtype)


class Attention(nn.Module):
    """Causal self-attention; several query heads share a key and value head."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads, self.groups = config.num_attention_heads, config.num_key_value_heads
        self.head_dim = config.hidden_size // self.heads
        self.q_proj = nn.Linear(config.hidden_size, self.heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, self.groups * self.head_dim, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, self.groups * self.head_dim, bias=False)
        self.o_proj = nn.Linear(self.heads * self.head_dim, config.hidden_size, bias=False)

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q = self.q_proj(x).view(batch, length, self.heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(batch, length, self.groups, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(batch, length, self.groups, self.head_dim).transpose(1, 2)
        q, k = rotated(q, cosine, sine), rotated(k, cosine, sine)
        each = self.heads // self.groups
        k, v = k.repeat_interleave(each, 1), v.repeat_interleave(each, 1)
        y = functional.scaled_dot_product_attention(q, k.to(q.dtype), v.to(q.dtype), is_causal=True)
        joined: Tensor = self.o_proj(y.transpose(1, 2).reshape(batch, length, -1))
        return joined


def rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary positions, the halves of a head as the pairs: what transformers calls rotate_half."""
    first, second = x.chunk(2, -1)
    return (x * cosine + torch.cat((-second, first), -1) * sine).to(x.dtype)


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return y


class Layer(nn.Module):
    """Attention, then the feed-forward part, each added to what it was given."""

    def __init__(self, config: Config, dropout: float) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = FeedForward(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        x = x + self.dropout(self.self_attn(self.input_layernorm(x), cosine, sine))
        y: Tensor = x + self.dropout(self.mlp(self.post_attention_layernorm(x)))
        return y


class Body(nn.Module):
    """Everything but the last product; a module of its own because its parameters are named `model.`."""

    def __init__(self, config: Config, dropout: float) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config, dropout) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.dropout = nn.Dropout(dropout)


class Llama(nn.Module):
    """tokens int64 [batch, length] to logits [batch, length, vocabulary]; the embedding is also the last weight."""

    def __init__(self, config: Config, dropout: float = 0.0) -> None:
        super().__init__()
        self.config = config
        self.model = Body(config, dropout)
        head_dim = config.hidden_size // config.num_attention_heads
        # In float32 from beginning to end, as transformers does: its rounding is part of the model.
        frequencies = 1.0 / config.rope_theta ** (torch.arange(0, head_dim, 2).float() / head_dim)
        angles = torch.arange(config.max_position_embeddings).float()[:, None] * frequencies
        table = torch.cat((angles, angles), -1)
        self.register_buffer("cosine", table.cos(), persistent=False)
        self.register_buffer("sine", table.sin(), persistent=False)
        self.cosine: Tensor
        self.sine: Tensor
        depth = (2 * config.num_hidden_layers) ** -0.5
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                scale = depth if name.endswith(("o_proj.weight", "down_proj.weight")) else 1.0
                nn.init.normal_(parameter, std=0.02 * scale)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        x = self.model.dropout(self.model.embed_tokens(tokens))
        for layer in self.model.layers:
            x = layer(x, self.cosine[:length], self.sine[:length])
        return functional.linear(self.model.norm(x), self.model.embed_tokens.weight)
