"""A folder for what the tests' programs leave: browsers that are killed do not remove their profiles."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def temporary_files_of_programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """All processes of this run write their temporary files to one folder, which goes at the end."""
    tmp_path_factory.getbasetemp()  # pytest's own stays where it is: it keeps what failed tests wrote
    folder = Path(tempfile.mkdtemp(prefix="tapml-tests-"))
    folder.chmod(0o711)  # PostgreSQL runs as somebody else
    # After the devices that the API closes when Python ends: what is registered first comes last.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", str(folder))
        yield
