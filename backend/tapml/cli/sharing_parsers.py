"""`tapml export`, `tapml import`, `tapml share`: their arguments."""

from __future__ import annotations

from pathlib import Path

from tapml.cli.arguments import DEFAULT_SERVER, JSON, RESULT_DEVICE, SUITE, TEST, Commands

_FORMS = (
    ("--html", "FILE", "one HTML file that runs the test"),
    ("--wgsl", "FOLDER", "a folder: WGSL to edit, tensors as .npy, the bug report as README.md"),
    ("--python", "FILE.py", "a script against tapml's library, and its data beside it (FILE.safetensors)"),
    ("--safetensors", "FILE", "tensors with all the rest in their metadata"),
    ("--markdown", "FILE", "the text of a bug report (- for standard output)"),
)


def add_sharing(commands: Commands) -> None:
    """The three commands."""
    parser = commands.add(
        "export", "sharing:export", SUITE, TEST, RESULT_DEVICE,
        help="one test as a file that runs anywhere: HTML, Python, WGSL, safetensors, Markdown",
        description="Write one carved test with kernel, tensors, tolerances and its latest result. The HTML file needs "
        "no network and no tapml: it runs in any browser with WebGPU, and is what to attach to a bug. "
        "Without a form: --html KERNEL-TEST.html.",
    )  # fmt: skip
    for option, metavar, text in _FORMS:
        parser.add_argument(option, type=Path, metavar=metavar, help=text)
    parser.add_argument("--force", action="store_true", help="replace files that exist")
    parser = commands.add(
        "import", "sharing:import_",
        help="somebody's exported test, or what a page captured, as a suite or into one",
        description="Open what `tapml export` wrote (.html, .safetensors, the folder of --wgsl, the script of "
        "--python): as a suite of its own, or beside the tests of another suite. What `model.capture` gave in a page "
        "is computed here first, by the operators of the suite that the page's model was built from (--into), and each "
        "call gets its verdict; exit code 1 says that one is wrong.",
    )  # fmt: skip
    parser.add_argument("file", type=Path, metavar="FILE")
    place = parser.add_mutually_exclusive_group()
    place.add_argument("-o", "--output", type=Path, metavar="SUITE", help="suite to make (default: FILE's name.suite)")
    place.add_argument("--into", type=Path, metavar="SUITE", help="suite to add it to")
    parser.add_argument("--force", action="store_true", help="with -o: replace a suite that exists")
    parser = commands.add(
        "share", "sharing:share", SUITE, RESULT_DEVICE, JSON,
        help="one test as a link that re-runs in anyone's browser",
        description="Make a link to one test: whoever opens it runs the test and sees what you got. It works while "
        "`tapml serve SUITE` runs, shows nothing but this test, and dies with --days or --revoke. Without TEST_ID: "
        "list the suite's links.",
    )  # fmt: skip
    parser.add_argument("test", metavar="TEST_ID", nargs="?", help="such as n012.s0")
    parser.add_argument("--days", type=float, help="how long the link lives (default 90)")
    parser.add_argument("--forever", action="store_true", help="until it is revoked")
    parser.add_argument("--revoke", metavar="NAME", help="end a link: the link itself, or its name in the list")
    parser.add_argument(
        "--server", metavar="URL", default=DEFAULT_SERVER,
        help=f"address under which others reach `tapml serve` (default {DEFAULT_SERVER})",
    )  # fmt: skip
