"""A folder for what the tests' programs leave: browsers that are killed do not remove their profiles."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def temporary_files_of_programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """All processes of this run write their temporary files to one folder, which goes at the end."""
    tmp_path_factory.getbasetemp()  # pytest's own stays where it is: it keeps what failed tests wrote
    before = os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(prefix="tapml-tests-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)  # PostgreSQL runs as somebody else
        os.environ["TMPDIR"], tempfile.tempdir = folder, None
        yield
    if before is None:
        del os.environ["TMPDIR"]
    else:
        os.environ["TMPDIR"] = before
    tempfile.tempdir = None
