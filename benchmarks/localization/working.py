"""A copy of a suite whose kernels a case may break, and restore again."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.localization.cases import Bug
from tapml.suite import Suite


class WorkingCopy:
    """A suite's copy in a folder of its own; tensors are linked, never written."""

    def __init__(self, suite: Suite, folder: Path) -> None:
        self.path = folder / suite.path.name
        shutil.copytree(suite.path, self.path, copy_function=_link, ignore=shutil.ignore_patterns("results"))

    @contextmanager
    def mutated(self, bugs: Iterable[Bug]) -> Iterator[Suite]:
        """The suite with these bugs, until the block ends."""
        before: dict[Path, str] = {}
        for bug in bugs:
            path = self.path / "kernels" / bug.file
            before[path] = path.read_text()
            path.write_text(bug.mutant.text)
        try:
            yield Suite(self.path)
        finally:
            for path, text in before.items():
                path.write_text(text)


def _link(source: str, target: str) -> None:
    if source.endswith(".bin"):
        try:
            Path(target).hardlink_to(source)
            return
        except OSError:  # the cache lies on another file system
            pass
    shutil.copy2(source, target)
