"""The language model that comes with tapml writes: in a page's worker, on devices, and as transformers has it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

import tapml as tml
from pages import BROWSERS, Opened, People
from preloaded import tapml
from sites import address, served, wait_until
from tapml.compiled.files import CompiledFiles
from tapml.generation.asked import Asked, begun
from tapml.generation.on_device import chosen_on_device
from tapml.generation.sampling import Sampling
from tapml.generation.writing import written_alone
from tapml.models import folder_of
from tapml.protocol.methods import KeptTexts
from tapml.server import Server
from workers import made_once

pytestmark = [
    pytest.mark.slow,  # a software GPU takes a second for a token, and building the model a minute
    pytest.mark.torch,
]

SECONDS = 1500
"""For a command: a software GPU may take seconds for a token, where others work on the machine."""
PROMPT, STEPS = "It was a dark and stormy night", 64
PAGE = '<!doctype html><meta charset="utf-8"><title>tiny</title><script type="module" src="page.js"></script>'
WRITING = """\
import { load } from "./tapml-runtime.js";
import { Tokenizer } from "./tapml-tokenizer.js";
import { GenerationError, Writer } from "./tapml-generation.js";

async function all(pieces, told) {
  const texts = [];
  for (;;) {
    const { value, done } = await pieces.next();
    if (done) return { ...value, texts };
    texts.push(value.text);
    told(texts.length);
  }
}

/** `tokens` of them, aborted after some and gone on with (if `lose`, on another device); then of one more prompt. */
export async function written(url, prompt, tokens, some, lose) {
  const model = await load(url, { unvalidated: "ignore" });
  const writer = new Writer(model, new Tokenizer(await model.tokenizer()));
  const stop = new AbortController();
  const first = await all(writer.generate({ prompt, tokens, greedy: true, signal: stop.signal }), (count) => {
    if (count === some) stop.abort();
  });
  if (lose) model.device.destroy();
  const rest = await all(writer.generate({ tokens: tokens - some, greedy: true }), () => {});
  const promptIds = writer.tokens.slice(0, -1);
  const again = await all(writer.generate({ promptIds, tokens: 1, greedy: true }), () => {});
  const message = (cause) => cause instanceof GenerationError && cause.message;
  const refused = await writer.generate({ prompt: "" }).next().catch(message);
  model.dispose();
  return { first, rest, again, refused };
}
"""
SCRIPT = """\
import { written } from "./writing.js";
let refused = 0;
addEventListener("securitypolicyviolation", () => refused++);
globalThis.written = async (...given) => ({ ...(await written(...given)), violations: refused });
globalThis.writtenByAWorker = (url, ...given) =>
  new Promise((resolve, reject) => {
    const worker = new Worker("worker.js", { type: "module" });
    worker.onmessage = ({ data }) => {
      worker.terminate();
      data.why ? reject(new Error(data.why)) : resolve({ ...data, violations: refused });
    };
    worker.onerror = () => reject(new Error("the worker does not start"));
    worker.postMessage([new URL(url, location.href).href, ...given]);
  });
