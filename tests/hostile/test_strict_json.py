"""JSON that Python's own reader would take, or die of."""

from __future__ import annotations

import json

import pytest

from tapml.errors import InputError
from tapml.strict_json import MOST_DEPTH, parse_json

WRONG = {
    "NaN": (b"[NaN]", "NaN is no number"),
    "infinity": (b'{"x": -Infinity}', "-Infinity is no number"),
    "a float too large": (b"[1e999]", "too large"),
    "a float too small": (b"[-1e999]", "too large"),
    "an integer too large": (b"[1" + b"0" * 400 + b"]", "too large"),
    "an integer that Python refuses": (b"[" + b"9" * 100_000 + b"]", "too large"),
    "lists in lists": (b"[" * 5000 + b"]" * 5000, "nested"),
    "objects in objects": (b'{"a":' * 5000 + b"1" + b"}" * 5000, "nested"),
    "a level too many": (b"[" * (MOST_DEPTH + 1) + b"]" * (MOST_DEPTH + 1), "nested"),
    "brackets that never close": (b"[" * 1_000_000, "nested"),
    "a name twice": (b'{"a": 1, "b": 2, "a": 3}', "'a' stands twice"),
    "half a pair": (b'{"a": "\\ud800"}', "surrogate"),
    "half a pair as a name": (b'[{"\\uDfff": 1}]', "surrogate"),
    "half a pair alone": (b'"\\udc80"', "surrogate"),
    "no UTF-8": (b'"\xff"', "utf-8"),
    "UTF-16": ('"x"'.encode("utf-16"), "utf-8"),
    "nothing": (b"", "Expecting value"),
    "cut": (b'{"a": ', "Expecting value"),
    "two values": (b"1 2", "Extra data"),
    "many lists": (b"[" + b"[]," * 3_000_000 + b"1]", "more than 2000000"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_one_sentence(name: str) -> None:
    text, said = WRONG[name]
    with pytest.raises(InputError, match=said) as caught:
        parse_json(text, "theirs.json", "get it again")
    message = str(caught.value)
    assert message.startswith("theirs.json ")
    assert message.endswith("get it again")
    assert len(message) < 300


def test_what_is_right_is_read_as_ever() -> None:
    document = {"a": [1, -2.5, 2**64, True, None, "é\U0001f600"], "b": {"c": {}}, "d": "\\ud800 as a text"}
    for ascii_only in (True, False):
        text = json.dumps(document, ensure_ascii=ascii_only)
        assert parse_json(text, "x", "y") == parse_json(text.encode(), "x", "y") == document
    assert parse_json(b"\xef\xbb\xbf[1]", "x", "y") == [1]
    deep = "[" * MOST_DEPTH + "]" * MOST_DEPTH
    assert parse_json(deep, "x", "y") == json.loads(deep)
    assert parse_json("3", "x", "y") == 3
