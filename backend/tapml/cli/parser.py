"""All commands and their arguments."""

from __future__ import annotations

import argparse
from importlib.metadata import version
from pathlib import Path

from tapml.cli.arguments import (
    ACTIVATIONS,
    DATABASE,
    DEFAULT_SERVER,
    FUNCTIONS,
    JSON,
    KERNELS,
    MOVED,
    QUANTISED,
    SUITE,
    TEST,
    CommandParser,
    Commands,
    add_inputs,
    count,
    run_arguments,
    turns,
)
from tapml.cli.compiled_parsers import add_compiled
from tapml.cli.decoder_arguments import add_model
from tapml.cli.field_parsers import add_field
from tapml.cli.sharing_parsers import add_sharing
from tapml.cli.tune_parser import add_tune

_DESCRIPTION = """\
Bring machine-learning models up on new platforms, top down: carve every operator call of a real run into a test,
validate each operator's WGSL kernel on real WebGPU, then move the model to the device one operator at a time.
"""

_EPILOG = """\
examples:
  tapml demo                                               all of it on a real sentence encoder
  tapml demo --model tiny                                  a page in which a small language model writes
  tapml carve minilm --text "Good morning" -o morning.suite
  tapml carve model.onnx --inputs real-inputs.npz -o model.suite
  tapml carve --hf folder --prompt "Once upon a time" -o decoder.suite
  tapml validate model.suite --device chromium --device firefox --json result.json
  tapml test *.suite --device chromium --device firefox --junit junit.xml --html report.html --retries 1
  tapml offload model.suite --device chromium
  tapml locate model.suite --device chromium               name the faulty kernels, with the reason in words
  tapml compare model.suite                                what the last run changed
  tapml serve model.suite                                  the same in the browser
  tapml build model.suite -o model.tapml                   what a web page loads and runs
  tapml generate tiny --prompt "Once upon a time" --device chromium
  tapml validate model.suite --device node-dawn            without a browser: Dawn in node, ready in a second
  tapml devices                                            what is connected, and what can be started here

exit codes: 0 all passed, 1 some verdict is fail, error or unbounded, 2 wrong command or input, or an
output file that cannot be written, 130 interrupted, 143 ended by SIGTERM
"""


