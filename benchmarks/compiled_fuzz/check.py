"""One mutated model after the other, through both verifiers; what is accepted, through the simulation."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.compiled_fuzz.mutate import mutated
from benchmarks.compiled_fuzz.simulate import TooLarge, Violation, simulate
from tapml.compiled.files import read_model
from tapml.compiled.verify import verify
from tapml.errors import InputError

MOST_SECONDS = 5.0


@dataclass
class Found:
    """What came of some documents."""

    documents: int = 0
    refused_form: int = 0
    refused_proof: int = 0
    accepted: int = 0
    simulated: int = 0
    runs: int = 0
    too_large: int = 0
    python_seconds: float = 0.0
    page_seconds: float = 0.0
    sentences: int = 0
    """Refused by the proof of both, in other words."""
    failures: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)


class Pages:
    """The verifier of pages, in node. Closed at the end of a `with` block."""

    def __enter__(self) -> Pages:
        script = Path(__file__).with_name("pages.mjs")
        self._process = subprocess.Popen(
            ["node", str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        assert self._process.stdout
        ready = self._process.stdout.readline()
        if ready != "ready\n":
            self.__exit__()
            raise SystemExit("the verifier of pages did not start: npm --prefix runner_js ci")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def ask(self, text: str) -> tuple[str | None, float]:
        """Its sentence, None where it accepts; and seconds."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(text + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        sentence, milliseconds = json.loads(line) if line else ("CRASH the process ended", 0.0)
        return sentence, milliseconds / 1000


def check(documents: Mapping[str, str], pages: Pages, first: int, count: int) -> Found:
    """`count` mutated documents, seeds from `first`."""
    found = Found()
    names = sorted(documents)
    for seed in range(first, first + count):
        name = names[seed % len(names)]
        text = mutated(documents[name], f"{name} {seed}")
        for failure in _one(text, pages, found):
            found.failures.append(f"{name}, seed {seed}: {failure}")
    return found


def _one(text: str, pages: Pages, found: Found) -> list[str]:
    found.documents += 1
    began = time.process_time()
    kind, sentence = _python(text)
    seconds = time.process_time() - began
    said, page_seconds = pages.ask(text)
    found.python_seconds = max(found.python_seconds, seconds)
    found.page_seconds = max(found.page_seconds, page_seconds)
    failures = []
    if kind == "crash" or (said or "").startswith("CRASH"):
        failures.append(f"a crash: {sentence if kind == 'crash' else said}")
    elif (sentence is None) != (said is None):
        failures.append(f"Python says {sentence}, a page {said}")
    if max(seconds, page_seconds) > MOST_SECONDS:
        failures.append(f"{seconds:.1f} s in Python, {page_seconds:.1f} s in a page")
    if kind == "form":
        found.refused_form += 1
    elif kind == "proof":
        found.refused_proof += 1
        found.sentences += sentence != said
    elif kind == "accepted":
        found.accepted += 1
        failures += _simulated(json.loads(text), found)
    return failures


def _python(text: str) -> tuple[str, str | None]:
    try:
        model = read_model("model.json", text.encode())
    except InputError as error:
        return "form", str(error)
    except Exception as error:  # whatever it is, it is found
        return "crash", repr(error)
    try:
        verify(model)
    except InputError as error:
        return "proof", str(error)
    except Exception as error:
        return "crash", repr(error)
    return "accepted", None


def _simulated(document: Any, found: Found) -> list[str]:
    try:
        found.runs += simulate(document)
        found.simulated += 1
    except TooLarge:
        found.too_large += 1
    except Violation as error:
        return [f"accepted, and {error}"]
    except Exception as error:
        return [f"accepted, and the simulation fails: {error!r}"]
    return []
