"""Shared links: snapshots of single tests in a suite's `shares/`, each found by a secret that only its link carries.

`shares/<name>.json` says until when, `shares/<name>.safetensors` is the test; the name is the SHA-256 of the link's id,
so that neither a listing nor a copy of the folder gives links away. Revoking removes both files. Functions take the
suite's folder: a visitor's request does not read the whole suite.
"""

from __future__ import annotations

import contextlib
import datetime
import re
import secrets
from collections.abc import Iterable
from pathlib import Path

from tapml.errors import InputError
from tapml.files import json_bytes, sha256, why
from tapml.folder import FileInside, Folder
from tapml.formats import format_version, read_json, validated
from tapml.protocol.fields import Created, Line, Open
from tapml.sharing.repro import Repro
from tapml.sharing.tensor_file import read_safetensors, safetensors_file

FORMAT = "tapml.share/1"
DEFAULT_DAYS = 90.0
_MOST_DAYS = 3650.0
_MOST_FACTS_BYTES = 100_000
_ID = re.compile(r"[A-Za-z0-9_-]{22}")
_NAME = re.compile(r"[0-9a-f]{64}")


class Share(Open):
    """One link as its suite knows it: `shares/NAME.json`, without its format; `name` revokes it."""

    name: Line
    test: Line
    kernel: Line
    device: Line | None
    verdict: Line | None
    created: Created
    expires: Created | None
    """None: never."""

    @property
    def expired(self) -> bool:
        return self.expires is not None and datetime.datetime.fromisoformat(self.expires) <= _now()


def create(folder: Path, repro: Repro, days: float | None = DEFAULT_DAYS) -> tuple[str, Share]:
    """Keep a snapshot of `repro`; gives the link's id (128 random bits, kept nowhere) and the share.

    `days`: how long it lives; None: until it is revoked. Raises InputError for a wrong number of days, or where the
    suite cannot be written to.
    """
    if days is not None and not 0 < days <= _MOST_DAYS:
        raise InputError(f"a link lives more than 0 and at most {_MOST_DAYS:.0f} days, not {days:g}")
    suite = Folder(folder)
    share_id = secrets.token_urlsafe(16)
    name = sha256(share_id)
    document = repro.document
    created = _now()
    share = Share(
        name=name,
        test=document.test.id,
        kernel=document.test.kernel,
        device=document.report.device["name"] if document.report else None,
        verdict=document.report.result["verdict"] if document.report else None,
        created=created.isoformat(timespec="seconds"),
        # Fractions of a second count: a link may be made for a moment.
        expires=None if days is None else (created + datetime.timedelta(days=days)).isoformat(),
    )
    try:
        suite.write_pieces(_data_name(name), safetensors_file(repro))
        suite.write(_facts_name(name), json_bytes({"format": FORMAT, **share.model_dump(exclude={"name"})}))
    except OSError as error:
        with contextlib.suppress(OSError):
            suite.remove(_data_name(name))
        raise InputError(
            f"cannot write to {folder / 'shares'}: {why(error)}; a link needs a suite to lie in"
        ) from error
    return share_id, share


def shares(folder: Path) -> list[Share]:
    """Links that work, newest first. What has expired is removed."""
    stems = [name.removesuffix(".json") for name in Folder(folder).names("shares") if name.endswith(".json")]
    found = [_read(folder, stem) for stem in stems if _NAME.fullmatch(stem)]
    return sorted((share for share in found if share), key=lambda share: share.created, reverse=True)


def revoke(folder: Path, name: str) -> bool:
    """Remove a link for good; False where there is none of that name."""
    if not _NAME.fullmatch(name):
        return False
    suite = Folder(folder)
    there = suite.size(_facts_name(name)) is not None
    # The facts first: without them the link is dead already.
    with contextlib.suppress(OSError):
        suite.remove(_facts_name(name))
        suite.remove(_data_name(name))
    if suite.size(_facts_name(name)) is not None:
        raise InputError(f"cannot remove {folder / _facts_name(name)}: remove it by hand, and the link is dead")
    return there


def name_of(share_id: str) -> str | None:
    """The name under which a link's id is kept; None for what is no id."""
    return sha256(share_id) if _ID.fullmatch(share_id) else None


def find(folders: Iterable[Path], share_id: str) -> tuple[Share, Path] | None:
    """The share of a link's id, and its suite's folder; None for an unknown, revoked or expired one."""
    name = name_of(share_id)
    if name is None:
        return None
    for folder in folders:
        share = _read(folder, name)
        if share is not None:
            return share, folder
    return None


def open_share(folder: Path, name: str) -> Repro:
    """The test of a share that `find` found there. Raises InputError where the file is damaged."""
    return read_safetensors("the shared test", FileInside(Folder(folder), _data_name(name)).open)


def _read(folder: Path, name: str) -> Share | None:
    suite = Folder(folder)
    if suite.size(_data_name(name)) is None:
        return None
    try:
        path = folder / _facts_name(name)
        found = read_json(suite, _facts_name(name), most=_MOST_FACTS_BYTES)
        share = validated(path, Share, {**found, "name": name}, "")
        format_version(path, found, FORMAT, "a shared link")
        expired = share.expired
    except (InputError, TypeError, OverflowError):
        return None  # damaged: as good as revoked
    if expired:
        # Where it cannot be removed it is dead all the same.
        with contextlib.suppress(InputError):
            revoke(folder, name)
        return None
    return share


def _facts_name(name: str) -> str:
    return f"shares/{name}.json"


def _data_name(name: str) -> str:
    return f"shares/{name}.safetensors"


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
