"""What commands, server and page do with a document: the functions behind them, in this process."""

from __future__ import annotations

import argparse
import io
import json
import random
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from flask import got_request_exception

from helpers import FakeRunner, all_pass
from tapml.ci.baseline import read_baseline
from tapml.ci.plan import plan
from tapml.cli.history import history
from tapml.cli.sharing import share
from tapml.devices import Blobs, DeviceHub
from tapml.errors import TapmlError
from tapml.files import json_text
from tapml.history import Recorder
from tapml.importing.inputs import InputSpec, gather_steps
from tapml.locating.barriers import unordered
from tapml.lowering.model import read_model
from tapml.operators.of_suite import read_operator
from tapml.reports.console import SafeConsole
from tapml.reports.terminal import show_suite
from tapml.server.local import create_app
from tapml.server.registry import detail
from tapml.server.security import Security
from tapml.server.state import State
from tapml.sharing import FORMS, export, links, load_repro, of_suite
from tapml.sharing.imports import add_to_suite, new_suite
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.operatorwise import OperatorRun, recover

ID = "good"


class Outcome:
    """What became of one document."""

    def __init__(self) -> None:
        self.refused = 0
        self.accepted = 0
        self.tracebacks: list[str] = []
        self.errors_500: list[str] = []
        self.said: list[str] = []

    def attempt(self, action: Callable[[], object]) -> None:
        """Run it: a TapmlError is a refusal, any other exception a defect."""
        try:
            found = action()
            self.accepted += 1
            if isinstance(found, str):
                self.said.append(found)
        except TapmlError as error:
            self.refused += 1
            self.said.append(str(error))
        except MemoryError:
            self.tracebacks.append("MemoryError\n" + traceback.format_exc(limit=-3))
        except Exception:
            self.tracebacks.append(traceback.format_exc())


