"""Programs of torch.export that compute in bfloat16, in float32."""

from __future__ import annotations

from typing import Any

NOTE = "bfloat16, which WebGPU lacks, is computed in float32, by the oracle as well"


def widened(program: Any) -> bool:
    """Make float32 of all that is bfloat16 in a program: tensors, inputs, casts. Whether there was any."""
    import torch
    from torch.fx.node import map_aggregate

    found = False

    def wide(value: Any) -> Any:
        nonlocal found
        if value is torch.bfloat16 or getattr(value, "dtype", None) is torch.bfloat16:
            found = True
            return torch.float32 if value is torch.bfloat16 else _wide(value)
        return value

    for held in (program.state_dict, program.constants):
        for name, tensor in held.items():
            held[name] = wide(tensor)
    for node in program.graph.nodes:
        node.args, node.kwargs = map_aggregate(node.args, wide), map_aggregate(node.kwargs, wide)
        if "val" in node.meta:
            node.meta["val"] = torch.utils._pytree.tree_map(wide, node.meta["val"])
    if found:
        program.graph_module.recompile()
        program._example_inputs = torch.utils._pytree.tree_map(wide, program.example_inputs)
    return found


def _wide(tensor: Any) -> Any:
    import torch

    mode = getattr(tensor, "fake_mode", None)
    if mode is None:
        made = tensor.detach().float()
        return torch.nn.Parameter(made, requires_grad=False) if isinstance(tensor, torch.nn.Parameter) else made
    with mode:
        return tensor.float()
