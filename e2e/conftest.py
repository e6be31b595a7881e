"""The real thing: the command in a process of its own, real browsers, the real model."""

from __future__ import annotations

import contextlib
import json
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from collected import pytest_runtest_setup
from helpers import small_model
from pages import Opened, People
from parts import only_part, pytest_configure
from preloaded import tapml
from tapml.carving.carve import carve
from tapml.server import Server
from temporary import temporary_files_of_programs
from workers import in_order, made_once
from written import PROMPT, build_tiny, of_transformers

# Hooks, and fixtures for all.
__all__ = [
    "pytest_configure",
    "pytest_runtest_setup",
    "tapml",
    "temporary_files_of_programs",
]

# Of what a shell starts with `&`, Ctrl-C is ignored, also in all that it starts: `serving` could not end a server.
signal.signal(signal.SIGINT, signal.default_int_handler)

TEXT = "Every operator of this model is tested in the browser."


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    in_order(
        items,
        "test_generate.py",
        "test_generate_texts.py",
        "test_field_demo.py",
        "test_chat.py",
        "test_device_faults.py",
        "test_workflow.py",
        "test_offload.py",
        "test_share.py",
        "test_models.py",
        "test_compile_faults.py",
        "test_api.py",
        "test_faults.py",
        "test_gallery_browsers.py",
        "test_ci.py",
        "test_validate.py",
        "test_webdriver.py",
        "test_bounds.py",
        "test_locate.py",
        "test_variants.py",
        "test_locate_page.py",
        "test_history.py",
    )
    only_part(config, items)


def command(*arguments: str | Path) -> Sequence[str]:
    """`tapml ARGUMENTS` for those who watch it run; `tapml` runs it to its end."""
    return [sys.executable, "-m", "tapml", *map(str, arguments)]


@pytest.fixture(scope="session")
def carved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "minilm.suite", carve_minilm)


def carve_minilm(path: Path, *options: str) -> None:
    ran = tapml("carve", "minilm", "--text", TEXT, *options, "-o", path)
    assert ran.code == 0, ran.err


@pytest.fixture
def suite(carved: Path, tmp_path: Path) -> Path:
    """A copy whose kernels a test may break; tensors are linked, never written."""
    return copied(carved, tmp_path / "minilm.suite")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A suite of six calls of three kernels."""
    return carve(small_model(), tmp_path / "small.suite", name="small").path


def copied(suite: Path, path: Path) -> Path:
    shutil.copytree(suite, path, copy_function=_link_tensors, ignore=shutil.ignore_patterns("results"))
    return path


def _link_tensors(source: str, target: str) -> None:
    if source.endswith(".bin"):
        Path(target).hardlink_to(source)
    else:
        shutil.copy2(source, target)


@pytest.fixture(scope="session")
def people() -> Iterator[People]:
    people = People()
    yield people
    people.close()


@pytest.fixture
def opened(people: People) -> Opened:
    return people.opened


@pytest.fixture(scope="session")
def shared_server() -> Iterator[Server]:
    """Its devices are started once, for all tests that do them no harm."""
    with Server() as server:
        yield server


Edit = Callable[[str], str]


@pytest.fixture
def edit(suite: Path) -> Callable[[str, Edit], None]:
    """edit(kernel, change): rewrite a kernel's WGSL as a kernel author would."""

    return lambda kernel, by: rewrite(suite, kernel, by)


def rewrite(suite: Path, kernel: str, by: Edit) -> None:
    path = suite / "kernels" / f"{kernel}.wgsl"
    before = path.read_text()
    after = by(before)
    assert after != before
    path.write_text(after)


def off_by_one(text: str) -> str:
    """One read of the row in layer_norm takes the neighbour's element."""
    return text.replace(" + 64i)]", " + 65i)]", 1)


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def free_port() -> int:
    """To be listened on later, or twice. It is below those that the system gives to whoever asks for any (Linux: from
    32768, others: from 49152): another worker's server or browser cannot take it meanwhile."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextmanager
def serving(suite: Path, port: int = 0) -> Iterator[str]:
    """`tapml serve` from when it listens, ended like Ctrl-C does: its address, on a free port unless one is given."""
    with subprocess.Popen(command("serve", suite, "--port", str(port)), stdout=subprocess.PIPE, text=True) as process:
        try:
            yield listening(process)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                assert process.wait(60) == 0
            except subprocess.TimeoutExpired:
                process.kill()
                raise


def listening(process: subprocess.Popen[str]) -> str:
    """The address that `tapml serve` prints when it can be used."""
    assert process.stdout is not None
    (url,) = re.findall(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
    return str(url)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The language model that comes with tapml, compiled."""
    cache = made_once(tmp_path_factory, "cache", build_tiny)
    (found,) = cache.glob("language-models/tiny-[0-9a-f]*.tapml")
    return found


@pytest.fixture(scope="session")
def wanted() -> list[int]:
    """The tokens that transformers writes behind `PROMPT`."""
    return of_transformers(PROMPT)
