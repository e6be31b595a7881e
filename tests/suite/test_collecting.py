"""The collector is paused while documents are read, and on again when the last reader is through."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from tapml.errors import InputError
from tapml.suite import Suite
from tapml.suite.collecting import not_collecting


def test_pauses_nest_and_end() -> None:
    assert gc.isenabled()
    with not_collecting():
        assert not gc.isenabled()
        with not_collecting():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_who_turned_it_off_finds_it_off() -> None:
    gc.disable()
    try:
        with not_collecting():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_suite_that_is_refused_leaves_it_on(tmp_path: Path) -> None:
    (tmp_path / "suite.json").write_text("{")
    with pytest.raises(InputError):
        Suite(tmp_path)
    assert gc.isenabled()
