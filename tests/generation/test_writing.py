"""A text as it is written: what ends it, what is given of it, and what of it stays when it is closed."""

from __future__ import annotations

from collections.abc import Generator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tokenizers import Tokenizer

from tapml.errors import InputError
from tapml.generation.asked import Asked, Text, begun
from tapml.generation.writing import Chosen, Writing, written_together
from tapml.models import folder_of
from tapml.program.generation import Generation

TOKENIZER = Tokenizer.from_file(str(folder_of("tiny") / "tokenizer.json"))
FACTS = Generation(
    prefill="main", decode="main", chunk=8, capacity=64, vocabulary=4096, end=[1], begin=0, bytes_per_token=4
)


def files(facts: Generation | None = FACTS, tokenizer: Any = TOKENIZER, path: str = "little.tapml") -> Any:
    """A model, as far as its text is concerned."""
    described = None if tokenizer is None else SimpleNamespace(file="tokenizer.json")
    model = SimpleNamespace(generation=facts, tokenizer=described, name="little")
    content = b"" if tokenizer is None else tokenizer.to_str().encode()
    return SimpleNamespace(model=model, path=path, attachment=lambda name: content)


def writing(chosen: list[int], prompt: str | list[int] = "Once", **asked: Any) -> Writing:
    def source() -> Generator[Chosen]:
        for number, token in enumerate(chosen):
            yield Chosen(token, 1.0 + number / 2)
        raise AssertionError("more tokens are taken than were asked for")

    return Writing(begun(cast(Any, files()), prompt, Asked(**asked)), source())


def ids(text: str) -> list[int]:
    return list(TOKENIZER.encode(text, add_special_tokens=False).ids)


def test_it_ends_where_the_model_ends_it() -> None:
    made = writing([*ids(" upon a time"), 1])
    pieces = list(made)
    assert "".join(piece.text for piece in pieces) == made.result.text == " upon a time"
    assert (made.result.reason, made.result.ids[-1], pieces[-1].text) == ("end", 1, "")
    begin = len(TOKENIZER.encode("Once").ids)
    assert [piece.position for piece in pieces] == list(range(begin, begin + len(pieces)))
    assert made.result.prefill_seconds == 1.0
    assert made.result.tokens_per_second == 2.0


def test_calls_are_those_that_gave_what_was_taken() -> None:
    """The first token is the prompt's. The last call gave more than was asked for."""
    guessed = [False, True, True, False, False, True, True]

    def source() -> Generator[Chosen]:
        for number, each in enumerate(guessed):
            yield Chosen(40 + number, float(number), each)

    made = Writing(begun(cast(Any, files()), "Once", Asked(tokens=len(guessed))), source())
    assert len(list(made)) == 7
    assert (made.result.guessed, made.result.calls, made.result.tokens_per_call) == (4, 3, 2)


def test_it_ends_at_a_length_a_token_and_a_text() -> None:
    tokens = ids(" upon a time there was a king")
    short = writing(tokens, tokens=2)
    assert (len(list(short)), short.result.reason) == (2, "length")
    stopped = writing(tokens, stop=["there"])
    assert "".join(piece.text for piece in stopped) == " upon a time "
    assert stopped.result.reason == "stop"
    by_token = writing(tokens, stop_ids=[tokens[2]])
    assert ("".join(piece.text for piece in by_token), by_token.result.reason) == (TOKENIZER.decode(tokens[:2]), "stop")
    # What may become a stop text comes when nothing follows it.
    kept = writing(tokens, tokens=2, stop=[TOKENIZER.decode(tokens[:2]) + "!"])
    assert [piece.text for piece in kept] == ["", TOKENIZER.decode(tokens[:2])]


def test_it_ends_where_no_more_tokens_fit() -> None:
    made = writing(ids(" a") * 40, prompt=[5] * 60)
    assert len(list(made)) == 5
    assert made.result.reason == "capacity"
    # Of as many as were asked for it is a length.
    exact = writing(ids(" a") * 40, prompt=[5] * 60, tokens=5)
    assert (len(list(exact)), exact.result.reason) == (5, "length")


def test_what_was_written_stays_when_it_is_closed() -> None:
    with writing(ids(" upon a time"), stop=["upon the"]) as made:
        next(made)
    assert (made.result.text, made.result.reason) == (TOKENIZER.decode(ids(" upon")[:1]), "abort")
    assert list(made) == []