class Checks:
    """`good`: what good.make filled; `out`: a folder to write to."""

    def __init__(self, good: Path, out: Path) -> None:
        self.facts = json.loads((good / "facts.json").read_text())
        self.good = good
        self.out = out
        self.state = State(Security("127.0.0.1"), url="http://127.0.0.1")
        self.app = create_app(self.state)
        self.client = self.app.test_client()
        self._trouble: list[str] = []
        got_request_exception.connect(self._note, self.app)

    def _note(self, *_: object, exception: BaseException, **__: object) -> None:
        self._trouble.append("".join(traceback.format_exception(exception)))

    # -------------------------------------------------------------- suites

    def suite(self, path: Path, outcome: Outcome, choose: random.Random, wanted: tuple[str, ...] = ()) -> None:
        """`wanted`: actions that read what was changed; of the others a few."""
        actions = dict(self.actions(path, choose))
        names = [name for name in actions if name not in wanted and name != "open"]
        for name in ("open", *wanted, *choose.sample(names, min(3, len(names)))):
            outcome.attempt(actions[name])
        self.serve(path)
        self.routes(outcome, choose)

    def actions(self, path: Path, choose: random.Random) -> Iterator[tuple[str, Callable[[], object]]]:
        def some_test(suite: Suite) -> str:
            return choose.choice(suite.tests).id if suite.tests else self.facts["test"]

        def show() -> str:
            text = io.StringIO()
            show_suite(SafeConsole(text, width=120), Suite(path))
            return text.getvalue()

        def validate() -> str:
            suite = Suite(path)
            device = FakeRunner(DeviceHub(), all_pass).device
            run = OperatorRun(JobContext(suite, [device], Blobs()), save=True, history=Recorder(None, "validate"))
            return json_text(run.run())

        def exported() -> None:
            suite = Suite(path)
            form = choose.choice(list(FORMS))
            export(of_suite(suite, some_test(suite)), form, self.out / f"exported{FORMS[form]}", overwrite=True)

        def operators() -> None:
            suite = Suite(path)
            for name in suite.model_graph.kernels:
                read_operator(suite, name, suite.model_graph)
            if choose.random() < 0.2:
                read_model(suite)

        def texts() -> list[str]:
            suite = Suite(path)
            return [file.text for kernel in suite.kernels for file in suite.kernel_files(kernel)]

        yield "open", lambda: Suite(path)
        yield "show", show
        yield "detail", lambda: json_text(detail(ID, Suite(path)))
        yield "verify", lambda: Suite(path).verify()
        yield "size", lambda: Suite(path).nbytes()
        yield "plan", lambda: plan([path])
        yield "kernels", texts
        yield "barriers", lambda: [unordered(text) for text in texts()]
        yield "tensors", lambda: [Suite(path).tensors.get(ref) for test in Suite(path).tests for ref in test.refs]
        yield "results", lambda: json_text([Suite(path).results(kind) for kind in ("validation", "offload", "locate")])
        yield "recover", lambda: recover(Suite(path), Recorder(None, "serve"))
        yield "history", lambda: self._command(history, suite=path, test=None, kernel=None)
        yield "timeline", lambda: self._command(history, suite=path, test=some_test(Suite(path)), kernel=None)
        yield "shares", lambda: self._command(share, suite=path, test=None, revoke=None)
        yield "share", lambda: links.create(path, of_suite(Suite(path), self.facts["test"]))
        yield "link", lambda: self._link(path)
        yield "add", lambda: add_to_suite(load_repro(self.good / "exports" / "one.safetensors"), Suite(path))
        yield "export", exported
        yield "validate", validate
        yield "operators", operators

    def _command(self, command: Callable[..., int], **options: Any) -> str:
        text = io.StringIO()
        given = argparse.Namespace(json=None, limit=20, database_url=None, days=None, forever=False, **options)
        command(given, SafeConsole(text, width=120), SafeConsole(text, width=120))
        return text.getvalue()

    def _link(self, path: Path) -> None:
        if found := links.find([path], self.facts["share"]):
            links.open_share(found[1], found[0].name)

    # -------------------------------------------------------------- server

    def serve(self, path: Path) -> None:
        """As a server that began with this suite when it was good."""
        self.state.suites.__init__(self.state.blobs, Recorder(None, "serve"))  # type: ignore[misc]
        self.state.suites._paths[ID] = path.resolve()

    def routes(self, outcome: Outcome, choose: random.Random, count: int = 3) -> None:
        test, kernel, suite = self.facts["test"], self.facts["kernel"], f"/api/suites/{ID}"
        gets = [
            "/api/suites",
            suite,
            f"{suite}/kernels/{kernel}",
            f"{suite}/tests/{test}",
            f"{suite}/results",
            f"{suite}/history",
            f"{suite}/history/{test}",
            f"{suite}/shares",
            f"{suite}/tests/{test}/export?form=markdown",
            f"{suite}/tests/{test}/export?form=html",
            f"/s/{self.facts['share']}/test",
        ]
        for path in choose.sample(gets, count):
            self.request(outcome, "GET", path)

    def request(self, outcome: Outcome, method: str, path: str, **options: Any) -> None:
        self._trouble.clear()
        options.setdefault("headers", {"X-Tapml": "1", "Host": "127.0.0.1"})
        try:
            response = self.client.open(path, method=method, **options)
            status, body = response.status_code, response.get_data()
            response.close()
        except Exception:
            outcome.tracebacks.append(traceback.format_exc())
            return
        outcome.said.append(body[:200_000].decode("latin-1"))
        if status >= 500:
            outcome.errors_500.append(f"{method} {path:.300}: {status}\n" + "".join(self._trouble))
        elif status >= 400:
            outcome.refused += 1
        else:
            outcome.accepted += 1

    # -------------------------------------------------------------- files

    def exported(self, path: Path, suite: Path, outcome: Outcome, choose: random.Random) -> None:
        """What `tapml import` and the page's import do."""
        made = self.out / "made.suite"

        def open_it() -> None:
            new_suite(load_repro(path), made, overwrite=True)
            show_suite(SafeConsole(io.StringIO(), width=120), Suite(made))

        def add() -> None:
            add_to_suite(load_repro(path), Suite(suite))

        def again() -> None:
            repro = load_repro(path)
            form = choose.choice(list(FORMS))
            export(repro, form, self.out / f"exported{FORMS[form]}", overwrite=True)

        for action in choose.sample([open_it, add, again], 2):
            outcome.attempt(action)
        if path.is_file() and path.stat().st_size < 50_000_000:
            self.request(outcome, "POST", "/api/imports?name=x", data=path.read_bytes())

    def inputs(self, path: Path, outcome: Outcome) -> None:
        """What `tapml carve --inputs` does with a file before the model runs."""
        spec = InputSpec("x", "float32", (6, 16))

        def read() -> object:
            if path.suffix == ".npy":
                steps = gather_steps([spec], [], {"x": path}, False, 0)
            else:
                steps = gather_steps([spec, InputSpec("ids", "int64", (None,))], [path], {}, False, 0)
            return [step.narrowed() for step in steps]

        with np.errstate(all="ignore"):
            outcome.attempt(read)

    def baseline(self, path: Path, outcome: Outcome) -> None:
        outcome.attempt(lambda: read_baseline(path))
