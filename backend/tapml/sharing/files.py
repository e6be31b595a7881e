"""Exported tests on disk: every form written whole or not at all, and read again."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tapml.errors import InputError
from tapml.files import cannot_write, slug, write_bytes, write_pieces, write_text
from tapml.leftovers import put_in_place, sweep_beside, temporary_folder
from tapml.npy import Open, opening
from tapml.sharing.html_file import html_file, read_html
from tapml.sharing.issue import issue_text
from tapml.sharing.repro import Repro
from tapml.sharing.script import script_text
from tapml.sharing.tensor_file import read_safetensors, safetensors_file
from tapml.sharing.wgsl_folder import DOCUMENT, read_folder, write_folder

_MOST_BEGIN = 200

FORMS = {
    "html": ".html",
    "safetensors": ".safetensors",
    "python": ".py",
    "markdown": ".md",
    "wgsl": "",
}
"""Form -> what its file's name ends with; "wgsl" is a folder."""


def check_export(form: str, path: Path, *, overwrite: bool = False) -> list[Path]:
    """The files that `export` would write there, the one to open first.

    Raises InputError where one exists and `overwrite` is false, is a folder that holds something else, or its own
    folder is missing.
    """
    if form not in FORMS:
        raise InputError(f"unknown form {form!r}: choose {', '.join(FORMS)}")
    if form == "python" and path.suffix != ".py":
        raise InputError(f"{path}: a script's name ends with .py")
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}: make it first")
    paths = [path, path.with_suffix(".safetensors")] if form == "python" else [path]
    for taken in paths:
        if not taken.exists():
            continue
        if not overwrite:
            raise InputError(f"{taken} exists: choose another name, or replace it with --force")
        if form == "wgsl" and not (taken / DOCUMENT).is_file():
            raise InputError(f"{taken} is no exported test and will not be replaced: choose another name")
        if form != "wgsl" and taken.is_dir():
            raise InputError(f"{taken} is a folder: choose another name")
    return paths


def export(repro: Repro, form: str, path: Path, *, overwrite: bool = False) -> list[Path]:
    """Write `repro` in one form of FORMS; gives what was written, the one to open first.

    Raises InputError as `check_export` does, or where a file cannot be written.
    """
    paths = check_export(form, path, overwrite=overwrite)
    try:
        _export(repro, form, paths)
    except OSError as error:
        raise InputError(cannot_write(path, error)) from error
    return paths


def _export(repro: Repro, form: str, paths: list[Path]) -> None:
    path = paths[0]
    if form == "html":
        write_bytes(path, html_file(repro))
    elif form == "safetensors":
        write_pieces(path, safetensors_file(repro))
    elif form == "markdown":
        write_text(path, issue_text(repro.document))
    elif form == "python":
        # The data first: a script without it is of no use.
        write_pieces(paths[1], safetensors_file(repro))
        write_text(path, script_text(repro.document, path.name, paths[1].name))
    else:
        _write_folder(repro, path)


def _write_folder(repro: Repro, path: Path) -> None:
    sweep_beside(path)
    with temporary_folder(path) as folder:
        write_folder(repro, folder)
        put_in_place(folder, path)


def file_name(repro: Repro, form: str) -> str:
    """A name for it, such as "softmax-n012.s0.html"."""
    test = repro.document.test
    return slug(f"{test.kernel}-{test.id}", "test")[:100] + FORMS[form]


def load_repro(path: str | os.PathLike[str]) -> Repro:
    """A test that `tapml export` wrote: .html, .safetensors, the folder of --wgsl, or the script of --python.

    Raises InputError for anything else, and for a damaged one.
    """
    # As a Path, an address has one slash less.
    if link := re.match(r"(https?):/+(.*)", str(path), re.DOTALL):
        address = f"{link[1]}://{link[2]}"
        raise InputError(f"{address} is a link: open it in a browser and use `Save as one HTML file` there")
    place = Path(path)
    if (place / "suite.json").is_file():
        raise InputError(f"{place} is a suite, not an exported test: export one with `tapml export {place} TEST_ID`")
    if place.is_dir() and not (place / DOCUMENT).is_file():
        raise InputError(f"{place} is no folder that `tapml export --wgsl` wrote: it has no {DOCUMENT}")
    if place.is_dir():
        return read_folder(place)
    if place.suffix == ".py":
        tensors = place.with_suffix(".safetensors")
        if place.is_file() and not tensors.exists():
            raise InputError(
                f"{place} is the script of a test whose tensors, {tensors.name}, are not beside it: get both files, as "
                "`tapml export --python` wrote them"
            )
        place = tensors if tensors.exists() else place
    # A FIFO would be waited for, and a device never ends.
    if place.exists() and not place.is_file():
        raise InputError(f"{place} is no file: give an .html or .safetensors file that `tapml export` wrote")
    return read(place, opening(place))


def read(where: Path | str, open_file: Open) -> Repro:
    """A test from a file, by what it begins with; tensors stay in the file until they are needed. `where` names it in
    errors. Raises InputError.
    """
    try:
        with open_file() as file:
            begin = file.read(_MOST_BEGIN)
    except OSError as error:
        raise InputError(f"{where} cannot be read: {error.strerror}") from error
    if begin.lstrip().lower().startswith((b"<!doctype html", b"<html")):
        return read_html(where, open_file)
    if begin[8:9] == b"{":
        return read_safetensors(where, open_file)
    raise InputError(f"{where} is no exported test: give an .html or .safetensors file that `tapml export` wrote")
