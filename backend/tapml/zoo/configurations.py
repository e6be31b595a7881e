"""Tiny configurations of decoders, by architecture, and of what they are told apart by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SMALL = {
    **{"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 128},
    **{"max_position_embeddings": 128, "tie_word_embeddings": False},
    **{"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
}
_WIDE = {**_SMALL, "intermediate_size": 96}
GROUPED = {**_WIDE, "num_key_value_heads": 2}
_GPT = {
    **{"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 128, "n_positions": 128, "tie_word_embeddings": False},
    **{"bos_token_id": 1, "eos_token_id": 2},
}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
_LATENT = {
    **{"num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8},
    **{"v_head_dim": 16, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32},
    **{"first_k_dense_replace": 1, "n_shared_experts": 1, "topk_group": 1},
}
_STATES = {"mamba_d_state": 8, "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 1}
_LLAMA_3 = {
    **{"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "original_max_position_embeddings": 64,
}
_LONG = {
    **{"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 96},
    **{"short_factor": [1.0] * 8, "long_factor": [2.0] * 8},
}
_YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 32}
_DYNAMIC = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
_PLAIN_ROPE = {"rope_type": "default", "rope_theta": 1e4}

CONFIGURATIONS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "llama": ("LlamaConfig", GROUPED),
    "llama, llama3 rope": ("LlamaConfig", {**GROUPED, "rope_parameters": _LLAMA_3}),
    "llama, yarn": ("LlamaConfig", {**GROUPED, "rope_parameters": _YARN}),
    "llama, dynamic rope": ("LlamaConfig", {**GROUPED, "rope_parameters": _DYNAMIC}),
    "mistral": ("MistralConfig", {**GROUPED, "sliding_window": 8}),
    "mixtral": ("MixtralConfig", {**GROUPED, "num_local_experts": 4}),
    "qwen2": ("Qwen2Config", GROUPED),
    "qwen2_moe": ("Qwen2MoeConfig", {**GROUPED, **_EXPERTS, "shared_expert_intermediate_size": 32}),
    "qwen3": ("Qwen3Config", {**GROUPED, "head_dim": 16}),
    "qwen3_moe": ("Qwen3MoeConfig", {**GROUPED, **_EXPERTS, "head_dim": 16}),
    "gemma": ("GemmaConfig", {**GROUPED, "head_dim": 16}),
    "gemma2": (
        "Gemma2Config",
        {**GROUPED, "head_dim": 16, "sliding_window": 8, "attn_logit_softcapping": 5.0, "query_pre_attn_scalar": 16},
    ),
    "gemma3": ("Gemma3TextConfig", {**GROUPED, "head_dim": 16, "sliding_window": 8, "query_pre_attn_scalar": 16}),
    "gemma3n": (
        "Gemma3nTextConfig",
        {
            **{**GROUPED, "head_dim": 16, "sliding_window": 8, "num_hidden_layers": 4, "num_kv_shared_layers": 2},
            **{"layer_types": ["sliding_attention", "full_attention"] * 2, "laurel_rank": 8, "altup_num_inputs": 2},
            **{"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 128},
            "activation_sparsity_pattern": [0.9, 0.0, 0.0, 0.0],
        },
    ),
    "phi": ("PhiConfig", _WIDE),
    "phi3": ("Phi3Config", GROUPED),
    "phi3, longrope": (
        "Phi3Config",
        {**GROUPED, "original_max_position_embeddings": 96, "rope_parameters": _LONG},
    ),
    "phimoe": ("PhimoeConfig", {**GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "starcoder2": ("Starcoder2Config", {**GROUPED, "sliding_window": 8}),
    "gpt2": ("GPT2Config", _GPT),
    "gpt_neox": ("GPTNeoXConfig", _WIDE),
    "gpt_bigcode": ("GPTBigCodeConfig", _GPT),
    "gpt_neo": (
        "GPTNeoConfig",
        {
            **{**_SMALL, "num_layers": 2, "num_heads": 4, "window_size": 8},
            "attention_types": [[["global", "local"], 1]],
        },
    ),
    "gptj": ("GPTJConfig", {**_GPT, "rotary_dim": 8}),
    "opt": ("OPTConfig", {**_SMALL, "ffn_dim": 96, "word_embed_proj_dim": 64}),
    "stablelm": ("StableLmConfig", GROUPED),
    "cohere": ("CohereConfig", GROUPED),
    "cohere2": ("Cohere2Config", {**GROUPED, "sliding_window": 8}),
    "olmo2": ("Olmo2Config", GROUPED),
    "granite": ("GraniteConfig", {**GROUPED, "attention_multiplier": 0.25}),
    "gpt_oss": (
        "GptOssConfig",
        {
            **GROUPED,
            **{"head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8},
            "rope_parameters": _PLAIN_ROPE,
        },
    ),
    "deepseek_v2": ("DeepseekV2Config", {**_WIDE, **_LATENT, "n_group": 1}),
    "deepseek_v3": ("DeepseekV3Config", {**_WIDE, **_LATENT, "n_group": 2}),
    "falcon": ("FalconConfig", {**_SMALL, "alibi": False}),
    "falcon, alibi": ("FalconConfig", {**_SMALL, "alibi": True}),
    "bloom": ("BloomConfig", {"hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": 128}),
    "mpt": ("MptConfig", {"d_model": 64, "n_layers": 2, "n_heads": 4, "vocab_size": 128, "max_seq_len": 128}),
    "rwkv": (
        "RwkvConfig",
        {
            **{"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 128},
            **{"context_length": 128, "attention_hidden_size": 64},
        },
    ),
    "mamba": ("MambaConfig", {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 128, "state_size": 8}),
    "mamba2": (
        "Mamba2Config",
        {
            **{"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 128, "state_size": 8},
            **{"num_heads": 8, "head_dim": 16, "n_groups": 1, "tie_word_embeddings": False},
        },
    ),
    "jamba": (
        "JambaConfig",
        {
            **{**GROUPED, "num_experts": 2, "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2},
            **{"expert_layer_offset": 1, "mamba_d_state": 8, "mamba_dt_rank": 4, "use_mamba_kernels": False},
        },
    ),
    "bamba": ("BambaConfig", {**GROUPED, **_STATES, "attn_layer_indices": [1]}),
    "falcon_h1": ("FalconH1Config", {**GROUPED, **_STATES, "head_dim": 16, "mamba_d_ssm": 128}),
    "zamba2": (
        "Zamba2Config",
        {
            **{**_WIDE, "mamba_d_state": 8, "mamba_ngroups": 1, "mamba_headdim": 16, "n_mamba_heads": 8},
            **{"layers_block_type": ["mamba", "hybrid"], "hybrid_layer_ids": [1], "num_mem_blocks": 1},
            "adapter_rank": 4,
        },
    ),
    "dbrx": (
        "DbrxConfig",
        {
            **{"d_model": 64, "n_heads": 4, "n_layers": 2, "max_seq_len": 128, "vocab_size": 128},
            "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8.0},
            "ffn_config": {"ffn_hidden_size": 96, "moe_num_experts": 4, "moe_top_k": 2},
        },
    ),
    "llama4": (
        "Llama4TextConfig",
        {
            **GROUPED,
            **{"head_dim": 16, "intermediate_size_mlp": 96, "num_local_experts": 2, "attention_chunk_size": 8},
            **{"no_rope_layers": [1, 0], "floor_scale": 16},
        },
    ),
    "smollm3": ("SmolLM3Config", GROUPED),
    "t5, encoder and decoder": (
        "T5Config",
        {
            **{"vocab_size": 128, "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4},
            **{"relative_attention_num_buckets": 8, "relative_attention_max_distance": 20, "n_positions": 128},
            **{"decoder_start_token_id": 0},
        },
    ),
    "bart, encoder and decoder": (
        "BartConfig",
        {
            **{"vocab_size": 128, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 96},
            **{"encoder_attention_heads": 4, "decoder_attention_heads": 4, "decoder_ffn_dim": 96},
            **{"max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
            "decoder_start_token_id": 2,
        },
    ),
    "whisper, encoder and decoder": (
        "WhisperConfig",
        {
            **{"vocab_size": 128, "num_mel_bins": 8, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2},
            **{"encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 96},
            **{"decoder_ffn_dim": 96, "max_source_positions": 12, "max_target_positions": 128, "pad_token_id": 0},
            **{"bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1},
        },
    ),
}
"""By name: class and fields. Nothing is tied, or random models repeat their last token."""


def configuration(name: str) -> Any:
    """transformers' own object."""
    import transformers

    kind, fields = CONFIGURATIONS[name]
    return getattr(transformers, kind)(**fields)
