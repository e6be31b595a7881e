"""What was published: files by digest, manifests, and which version has which. Nothing in it ever changes.

A folder that any web server may serve: `blobs/SHA256` and `manifests/SHA256.json` (with `.sig`) are public; what is in
`exclusive/` is not, and is given for a grant only (`tapml.field.service`).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from tapml.errors import InputError
from tapml.field.names import SubjectId, TaskName, Version
from tapml.field.signing import EXCLUSIVE, MANIFEST, SigningKey, canonical
from tapml.files import cannot_write, sha256
from tapml.folder import FileInside, FileMissing, Folder
from tapml.formats import validated
from tapml.protocol.base import Digest, Message
from tapml.strict_json import parse_json

MOST_FILES = 5_000
"""Of a version."""

_MOST_MANIFEST = 4_000_000
_REMEDY = "; publish the version again"


class TaskFile(Message):
    """A file of a version."""

    path: Annotated[str, Field(max_length=200)]
    sha256: Digest
    bytes: Annotated[int, Field(ge=0)]


Files = Annotated[list[TaskFile], Field(max_length=MOST_FILES)]


class Manifest(Message):
    """A version, as an agent checks it."""

    format: Literal["tapml.task/1"]
    task: TaskName
    version: Version
    shared: Files
    exclusive: Digest | None
    """Where there are exclusive files: of a signature of all of them, so that another set of them is another manifest
    and nobody without the key can guess at them by it."""


class ExclusiveFiles(Message):
    """What one subject has of a version beside its shared files."""

    format: Literal["tapml.exclusive/1"]
    manifest: Digest
    subject: SubjectId
    files: Files


class Published:
    """`path` is made where needed."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._folder = Folder(path)

    # ------------------------------------------------------------ reading

    def digest(self, task: str, version: str) -> str | None:
        """Of a version's manifest; None where it was not published."""
        try:
            return self._folder.read_text(f"versions/{task}/{version}", 64)
        except FileMissing:
            return None

    def manifest(self, digest: str) -> Manifest:
        """Raises InputError; FileMissing where there is none."""
        data = self._folder.read(f"manifests/{digest}.json", _MOST_MANIFEST)
        return validated("the manifest", Manifest, parse_json(data, "the manifest", _REMEDY[2:]), _REMEDY)

    def exclusive(self, manifest: str, subject: str) -> ExclusiveFiles:
        """As `manifest`."""
        data = self._folder.read(f"exclusive/{manifest}/{subject}.json", _MOST_MANIFEST)
        return validated("the document", ExclusiveFiles, parse_json(data, "the document", _REMEDY[2:]), _REMEDY)

    def public(self, kind: Literal["blobs", "manifests"], name: str) -> FileInside:
        """A file that anybody may read; whether there is one is seen when it is opened."""
        return FileInside(self._folder, f"{kind}/{name}")

    def exclusive_document(self, manifest: str, subject: str, suffix: Literal["json", "sig"]) -> FileInside:
        """A subject's list of files, or its signature."""
        return FileInside(self._folder, f"exclusive/{manifest}/{subject}.{suffix}")

    def exclusive_blob(self, digest: str) -> FileInside:
        """For who was told the digest by their own document."""
        return FileInside(self._folder, f"exclusive/blobs/{digest}")

    # ------------------------------------------------------------ writing

    def add_blob(self, pieces: Iterable[bytes], *, exclusive: bool) -> str:
        """Its digest. Raises InputError where it cannot be written, and what making the pieces raises."""
        place, state = "exclusive/blobs" if exclusive else "blobs", hashlib.sha256()

        def hashed() -> Iterator[bytes]:
            for piece in pieces:
                state.update(piece)
                yield piece

        try:
            # Its name is known at its end only.
            part = f"incoming/{secrets.token_hex(16)}"
            self._folder.write_pieces(part, hashed())
            digest = state.hexdigest()
            (self._folder.path / place).mkdir(parents=True, exist_ok=True)
            (self._folder.path / part).replace(self._folder.path / place / digest)
        except OSError as error:
            raise InputError(cannot_write(self._folder.path / place, error)) from error
        return digest

    def add_version(
        self, task: str, version: str, shared: list[TaskFile], exclusive: dict[str, list[TaskFile]], key: SigningKey
    ) -> str:
        """The manifest's digest. Raises InputError where the version was published with other files."""
        sealed = None
        if exclusive:
            listed = {subject: [file.model_dump() for file in files] for subject, files in exclusive.items()}
            sealed = sha256(key.sign(EXCLUSIVE, canonical(listed)))
        manifest = Manifest(format="tapml.task/1", task=task, version=version, shared=shared, exclusive=sealed)
        data = canonical(manifest.model_dump())
        digest = sha256(data)
        if self._is_there(task, version, digest, key.sign(MANIFEST, data)):
            return digest
        try:
            for subject, files in exclusive.items():
                own = ExclusiveFiles(format="tapml.exclusive/1", manifest=digest, subject=subject, files=files)
                document = canonical(own.model_dump())
                self._folder.write(f"exclusive/{digest}/{subject}.json", document)
                self._folder.write(f"exclusive/{digest}/{subject}.sig", key.sign(EXCLUSIVE, document))
            self._folder.write(f"manifests/{digest}.sig", key.sign(MANIFEST, data))
            self._folder.write(f"manifests/{digest}.json", data)
            with self._folder.create(f"versions/{task}/{version}") as file:
                file.write(digest.encode())
        except FileExistsError:  # somebody else was quicker
            self._is_there(task, version, digest, key.sign(MANIFEST, data))
        except OSError as error:
            raise InputError(cannot_write(self._folder.path, error)) from error
        return digest

    def _is_there(self, task: str, version: str, digest: str, signature: bytes) -> bool:
        """Raises InputError where the version has another manifest, or another key signed it."""
        known = self.digest(task, version)
        signed = None if known is None else self._folder.read(f"manifests/{known}.sig", _MOST_MANIFEST)
        if known not in (None, digest) or signed not in (None, signature):
            raise InputError(
                f"{task} {version} was published with other files or another key, and a version never changes: tag "
                "another one"
            )
        return known is not None
