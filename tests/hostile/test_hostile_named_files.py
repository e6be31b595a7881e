"""Files that are named on the command line: a folder from `tapml export --wgsl`, a baseline."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tapml.ci.baseline import read_baseline
from tapml.errors import InputError
from tapml.sharing import export, load_repro, of_suite
from tapml.suite import Suite

HARM: dict[str, Callable[[Path, Path], None]] = {
    "a link to elsewhere": lambda path, elsewhere: path.symlink_to(elsewhere),
    "a link to itself": lambda path, elsewhere: path.symlink_to(path.name),
    "a FIFO": lambda path, elsewhere: os.mkfifo(path),
    "a folder": lambda path, elsewhere: path.mkdir(),
}


@pytest.mark.parametrize("what", HARM)
@pytest.mark.parametrize("name", ["repro.json", "softmax.wgsl", "inputs.0.npy", "outputs.0.npy"])
def test_an_exported_folder_is_read_inside_itself_only(suite: Suite, tmp_path: Path, name: str, what: str) -> None:
    test = next(test for test in suite.tests if test.kernel == "softmax")
    folder, elsewhere = tmp_path / "exported", tmp_path / "elsewhere"
    export(of_suite(suite, test.id), "wgsl", folder)
    assert load_repro(folder).arrays
    # What the file held before, so that only where it lies is wrong.
    (folder / name).rename(elsewhere)
    HARM[what](folder / name, elsewhere)
    with pytest.raises(InputError, match=name.replace(".", r"\.") if name != "repro.json" else "exported"):
        load_repro(folder)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 50_000, '{"expected": NaN}', '{"a": 1, "a": 2}', "\ufeff", "9" * 5000]
)
def test_a_baseline_is_strict_json(tmp_path: Path, text: str) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(text)
    with pytest.raises(InputError, match=str(path)):
        read_baseline(path)


def test_a_baseline_is_a_file_of_bounded_size(tmp_path: Path) -> None:
    path = tmp_path / "fifo.json"
    os.mkfifo(path)
    with pytest.raises(InputError, match="is no file"):
        read_baseline(path)
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate(3 << 30)
    with pytest.raises(InputError, match="is larger than"):
        read_baseline(large)
