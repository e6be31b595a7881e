"""A suite's model as `tapml build` makes it, for as long as a job needs it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tapml.building.build import build
from tapml.compiled.files import CompiledFiles
from tapml.suite import Suite


@contextmanager
def built_model(suite: Suite) -> Iterator[CompiledFiles]:
    """With its kernels as they are now, as a page would load it. Raises InputError as `build`."""
    with tempfile.TemporaryDirectory(prefix="tapml-") as folder:
        path = Path(folder) / "model.tapml"
        build(suite, path, keep_disagreeing=True)
        yield CompiledFiles(path)
