"""`tapml compare`: what changed from one run to another."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from rich.console import Console

from tapml.cli.arguments import database_url
from tapml.cli.outputs import Outputs, check_writable
from tapml.cli.suites import opened
from tapml.errors import InputError
from tapml.files import write_json_output
from tapml.folder import Folder
from tapml.formats import MOST_BYTES, read_json, validated
from tapml.history import History, open_history
from tapml.history.store import family
from tapml.reports.comparison import show_comparison, side_text
from tapml.reports.console import Table
from tapml.reports.terminal import warn_doubts
from tapml.results.checks import VALIDATION
from tapml.results.comparison import Outcomes, RunSide, compared, sides_of
from tapml.text import listed, meant

_Side: TypeAlias = tuple[RunSide, Outcomes]
_SHORTEST = 4
"""Characters of a run's id that name it."""


_CHOOSING = "--before and --after choose among a suite's runs, which --list numbers"


def compare(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """Exit code 1 where a test is worse in the second run."""
    check_writable(options.json)
    if len(options.what) > 2 or len(options.device or []) > 2:
        raise InputError(f"two runs are compared: give one SUITE or two files, and at most two --device; {_CHOOSING}")
    head: dict[str, Any]
    if all(path.is_file() for path in options.what):
        if options.before or options.after or options.list:
            raise InputError("--before, --after and --list choose among a suite's runs: give the suite, not files")
        head, pair = _of_files(options.what, options.device or [])
        warn_doubts(progress, options.what[-1], head["doubts"])
    else:
        if len(options.what) > 1:
            raise InputError(
                f"give one suite, or two files of `tapml validate --json`: {options.what[1]} is too much; {_CHOOSING}"
            )
        suite = opened(options.what[0], progress)
        history = open_history(suite, database_url(options))
        head = {"suite": suite.id, "suite_name": suite.name, "doubts": suite.doubts}
        if options.list:
            return _list(head, history.sides(), options, console)
        before, after = _chosen(history, options)
        pair = history.outcomes(before), history.outcomes(after)
    found = compared(*pair)
    outputs = Outputs(progress)
    document = {"format": "tapml.compare/1", **head, **found}
    outputs.report(options.json, document, lambda: show_comparison(console, found))
    return outputs.exit_code(int(found["summary"]["worse"] > 0))


def _list(head: Mapping[str, Any], sides: Sequence[RunSide], options: argparse.Namespace, console: Console) -> int:
    if write_json_output(options.json, {"format": "tapml.runs/1", **head, "runs": list(sides)}):
        return 0
    table = Table("#", "run", right=("#",))
    for number, side in enumerate(sides):
        table.add_row(str(number + 1), side_text(side))
    console.print(table if sides else "there is no run yet: `tapml validate` makes one")
    return 0


def _chosen(history: History, options: argparse.Namespace) -> tuple[RunSide, RunSide]:
    """The two runs that are meant: by number or id, by device, or the last two of one device."""
    sides = history.sides()
    if not sides:
        raise InputError(f"{options.what[0]} has no run in its history: `tapml validate {options.what[0]}` makes one")
    devices = options.device or []
    for device in devices:
        _on(sides, device)
    if options.before is not None or options.after is not None:
        mine = _on(sides, devices[0]) if devices else sides
        after = mine[0] if options.after is None else _named(sides, options.after)
        if options.before is not None:
            return _named(sides, options.before), after
        return _former(sides, after), after
    if len(devices) == 2:
        return _on(sides, devices[0])[0], _on(sides, devices[1])[0]
    after = (_on(sides, devices[0]) if devices else sides)[0]
    return _former(sides, after), after


def _on(sides: Sequence[RunSide], device: str) -> list[RunSide]:
    """Those on a device, by its name with or without its version."""
    wanted = device.casefold()
    found = [side for side in sides if wanted in (side["device"].casefold(), family(side["device"]).casefold())]
    if not found:
        names = list(dict.fromkeys(family(side["device"]) for side in sides))
        raise InputError(f"no run on {device!r}{meant(device, names) or ':'} there are runs on {listed(names, 8)}")
    return found


def _former(sides: Sequence[RunSide], after: RunSide) -> RunSide:
    """The last run before it on the same device."""
    before = [side for side in sides[sides.index(after) + 1 :] if side["run"] != after["run"]]
    alike = [side for side in before if family(side["device"]) == family(after["device"])]
    # The same of several tabs, where there is one.
    older = [side for side in alike if side["device"] == after["device"]] or alike
    if not older:
        raise InputError(
            f"there is no run on {after['device']} before that of {after['created'][:19]}: validate once more, or give "
            "two --device, or --before and --after (--list has all runs)"
        )
    return older[0]


def _named(sides: Sequence[RunSide], given: str) -> RunSide:
    """By its number in --list, or the beginning of its id."""
    if given.isdecimal() and len(given) < _SHORTEST:
        if not 1 <= int(given) <= len(sides):
            raise InputError(f"there is no run {given}: `--list` numbers {len(sides)}")
        return sides[int(given) - 1]
    found = [side for side in sides if len(given) >= _SHORTEST and side["run"].startswith(given)]
    if len(found) != 1:
        what = "several runs, one on each device, are" if found else "no run is"
        raise InputError(f"{what} called {given!r}: give its number in --list")
    return found[0]


def _of_files(paths: Sequence[Path], devices: Sequence[str]) -> tuple[dict[str, Any], tuple[_Side, _Side]]:
    documents = [_validation(path) for path in paths]
    head = {key: documents[-1][key] for key in ("suite", "suite_name", "doubts")}
    if documents[0]["suite"] != documents[-1]["suite"]:
        raise InputError(f"{paths[0]} and {paths[-1]} are of different suites: nothing in them can be compared")
    sides = [sides_of(document, str(path)) for path, document in zip(paths, documents, strict=True)]
    if len(sides) == 1:
        sides = sides * 2
        names = list(devices) or list(sides[0])[:2]
        if len(names) != 2:
            raise InputError(f"{paths[0]} is of one device: give a second file, or one of two devices")
    else:
        names = [*devices, *devices][:2]
    chosen = []
    for path, found, name in zip((paths[0], paths[-1]), sides, names or ("", ""), strict=True):
        known = [side for side in found if not name or name.casefold() in (side.casefold(), family(side).casefold())]
        if not known:
            like = meant(name, found) or ":"
            raise InputError(f"{path} has no device {name!r}{like} it has {listed(list(found), 8)}")
        chosen.append(found[known[0]])
    return head, (chosen[0], chosen[1])


def _validation(path: Path) -> Any:
    found = read_json(Folder(path.resolve().parent), path.resolve().name, most=MOST_BYTES)
    if not isinstance(found, dict) or found.get("format") != "tapml.validation/1":
        raise InputError(f"{path} is no validation: give what `tapml validate SUITE --json FILE` wrote")
    return validated(path, VALIDATION, found, ": write it once more with `tapml validate SUITE --json FILE`")