def command_parser() -> argparse.ArgumentParser:
    """What reads the command line; `run` of what it gives names the module and the function."""
    parser = CommandParser(
        "tapml",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tapml {version('tapml')}")
    commands = Commands(parser)
    _carve(commands)
    commands.add(
        "validate", "commands:validate", SUITE, run_arguments(several=True), JSON, KERNELS, DATABASE,
        help="run every carved test on real WebGPU devices and compare",
        description="Operator-wise validation: every carved test of SUITE on every device; exit code 1 if one fails.",
    )  # fmt: skip
    _test(commands)
    commands.add(
        "offload", "commands:offload", SUITE, run_arguments(), JSON, MOVED, FUNCTIONS,
        help="move the model to a device kernel by kernel, validating the whole model after each move",
        description="Offload SUITE's model: every kernel is validated on its own, then its nodes move to the device "
        "and the hybrid graph's output is compared; what fails stays on the reference platform. At the end the whole "
        "model runs on the device through the tvmjs virtual machine. With --kernel only those kernels move, and "
        "the rest of the model stays on the reference platform.",
    )  # fmt: skip
    _serve(commands)
    add_tune(commands, _importing)
    add_compiled(commands, _carving)
    show = commands.add(
        "show", "commands:show", JSON,
        help="print a suite's graph, kernels, tests, sizes and provenance, or what is in a compiled model",
        description="Print what is in a suite (graph, kernels, tests, sizes, provenance), or in a compiled model "
        "(inputs, outputs, kernels, weights, memory, and where it was validated). Of a compiled model all files are "
        "checked first: their sizes, and their digests too, where it has at most 1.1 GB of weights; exit code 2 where "
        "one is missing or damaged.",
    )  # fmt: skip
    show.add_argument("suite", type=Path, metavar="SUITE|MODEL.tapml", help="what `tapml carve` or `tapml build` wrote")
    show.add_argument(
        "--memory", action="store_true",
        help="print its memory plan instead: what its tensors take if none shared bytes, as planned, and at least",
    )  # fmt: skip
    show.add_argument("--html", type=Path, metavar="FILE", help="with --memory: draw it, bytes over time")
    show.add_argument("--tests", action="store_true", help="of a suite: all ids of its tests, kernel by kernel")
    _history(commands)
    _compare(commands)
    _demo(commands)
    add_sharing(commands)
    _locate(commands)
    _reduce(commands)
    _devices(commands)
    add_field(commands)
    commands.add("setup", "commands:setup", help="build TVM's wasm runtime (done by itself when first needed)")
    return parser


def _carve(commands: Commands) -> None:
    parser = commands.add(
        "carve", "commands:carve",
        help="run a model on the reference platform and record every operator call as a test",
        description="Run MODEL with a real input on the reference platform, record every operator call (inputs, "
        "outputs, tolerance) and write a suite: a folder of plain files with WGSL kernels you may edit.",
    )  # fmt: skip
    add_model(parser, "MODEL", "minilm, a .onnx file, or a .pt2 file (torch.export.save)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="SUITE", help="folder to write")
    parser.add_argument("--name", help="the suite's name (default: the output's)")
    parser.add_argument(
        "--json", type=Path, metavar="FILE",
        help="write what `tapml show` does as JSON (- for standard output); of a model that is refused, the sentence "
        "with the operator, the node and the reason",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="replace a suite that exists")
    _carving(parser)


def _importing(parser: argparse.ArgumentParser) -> None:
    """A model, and what it is given."""
    parser.add_argument(
        "--text", action="append", default=[], metavar="TEXT", help="input of minilm; repeat for a batch"
    )
    parser.add_argument(
        "--one-by-one",
        action="store_true",
        help="each --text a step of its own, at its own length: one set of kernels serves them all",
    )
    add_inputs(parser, "steps", "make inputs up; the suite is marked as synthetic")
    parser.add_argument(
        "--quantise", choices=QUANTISED, metavar="MODE",
        help="store weights of products and embeddings as integers (docs/quantise.md): q4f16, q4f32: 4 bits in groups "
        "of 32, scales of float16 or float32; q8: 8 bits, a scale for each row; q844: q8 in attention, else q4f16",
    )  # fmt: skip
    parser.add_argument(
        "--activations", choices=ACTIVATIONS, metavar="int8",
        help="with --quantise: linear layers with quantised weights round what they are given to integers of 8 bits, "
        "with a scale for each row, and sum products of integers (docs/quantise.md)",
    )  # fmt: skip
    parser.add_argument(
        "--external", action="append", default=[], type=Path, metavar="FILE.py|FOLDER",
        help="what the compiler lacks: a Python file with a function for each operator that nothing else computes, or "
        "a folder with kernels written by hand (NAME.json and WGSL); repeat for several",
    )  # fmt: skip
    parser.add_argument(
        "--loop-limit", type=turns, metavar="N",
        help="room for N turns of loops of which values of inputs say how many they take (ONNX Loop; default: twice "
        "what the given inputs take); a call that needs more is refused, and inputs that count turns stay inputs",
    )  # fmt: skip


def _carving(parser: argparse.ArgumentParser) -> None:
    """What is carved of a model, and how."""
    _importing(parser)
    parser.add_argument("--reference", choices=("cpu", "cuda"), default="cpu", help="reference platform (default cpu)")
    parser.add_argument(
        "--compiler", choices=("auto", "native", "tvm"),
        help="who makes the kernels: tvm (the default); native: tapml's own generator, and TVM for what it does not "
        "know; auto (the default with --tuned): whichever is faster, with variants where classes of devices differ "
        "(docs/choosing.md)",
    )  # fmt: skip
    parser.add_argument(
        "--tuned", action="append", default=[], type=Path, metavar="FILE",
        help="choose kernels by what they take on a device, as `tapml tune` measured it; repeat for several",
    )  # fmt: skip
    parser.add_argument(
        "--variants", default="256", metavar="N,N+subgroups,...",
        help="implementations of each kernel, by the most invocations of a workgroup (32 to 1024), +subgroups where a "
        "device may need them; a device takes the most demanding that it can run (default 256, which all can)",
    )  # fmt: skip
    parser.add_argument(
        "--keep-disagreeing", action="store_true",
        help="write the suite also where the reference run disagrees with its oracle (ONNX Runtime, PyTorch), or with "
        "itself when it is repeated: exit code 1, and every later command says so",
    )  # fmt: skip
    parser.add_argument(
        "--no-oracle",
        action="store_true",
        help="carve also a model that no oracle runs on these inputs: nothing checks the reference then",
    )


def _test(commands: Commands) -> None:
    parser = commands.add(
        "test", "test_command:test", run_arguments(several=True), KERNELS, DATABASE,
        help="run suites for CI: JUnit, HTML, shards, retries, expected failures",
        description="Every carved test of all SUITEs on all devices, with reports for people and for CI. Exit codes: "
        "0 good, 1 something fails (with --baseline: got worse) or a device cannot be started or has no WebGPU (the "
        "others are tested all the same), 2 wrong command or input, 130 interrupted. Reports tell what ran.",
    )  # fmt: skip
    parser.add_argument("suites", nargs="+", type=Path, metavar="SUITE", help="folders that `tapml carve` wrote")
    parser.add_argument("--shard", metavar="I/N", help="only part I of N, to split a run over several machines")
    parser.add_argument(
        "--retries", type=count, default=0, metavar="N",
        help="run what fails up to N times again; what passes then is flaky, which does not fail the run",
    )  # fmt: skip
    parser.add_argument("--fail-on-flaky", action="store_true", help="flaky tests fail the run")
    reports = parser.add_argument_group("reports")
    reports.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML")
    reports.add_argument("--html", type=Path, metavar="FILE", help="write one page with everything in it")
    reports.add_argument("--json", type=Path, metavar="FILE", help="write the document (- for standard output)")
    reports.add_argument(
        "--annotations", action="store_true",
        help="print annotations as GitHub Actions reads them (by itself where GITHUB_ACTIONS is true)",
    )  # fmt: skip
    baseline = parser.add_argument_group("expected failures")
    baseline.add_argument("--baseline", type=Path, metavar="FILE", help="fail only on what is worse than FILE expects")
    baseline.add_argument(
        "--update-baseline", action="store_true", help="write what failed into the baseline and exit with 0"
    )
    baseline.add_argument("--reason", metavar="TEXT", help="with --update-baseline: the reason of new entries")
    baseline.add_argument(
        "--expires", metavar="DATE",
        help="with --update-baseline: the last day of new entries, or never (default: in 90 days)",
    )  # fmt: skip


def _serve(commands: Commands) -> None:
    text = "open suites in the browser, and serve compiled models to web pages"
    parser = commands.add(
        "serve", "commands:serve", DATABASE, help=text,
        description="Open suites in the browser; any browser that opens /runner becomes a device. With --models, serve "
        "compiled models at /models/NAME/, with the runtime at /runtime/tapml-runtime.js; with --pages, web pages that "
        "use them at /pages/.",
    )  # fmt: skip
    parser.add_argument("suites", nargs="*", type=Path, metavar="SUITE", help="folders that `tapml carve` wrote")
    parser.add_argument("--models", type=Path, metavar="DIR", help="folder of what `tapml build` wrote")
    parser.add_argument("--pages", type=Path, metavar="DIR", help="folder of web pages, served at /pages/")
    parser.add_argument(
        "--allow-origin", action="append", default=[], metavar="ORIGIN",
        help="let pages of ORIGIN, such as http://127.0.0.1:5173, load models, too; repeat for several",
    )  # fmt: skip
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8808, help="port to listen on (default 8808; 0: any free one)")
    parser.add_argument(
        "--certificate", nargs=2, type=Path, metavar=("CERT", "KEY"),
        help="PEM files for https: browsers on other machines offer WebGPU to secure pages only",
    )  # fmt: skip


def _history(commands: Commands) -> None:
    parser = commands.add(
        "history", "history:history", SUITE, JSON, DATABASE,
        help="show how a suite's tests fared over time and browser versions",
        description="Trends of SUITE's tests on each sort of device, over all runs of `tapml validate`, `tapml test` "
        "and `tapml serve`: what fails and since when, what is flaky, how long it takes. With --test: its runs.",
    )  # fmt: skip
    parser.add_argument("--test", metavar="ID", help="the runs of this test, newest first")
    parser.add_argument("--kernel", metavar="NAME", help="only the tests of this kernel")
    parser.add_argument(
        "--limit", type=int, default=20, metavar="N", help="show at most N tests or runs (default 20; 0: all)"
    )


def _compare(commands: Commands) -> None:
    parser = commands.add(
        "compare", "compare_command:compare", JSON, DATABASE,
        help="show what changed between two runs: verdicts, errors, times",
        description="What changed from one run to another: the last two of SUITE on one device (before and after an "
        "edit, say), the last ones on two devices (--device twice), or any two of its history (--before, --after); or "
        "two files that `tapml validate --json` wrote. Exit codes: 0 nothing is worse, 1 a test fails that did not, "
        "2 wrong command or input.",
    )  # fmt: skip
    parser.add_argument("what", nargs="+", type=Path, metavar="SUITE|FILE", help="one suite, or two files")
    parser.add_argument(
        "--device", action="append", metavar="NAME",
        help="compare runs on this device, such as chromium; given twice: its last run with the other's",
    )  # fmt: skip
    parser.add_argument("--before", metavar="RUN", help="the first run: its number in --list, or its id")
    parser.add_argument("--after", metavar="RUN", help="the second run (default: the last one)")
    parser.add_argument("--list", action="store_true", help="list the runs of SUITE that can be compared")


def _demo(commands: Commands) -> None:
    parser = commands.add(
        "demo", "demo_command:demo", DATABASE,
        help="carve, validate and offload a real sentence encoder, or serve a language model that writes in a page",
        description="Carve, validate and offload a sentence encoder, then show it in the web page. With --model tiny: "
        "carve and validate a small language model, build it, and serve a page in which it writes, token by token; the "
        "page's button \"Carve this\" records a call as it runs and adds it to the suite (it needs PyTorch and "
        "transformers). Exit code 1 where a kernel fails.",
    )  # fmt: skip
    parser.add_argument(
        "--model", choices=("minilm", "tiny"), default="minilm",
        help="a sentence encoder, or a language model of 5.6 million parameters (default minilm)",
    )  # fmt: skip
    parser.add_argument("--text", action="append", default=[], help="sentence to encode")
    parser.add_argument(
        "--device",
        default="chromium",
        help="what kernels are validated on: chromium (the default), firefox or node-dawn",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FOLDER",
        help="the suite (default minilm.suite); with --model tiny a folder with the suite and the built model (default "
        "tiny-demo)",
    )  # fmt: skip
    parser.add_argument("--port", type=int, default=8808, help="port of the web page at the end (default 8808)")
    parser.add_argument("--no-serve", action="store_true", help="end after the summary instead of serving the page")


def _locate(commands: Commands) -> None:
    parser = commands.add(
        "locate", "locate_command:locate", SUITE, run_arguments(), KERNELS, FUNCTIONS, JSON,
        help="name the faulty kernels, with the reason in words",
        description="Name the faulty kernels of SUITE on a device, most certain first, with the reason in words: every "
        "carved test is validated, the clearest failing ones run again (is it a race?) and their mismatches are "
        "searched for patterns. Where every operator passes, the whole model runs on the device; where that fails, the "
        "fewest nodes are found whose return to the reference brings it back. Exit codes: 0 clean, 1 something is "
        "suspected, 2 wrong command or input, 130 interrupted.",
    )  # fmt: skip
    parser.add_argument(
        "--runs", type=int, default=3, metavar="N", help="how often a failing test runs again (default 3)"
    )
    parser.add_argument(
        "--no-model", action="store_true", help="do not run the whole model where every operator passes"
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="write one page with heat maps")


def _reduce(commands: Commands) -> None:
    parser = commands.add(
        "reduce", "locate_command:reduce", SUITE, TEST, run_arguments(), FUNCTIONS, JSON,
        help="shrink a failing test while it still fails",
        description="Shrink a failing test while it still fails: simpler input values, fewer of them, fewer "
        "workgroups. What is expected of the changed inputs comes from the reference. Prints what remained; -o writes "
        "it as a file that runs anywhere. Exit codes: 0 reduced, 1 the device reports an error instead of a result, "
        "2 wrong command or input, or a test that passes, 130 interrupted.",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE",
        help="write the reduced test: .html, .safetensors, .py, .md, or .suite for a suite of its own",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="replace a file that exists")


def _devices(commands: Commands) -> None:
    parser = commands.add(
        "devices", "devices:devices", JSON,
        help="list connected devices and those that can be started here",
        description="List what is connected to a running `tapml serve`, and what can be started on this machine, with "
        "adapter, features and limits (each is started once to ask it; --no-probe does not).",
    )  # fmt: skip
    parser.add_argument("--server", metavar="URL", help=f"a running `tapml serve` (default {DEFAULT_SERVER})")
    parser.add_argument("--no-probe", action="store_true", help="start nothing")
    parser = commands.add(
        "device", "devices:device",
        help="attach a device to a running server: node-dawn, deno, chromium, firefox, safari",
        description="Start NAME on this machine as a device of a running `tapml serve`. node-dawn and deno need no "
        "browser and start in under two seconds.",
    )  # fmt: skip
    parser.add_argument("name", metavar="NAME", help="node-dawn, deno, chromium, firefox, webkit or safari")
    parser.add_argument(
        "--server", metavar="URL", default=DEFAULT_SERVER,
        help=f"the server's address, with its token where it has one (default {DEFAULT_SERVER})",
    )  # fmt: skip
