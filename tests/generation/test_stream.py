"""Text of tokens as they come, of tokenizers of all kinds."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tokenizers import Tokenizer

from tapml.generation.stream import StopText, TextStream
from tapml.models import folder_of
from tokenizers_of_all_kinds import ALL, texts

KINDS: dict[str, Any] = {"tiny": lambda: Tokenizer.from_file(str(folder_of("tiny") / "tokenizer.json")), **ALL}
HARD = (
    "🙂 é 👨\u200d👩\u200d👧 日本語",
    " lead and trail ",
    "a\n\nb\tc",
    "x<|end|>y",
    "\ufffd bad \ufffd",
    "don't stop.",
)


@pytest.mark.parametrize("name", KINDS)
def test_what_is_given_piece_by_piece_is_the_text_of_all_tokens(name: str) -> None:
    tokenizer = KINDS[name]()
    tokenizer.no_truncation()
    tokenizer.no_padding()
    for text in [*HARD, *texts(60, seed=7)]:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        stream = TextStream(tokenizer, [])
        given = "".join(map(stream.push, ids))
        whole = tokenizer.decode(ids)
        assert whole.startswith(given)
        # Only what may yet become another character is kept back.
        assert len(whole) - len(given) <= (8 if name in ("llama2", "byte_fallback") else 1), (text, given)


@pytest.mark.parametrize("name", ["tiny", "llama2"])
def test_bytes_in_any_order_give_what_decoding_all_of_them_gives(name: str) -> None:
    tokenizer = KINDS[name]()
    single = [
        token
        for token in range(tokenizer.get_vocab_size())
        if len(tokenizer.id_to_token(token) or "") == 1 or (tokenizer.id_to_token(token) or "").startswith("<0x")
    ]
    chosen = random.Random(5)
    for _ in range(300):
        ids = [chosen.choice(single) for _ in range(chosen.randint(1, 12))]
        stream = TextStream(tokenizer, [])
        given = "".join(map(stream.push, ids))
        assert tokenizer.decode(ids).startswith(given)


def test_a_text_behind_a_prompt_begins_as_it_does_in_the_middle() -> None:
    tokenizer = KINDS["llama2"]()
    ids = tokenizer.encode("Good morning to you", add_special_tokens=False).ids
    for cut in range(1, len(ids)):
        stream = TextStream(tokenizer, ids[:cut])
        assert tokenizer.decode(ids[:cut]) + "".join(map(stream.push, ids[cut:])) == tokenizer.decode(ids)


def test_no_part_of_what_may_become_a_stop_text_is_given() -> None:
    stops = StopText(["</end>", "<<"])
    assert [stops.push(piece) for piece in ("a<", "/e", "nd", "x<")] == [
        ("a", False),
        ("", False),
        ("", False),
        ("</endx", False),
    ]
    assert stops.push("<b") == ("", True)
    late = StopText(["stop"])
    assert (late.push("full st"), late.rest(), late.rest()) == (("full ", False), "st", "")
