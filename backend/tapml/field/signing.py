"""Ed25519 signatures: of manifests, which agents check by the key that their page was built with, and of grants.

What is signed begins with what it is, so that a signature of one thing is none of another.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, ValidationError

from tapml.errors import InputError, ToolchainError
from tapml.field.names import SubjectId
from tapml.files import cannot_write
from tapml.protocol.base import Message
from tapml.strict_json import parse_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ed25519

MANIFEST = b"tapml.task/1\0"
EXCLUSIVE = b"tapml.exclusive/1\0"
_GRANT = b"tapml.grant/1\0"

LONGEST_GRANT = 24 * 3600
"""Seconds: a grant cannot be called back."""

_MOST_GRANT = 1000
_MOST_KEY = 10_000


class Grant(Message):
    """Who may read a subject's exclusive files, until when (seconds since 1970)."""

    subject: SubjectId
    expires: Annotated[int, Field(ge=0, le=1 << 40)]


class SigningKey:
    """A private key."""

    def __init__(self, key: ed25519.Ed25519PrivateKey) -> None:
        self._key = key

    @property
    def public(self) -> str:
        """Of the raw 32 bytes, base64url without padding: what WebCrypto imports as JWK's x."""
        return _encoded(self._key.public_key().public_bytes_raw())

    def sign(self, what: bytes, data: bytes) -> bytes:
        """64 bytes. `what`: MANIFEST or EXCLUSIVE."""
        return self._key.sign(what + data)

    def grant(self, subject: str, expires: int) -> str:
        """For a header, from a page's own server, which knows who its user is."""
        payload = Grant(subject=subject, expires=expires).model_dump_json().encode()
        return f"{_encoded(payload)}.{_encoded(self._key.sign(_GRANT + payload))}"


def new_key(path: Path) -> SigningKey:
    """Written to `path`, which must not be there, for its owner only. Raises InputError."""
    key = _ed25519().Ed25519PrivateKey.generate()
    from cryptography.hazmat.primitives import serialization

    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(key.private_bytes(serialization.Encoding.PEM, form, plain))
    except FileExistsError:
        raise InputError(f"{path} is there already: a key is never replaced, choose another name") from None
    except OSError as error:
        raise InputError(cannot_write(path, error)) from error
    return SigningKey(key)


def read_key(path: Path) -> SigningKey:
    """Raises InputError; nothing of the file is repeated."""
    ed25519 = _ed25519()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        with path.open("rb") as file:
            key: Any = load_pem_private_key(file.read(_MOST_KEY), None)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): make a key with `tapml field key`") from error
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise InputError(f"{path} is no Ed25519 key as PEM without a password: make one with `tapml field key`")
    return SigningKey(key)


def verify(public: str, what: bytes, data: bytes, signature: bytes) -> bool:
    """Was it signed by the key whose public half is `public`? Raises InputError where that is none."""
    ed25519 = _ed25519()
    from cryptography.exceptions import InvalidSignature

    try:
        key = ed25519.Ed25519PublicKey.from_public_bytes(_decoded(public))
    except ValueError as error:
        raise InputError(f"{public[:60]!r} is no public key: give the line that `tapml field key` prints") from error
    try:
        key.verify(signature, what + data)
    except InvalidSignature:
        return False
    return True


def granted_subject(public: str, text: str, now: int) -> str:
    """Whose files a grant opens. Raises InputError for one that is forged, over, or good for too long."""
    refusal = InputError("this grant is not valid: ask the page's server for another one")
    if len(text) > _MOST_GRANT:
        raise refusal
    first, _, second = text.partition(".")
    try:
        payload, signature = _decoded(first), _decoded(second)
    except ValueError:
        raise refusal from None
    if not verify(public, _GRANT, payload, signature):
        raise refusal
    try:
        grant = Grant.model_validate(parse_json(payload, "the grant", "ask for another one"))
    except (ValidationError, InputError):
        raise refusal from None
    if not now < grant.expires <= now + LONGEST_GRANT:
        raise refusal
    return grant.subject


def canonical(document: object) -> bytes:
    """The one JSON text of a document that is signed: ASCII, sorted names, no spaces."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    """Raises ValueError for what `_encoded` would have written otherwise."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError("no base64url") from error
    if _encoded(data) != text:
        raise ValueError("no base64url")
    return data


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise ToolchainError("signatures need the package cryptography: pip install 'tapml[field]'") from error
    return ed25519
