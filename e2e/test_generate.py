"""The language model that comes with tapml writes: in a page's worker, on devices, and as transformers has it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

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
from tapml.protocol.methods import KeptTexts
from tapml.server import Server
from written import PROMPT, SECONDS, STEPS, check, prompt_ids

pytestmark = [
    pytest.mark.slow,  # a software GPU takes a second for a token, and building the model a minute
    pytest.mark.torch,
]

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


@pytest.fixture
def site(tiny: Path, tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "tiny.tapml").symlink_to(tiny)
    for name, text in {"index.html": PAGE, "page.js": SCRIPT, "writing.js": WRITING, "worker.js": WORKER}.items():
        (folder / name).write_text(text)
    with served(folder) as server:
        yield address(server)


@pytest.mark.parametrize("browser", BROWSERS)
def test_a_worker_writes_what_transformers_writes(
    browser: str, site: str, tiny: Path, wanted: list[int], opened: Opened
) -> None:
    with opened(browser) as page:
        page.goto(site)
        wait_until(page, "globalThis.ready")
        found = page.evaluate(f"writtenByAWorker('tiny.tapml/', {json.dumps(PROMPT)}, {STEPS}, 20)")
        check([*found["first"]["ids"], *found["rest"]["ids"]], wanted, tiny)
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
    device: str, tiny: Path, wanted: list[int], tmp_path: Path
) -> None:
    report = tmp_path / "written.json"
    said = tapml(
        "generate", tiny, "--prompt", PROMPT, "--tokens", STEPS, "--greedy", "--device", device, "--json", report,
        timeout=SECONDS,
    )  # fmt: skip
    assert said.code == 0, said.err
    found = json.loads(report.read_text())
    check(found["ids"], wanted, tiny)
    assert said.out == found["text"] + "\n"
    assert (found["reason"], found["prompt_tokens"]) == ("length", len(prompt_ids()))
    assert "tokens a second" in said.err
    assert found["text"].startswith(", and a great darkness")


def test_samples_are_the_same_on_this_machine_and_on_a_device(tiny: Path) -> None:
    options = ["--tokens", 12, "--temperature", 0.8, "--top-k", 50, "--top-p", 0.95, "--repetition-penalty", 1.1]
    texts = []
    for device in ("cpu", "node-dawn"):
        given = ["generate", tiny, "--prompt", "The king said to", *options, "--seed", 4, "--device", device]
        said = tapml(*map(str, given), timeout=SECONDS)
        assert said.code == 0, said.err
        texts.append(said.out)
    assert texts[0] == texts[1]
    assert len(texts[0]) > 12


def test_a_text_whose_device_is_lost_goes_on_on_the_next(wanted: list[int], tiny: Path, people: People) -> None:
    """Once without, once with states that are kept on the device: those are made anew of the tokens."""
    page = people.browser("chromium").new_page()
    with Server() as server:
        with page.expect_worker():
            page.goto(server.state.runner_url)
        device = server.state.hub.wait_for(lambda found: True, 30)
        assert device is not None
        text = begun(CompiledFiles(tiny), PROMPT, Asked(Sampling(greedy=True), tokens=6))
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
