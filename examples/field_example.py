"""What the examples of the field begin with: tasks that are published, released and served, and a browser."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Error, Page, sync_playwright

from tapml.browsers import options as launching
from tapml.browsers.find import find
from tapml.cli.field_publishing import WorkingCopy
from tapml.errors import TapmlError
from tapml.field.releases import Plan
from tapml.field.service.serving import FieldServer
from tapml.field.signing import new_key
from tapml.field.storage.store import Store

VERSION = "1.0"

_EXAMPLES = Path(__file__).parent
_ROOT = _EXAMPLES.parent
_MARK = "example.txt"
_PAGE_MILLISECONDS = 120_000


def arguments(name: str, description: str) -> argparse.ArgumentParser:
    """Those that all of these commands have."""
    parser = argparse.ArgumentParser(prog=f"examples/{name}", description=description)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured as JSON")
    parser.add_argument("--device", choices=("chromium", "firefox"), default="chromium", help="browser to start")
    parser.add_argument(
        "-o", "--output", type=Path, default=_ROOT / "build" / name, metavar="FOLDER",
        help=f"where all of it is kept (default build/{name}); what an earlier run left there is replaced",
    )  # fmt: skip
    return parser


def run(command: Callable[[argparse.Namespace], dict[str, Any]], parser: argparse.ArgumentParser) -> None:
    """`command` gives what was measured, for --json; what is wrong is one sentence."""
    options = parser.parse_args()
    try:
        _empty(options.output)
        measured = command(options)
        if options.json is not None:
            options.json.write_text(json.dumps(measured, indent=1) + "\n")
    except (TapmlError, OSError) as error:
        raise SystemExit(str(error)) from None


def _empty(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()) and not (folder / _MARK).is_file():
        raise SystemExit(f"{folder} is there, and no example made it: choose another folder with -o")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / _MARK).write_text("Made by an example of tapml, which replaces it.\n")


def build(model: Path, inputs: Mapping[str, Path], output: Path, device: str) -> None:
    """What pages load, its kernels proven in the browser: `tapml build`."""
    given = [word for name, path in inputs.items() for word in ("--input", f"{name}={path}")]
    command = [sys.executable, "-m", "tapml", "build", str(model), *given, "--device", device, "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{model.name} was not built:\n{done.stdout}{done.stderr}")


class Service(FieldServer):
    """Of tasks that are released to everybody, with a site of its own."""

    def __init__(self, folder: Path, tasks: Mapping[str, Path], pages: Path) -> None:
        """`tasks`: by SCENARIO/TASK the folder with its files. `pages`: the example's; what is added to `self.site`
        is served beside them."""
        group, self.site, self._key = folder / "group", folder / "site", new_key(folder / "key.pem")
        self.database = group / "field.sqlite3"
        store = None
        for task, files in tasks.items():
            manifest = WorkingCopy(files, group, task, self._key).publish(VERSION)
            store = store or Store(self.database)
            plan = {"task": task, "version": VERSION, "manifest": manifest, "steps": [{"kind": "full"}]}
            store.add(Plan.model_validate(plan), round(1000 * time.time()))
        shutil.copytree(pages, self.site / pages.name, ignore=shutil.ignore_patterns("*.py", "task*", "__pycache__"))
        shutil.copy(_EXAMPLES / "examples.css", self.site)
        super().__init__(group, self.database, pages=self.site)
        given = {"key": self._key.public, "tunnel": self.tunnel_url}
        self.page = f"{self.url}/pages/{pages.name}/?{urlencode(given)}"
        """The page's address, with the key that its agent believes."""


@contextmanager
def opened(device: str, address: str, **context: Any) -> Iterator[Page]:
    """A page in a browser with WebGPU, once its agent holds its tasks."""
    found = find(device)
    own: dict[str, Any] = {"args": launching.chromium_arguments(), "chromium_sandbox": launching.chromium_sandbox()}
    if device == "firefox":
        own = {"channel": "moz-firefox", "firefox_user_prefs": launching.FIREFOX_PREFERENCES}
    with sync_playwright() as playwright:
        browser = getattr(playwright, device).launch(executable_path=found.program, **own)
        try:
            page = browser.new_page(**context)
            page.set_default_timeout(_PAGE_MILLISECONDS)
            page.goto(address)
            page.evaluate("ready")  # a promise of the page's
            yield page
        except Error as error:
            raise SystemExit(f"{device}: {error.message}") from None
        finally:
            browser.close()


def shown(title: str, rows: list[tuple[str, str]]) -> None:
    """A table of two columns."""
    wide = max(len(name) for name, _ in rows)
    print(title, *(f"  {name.ljust(wide)}  {value}" for name, value in rows), sep="\n")
