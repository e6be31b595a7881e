"""What a task keeps: tables on the device, as its task.json declares them."""

import base64
import json

import _tapml_agent

_TABLES = json.loads(_tapml_agent.tables)


class Table:
    """One of the task's tables. Rows that are added are collected, and written together."""

    def __init__(self, name):
        if name not in _TABLES:
            raise TypeError(f"task.json declares no table {name!r}; it has {', '.join(_TABLES) or 'none'}")
        self.name = name
        self.columns = tuple(_TABLES[name])
        self._types = _TABLES[name]

    def add(self, **values):
        """Keep a row: columns that are not given are None. Raises TypeError, ValueError or TapmlError where it does not fit."""
        row = []
        for column, kind in self._types.items():
            value = values.pop(column, None)
            if kind == "integer" and value is not None:
                value = _integer(column, value)
            elif isinstance(value, (bytearray, memoryview)):
                value = bytes(value)
            row.append(value)
        if values:
            raise TypeError(f"{self.name} has no column {next(iter(values))!r}; it has {', '.join(self.columns)}")
        _tapml_agent.add(self.name, row)


def _integer(column, value):
    whole = int(value)
    if whole != value:
        raise ValueError(f"{column} is a column of integers, and {value!r} is none")
    return whole


def read(text):
    """Rows as dicts, of what the VM's own side gives."""
    found = json.loads(text)
    columns = found["columns"]
    return [dict(zip(columns, map(_value, row), strict=True)) for row in found["rows"]]


def _value(cell):
    return base64.b64decode(cell["blob"]) if isinstance(cell, dict) else cell
