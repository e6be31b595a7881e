"""Scripts of a version with a task.json become bytecode, by the Python that devices have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from field_tasks import Group

from tapml.errors import InputError
from tapml.field.tasks.bytecode import compiled
from tapml.field.tasks.configuration import CONFIGURATION, check_configuration
from tapml.field.tasks.publish import published_path
from tapml.field.tasks.published import Published

MAIN = b"import json\nimport shared.words\n\ndef run(event):\n    return shared.words.SECRET_NAME\n"


def configuration(**more: Any) -> bytes:
    return json.dumps({"format": "tapml.task-configuration/1", **more}).encode()


def test_what_is_published_is_bytecode_and_the_same_each_time(tmp_path: Path) -> None:
    group = Group(tmp_path)
    files = {CONFIGURATION: configuration(), "main.py": MAIN, "shared/words.py": b"SECRET_NAME = 'x'  # a remark\n"}
    group.add("1.0", {**files, "exclusive/ann/own.py": b"TASTE = 1\n"})
    digest = group.publish("1.0")
    assert group.publish("1.0") == digest
    published = Published(published_path(group.path))
    shared = {file.path: file for file in published.manifest(digest).shared}
    assert sorted(shared) == ["main.pyc", "shared/words.pyc", CONFIGURATION]
    code = (published_path(group.path) / "blobs" / shared["shared/words.pyc"].sha256).read_bytes()
    assert len(code) == shared["shared/words.pyc"].bytes
    assert b"SECRET_NAME" in code
    assert b"a remark" not in code
    assert code[4:8] == b"\x01\0\0\0"  # by the source's hash, which nobody checks: there is no source
    assert [file.path for file in published.exclusive(digest, "ann").files] == ["own.pyc"]

    group.add("2.0", {CONFIGURATION: configuration(), "main.py": MAIN, "main.pyc": b"other"})
    with pytest.raises(InputError, match=r"main\.pyc is what main\.py is compiled to"):
        group.publish("2.0")


def test_scripts_that_cannot_run_there_are_refused() -> None:
    with pytest.raises(InputError, match=r"main\.py cannot be compiled .*line 1.*: mend it"):
        compiled({"main.py": b"def run(:\n"})
    with pytest.raises(
        InputError, match=r"main\.py:2 imports numpy, which neither the version nor the Python of tasks"
    ):
        compiled({"main.py": b"import math\nimport numpy as np\n"})
    optional = b"from .a import b\ntry:\n    import numpy\nexcept ImportError:\n    numpy = None\n"
    assert sorted(compiled({"m/a.py": b"b = 1\n", "m/__init__.py": optional})) == ["m/__init__.py", "m/a.py"]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"{", "JSON"),
        (configuration(emit=[]), "emit"),
        (configuration(main="other"), "there is no other.py"),
        (configuration(triggers=[[]]), "triggers"),
        (configuration(triggers=[["enter", "**"]]), "begins or ends with"),
        (configuration(schedule={"every_seconds": 0.5}), "every_seconds"),
        (configuration(needs={"network": ["https://a.example/path"]}), "network"),
        *[
            (configuration(keeps=keeps), sentence)
            for keeps, sentence in [
                ({}, "tables"),
                ({"tables": {}}, "tables"),
                ({"tables": {"a": {}}}, "tables"),
                ({"tables": {"a": {"b": "json"}}}, "'integer', 'real', 'text' or 'blob'"),
                ({"tables": {"A": {"b": "text"}}}, "is no name for SQL"),
                ({"tables": {"sqlite_a": {"b": "text"}}}, "is no name for SQL"),
                ({"tables": {"a": {"rowid": "text"}}}, "is no name for SQL"),
                ({"tables": {"a": {"b": "text"}}, "bytes": 1}, "bytes"),
                ({"tables": {"a": {"b": "text"}}, "buffer": 0}, "buffer"),
            ]
        ],
        (configuration(needs={"models": ["model/"]}), "model/, which has no model.json"),
    ],
)
def test_a_configuration_that_agents_refuse_is_refused_when_it_is_published(data: bytes, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        check_configuration(data, ["main.py"])


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"trigers": []}, "task.json: there is no field trigers (did you mean triggers?)"),
        ({"needs": {"second": 1}}, "task.json: needs: there is no field second (did you mean seconds?)"),
        ({"needs": []}, "task.json: needs: it is not an object"),
        ({"triggers": [["**", "exit"]]}, "task.json: triggers[0]: begins or ends with **"),
        ({"needs": {"network": ["shop.example"]}}, "task.json: needs.network[0]: give https://HOST"),
        ({"main": "main.py"}, "task.json: main: it is no name of a Python module"),
        ({"format": "tapml.task-configuration/9", "new": 1}, "task.json: format: "),
    ],
)
def test_what_is_wrong_in_a_configuration_is_told_in_words(more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as raised:
        check_configuration(configuration(**more), ["main.py"])
    assert str(raised.value).startswith(sentence)
