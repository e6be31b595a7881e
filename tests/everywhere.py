"""The same program everywhere: each model that a test carves is built, and run on this machine, on a device as a page
does, and in the virtual machine of tvmjs, against what was carved.

`SuiteWriter` tells of each suite that a test writes. When all tests of a worker are done it compares those that no
worker has compared: tests keep what they ask of processes, memory and devices for themselves. That takes as long as a
third of the tests that are not slow: of a part of the tests (tests/parts.py) it is a part of what they carve.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.everywhere import CPU, built_problems, carved_inputs, problem, virtual_machine_problem

import parts
from loop_variables import unsaid
from tapml.compiled.call import CompiledRun
from tapml.errors import InputError
from tapml.server import Server
from tapml.suite import Suite, SuiteWriter

DEVICE = "node-dawn"
WITH_FLOAT16 = "deno"

_DAMAGED = "tests/hostile/"
"""Where suites are written on full disks, and by commands that are killed."""


def check_everywhere(suite: Suite, server: Server, device: str = DEVICE, **ranges: tuple[int, int]) -> None:
    """Build the model (for sizes of these ranges), and run all steps of its carve in order, here and on the device."""
    found = built_problems(suite, server.state, [device], ranges=ranges)
    assert found == dict.fromkeys((CPU, device), "")


def check_outputs(suite: Suite, found: CompiledRun) -> None:
    """They are what was carved."""
    assert problem(suite, found) == ""


class Everywhere:
    """The suites that tests of this process carve. `folder`, of all workers, holds them until they are compared.
    `compared` says of a test, by its full name, whether its suites are."""

    def __init__(self, folder: Path, compared: Callable[[str], bool] = lambda test: True) -> None:
        self._folder = folder
        self._compared = compared
        self._waiting: dict[Path, str] = {}
        """With the test that carved it first."""

    def watch(self) -> Callable[[], None]:
        """From now on; ends when what is returned is called."""
        finish = SuiteWriter.finish

        def finished(writer: SuiteWriter, *arguments: Any, **options: Any) -> Suite:
            suite = finish(writer, *arguments, **options)
            self._keep(suite, os.environ.get("PYTEST_CURRENT_TEST", ""))
            return suite

        SuiteWriter.finish = finished  # type: ignore[method-assign]
        return lambda: setattr(SuiteWriter, "finish", finish)

    def _keep(self, suite: Suite, test: str) -> None:
        name, _, _ = test.rpartition(" (")  # and what of it runs: setup, call
        if not self._compared(name):
            return
        if test.startswith(_DAMAGED) or suite.doubts or not suite.manifest["steps"]:
            return  # the last: imported tests, of no model
        if not (suite.path / "tensors").exists():
            return  # of a test that writes a folder, and carves nothing
        path = self._folder / f"{suite.id}-{suite.kernels_id}.suite"
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                half = path.with_suffix(".half")  # a test may let the copy fail, as any that writes files
                shutil.rmtree(half, ignore_errors=True)
                shutil.copytree(suite.path, half)
                half.rename(path)
                self._waiting[path] = test

    def problems(self) -> Iterator[str]:
        """What is wrong where, with the test that carved it."""
        if not self._waiting:
            return
        with Server([*self._waiting]) as server:
            for path, test in self._waiting.items():
                suite = Suite(path)
                for name in suite.kernels:
                    for file in suite.kernel_files(name):
                        yield from (f"{suite.name} of {test}: {name}: {one} is not set" for one in unsaid(file.text))
                if any(suite.bundle(kernel)["unsupported"] for kernel in suite.kernels):
                    with pytest.raises(InputError, match="has no WGSL for"):
                        built_problems(suite, server.state, [])
                    continue
                # No larger than the carve's: memory is planned for the most, and this machine's is laid out by it.
                sizes = [step["sizes"] for step in suite.manifest["steps"]]
                known = {name: [found[name] for found in sizes if name in found] for found in sizes for name in found}
                ranges = {name: (min(found), max(found)) for name, found in known.items()}
                if suite.generation is not None:  # which takes a single token, too
                    ranges = {name: (1, most) for name, (_, most) in ranges.items()}
                device = DEVICE
                found = built_problems(suite, server.state, [device], ranges=ranges)
                if found[device].startswith("unsupported: "):  # it has no float16
                    device = WITH_FLOAT16
                    found = built_problems(suite, server.state, [device], ranges=ranges)
                found["tvmjs"] = virtual_machine_problem(suite, server.state, device)
                yield from (f"{suite.name} of {test}: {where}: {why}" for where, why in found.items() if why)


def of_part(slow: set[str]) -> Callable[[str], bool]:
    """All suites of the slow tests, which are this part's, and those of a share of the others, by their names."""
    if (found := parts.chosen()) is None:
        return lambda test: True
    part, count = found
    return lambda test: test in slow or parts.by_name(test, count) == part


@pytest.fixture(scope="session", autouse=True)
def every_carve(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fails after a worker's last test, with all that is wrong."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    (folder / "everywhere").mkdir(exist_ok=True)
    slow = {item.nodeid for item in request.session.items if item.get_closest_marker("slow")}
    everywhere = Everywhere(folder / "everywhere", of_part(slow))
    end = everywhere.watch()
    yield
    end()
    wrong = list(everywhere.problems())
    assert not wrong, "\n".join(wrong)


__all__ = ["Everywhere", "carved_inputs", "check_everywhere", "check_outputs", "every_carve", "of_part"]
