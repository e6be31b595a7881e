"""A folder of strangers' files: nothing but regular files inside it is read, written or removed.

Every access goes from the folder down, one name at a time, without following a symbolic link, and looks at what was
opened, not at what lay there a moment ago. A FIFO, a device, a socket or a folder in a file's place is refused before
it is opened. The folder itself may be given through a link: that is its user's choice.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader, BufferedWriter
from pathlib import Path

from tapml.errors import InputError
from tapml.leftovers import sweep, write_into

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_DEEPEST = 8
"""Folders in folders that are looked into: a suite has three levels, and a hostile one ten thousand."""

_PIECE = 1 << 20
"""Bytes that are read at once: 8 kB, as send_file takes, halve the speed of weights."""

_KINDS = (
    (stat.S_ISLNK, "it is a symbolic link"),
    (stat.S_ISDIR, "it is a folder"),
    (stat.S_ISFIFO, "it is a FIFO"),
    (stat.S_ISSOCK, "it is a socket"),
)


class FileMissing(InputError):
    """There is no such file, or no folder that it could lie in."""


class Folder:
    """Files by names relative to `path`, such as "kernels/softmax.json".

    Reading raises InputError with one sentence; writing and removing raise OSError, for disks fill up and callers know
    what is lost then. A name that leads outside ("..", "/etc/passwd") is an InputError everywhere.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._swept: set[str] = set()

    # ------------------------------------------------------------ reading

    def read(self, name: str, most: int) -> bytes:
        """The bytes of a file. Raises FileMissing, or InputError for what is no regular file of this folder or has more
        than `most` bytes."""
        with self.open(name) as file:
            size = os.fstat(file.fileno()).st_size
            if size <= most:
                # It may grow meanwhile.
                data = file.read(size + 1)
                size = len(data)
            if size > most:
                raise InputError(f"{self.path / name} has {size} bytes, and at most {most} are read")
            return data

    def read_text(self, name: str, most: int) -> str:
        """As `read`, of UTF-8."""
        try:
            return self.read(name, most).decode()
        except UnicodeDecodeError as error:
            raise InputError(f"{self.path / name} is no UTF-8 text ({error.reason} at byte {error.start})") from error

    def open(self, name: str) -> BufferedReader:
        """A file to read from; `os.fstat` of it tells its size. Raises as `read`."""
        with self._reading(name), self._parent(name) as (folder, last):
            self._require_regular(last, folder)
            handle = os.open(last, _FILE_FLAGS, dir_fd=folder)
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                os.close(handle)
                raise OSError(errno.EINVAL, "it is no regular file")
            return os.fdopen(handle, "rb")

    def size(self, name: str) -> int | None:
        """Bytes of a regular file of this folder; None where there is none of that name."""
        try:
            with self._parent(name) as (folder, last):
                found = os.stat(last, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return None
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def taken(self, name: str) -> bool:
        """Whether anything at all lies there, a broken link included."""
        try:
            with self._parent(name) as (folder, last):
                os.stat(last, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return True

    def names(self, folder: str) -> list[str]:
        """Names of the regular files in a folder of this one, sorted; none where there is no such folder, or a link."""
        try:
            with self._folder(folder) as handle, os.scandir(handle) as entries:
                return sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
        except OSError:
            return []

    def nbytes(self) -> int:
        """Bytes of all regular files, in all folders that are no links."""
        try:
            return sum(_sizes(self._root(), _DEEPEST))
        except OSError:
            return 0

    # ------------------------------------------------------------ writing

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Write a file whole: under a temporary name, then renamed. Makes folders where needed, and removes what killed
        writers left in this one. A link of that name is replaced, not followed. Raises OSError."""
        self.write_pieces(name, [data])

    def write_pieces(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        """As `write`; also what making the pieces raises leaves nothing behind."""
        with self._parent(name, make=True) as (folder, last):
            if (place := name.rpartition("/")[0]) not in self._swept:
                self._swept.add(place)
                sweep(folder)
            write_into(folder, last, pieces)

    def create(self, name: str) -> BufferedWriter:
        """A new file to write to; one of that name must not be there. Makes folders where needed. Raises OSError."""
        with self._parent(name, make=True) as (folder, last):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            return os.fdopen(os.open(last, flags, 0o666, dir_fd=folder), "wb")

    def remove(self, name: str) -> None:
        """Remove a file, if it is there; a link is removed, not what it leads to. Raises OSError, also where a folder
        on the way is a link."""
        try:
            with self._parent(name) as (folder, last):
                os.unlink(last, dir_fd=folder)
        except FileNotFoundError:
            return

    def make(self, folder: str) -> None:
        """Make a folder of this one, if it is not there. Raises OSError, also where something else is in its place."""
        with self._folder(folder, make=True):
            pass

    # ------------------------------------------------------------ the way down

    def _root(self) -> int:
        return os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    @contextlib.contextmanager
    def _parent(self, name: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The open folder in which `name` lies, and the last part of the name."""
        place, _, last = name.rpartition("/")
        self._parts(last)
        with self._folder(place, make=make) as handle:
            yield handle, last

    @contextlib.contextmanager
    def _folder(self, name: str, *, make: bool = False) -> Iterator[int]:
        parts = self._parts(name) if name else []
        handle = self._root()
        try:
            for number, part in enumerate(parts):
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=handle)
                below = self._enter(part, handle, "/".join(parts[: number + 1]))
                os.close(handle)
                handle = below
            yield handle
        finally:
            os.close(handle)

    def _enter(self, part: str, handle: int, name: str) -> int:
        try:
            return os.open(part, _FOLDER_FLAGS, dir_fd=handle)
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                # A message, for where a folder is wanted "Not a directory" hides that it is a link to one.
                mode = os.stat(part, dir_fd=handle, follow_symlinks=False).st_mode
                what = "is a symbolic link" if stat.S_ISLNK(mode) else "is no folder"
                raise OSError(errno.EINVAL, f"{name} {what}") from error
            raise

    def _parts(self, name: str) -> list[str]:
        parts = name.split("/")
        try:
            fit = all(part not in ("", ".", "..") and "\0" not in part and os.fsencode(part) for part in parts)
        except UnicodeEncodeError:
            fit = False
        if not fit:
            raise InputError(f"{name[:200]!r} is no name of a file inside {self.path}")
        return parts

    def _require_regular(self, name: str, folder: int) -> None:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if not stat.S_ISREG(mode):
            what = next((text for is_kind, text in _KINDS if is_kind(mode)), "it is a device")
            raise OSError(errno.EINVAL, what)

    @contextlib.contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise FileMissing(f"{self.path / name} is missing: copy the suite again, or carve it again") from error
        except OSError as error:
            raise InputError(f"{self.path / name} cannot be read: {error.strerror}; copy the suite again") from error


class Held(Folder):
    """A folder of which files in `held`, a folder of it, stay what they were when they were first read, whoever writes
    them meanwhile. What is written goes into the folder, and is not read again."""

    def __init__(self, folder: Folder, held: str) -> None:
        super().__init__(folder.path)
        self._folder_itself = folder
        self._begins = f"{held}/"
        self._read: dict[str, bytes] = {}

    def read(self, name: str, most: int) -> bytes:
        if not name.startswith(self._begins):
            return self._folder_itself.read(name, most)
        if name not in self._read:
            self._read[name] = self._folder_itself.read(name, most)
        return self._read[name]


class Overlaid(Folder):
    """A folder with other bytes in the place of some files. Nothing can be written or removed: that is an OSError."""

    def __init__(self, path: Path, files: Mapping[str, bytes]) -> None:
        super().__init__(path)
        self._files = files

    def read(self, name: str, most: int) -> bytes:
        data = self._files.get(name)
        if data is None:
            return super().read(name, most)
        if len(data) > most:
            raise InputError(f"{self.path / name} would have {len(data)} bytes, and at most {most} are read")
        return data

    @contextlib.contextmanager
    def _folder(self, name: str, *, make: bool = False) -> Iterator[int]:
        if make:
            raise OSError(errno.EROFS, "these files are tried, and not written")
        with super()._folder(name) as handle:
            yield handle

    def remove(self, name: str) -> None:
        raise OSError(errno.EROFS, "these files are tried, and not removed")


@dataclass(frozen=True)
class FileInside:
    """A file of a folder, opened as the folder's own are."""

    folder: Folder
    name: str

    @property
    def size(self) -> int | None:
        """Bytes; None where there is no such regular file."""
        return self.folder.size(self.name)

    def open(self) -> BufferedReader:
        """Raises InputError where it is none any more."""
        return self.folder.open(self.name)

    def version(self) -> tuple[int, ...]:
        """Another one where the file is another. Raises as `open`."""
        with self.open() as file:
            found = os.fstat(file.fileno())
        return found.st_ino, found.st_mtime_ns, found.st_ctime_ns

    def pieces(self) -> Iterator[bytes]:
        """Its bytes. Raises as `open`."""
        with self.open() as file:
            while piece := file.read(_PIECE):
                yield piece


def _sizes(handle: int, deepest: int) -> Iterator[int]:
    try:
        with os.scandir(handle) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_file(follow_symlinks=False):
                        yield entry.stat(follow_symlinks=False).st_size
                    elif deepest and entry.is_dir(follow_symlinks=False):
                        yield from _sizes(os.open(entry.name, _FOLDER_FLAGS, dir_fd=handle), deepest - 1)
    finally:
        os.close(handle)