@pytest.mark.parametrize(
    ("changes", "prompt", "asked", "said"),
    [
        ({}, "", {}, "the prompt is empty: give text, or the token 0 to begin a text"),
        ({}, [], {}, "the prompt is empty"),
        ({}, "a \udcff", {}, r"the prompt has '\\udcff' at 2, which is no character: give UTF-8"),
        ({}, [5] * 65, {}, "the prompt has 65 tokens, and little has room for 64: leave 1 out"),
        ({}, [4096], {}, "4096 is no token of little: its vocabulary goes from 0 to 4095"),
        ({}, [-1], {}, "-1 is no token of little"),
        ({}, "a", {"stop_ids": [5000]}, "5000 is no token of little"),
        ({}, "a", {"stop": [""]}, "stop is no list of texts"),
        ({}, "a", {"stop": "end"}, "stop is no list of texts"),
        ({}, "a", {"tokens": 0}, "tokens is 0: give a whole number from 1"),
        ({"facts": None}, "a", {}, "little.tapml is no language model that generates"),
        ({"tokenizer": None}, "a", {}, "little.tapml has no tokenizer: give the prompt as tokens"),
        ({}, "a", {"speculate": 3}, "little.tapml gives the logits of one token only, so no drafts can be verified"),
        (
            {"facts": FACTS.model_copy(update={"verify": "main"})},
            "a",
            {"speculate": 8},
            "8 tokens are to be guessed at a time: give a whole number from 1 to 7",
        ),
        ({"tokenizer": None}, [3], {"stop": ["a"]}, "little.tapml has no tokenizer, so tokens have no text"),
        (
            {"facts": FACTS.model_copy(update={"vocabulary": 4000})},
            "a",
            {},
            "the tokenizer does not belong to little: it has 4096 tokens, the model 4000",
        ),
        (
            {"facts": FACTS.model_copy(update={"vocabulary": 30522})},
            "a",
            {},
            "the tokenizer does not belong to little: it has 4096 tokens, the model 30522",
        ),
        (
            {"facts": FACTS.model_copy(update={"vocabulary": 5000, "end": [4999]})},
            "a",
            {},
            "the tokenizer does not belong to little: it has no token 4999",
        ),
    ],
)
def test_what_cannot_be_asked_for_is_refused_before_it_begins(
    changes: dict[str, Any], prompt: str | list[int], asked: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        begun(cast(Any, files(**changes)), prompt, Asked(**asked))


def test_several_texts_are_written_beside_each_other_until_all_are_over() -> None:
    first, second, third = ids(" upon a time there"), [*ids(" the king"), 1], ids(" in the wood")
    closed = []

    def source() -> Generator[tuple[int, Chosen]]:
        try:
            for place in range(9):
                for number, chosen in enumerate((first, second, third)):
                    # One that a stop text ended goes on being chosen.
                    if place < len(chosen):
                        yield number, Chosen(chosen[place], float(place))
            raise AssertionError("more tokens are taken than were asked for")
        finally:
            closed.append(True)

    asked = Asked(tokens=3, stop=["the wood"])
    texts = [begun(cast(Any, files()), prompt, asked) for prompt in ("Once", "Then", "Far")]
    with written_together(texts, source()) as several:
        pieces = list(several)
    assert closed == [True]
    found = [(result.text, result.reason) for result in several.results]
    assert found[0] == (TOKENIZER.decode(first[:3]), "length")
    assert found[1] == (TOKENIZER.decode(second[:-1]), "end") or found[1][1] == "length"
    assert found[2][1] in ("stop", "length")
    for number, result in enumerate(several.results):
        assert [piece.id for of, piece in pieces if of == number] == result.ids
    # In turn, as they were chosen.
    assert [number for number, _ in pieces][:6] == [0, 1, 2, 0, 1, 2]


def test_several_texts_that_are_closed_keep_what_was_written() -> None:
    def source() -> Generator[tuple[int, Chosen]]:
        while True:
            yield from ((number, Chosen(token, 0.0)) for number, token in enumerate(ids(" a king")[:2]))

    texts = [begun(cast(Any, files()), prompt, Asked()) for prompt in ("Once", "Then")]
    with written_together(texts, source()) as several:
        assert [next(several)[0] for _ in range(3)] == [0, 1, 0]
    assert [(len(result.ids), result.reason) for result in several.results] == [(2, "abort"), (1, "abort")]
    assert list(several) == []


def test_a_model_without_a_tokenizer_continues_tokens() -> None:
    text = begun(cast(Any, files(tokenizer=None)), [3, 4], Asked(tokens=7))
    assert isinstance(text, Text)
    assert (text.prompt, text.most) == ([3, 4], 7)
