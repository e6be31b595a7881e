"""What tests of kernels by subgroup matrices have in common."""

from __future__ import annotations

from typing import Any

import pytest

from compilers.subgroup_matrices import in_software
from tapml.compilers import choose
from tapml.compilers.auto.in_place import is_better
from tapml.compilers.native import compile as compiling
from tapml.compilers.native import stored
from tapml.compilers.native.matrices import uses_matrices
from tapml.files import sha256
from tapml.kernels.bundle import CompiledKernel, WgslFile, requirements


@pytest.fixture
def matrix_texts() -> dict[str, str]:
    """What is in software -> the text that it was made of."""
    return {}


@pytest.fixture
def rounded_within(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row is rounded by those that read it however long it is."""
    monkeypatch.setattr("tapml.lowering.one_row.MOST_AGAIN", 2**20)


@pytest.fixture
def software(monkeypatch: pytest.MonkeyPatch, matrix_texts: dict[str, str]) -> list[str]:
    """Kernels have subgroup matrices alone, in software. Their names."""
    names: list[str] = []

    def first(fast: CompiledKernel, then: CompiledKernel) -> CompiledKernel:
        files = [
            WgslFile(file.name, in_software(file.text)) if uses_matrices(file.text) else file for file in fast.files
        ]
        matrix_texts.update((made.text, file.text) for made, file in zip(files, fast.files, strict=True))
        texts = {file.name: file.text for file in files}
        (variant,) = fast.document["variants"]
        entry_points = [{**one, "generated_sha256": sha256(texts[one["file"]])} for one in variant["entry_points"]]
        requires = requirements([*texts.values()], int(variant["requires"]["limits"]["maxStorageBufferBindingSize"]))
        names.append(fast.document["kernel"])
        made = {**variant, "requires": requires, "entry_points": entry_points}
        return CompiledKernel({**then.document, "variants": [made]}, files)

    def better(*kernels: Any) -> bool:
        """Kernels that are made to be compared are none of the carve."""
        known = len(names)
        found: bool = is_better(*kernels)
        del names[known:]
        return found

    for module in (compiling, stored):
        monkeypatch.setattr(module, "with_first", first)
    monkeypatch.setattr(choose, "is_better", better)
    return names
