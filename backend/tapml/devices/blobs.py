"""What devices may fetch by digest: suites' tensors, kernels' WGSL, wasm files, and bytes of the moment."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from tapml.files import sha256
from tapml.folder import FileInside, Folder
from tapml.suite import TensorStore
from tapml.suite.parts import InParts

Buffer: TypeAlias = bytes | memoryview
Blob: TypeAlias = FileInside | InParts | Buffer


class Blobs:
    """A map from SHA-256 digest to a file or to bytes. A digest nobody was told cannot be guessed.

    Files are streamed from disk by whoever serves them; bytes are held only while someone needs them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stores: list[TensorStore] = []
        self._files: dict[str, Path] = {}
        self._bytes: dict[str, tuple[Buffer, int]] = {}

    def add_store(self, store: TensorStore) -> None:
        """Serve every tensor of a suite."""
        # Whatever becomes of the working directory; a link in place of the folder itself is not followed.
        folder = store.folder.parent.resolve() / store.folder.name
        with self._lock:
            if all(known.folder != folder for known in self._stores):
                self._stores.append(TensorStore(folder))

    def add_file(self, path: Path, digest: str) -> None:
        """Serve a file that does not change."""
        with self._lock:
            self._files[digest] = path

    def hold(self, data: Buffer) -> str:
        """Serve bytes, not copied, until `release` was called as often as `hold`; gives their digest.

        A memoryview is of single bytes (`.cast("B")`), and what it shows does not change meanwhile.
        """
        digest = sha256(data)
        with self._lock:
            _, count = self._bytes.get(digest, (data, 0))
            self._bytes[digest] = (data, count + 1)
        return digest

    def release(self, digest: str) -> None:
        with self._lock:
            data, count = self._bytes.get(digest, (b"", 1))
            if count > 1:
                self._bytes[digest] = (data, count - 1)
            else:
                self._bytes.pop(digest, None)

    @contextmanager
    def holding(self, pieces: Iterable[Buffer]) -> Iterator[list[str]]:
        """Serve pieces for the length of a `with` block; gives their digests in order."""
        digests = [self.hold(piece) for piece in pieces]
        try:
            yield digests
        finally:
            for digest in digests:
                self.release(digest)

    def find(self, digest: str) -> Blob | None:
        """Something to stream, bytes, or None. Raises InputError for what is no digest."""
        with self._lock:
            held = self._bytes.get(digest)
            if held is not None:
                return held[0]
            if digest in self._files:
                path = self._files[digest]
                return FileInside(Folder(path.parent), path.name)
            stores = list(self._stores)
        for store in stores:
            found = store.find(digest)
            if found is not None:
                return found
        return None
