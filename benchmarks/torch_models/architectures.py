"""Architectures of the transformers package, tiny and with random weights."""

from __future__ import annotations

from typing import Any

_ENCODER_DECODER = {
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
}

_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}

TEXT: dict[str, dict[str, Any]] = {
    "albert": {"embedding_size": 16},
    "bart": {**_ENCODER_DECODER},
    "bert": {},
    "big_bird": {"attention_type": "original_full"},
    "biogpt": {},
    "bloom": {"n_layer": 2, "n_head": 4},
    "canine": {},
    "codegen": {"n_embd": 32, "n_layer": 1, "n_head": 4, "rotary_dim": 4, "n_positions": 64},
    "cohere": {},
    "convbert": {"embedding_size": 32},
    "deberta": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8},
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64},
    "electra": {"embedding_size": 16},
    "esm": {"pad_token_id": 0, "position_embedding_type": "rotary", "mask_token_id": 3},
    "falcon": {},
    "fnet": {},
    "falcon_mamba": {"state_size": 4},
    "gemma": {"head_dim": 8},
    "gemma2": {"head_dim": 8, "sliding_window": 4},
    "gemma3_text": {"head_dim": 8, "sliding_window": 4},
    "glm": {"head_dim": 8, "pad_token_id": 0},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
    "gpt_bigcode": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
    "gpt_neo": {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "num_heads": 4, "window_size": 4},
    "gpt_neox": {},
    "gptj": {"n_embd": 32, "n_layer": 1, "n_head": 4, "rotary_dim": 4, "n_positions": 64},
    "granite": {},
    "jamba": {
        **_EXPERTS,
        "mamba_d_state": 4,
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
    },
    "llama": {},
    "lfm2": {"layer_types": ["conv", "full_attention"], "block_multiple_of": 8},
    "m2m_100": {**_ENCODER_DECODER},
    "mamba": {"state_size": 4},
    "mamba2": {"num_heads": 8, "head_dim": 8, "state_size": 8, "n_groups": 2, "chunk_size": 4, "expand": 2},
    "mistral": {"sliding_window": 4},
    "mixtral": {"num_local_experts": 4},
    "mobilebert": {"embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16},
    "modernbert": {"local_attention": 8, "pad_token_id": 0, "cls_token_id": 1, "sep_token_id": 2},
    "mpnet": {},
    "olmo2": {},
    "olmoe": {**_EXPERTS},
    "opt": {"ffn_dim": 64, "word_embed_proj_dim": 32},
    "phi": {},
    "phi3": {"pad_token_id": 0},
    "qwen2": {},
    "qwen2_moe": {"moe_intermediate_size": 16, "shared_expert_intermediate_size": 16, "num_experts": 4},
    "qwen3": {"head_dim": 8},
    "qwen3_moe": {**_EXPERTS, "head_dim": 8},
    "recurrent_gemma": {"lru_width": 32, "attention_window_size": 8, "block_types": ["recurrent", "attention"]},
    "roberta": {"pad_token_id": 0},
    "roformer": {"embedding_size": 32},
    "smollm3": {"pad_token_id": 0},
    "squeezebert": {"embedding_size": 32, "q_groups": 2, "k_groups": 2, "v_groups": 2},
    "stablelm": {},
    "starcoder2": {},
    "t5": {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4},
    "xglm": {"d_model": 32, "ffn_dim": 64, "num_layers": 1, "attention_heads": 4},
}
"""Model type -> what its configuration has besides `_SMALL`. They take tokens."""

_SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "d_model": 32,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}

_STAGES = {"num_attention_heads": None, "num_hidden_layers": None}
"""They say it stage by stage."""

VISION: dict[str, dict[str, Any]] = {
    "beit": {},
    "convnext": {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2},
    "convnextv2": {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2},
    "deit": {},
    "dinov2": {},
    "dinov3_vit": {},
    "efficientnet": {"width_coefficient": 0.2, "depth_coefficient": 0.2, "hidden_dim": 256},
    "levit": {
        "hidden_sizes": [16, 32, 32],
        "num_attention_heads": [2, 2, 4],
        "depths": [1, 1, 1],
        "key_dim": [8, 8, 8],
        "patch_size": None,
    },
    "mobilenet_v1": {"depth_multiplier": 0.25},
    "mobilenet_v2": {"depth_multiplier": 0.25},
    "mobilevit": {"hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 8, 16, 16, 24, 24, 32]},
    "poolformer": {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]},
    "resnet": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"},
    "segformer": {"hidden_sizes": [8, 16, 16, 24], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 2, 4]},
    "siglip_vision_model": {},
    "swin": {**_STAGES, "patch_size": 4, "embed_dim": 8, "depths": [1, 2], "num_heads": [1, 2], "window_size": 4},
    "swinv2": {**_STAGES, "patch_size": 4, "embed_dim": 8, "depths": [1, 2], "num_heads": [1, 2], "window_size": 4},
    "vit": {},
    "yolos": {"image_size": [32, 32], "num_detection_tokens": 5},
}
"""They take an image."""

_SMALL_IMAGE = {"image_size": 32, "patch_size": 8, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}

AUDIO: dict[str, dict[str, Any]] = {
    "audio-spectrogram-transformer": {"patch_size": 8, "max_length": 32, "num_mel_bins": 16},
    "hubert": {},
    "wav2vec2": {},
    "wav2vec2-conformer": {"position_embeddings_type": "rotary"},
    "wavlm": {},
    "whisper": {**_ENCODER_DECODER, "num_mel_bins": 16, "max_source_positions": 16},
}
"""They take sound, or its spectrum."""


def architecture(kind: str) -> tuple[Any, dict[str, Any]]:
    """A model in evaluation mode, and the arguments of a call."""
    import torch
    from transformers import AutoConfig, AutoModel

    torch.manual_seed(0)
    own = TEXT.get(kind) or VISION.get(kind) or AUDIO.get(kind) or {}
    small = _SMALL_IMAGE if kind in VISION else _SMALL
    chosen = {name: value for name, value in {**small, **own}.items() if value is not None}
    config = AutoConfig.for_model(kind, **chosen)
    config._attn_implementation = "sdpa" if kind in _SDPA else "eager"
    model = AutoModel.from_config(config).eval()
    for parameter in model.parameters():
        # What was zero, or one, tells nothing when it is left out.
        parameter.data += 0.02 * torch.randn_like(parameter)
    return model, _inputs(kind, config)


_SDPA = ("llama", "qwen2", "bert", "vit", "gpt2", "whisper")


def _inputs(kind: str, config: Any) -> dict[str, Any]:
    import torch

    if kind in VISION:
        return {"pixel_values": torch.randn(1, 3, 32, 32)}
    if kind == "whisper":
        return {"input_features": torch.randn(1, 16, 32), "decoder_input_ids": torch.tensor([[1, 5, 9]])}
    if kind == "audio-spectrogram-transformer":
        return {"input_values": torch.randn(1, 32, 16)}
    if kind in AUDIO:
        return {"input_values": torch.randn(1, 800)}
    ids = torch.randint(3, 64, (2, 8))
    mask = torch.ones_like(ids)
    mask[1, -3:] = 0
    found: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
    if kind in ("fnet", "rwkv", "mamba", "mamba2", "falcon_mamba"):
        del found["attention_mask"]
    if config.is_encoder_decoder:
        found["decoder_input_ids"] = ids[:, :4]
    return found
