"""A disk that takes no more, without privileges: a process may not write files beyond a size."""

from __future__ import annotations

import os
import resource
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from preloaded import Ran, tapml


@contextmanager
def full_disk(most: int = 0) -> Iterator[None]:
    """No file of this process gets larger than `most` bytes: writing raises OSError (EFBIG), as on a full disk.

    Print nothing inside: pytest keeps what is printed in a file.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def on_full_disk(
    *arguments: str | Path,
    folder: Path,
    stdout: IO[str] | int | None = None,
    stderr: IO[str] | int | None = None,
) -> Ran:
    """`tapml ARGUMENTS` in a process that may write pipes, but no file. `folder` takes a script."""
    # Dawn's software GPU keeps its code in a file that lies nowhere: that is memory, and no disk.
    node = folder / "node"
    node.write_text(f'#!/bin/sh\nulimit -S -f unlimited\nexec "{_node()}" "$@"\n')
    node.chmod(0o755)
    environment = {**os.environ, "TAPML_NODE": str(node)}
    return tapml(*arguments, stdout=stdout, stderr=stderr, environment=environment, largest_file=0)


def _node() -> str:
    """The Node.js that tapml would take."""
    path = os.pathsep.join([str(Path(sys.prefix) / "node" / "bin"), os.environ.get("PATH", os.defpath)])
    found = shutil.which(os.environ.get("TAPML_NODE", "node"), path=path)
    assert found is not None, "node was not found: run `make setup`"
    return found
