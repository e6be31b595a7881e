"""What commands share: how they are added, and the arguments that several take, as parents of their parsers."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from tapml.errors import InputError
from tapml.text import meant


class CommandParser(argparse.ArgumentParser):
    """What is wrong is one line: a page of usage before it would hide it. A command, or another word of a list, that
    there is not is told with the one that is meant."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see `{self.prog} --help`)\n")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError as error:
            # Else the sentence has the name of the function that reads it.
            if isinstance(error.__context__, ValueError):
                kind = "whole number" if _is_number(arg_string) else "number"
                raise argparse.ArgumentError(action, f"{arg_string!r} is no {kind}") from None
            raise

    def _match_argument(self, action: argparse.Action, arg_strings_pattern: str) -> int:
        try:
            return super()._match_argument(action, arg_strings_pattern)
        except argparse.ArgumentError:
            if action.nargs is not None or not action.option_strings or not action.help:
                raise
            wanted = self._get_formatter()._format_args(action, action.dest.upper())
            said = self._get_formatter()._expand_help(action)
            raise argparse.ArgumentError(action, f"{wanted} is missing: {said}") from None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = [*map(str, action.choices)]
            said = f"there is no {value!r}{meant(str(value), known) or ':'} it is one of {', '.join(known)}"
            raise argparse.ArgumentError(action, said)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class _Parser(CommandParser):
    """Of a command: an option that it has not is told before what is missing, with the one that is meant."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        # A command with commands of its own is given their options, too.
        for given in () if self._subparsers else args or ():
            if given == "--":
                break
            name = given.partition("=")[0]
            known = [*self._option_string_actions]
            # argparse takes the beginning of a name for it, and words with a space for a value.
            if not name.startswith("--") or any(other.startswith(name) for other in known) or " " in name:
                continue
            if (hint := meant(name, known)) or " " not in given:
                self.error(f"there is no option {name}{hint}")
        found, left = super().parse_known_args(args, namespace)
        if left:
            # Here rather than where all commands are: that would name none.
            what = "there is no option" if left[0].startswith("-") else "one argument too many:"
            self.error(f"{what} {left[0]}")
        return found, left


class Commands:
    """The commands of a parser."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._parsers: Any = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)

    def add(
        self, name: str, run: str, *parents: argparse.ArgumentParser, help: str, description: str | None = None
    ) -> argparse.ArgumentParser:
        """`run`: the module of tapml.cli and the function in it that do it; `parents`: what it takes as others do."""
        parser: argparse.ArgumentParser = self._parsers.add_parser(
            name, parents=parents, help=help, description=description
        )
        parser.set_defaults(run=run)
        return parser


DEFAULT_SERVER = "http://127.0.0.1:8808"
"""Where `tapml serve` listens unless told otherwise."""

QUANTISED = ("q4f16", "q4f32", "q8", "q844")
"""Modes of --quantise, as tapml.importing.quantise has them, which takes seconds to load."""

ACTIVATIONS = ("int8",)
"""What --activations may be, as tapml.importing.activations has them."""

_MOST_TURNS = 20_000
"""No loop is written out to more."""
_DATABASE_VARIABLE = "TAPML_DATABASE_URL"
_DEVICE = """what to run on, such as chromium (the default) or node-dawn: a name that `tapml devices` lists, open \
(wait for someone to open the device page in any browser), or the address of a running `tapml serve`, with #NAME for \
one of its devices"""


def check_activations(options: argparse.Namespace) -> None:
    """Raises InputError for --activations without --quantise, as tapml.importing.activations does, before that is
    loaded."""
    if options.activations is not None and options.quantise is None:
        raise InputError(
            f"--activations {options.activations} is for products with quantised weights: give --quantise q8, q844, "
            "q4f16 or q4f32, too"
        )


def one_device(options: argparse.Namespace) -> str:
    """Of a model's calls, by name. Raises InputError for several."""
    names = options.device or ["cpu"]
    if len(names) > 1:
        raise InputError("give one --device: a model runs on one at a time")
    return str(names[0])


