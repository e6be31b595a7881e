"""The agent's VM in node, and arrays there and back."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tapml.browsers import find_node
from tapml.browsers.headless import vulkan_environment

_TOGETHER = 50
"""Calls of one run of the task."""

PROGRAM = Path(__file__).with_name("cases.mjs")


class Refused(Exception):
    """What the VM's side raised: `kind` is the exception's name."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class Vm:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def call(self, name: str, *values: Any, of: str = "np", **keywords: Any) -> Any:
        """A function of tapml.arrays, or of tapml.images (`of="cv2"`)."""
        return _one(self.run([calling(name, values, keywords, of)]))

    def evaluate(self, expression: str, *values: Any) -> Any:
        """`v` in it are the values, `np` and `cv2` the modules."""
        return _one(self.run([evaluating(expression, values)]))

    def run(self, calls: Sequence[dict[str, Any]]) -> list[Any]:
        """What each gives, or a Refused."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        found: list[Any] = []
        for at in range(0, len(calls), _TOGETHER):
            self._process.stdin.write(json.dumps({"calls": calls[at : at + _TOGETHER]}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
            if not line or (told := json.loads(line)) is None:
                raise RuntimeError("the VM gave nothing: what it said stands above")
            found += map(_received, told)
        return found

    def counts(self) -> dict[str, int]:
        """Of a VM whose arrays are on the GPU: how many requests that answered, and how many not."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("null\n")
        self._process.stdin.flush()
        return dict(json.loads(self._process.stdout.readline()))


def calling(name: str, values: Sequence[Any], keywords: Mapping[str, Any], of: str = "np") -> dict[str, Any]:
    named = {key: _sent(value) for key, value in keywords.items()}
    return {"name": name, "of": of, "values": [_sent(one) for one in values], "keywords": named}


def evaluating(expression: str, values: Sequence[Any]) -> dict[str, Any]:
    return {"expression": expression, "values": [_sent(one) for one in values]}


def _one(found: list[Any]) -> Any:
    if isinstance(found[0], Refused):
        raise found[0]
    return found[0]


@contextmanager
def started(*options: str) -> Iterator[Vm]:
    """`options`: "gpu", and the milliseconds from which on it is asked (cases.mjs)."""
    node, _ = find_node()
    environment = {**os.environ, **vulkan_environment(software=True)}
    with subprocess.Popen(
        [node, str(PROGRAM), *options], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Vm(process)
        assert process.stdin is not None
        process.stdin.close()


def _sent(one: Any) -> Any:
    if isinstance(one, np.ndarray | np.generic):
        data = base64.b64encode(np.ascontiguousarray(one).tobytes()).decode()
        return {"dtype": str(one.dtype), "shape": list(one.shape), "data": data}
    if isinstance(one, float):
        return {"number": repr(one)}
    if isinstance(one, list | tuple):
        return [_sent(each) for each in one]
    if isinstance(one, slice):
        return {"slice": [one.start, one.stop, one.step]}
    return one


def _received(one: Any) -> Any:
    if isinstance(one, dict) and "error" in one:
        return Refused(one["error"], one["message"])
    if isinstance(one, dict):
        return np.frombuffer(base64.b64decode(one["data"]), one["dtype"]).reshape(one["shape"])
    if isinstance(one, list):
        return [_received(each) for each in one]
    return one
