"""The models by name, as exported programs with their inputs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks.torch_models.architectures import AUDIO, TEXT, VISION, architecture


def names() -> list[str]:
    """Without the blocks where PyTorch is not installed, which nothing else is asked then."""
    from benchmarks.torch_models.blocks import BLOCKS

    return [*(f"{name} (block)" for name in BLOCKS), *VISION, *AUDIO, *TEXT]


def exported(name: str, folder: Path) -> tuple[Path, Path]:
    """A program and its inputs, in files."""
    import numpy as np
    import torch

    from benchmarks.torch_models.blocks import BLOCKS

    torch.manual_seed(0)
    block = name.removesuffix(" (block)")
    model, arguments = BLOCKS[block]() if block != name else architecture(name)

    class First(torch.nn.Module):
        """A transformer's first output; what it keeps for the next step is a class of its own."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model.eval()

        def forward(self, **named: Any) -> Any:
            found = self.model(**named)
            return found[0] if hasattr(self.model, "config") else found

    # What the exporter prints is not for whoever reads the answers.
    standard, sys.stdout = sys.stdout, sys.stderr
    try:
        with torch.no_grad():
            program = torch.export.export(First(), (), arguments, strict=False)
        torch.export.save(program, folder / "model.pt2")
    finally:
        sys.stdout = standard
    np.savez(folder / "inputs.npz", **{name: found.numpy() for name, found in arguments.items()})
    return folder / "model.pt2", folder / "inputs.npz"