def _argument(*names: str, **options: Any) -> argparse.ArgumentParser:
    parent = argparse.ArgumentParser(add_help=False)
    parent.add_argument(*names, **options)
    return parent


SUITE = _argument("suite", type=Path, metavar="SUITE", help="folder that `tapml carve` wrote")
TEST = _argument("test", metavar="TEST_ID", help="as `tapml show SUITE` and results name it, such as n012.s0")
KERNELS = _argument("--kernel", action="append", metavar="NAME", help="only this kernel's tests; repeat for several")
MOVED = _argument("--kernel", action="append", metavar="NAME", help="only this kernel moves; repeat for several")
FUNCTIONS = _argument(
    "--external", action="append", default=[], type=Path, metavar="FILE.py",
    help="functions that the suite was carved with: it holds no code, and the rest of the model calls them",
)  # fmt: skip
JSON = _argument("--json", type=Path, metavar="FILE", help="write the document as JSON (- for standard output)")
RESULT_DEVICE = _argument(
    "--device", metavar="NAME", help="whose latest result goes along, such as chromium (default: the worst one)"
)
DATABASE = _argument(
    "--database-url", metavar="URL",
    help="keep the history of all suites in this database, postgresql://USER:PASSWORD@HOST/DATABASE or "
    f"sqlite:///FILE (default: ${_DATABASE_VARIABLE}, or else each suite's results/history.sqlite3)",
)  # fmt: skip


def database_url(options: argparse.Namespace) -> str | None:
    """The database that was named for all suites, by the option or by the environment."""
    return getattr(options, "database_url", None) or os.environ.get(_DATABASE_VARIABLE) or None


def add_inputs(parser: argparse.ArgumentParser, what: str, random: str) -> None:
    """The inputs of a model; `what` several files are of."""
    parser.add_argument(
        "--inputs", action="append", default=[], type=Path, metavar="FILE",
        help=f".npz or .safetensors with one array for each input; repeat for several {what}",
    )  # fmt: skip
    parser.add_argument(
        "--input", action="append", default=[], metavar="NAME=FILE.npy", help="one input; repeat for each"
    )
    parser.add_argument("--random-inputs", action="store_true", help=random)
    parser.add_argument("--seed", type=int, default=0, help="seed of --random-inputs (default 0)")


def named_inputs(texts: Sequence[str]) -> dict[str, Path]:
    """`--input`s, by name. Raises InputError for one that is not NAME=FILE."""
    return dict(map(_named_input, texts))


def _named_input(text: str) -> tuple[str, Path]:
    name, separator, path = text.partition("=")
    if not name or not separator or not path:
        raise InputError(f"--input {text}: write it as NAME=FILE.npy")
    return name, Path(path)


def run_arguments(*, several: bool = False, device: str = _DEVICE) -> argparse.ArgumentParser:
    """`--device`, of which `device` is the help, and what belongs to it."""
    parent = _argument(
        "--device", action="append", metavar="DEVICE", help=device + ("; repeat for several" if several else "")
    )
    parent.add_argument(
        "--hang-seconds", type=_seconds, default=30.0, metavar="S",
        help="a kernel that does not end, or is not compiled, within S seconds is an error (default 30)",
    )  # fmt: skip
    parent.add_argument(
        "--host", default="127.0.0.1", help="with --device open: address to listen on (default 127.0.0.1)"
    )
    parent.add_argument(
        "--port", type=int, default=0, help="with --device open: port to listen on (default: any free one)"
    )
    return parent


def count(text: str) -> int:
    """An argument that is a number of things."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return value


def turns(text: str) -> int:
    """An argument that is a number of turns of a loop."""
    value = int(text)
    if not 0 < value <= _MOST_TURNS:
        raise argparse.ArgumentTypeError(f"{text}: give 1 to {_MOST_TURNS}")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and 0 < value <= 86_400):
        raise argparse.ArgumentTypeError(f"{text}: give seconds, more than 0 and at most 86400")
    return value
