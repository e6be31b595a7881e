"""Only regular files inside a folder are read, written or removed, and what killed writers left goes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tapml.errors import InputError
from tapml.folder import FileMissing, Folder, Held
from tapml.leftovers import put_in_place, sweep_beside, temporary_folder

SECRET = b"somebody else's"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of somebody else's, with a file that must be neither read, written nor removed."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_bytes(SECRET)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "in" / "sub" / "file").write_bytes(b"data")
    return Folder(tmp_path / "in")


def a_socket(path: Path, outside: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


NOT_REGULAR: dict[str, Callable[[Path, Path], object]] = {
    "link": lambda path, outside: path.symlink_to(outside / "secret"),
    "link inside": lambda path, outside: path.symlink_to(path.parent / "sub" / "file"),
    "broken link": lambda path, outside: path.symlink_to(outside / "nothing"),
    "loop": lambda path, outside: path.symlink_to(path),
    "endless": lambda path, outside: path.symlink_to("/dev/zero"),
    "folder": lambda path, outside: path.mkdir(),
    "fifo": lambda path, outside: os.mkfifo(path),
    "socket": a_socket,
}


@pytest.mark.parametrize("kind", NOT_REGULAR)
def test_what_is_no_regular_file_is_neither_read_nor_listed(folder: Folder, outside: Path, kind: str) -> None:
    NOT_REGULAR[kind](folder.path / "x", outside)
    with pytest.raises(InputError, match=r"/x cannot be read: it is a "):
        folder.read("x", 100)
    assert folder.size("x") is None
    assert folder.taken("x")
    assert folder.names("sub") == ["file"]
    assert folder.nbytes() == 4


def test_hard_links_are_regular_files(folder: Folder, outside: Path) -> None:
    (folder.path / "x").hardlink_to(outside / "secret")
    assert folder.read("x", 100) == SECRET


def test_no_folder_on_the_way_is_a_link(folder: Folder, outside: Path) -> None:
    (folder.path / "away").symlink_to(outside)
    with pytest.raises(InputError, match="away is a symbolic link"):
        folder.read("away/secret", 100)
    with pytest.raises(OSError, match="away is a symbolic link"):
        folder.write("away/new", b"mine")
    with pytest.raises(OSError, match="away is a symbolic link"):
        folder.create("away/new")
    with pytest.raises(OSError, match="away is a symbolic link"):
        folder.remove("away/secret")
    with pytest.raises(OSError, match="away is a symbolic link"):
        folder.make("away")
    assert folder.names("away") == []
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_bytes() == SECRET


def test_the_folder_itself_may_be_given_through_a_link(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "mine").symlink_to(folder.path)
    assert Folder(tmp_path / "mine").read("sub/file", 4) == b"data"


@pytest.mark.parametrize(
    "name", ["../outside/secret", "sub/../sub/file", "/etc/passwd", "", "sub//file", ".", "a\0b", "\ud800"]
)
def test_names_stay_inside(folder: Folder, outside: Path, name: str) -> None:
    for use in (lambda: folder.read(name, 9), lambda: folder.write(name, b""), lambda: folder.remove(name)):
        with pytest.raises(InputError, match="no name of a file inside"):
            use()


def test_sizes_are_bounded(folder: Folder) -> None:
    assert folder.read("sub/file", 4) == b"data"
    with pytest.raises(InputError, match=r"has 4 bytes, and at most 3 are read"):
        folder.read("sub/file", 3)
    os.truncate(folder.path / "sub" / "file", 1 << 40)
    with pytest.raises(InputError, match="at most 1000 are read"):
        folder.read("sub/file", 1000)
    with pytest.raises(FileMissing, match="is missing"):
        folder.read("sub/nothing", 3)
    with pytest.raises(FileMissing, match="is missing"):
        folder.read("nothing/nothing", 3)


def test_what_is_held_stays_what_was_read_first_and_the_rest_does_not(folder: Folder) -> None:
    held = Held(folder, "sub")
    folder.write("other", b"data")
    assert (held.read("sub/file", 9), held.read("other", 9)) == (b"data", b"data")
    held.write("sub/file", b"edited")
    held.write("other", b"edited")
    assert (held.read("sub/file", 9), held.read("other", 9)) == (b"data", b"edited")
    assert folder.read("sub/file", 9) == b"edited"
    folder.write("sub/later", b"read later")
    assert held.read("sub/later", 99) == b"read later"


def test_links_are_replaced_and_removed_not_followed(folder: Folder, outside: Path) -> None:
    for name in ("x", "y"):
        (folder.path / name).symlink_to(outside / "secret")
    folder.write("x", b"mine")
    assert folder.read("x", 4) == b"mine"
    folder.remove("y")
    folder.remove("y")
    folder.write("new/folder/z", b"made")
    assert folder.names("new/folder") == ["z"]
    assert (outside / "secret").read_bytes() == SECRET


HOLD = """
import os, sys
from pathlib import Path
from tapml.leftovers import temporary_file, temporary_folder
place = Path(sys.argv[1])
with temporary_folder(place / "a.suite") as folder:
    (folder / "half").write_text("half")
    with temporary_file("a.json", os.open(place, os.O_RDONLY)):
        print("ready", flush=True)
        sys.stdin.read()
"""


def test_what_a_killed_writer_left_goes_and_what_a_live_one_holds_stays(tmp_path: Path, outside: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        held = sorted(place.iterdir())
        assert len(held) == 2
        Folder(place).write("other", b"")
        sweep_beside(place / "a.suite")
        assert sorted(path for path in place.iterdir() if path.name != "other") == held
        process.send_signal(signal.SIGKILL)
    Folder(place).write("other", b"")
    assert [path.name for path in place.iterdir()] == ["other"]


def test_nothing_else_is_swept(tmp_path: Path, outside: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    ending = f"{'0' * 16}.tapml"
    (place / f".a.suite.{ending}").symlink_to(outside)
    (place / f".a.{ending}").symlink_to(outside / "secret")
    unmarked = place / f".b.suite.{ending}"
    unmarked.mkdir()
    (unmarked / "thesis").write_text("years of work")
    linked = place / f".c.suite.{ending}"
    linked.mkdir()
    (linked / "thesis").write_text("years of work")
    (linked / ".tapml-unfinished").symlink_to(outside / "secret")
    before = sorted(place.rglob("*"))
    for name in ("a", "a.suite", "b.suite", "c.suite"):
        sweep_beside(place / name)
    assert sorted(place.rglob("*")) == before
    marked = place / f".d.suite.{ending}"
    marked.mkdir()
    (marked / ".tapml-unfinished").touch()
    (marked / "away").symlink_to(outside)
    sweep_beside(place / "d.suite")
    assert sorted(place.rglob("*")) == before
    assert (outside / "secret").read_bytes() == SECRET


def test_a_folder_that_is_whole_is_renamed_without_its_mark(tmp_path: Path) -> None:
    with temporary_folder(tmp_path / "a") as folder:
        (folder / "x").touch()
        put_in_place(folder, tmp_path / "a")
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "x"]
