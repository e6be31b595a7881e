"""Arguments, exit codes, and what a person sees when something goes wrong."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TextIO, TypeAlias

from rich.console import Console

from tapml.cli.device_options import add_parsers as add_device_parsers
from tapml.cli.device_options import add_run_options
from tapml.cli.history_options import add_database_option
from tapml.cli.history_options import add_parser as add_history_parser
from tapml.cli.locate_options import add_parsers as add_locate_parsers
from tapml.cli.sharing_options import add_parsers as add_sharing_parsers
from tapml.cli.streams import lasting_streams
from tapml.cli.test_options import add_parser as add_test_parser
from tapml.errors import TapmlError
from tapml.files import cannot_write, is_full
from tapml.reports.console import SafeConsole, safe_streams
from tapml.text import indented

_DESCRIPTION = """\
Bring machine-learning models up on new platforms, top down: carve every operator call of a real run into a test,
validate each operator's WGSL kernel on real WebGPU, then move the model to the device one operator at a time.
"""

_EPILOG = """\
examples:
  tapml demo                                               all of it on a real sentence encoder
  tapml carve minilm --text "Good morning" -o morning.suite
  tapml carve model.onnx --inputs real-inputs.npz -o model.suite
  tapml validate model.suite --device chromium --device firefox --json result.json
  tapml test *.suite --device chromium --device firefox --junit junit.xml --html report.html --retries 1
  tapml offload model.suite --device chromium
  tapml locate model.suite --device chromium               name the faulty kernels, with the reason in words
  tapml serve model.suite                                  the same in the browser
  tapml validate model.suite --device node-dawn            without a browser: Dawn in node, ready in a second
  tapml devices                                            what is connected, and what can be started here

