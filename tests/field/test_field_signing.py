"""Keys and grants."""

from __future__ import annotations

import base64
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from tapml.errors import InputError, ToolchainError
from tapml.field.signing import LONGEST_GRANT, granted_subject, new_key, read_key, verify

NOW = 1_800_000_000


def test_a_key_is_kept_for_its_owner_and_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    key = new_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_key(path).public == key.public
    with pytest.raises(InputError, match="is there already"):
        new_key(path)
    path.write_text("-----BEGIN PRIVATE KEY-----\nsecret\n")
    with pytest.raises(InputError, match="no Ed25519 key") as refused:
        read_key(path)
    assert "secret" not in str(refused.value)
    with pytest.raises(InputError, match="no public key"):
        verify("abc", b"", b"", b"")


def test_a_grant_opens_its_subjects_files_until_it_ends(tmp_path: Path) -> None:
    key, other = new_key(tmp_path / "a"), new_key(tmp_path / "b")
    grant = key.grant("ann", NOW + 60)
    assert granted_subject(key.public, grant, NOW) == "ann"
    payload, _, signature = grant.partition(".")
    forged = base64.urlsafe_b64encode(b'{"subject":"bob","expires":%d}' % (NOW + 60)).rstrip(b"=").decode()
    for wrong in (
        "", ".", grant + ".", grant + "=", grant[:-2], f"{forged}.{signature}", f"{payload}.", f".{signature}",
        other.grant("ann", NOW + 60), key.grant("ann", NOW), key.grant("ann", NOW + LONGEST_GRANT + 1), "é", "a" * 5000,
    ):  # fmt: skip
        with pytest.raises(InputError, match="this grant is not valid"):
            granted_subject(key.public, wrong, NOW)
    for subject in ("../bob", "", "a/b", "a\n"):
        with pytest.raises(ValidationError):
            key.grant(subject, NOW + 60)


def test_every_use_of_a_key_names_the_extra_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "cryptography"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    key = tmp_path / "key.pem"
    for use in (lambda: new_key(key), lambda: read_key(key), lambda: verify("a", b"", b"", b"")):
        with pytest.raises(ToolchainError, match=r"pip install 'tapml\[field\]'"):
            use()
    assert not key.exists()