globalThis.ready = true;
"""
WORKER = """\
import { written } from "./writing.js";
addEventListener("message", ({ data }) => {
  written(...data).then(postMessage, (cause) => postMessage({ why: String(cause) }));
});
"""


def build_tiny(path: Path) -> None:
    """As `tapml generate tiny` does when it is first called; it is found again in the cache."""
    path.mkdir()
    said = tapml(
        *("generate", "tiny", "--prompt", "Once", "--tokens", 1),
        environment={**os.environ, "TAPML_CACHE": str(path)},
        timeout=SECONDS,
    )
    assert said.code == 0, said.err
    assert "building tiny, once" in said.err


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cache = made_once(tmp_path_factory, "cache", build_tiny)
    (found,) = cache.glob("language-models/tiny-[0-9a-f]*.tapml")
    return found


@pytest.fixture(scope="module")
def wanted() -> list[int]:
    return of_transformers(PROMPT)


def of_transformers(prompt: str) -> list[int]:
    """The tokens of transformers, with its own cache."""
    from tapml.importing.hf_import import greedy
    from tapml.importing.hf_model import open_decoder

    decoder = open_decoder(folder_of("tiny"))
    return greedy(decoder.model, prompt_ids(prompt), STEPS)


def prompt_ids(prompt: str = PROMPT) -> list[int]:
    from tokenizers import Tokenizer

    return list(Tokenizer.from_file(str(folder_of("tiny") / "tokenizer.json")).encode(prompt).ids)


def check(found: Sequence[int], wanted: Sequence[int], path: Path) -> None:
    """Equal, or else the step where they part is told, with how near the two tokens' logits are on the CPU."""
    parted = next((step for step, pair in enumerate(zip(found, wanted, strict=True)) if pair[0] != pair[1]), None)
    if parted is None:
        return
    model = tml.load_model(path)
    before = [*prompt_ids(), *wanted[:parted]]
    calls = [
        {
            "input_ids": np.array([[token]], np.int32),
            "positions": np.array([place], np.int32),
            "last": np.zeros(1, np.int32),
        }
        for place, token in enumerate(before)
    ]
    facts = model.files.model.generation
    assert facts is not None
    logits = model.run_calls(calls, function=facts.decode).outputs[-1]["logits"][0]
    gap = abs(float(logits[found[parted]]) - float(logits[wanted[parted]]))
    pytest.fail(
        f"tokens part at step {parted}: {found[parted]} in place of {wanted[parted]}, whose logits are {gap:.2g} apart"
    )


@pytest.fixture
def site(model: Path, tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "tiny.tapml").symlink_to(model)
    for name, text in {"index.html": PAGE, "page.js": SCRIPT, "writing.js": WRITING, "worker.js": WORKER}.items():
        (folder / name).write_text(text)
    with served(folder) as server:
        yield address(server)


@pytest.mark.parametrize("browser", BROWSERS)
def test_a_worker_writes_what_transformers_writes(
    browser: str, site: str, model: Path, wanted: list[int], opened: Opened
) -> None:
    with opened(browser) as page:
        page.goto(site)
        wait_until(page, "globalThis.ready")
        found = page.evaluate(f"writtenByAWorker('tiny.tapml/', {json.dumps(PROMPT)}, {STEPS}, 20)")
        check([*found["first"]["ids"], *found["rest"]["ids"]], wanted, model)
        assert (found["first"]["reason"], found["rest"]["reason"]) == ("abort", "length")
        assert len(found["first"]["ids"]) == 20
        for part in ("first", "rest"):
            assert "".join(found[part]["texts"]) == found[part]["text"]
        # All but its last token is in the states.
        tokens = len(prompt_ids()) + STEPS - 1
        assert (found["again"]["promptTokens"], found["again"]["reusedTokens"]) == (tokens, tokens - 1)
        assert found["again"]["ids"] == wanted[-1:]
        assert found["refused"].startswith("the prompt is empty")
        here = page.evaluate(f"written('tiny.tapml/', {json.dumps(PROMPT)}, 3, 1, true)")
        assert [*here["first"]["ids"], *here["rest"]["ids"]] == wanted[:3]
        assert found["violations"] == here["violations"] == 0


@pytest.mark.parametrize("device", ["cpu", "node-dawn"])
def test_the_command_writes_what_transformers_writes(
    device: str, model: Path, wanted: list[int], tmp_path: Path
) -> None:
    report = tmp_path / "written.json"
    said = tapml(
        "generate", model, "--prompt", PROMPT, "--tokens", STEPS, "--greedy", "--device", device, "--json", report,
        timeout=SECONDS,
    )  # fmt: skip
    assert said.code == 0, said.err
    found = json.loads(report.read_text())
    check(found["ids"], wanted, model)
    assert said.out == found["text"] + "\n"
    assert (found["reason"], found["prompt_tokens"]) == ("length", len(prompt_ids()))
    assert "tokens a second" in said.err
    assert found["text"].startswith(", and a great darkness")