exit codes: 0 all passed, 1 some verdict is fail, error or unbounded, 2 wrong command or input, or an
output file that cannot be written, 130 interrupted
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    with lasting_streams() as lasting, safe_streams() as (output, errors):
        try:
            options = _parser().parse_args(arguments)
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
        code: int = getattr(import_module(f"tapml.cli.{module}"), name)(options, console, progress)
        return code
    except TapmlError as error:
        progress.print(f"tapml: {indented(str(error), '  ')}", style="red", highlight=False)
        return error.exit_code
    except KeyboardInterrupt:
        progress.print("tapml: interrupted")
        return 130
    except OSError as error:
        if not is_full(error):
            return _defect()
        # Files that were asked for are told apart where they are written: this is what nobody thought of.
        progress.print(f"tapml: {cannot_write(error.filename or 'a file', error)}", style="red", highlight=False)
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "tapml",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tapml {version('tapml')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _carve(commands)
    _validate(commands)
    add_test_parser(commands)
    _offload(commands)
    _serve(commands)
    _show(commands)
    add_history_parser(commands)
    _demo(commands)
    add_sharing_parsers(commands)
    add_locate_parsers(commands)
    add_device_parsers(commands)
    setup = commands.add_parser("setup", help="build TVM's wasm runtime (done by itself when first needed)")
    setup.set_defaults(run="commands:setup")
    return parser


_Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _carve(commands: _Commands) -> None:
    parser = commands.add_parser(
        "carve",
        help="run a model on the reference platform and record every operator call as a test",
        description="Run MODEL with a real input on the reference platform, record every operator call (inputs, "
        "outputs, tolerance) and write a suite: a folder of plain files with WGSL kernels you may edit.",
    )
    parser.add_argument("model", metavar="MODEL", help="minilm, a .onnx file, or a .pt2 file (torch.export.save)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="SUITE", help="folder to write")
    parser.add_argument(
        "--text", action="append", default=[], metavar="TEXT", help="input of minilm; repeat for a batch"
    )
    parser.add_argument(
        "--one-by-one",
        action="store_true",
        help="each --text a step of its own, at its own length: one set of kernels serves them all",
    )
    parser.add_argument(
        "--inputs", action="append", default=[], type=Path, metavar="FILE",
        help=".npz or .safetensors with one array for each input; repeat for several steps",
    )  # fmt: skip
    parser.add_argument(
        "--input", action="append", default=[], metavar="NAME=FILE.npy", help="one input; repeat for each"
    )
    parser.add_argument("--random-inputs", action="store_true", help="make inputs up; the suite is marked as synthetic")
    parser.add_argument("--seed", type=int, default=0, help="seed of --random-inputs (default 0)")
    parser.add_argument("--reference", choices=("cpu", "cuda"), default="cpu", help="reference platform (default cpu)")
    parser.add_argument(
        "--variants", default="256", metavar="N,N+subgroups,...",
        help="implementations of each kernel, by the most invocations of a workgroup (32 to 1024), +subgroups where a "
        "device may need them; a device takes the most demanding that it can run (default 256, which all can)",
    )  # fmt: skip
    parser.add_argument(
        "--external", action="append", default=[], type=Path, metavar="FILE.py|FOLDER",
        help="what the compiler lacks: a Python file with a function for each operator that nothing else computes, or "
        "a folder with kernels written by hand (NAME.json and WGSL); repeat for several",
    )  # fmt: skip
    parser.add_argument("--name", help="the suite's name (default: the output's)")
    parser.add_argument("--force", action="store_true", help="replace a suite that exists")
    parser.set_defaults(run="commands:carve")


def _validate(commands: _Commands) -> None:
    parser = commands.add_parser(
        "validate",
        help="run every carved test on real WebGPU devices and compare",
        description="Operator-wise validation: every carved test of SUITE on every device; exit code 1 if one fails.",
    )
    parser.add_argument("suite", type=Path, metavar="SUITE", help="folder that `tapml carve` wrote")
    add_run_options(parser, several=True)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result document (- for standard output)")
    parser.add_argument(
        "--kernel", action="append", metavar="NAME", help="only this kernel's tests; repeat for several"
    )
    add_database_option(parser)
    parser.set_defaults(run="commands:validate")


def _offload(commands: _Commands) -> None:
    parser = commands.add_parser(
        "offload",
        help="move the model to a device kernel by kernel, validating the whole model after each move",
        description="Offload SUITE's model: every kernel is validated on its own, then its nodes move to the device "
        "and the hybrid graph's output is compared; what fails stays on the reference platform. At the end the whole "
        "model runs on the device through the tvmjs virtual machine.",
    )
    parser.add_argument("suite", type=Path, metavar="SUITE", help="folder that `tapml carve` wrote")
    add_run_options(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result document (- for standard output)")
    parser.set_defaults(run="commands:offload")


def _serve(commands: _Commands) -> None:
    parser = commands.add_parser(
        "serve", help="open suites in the browser; any browser that opens /runner becomes a device"
    )
    parser.add_argument("suites", nargs="*", type=Path, metavar="SUITE", help="folders that `tapml carve` wrote")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8808, help="port to listen on (default 8808; 0: any free one)")
    parser.add_argument(
        "--certificate", nargs=2, type=Path, metavar=("CERT", "KEY"),
        help="PEM files for https: browsers on other machines offer WebGPU to secure pages only",
    )  # fmt: skip
    add_database_option(parser)
    parser.set_defaults(run="commands:serve")


def _show(commands: _Commands) -> None:
    parser = commands.add_parser("show", help="print a suite's graph, kernels, tests, sizes and provenance")
    parser.add_argument("suite", type=Path, metavar="SUITE", help="folder that `tapml carve` wrote")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write it as JSON (- for standard output)")
    parser.set_defaults(run="commands:show")


def _demo(commands: _Commands) -> None:
    parser = commands.add_parser(
        "demo", help="carve, validate and offload a real sentence encoder, then show it in the web page"
    )
    parser.add_argument("--text", action="append", default=[], help="sentence to encode")
    parser.add_argument("--device", default="chromium", help="chromium or firefox (default chromium)")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("minilm.suite"), help="suite folder (default minilm.suite)"
    )
    parser.add_argument("--port", type=int, default=8808, help="port of the web page at the end (default 8808)")
    parser.add_argument("--no-serve", action="store_true", help="end after the summary instead of serving the page")
    add_database_option(parser)
    parser.set_defaults(run="commands:demo")


if __name__ == "__main__":
    sys.exit(main())
