"""Blobs are found by digest only, and bytes of the moment go when nobody holds them."""

from __future__ import annotations

import pytest

from tapml.devices import Blobs
from tapml.errors import InputError
from tapml.files import sha256
from tapml.folder import FileInside
from tapml.suite import Suite


def test_held_bytes_go_with_their_last_holder() -> None:
    blobs = Blobs()
    first, second = blobs.hold(b"wgsl"), blobs.hold(b"wgsl")
    assert first == second == sha256(b"wgsl")
    blobs.release(first)
    assert blobs.find(first) == b"wgsl"
    blobs.release(first)
    assert blobs.find(first) is None


def test_a_suites_tensors_are_files(suite: Suite) -> None:
    blobs = Blobs()
    digest = suite.tests[0].outputs[0].digest
    assert blobs.find(digest) is None
    blobs.add_store(suite.tensors)
    found = blobs.find(digest)
    assert isinstance(found, FileInside)
    with found.open() as file:
        assert sha256(file.read()) == digest


@pytest.mark.parametrize("digest", ["../suite.json", "..%2fsuite.json", "", "suite.json"])
def test_a_path_is_no_digest(suite: Suite, digest: str) -> None:
    blobs = Blobs()
    blobs.add_store(suite.tensors)
    with pytest.raises(InputError):
        blobs.find(digest)
