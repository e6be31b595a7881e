"""Exit codes, and what a person sees when something goes wrong."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import TextIO

from rich.console import Console

from tapml.cli.endings import Ended, ending
from tapml.cli.parser import command_parser
from tapml.cli.streams import lasting_streams
from tapml.errors import TapmlError
from tapml.files import cannot_write, is_full
from tapml.reports.console import SafeConsole, safe_streams
from tapml.text import indented


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    with lasting_streams() as lasting, safe_streams() as (output, errors):
        try:
            # Without a command: all of them.
            options = command_parser().parse_args((sys.argv[1:] if arguments is None else arguments) or ["--help"])
            # Reports go to standard output, progress and errors to standard error, so that either can be redirected.
            code = _run(options, _console(output), _console(errors))
        finally:
            output.flush()
            if lasting.output_failure is not None:
                print(f"tapml: {cannot_write('standard output', lasting.output_failure)}", file=errors)
    return code or (0 if lasting.output_failure is None else 2)


def _run(options: argparse.Namespace, console: Console, progress: Console) -> int:
    try:
        # Late: a command loads what it needs, and `--help` nothing.
        module, _, name = options.run.partition(":")
        with ending():
            code: int = getattr(import_module(f"tapml.cli.{module}"), name)(options, console, progress)
        return code
    except TapmlError as error:
        progress.print(f"tapml: {indented(str(error), '  ')}", style="red")
        return error.exit_code
    except Ended as ended:
        progress.print(f"tapml: ended by {ended.name}")
        return ended.exit_code
    except KeyboardInterrupt:
        progress.print("tapml: interrupted")
        return 130
    except OSError as error:
        if not is_full(error):
            return _defect()
        # Files that were asked for are told apart where they are written: this is what nobody thought of.
        progress.print(f"tapml: {cannot_write(error.filename or 'a file', error)}", style="red")
        return 2
    except MemoryError:
        progress.print("tapml: there is not enough memory for this: close other programs, or use a larger machine")
        return 2
    except Exception:
        return _defect()


def _defect() -> int:
    # Here, where standard error is still the safe one: names and messages are in it.
    traceback.print_exc()
    print("tapml: this is a defect of tapml: please report it with the lines above", file=sys.stderr)
    raise SystemExit(1) from None


def _console(file: TextIO) -> Console:
    """Where there is no terminal (a pipe, a log) lines are long rather than folded into narrow columns."""
    return SafeConsole(file, width=None if file.isatty() else 200, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
