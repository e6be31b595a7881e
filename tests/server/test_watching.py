"""What is written into a suite's folder, and when the server tells of it."""

from __future__ import annotations

import contextlib
import os
import queue
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tapml.devices import Blobs
from tapml.devices.messages import digest_now
from tapml.errors import InputError
from tapml.server.registry import SuiteRegistry, detail
from tapml.server.watching import SuiteWatch
from tapml.suite import Suite

Told = queue.Queue[tuple[str, dict[str, dict[str, Any]]]]


@pytest.fixture
def registry() -> SuiteRegistry:
    return SuiteRegistry(Blobs())


@pytest.fixture
def told(registry: SuiteRegistry) -> Iterator[Told]:
    found: Told = queue.Queue()
    watch = SuiteWatch(registry)
    watch.listener = lambda suite, kernels: found.put((suite, kernels))
    watch.start()
    yield found
    watch.close()


def until_told(told: Told, write: Callable[[], object], expected: object) -> None:
    """Writes again where nothing was told: it may be that the new folder was not watched yet."""
    seen = []
    for _ in range(60):
        write()
        with contextlib.suppress(queue.Empty):
            seen.append(told.get(timeout=2))
            if seen[-1] == expected:
                return
    pytest.fail(f"told {seen}")


def test_an_edit_and_its_undoing_are_told(registry: SuiteRegistry, told: Told, suite: Suite) -> None:
    registry.add(suite.path)  # while it watches: an imported suite comes so
    kernel = suite.kernels[0]
    (name,) = (file.name for file in suite.kernel_files(kernel))
    file, before = suite.path / "kernels" / name, digest_now(suite, kernel)
    text = file.read_text()
    file.write_text(text + "// edited\n")
    edited = digest_now(suite, kernel)
    assert edited != before
    until_told(
        told,
        lambda: file.write_text(text + "// edited\n"),
        ("small", {kernel: {"digest": edited, "edited": True}}),
    )
    other = file.with_suffix(".tmp")

    def undo() -> None:  # as editors save
        other.write_text(text)
        other.rename(file)

    until_told(told, undo, ("small", {kernel: {"digest": before, "edited": False}}))


def test_a_damaged_kernel_is_told_as_that(registry: SuiteRegistry, suite: Suite) -> None:
    registry.add(suite.path)
    watch, found = SuiteWatch(registry), []
    watch.listener = lambda suite, kernels: found.append((suite, kernels))
    kernel = suite.kernels[0]
    document = suite.path.resolve() / "kernels" / f"{kernel}.json"
    document.write_text("{")
    watch.changed([document, document.with_name("notes.txt")])
    assert found == [("small", {kernel: {"digest": None, "edited": True}})]
    watch.changed([document.with_name("notes.txt"), suite.path / "suite.json"])
    assert len(found) == 1


def test_a_suite_is_read_again_when_what_it_was_read_from_is_another(registry: SuiteRegistry, suite: Suite) -> None:
    name = registry.add(suite.path)
    first = registry.require(name)
    assert registry.require(name) is first
    kernel = suite.kernels[0]
    (file,) = first.kernel_files(kernel)
    (suite.path / "kernels" / file.name).write_text(file.text + "// edited\n")
    assert registry.require(name) is first
    assert detail(name, registry.require(name))["edited"] == [kernel], "kernels are read each time"
    manifest = suite.path / "suite.json"
    facts = manifest.stat()
    before = manifest.read_text()
    manifest.write_text(before.replace('"synthetic": false', '"synthetic": true '))
    assert manifest.read_text() != before
    os.utime(manifest, ns=(facts.st_atime_ns, facts.st_mtime_ns))  # of the same size, and as old
    again = registry.require(name)
    assert again.synthetic is not first.synthetic
    manifest.write_text("{")
    with pytest.raises(InputError, match=r"suite\.json"):
        registry.require(name)
    manifest.write_text(before)
    assert registry.require(name).synthetic is first.synthetic
