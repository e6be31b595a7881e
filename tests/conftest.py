"""A small model carved once for all tests that need a suite."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from helpers import small_model
from tapml.carving.carve import carve
from tapml.suite import Suite


@pytest.fixture(scope="session")
def carved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A suite nobody may change: copy it with `suite` where a test edits."""
    path = tmp_path_factory.mktemp("carved") / "small.suite"
    carve(small_model(), path, name="small")
    return path


@pytest.fixture
def suite(carved: Path, tmp_path: Path) -> Suite:
    """A copy of the small suite, free to be damaged."""
    path = tmp_path / "small.suite"
    shutil.copytree(carved, path)
    return Suite(path)


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(7)