def test_guesses_change_nothing_but_the_calls(wanted: list[int], model: Path, tmp_path: Path) -> None:
    cache = {**os.environ, "TAPML_CACHE": str(model.parents[1])}
    for device in ("cpu", "node-dawn"):
        report = tmp_path / f"{device}.json"
        given = ["--prompt", PROMPT, "--tokens", 40, "--greedy", "--device", device, "--json", report]
        said = tapml("generate", "tiny", *given, "--speculate", "ngram", environment=cache, timeout=SECONDS)
        assert said.code == 0, said.err
        found = json.loads(report.read_text())
        check(found["ids"], wanted[:40], model)
        assert found["guessed"] > 10
        assert "tokens guessed rightly" in said.err


@pytest.mark.parametrize("device", ["cpu", "node-dawn", *BROWSERS])
def test_texts_in_one_call_are_those_of_transformers(device: str, model: Path, tmp_path: Path) -> None:
    """Of different lengths; two begin alike with more than a block."""
    prompts = ["Once upon a time", PROMPT * 3, "The", f"{PROMPT * 3}, and"]
    report = tmp_path / "written.json"
    given = [part for prompt in prompts for part in ("--prompt", prompt)]
    cache = {**os.environ, "TAPML_CACHE": str(model.parents[1])}
    options = ["--tokens", STEPS, "--greedy", "--device", device, "--json", report]
    said = tapml("generate", "tiny", *given, *map(str, options), environment=cache, timeout=SECONDS)
    assert said.code == 0, said.err
    # Built once, for one text and for several.
    assert list(model.parent.glob("*.tapml")) == [model]
    texts = json.loads(report.read_text())["texts"]
    for prompt, text in zip(prompts, texts, strict=True):
        expected = of_transformers(prompt)
        assert text["ids"] == expected[: len(text["ids"])], prompt
        assert text["reason"] == "end" or len(text["ids"]) == STEPS


def test_samples_are_the_same_on_this_machine_and_on_a_device(model: Path) -> None:
    options = ["--tokens", 12, "--temperature", 0.8, "--top-k", 50, "--top-p", 0.95, "--repetition-penalty", 1.1]
    texts = []
    for device in ("cpu", "node-dawn"):
        given = ["generate", model, "--prompt", "The king said to", *options, "--seed", 4, "--device", device]
        said = tapml(*map(str, given), timeout=SECONDS)
        assert said.code == 0, said.err
        texts.append(said.out)
    assert texts[0] == texts[1]
    assert len(texts[0]) > 12


def test_a_text_whose_device_is_lost_goes_on_on_the_next(wanted: list[int], model: Path, people: People) -> None:
    """Once without, once with states that are kept on the device: those are made anew of the tokens."""
    page = people.browser("chromium").new_page()
    with Server() as server:
        with page.expect_worker():
            page.goto(server.state.runner_url)
        device = server.state.hub.wait_for(lambda found: True, 30)
        assert device is not None
        text = begun(CompiledFiles(model), PROMPT, Asked(Sampling(greedy=True), tokens=6))
        lost: list[tml.DeviceLost] = []
        kept = KeptTexts(writer="w", forks={}, drop=[])
        for found in (None, kept):
            source = chosen_on_device(device, server.state.blobs, [text], kept=found, lost=lost.append)
            with written_alone(text, source) as writing:
                for _ in range(3):
                    next(writing)
                page.workers[0].evaluate("tapmlDevice.destroy()")
                list(writing)
            assert (writing.result.ids, writing.result.reason) == (wanted[:6], "length")
        assert [error.lost_reason for error in lost] == ["destroyed"] * 2
        page.close()
