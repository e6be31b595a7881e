"""What a task may ask of the agent: emit, load a model, fetch, keep rows in tables."""

import json
import math

import _tapml_agent

from tapml._tables import Table, read

__all__ = ["Response", "Table", "Tensor", "emit", "fetch", "flush", "load", "sql", "table"]

_FORMATS = {
    "float32": "f", "float64": "d", "int32": "i", "uint32": "I", "int8": "b", "uint8": "B", "bool": "B", "float16": "e",
}  # fmt: skip


class TapmlError(Exception):
    """What the agent, or the page's configuration, refuses."""


class Tensor:
    """Elements row by row. `data`: a memoryview of one dimension; `shape` multiplies to its length."""

    def __init__(self, data, shape=None, dtype="float32"):
        if dtype not in _FORMATS:
            raise TypeError(f"dtype {dtype!r} is not one of {', '.join(_FORMATS)}")
        if not isinstance(data, memoryview):
            import array

            data = memoryview(array.array(_FORMATS[dtype], data))
        self.data = data
        self.dtype = dtype
        self.shape = (len(data),) if shape is None else tuple(shape)
        if math.prod(self.shape) != len(data):
            raise ValueError(f"{len(data)} elements have no shape {self.shape}")

    def tolist(self):
        """The elements, flat."""
        return self.data.tolist()


class Model:
    """A compiled model of this version; it is loaded with its first run."""

    def __init__(self, path):
        self._path = path

    async def run(self, inputs):
        """Outputs by name, as Tensors, of inputs by name: Tensors, arrays, or flat lists of float32 numbers."""
        given = {name: _tensor(value) for name, value in inputs.items()}
        told = [(name, one.dtype, list(one.shape), one.data.tobytes()) for name, one in given.items()]
        found = await _call(_tapml_agent.model(self._path, told))
        return {
            name: Tensor(memoryview(data.to_bytes()).cast(_FORMATS[dtype]), list(shape), dtype)
            for name, dtype, shape, data in found
        }


def _tensor(value):
    if isinstance(value, Tensor):
        return value
    if not hasattr(value, "tobytes") or not hasattr(value, "shape"):
        return Tensor(value)
    dtype = value.dtype.name  # an array of tapml.arrays
    if dtype not in _FORMATS:
        raise TypeError(f"models take no {dtype}: use astype")
    return Tensor(memoryview(value.tobytes()).cast(_FORMATS[dtype]), value.shape, dtype)


class Response:
    """What a server answered."""

    def __init__(self, status, body):
        self.status = status
        self.body = body

    def json(self):
        """The body, as JSON."""
        return json.loads(self.body)


def emit(name, value):
    """Give what was found to the page: `value` is what JSON can hold, `name` is declared in task.json."""
    _tapml_agent.emit(name, json.dumps(value, allow_nan=False))


def load(path):
    """The compiled model in the version's folder `path`, which task.json declares."""
    return Model(path if path.endswith("/") else path + "/")


async def fetch(url, method="GET", body=None):
    """A Response; only of origins that task.json declares and the page allows, and without cookies."""
    status, data = await _call(_tapml_agent.fetch(url, method, body))
    return Response(status, data.to_bytes())


def table(name):
    """The Table of that name, which task.json declares. What it holds is there again at the next visit."""
    return Table(name)


async def sql(text, *values):
    """Rows as dicts, of what the task keeps: values stand for the ? in the text. What was added is written first."""
    return read(await _call(_tapml_agent.sql(text, list(values))))


async def flush():
    """Write what was added, and give where it is: "disk", or "memory" that is gone when the page is."""
    return await _call(_tapml_agent.flush())


async def _call(promise):
    error, value = await promise
    if error:
        raise TapmlError(error)
    return value
