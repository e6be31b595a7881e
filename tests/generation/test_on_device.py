"""Tokens that a device chooses: what becomes of texts whose GPU device is lost."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tapml.errors import DeviceLost
from tapml.generation import on_device
from tapml.generation.asked import Asked, begun
from tapml.generation.on_device import chosen_on_device
from tapml.generation.sampling import Sampling
from tapml.program.generation import Generation
from tapml.protocol.methods import GeneratedToken

FACTS = Generation(
    prefill="main", decode="main", chunk=8, capacity=30, vocabulary=99, end=[], begin=None, bytes_per_token=4
)


class Losing:
    """Chooses how many tokens a text has, and is lost when it has chosen `lives[n]` by its call n."""

    name = "losing"

    def __init__(self, lives: list[int], reason: str = "unknown") -> None:
        self.lives, self.reason = lives, reason
        self.calls: list[tuple[list[list[int]], int]] = []

    def call(self, method: Any, params: Any, *, on_progress: Callable[[Any], None], **_: Any) -> None:
        texts = [list(prompt) for prompt in params.prompts]
        self.calls.append(([list(text) for text in texts], params.tokens))
        life = self.lives.pop(0) if self.lives else 999
        for _turn in range(params.tokens):
            for number, text in enumerate(texts):
                if not life:
                    raise DeviceLost("the device was reset", device=self.name, reason=self.reason)
                life -= 1
                if len(text) > FACTS.capacity:
                    continue
                text.append(len(text))
                fields = {"text": number, "id": text[-1], "position": len(text) - 1, "seconds": 1.0, "guessed": False}
                on_progress(GeneratedToken(kind="token", **fields))


@pytest.fixture(autouse=True)
def _unserved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_device, "served_model", lambda blobs, files: nullcontext("0" * 64))


def chosen(device: Losing, prompts: list[list[int]], lost: list[DeviceLost], tokens: int | None) -> list[Any]:
    @contextmanager
    def holding(pieces: Any) -> Any:
        yield []

    model = SimpleNamespace(generation=FACTS, tokenizer=None, name="little")
    files = cast(Any, SimpleNamespace(model=model, path="little.tapml"))
    texts = [begun(files, prompt, Asked(Sampling(greedy=True), tokens)) for prompt in prompts]
    blobs = cast(Any, SimpleNamespace(holding=holding))
    wanted = sum(text.most for text in texts)
    found = []
    source = chosen_on_device(cast(Any, device), blobs, texts, lost=lost.append)
    for number, token in source:
        found.append((number, token.id, token.seconds))
        if len(found) == wanted:
            source.close()
    return found


def test_texts_go_on_on_the_next_device_behind_what_was_written() -> None:
    device, lost = Losing([5, 2]), []
    found = chosen(device, [[7, 7], [7, 7, 7]], lost, 6)
    for number, begin in ((0, 2), (1, 3)):
        assert [token for of, token, _ in found if of == number] == [*range(begin, begin + 6)]
    assert [len(text) for text, _ in device.calls] == [2, 2, 2]
    assert [tokens for _, tokens in device.calls] == [6, 4, 3]
    assert device.calls[1][0] == [[7, 7, 2, 3, 4], [7, 7, 7, 3, 4]]
    assert len(lost) == 2
    # Time goes on, too.
    assert found[-1][2] == 3


def test_one_that_is_full_needs_no_device() -> None:
    device, lost = Losing([4]), []
    found = chosen(device, [[7] * 29, [7]], lost, 10)
    assert [token for of, token, _ in found if of == 0] == [29, 30]
    assert [token for of, token, _ in found if of == 1] == [*range(1, 11)]
    assert [len(text) for text, _ in device.calls] == [2, 1]


@pytest.mark.parametrize(
    ("lives", "reason", "calls"), [([0], "unknown", 1), ([3, 0], "unknown", 2), ([3], "hung", 1), ([3], "gone", 1)]
)
def test_a_device_that_is_of_no_use_ends_the_text(lives: list[int], reason: str, calls: int) -> None:
    device, lost = Losing(lives, reason), []
    with pytest.raises(DeviceLost, match="the device was reset"):
        chosen(device, [[7, 7]], lost, 6)
    assert len(device.calls) == calls
