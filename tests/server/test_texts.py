"""Texts that a suite's model writes on a device, each step beside the reference, and steps of them as tests."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from decoders import PROMPT, decoder
from tapml.building.build import build
from tapml.carving.carve import carve
from tapml.compiled.files import CompiledFiles
from tapml.devices.messages import digest_now
from tapml.generation.asked import Asked, begun
from tapml.generation.on_cpu import written_on_cpu
from tapml.generation.sampling import Sampling
from tapml.importing import import_decoder
from tapml.jobs.carved_step import StepSpecification
from tapml.jobs.written_text import TextSpecification
from tapml.server.jobs import RunningJob
from tapml.server.local import Server, create_app
from tapml.server.security import Security
from tapml.server.state import State
from tapml.suite import Suite

pytestmark = pytest.mark.torch

CAPACITY, CHUNK, STEPS = 40, 4, 2


@pytest.fixture(scope="module")
def decoded(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """Of a prompt that takes two calls."""
    folder = tmp_path_factory.mktemp("texts")
    given = {"prompt": PROMPT, "capacity": CAPACITY, "chunk": CHUNK, "steps": STEPS, "seed": 0}
    model = import_decoder(decoder("grouped queries", folder), **given)
    return carve(model, folder / "decoder.suite", name="decoder")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as made:
        yield made


@pytest.fixture
def copied(decoded: Suite, tmp_path: Path) -> Suite:
    shutil.copytree(decoded.path, tmp_path / "copied.suite")
    return Suite(tmp_path / "copied.suite")


def ended(job: RunningJob) -> list[dict[str, Any]]:
    assert job.done.wait(60)
    return job.events


def started(server: Server, suite: Suite, **asked: Any) -> RunningJob:
    given = {"device": "node-dawn", "prompt_ids": PROMPT, "tokens": 6, **asked}
    return server.state.jobs.start_text(TextSpecification(**given), suite, server.state.device)


def told(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] == kind]


def test_each_token_comes_with_its_step_and_what_the_reference_says_of_it(
    server: Server, decoded: Suite, tmp_path: Path
) -> None:
    build(decoded, tmp_path / "decoder.tapml")
    text = begun(CompiledFiles(tmp_path / "decoder.tapml"), PROMPT, Asked(Sampling(greedy=True), 6))
    with written_on_cpu([text]) as writing:
        wanted = [piece.id for _, piece in writing]
    job = started(server, decoded)
    events = ended(job)
    assert (job.state, job.document["ids"], job.document["reason"]) == ("done", wanted, "length")
    (prompt,) = told(events, "prompt")
    assert prompt["ids"] == PROMPT
    assert prompt["kernels"] == {name: digest_now(decoded, name) for name in decoded.kernels}
    tokens, compared = told(events, "token"), told(events, "compared")
    assert [token["id"] for token in tokens] == wanted
    # The prompt takes more than a call; the suite has a step of its last one, and of the next tokens.
    behind = [token["position"] for token in tokens]
    assert behind == [*range(len(PROMPT), len(PROMPT) + 6)]
    assert [token["function"] for token in tokens] == ["prefill", *5 * ["decode"]]
    assert [token["tokens"] for token in tokens] == [len(PROMPT), *5 * [1]]
    steps = [step["function"] for step in decoded.manifest["steps"]]
    first = len(steps) - STEPS - 1
    assert [token["carved"] for token in tokens] == [first, first + 1, first + 2, None, None, None]
    assert all(token["states"] > 0 and token["seconds"] > 0 for token in tokens)
    assert [one["position"] for one in compared] == behind
    assert all(one["within"] and one["greedy"] == one["reference_greedy"] for one in compared)
    assert [one["reference_greedy"] for one in compared] == wanted


def test_a_wrong_kernel_is_seen_in_the_step_where_its_token_parts(server: Server, copied: Suite) -> None:
    kernel = next(name for name in copied.kernels if name.startswith("matmul") and name.endswith("decode"))
    for file in copied.kernel_files(kernel):
        path = copied.path / "kernels" / file.name
        text = path.read_text()
        path.write_text(text.replace(" = fma(", " = -fma(", 1))
        assert path.read_text() != text
    job = started(server, Suite(copied.path))
    compared = told(ended(job), "compared")
    # The prompt is computed by other kernels.
    assert compared[0]["within"]
    assert not compared[1]["within"]
    assert compared[1]["greedy"] != compared[1]["reference_greedy"]
    assert compared[1]["margin"] > 0


def test_a_cancel_keeps_what_was_written(server: Server, decoded: Suite) -> None:
    job = started(server, decoded, tokens=CAPACITY - len(PROMPT))
    while not told(job.events, "token") and not job.done.is_set():
        threading.Event().wait(0.01)
    job.cancel.set()
    events = ended(job)
    assert job.state == "cancelled"
    assert job.document["ids"] == [token["id"] for token in told(events, "token")]
    assert 0 < len(job.document["ids"]) < CAPACITY - len(PROMPT)


def test_a_step_of_a_text_becomes_tests_of_the_suite(server: Server, copied: Suite) -> None:
    before = len(copied.tests)
    asked = StepSpecification(device="node-dawn", ids=[*PROMPT, 7, 9], prompt_tokens=len(PROMPT))
    job = server.state.jobs.start_step(asked, copied, server.state.device)
    events = ended(job)
    assert (job.state, job.error) == ("done", None)
    document = job.document
    assert document["function"] == "decode"
    assert document["summary"]["pass"] == len(document["calls"]) == len(told(events, "compare")) > 20
    nodes = {node.id for node in copied.graph.nodes}
    assert {call["node"] for call in document["calls"]} <= nodes
    again = Suite(copied.path)
    assert len(again.tests) > before
    assert {call["test"] for call in document["calls"]} <= {test.id for test in again.tests}


@pytest.fixture
def client(decoded: Suite, suite: Suite) -> Iterator[FlaskClient]:
    state = State(Security("127.0.0.1"), url="http://127.0.0.1:1")
    state.suites.add(decoded.path)
    state.suites.add(suite.path)
    yield create_app(state).test_client()
    state.close()


@pytest.mark.parametrize(
    ("path", "changes", "sentence"),
    [
        ("decoder/texts", {"prompt_ids": []}, "the prompt is empty: give text, or tokens as numbers"),
        (
            "decoder/texts",
            {"prompt_ids": None, "prompt": "Once"},
            "decoder has no tokenizer: give the prompt",
        ),
        ("decoder/texts", {"temperature": 2.0}, "greedy takes the most likely token, and temperature is for draws"),
        ("decoder/texts", {"tokens": 0}, "the text: tokens"),
        ("small/texts", {}, "is of no language model that generates"),
        ("small/steps", {}, "is of no language model that generates"),
        ("decoder/steps", {"prompt_tokens": 9}, "the prompt has 9 tokens, and the text 3: give all of it"),
        ("decoder/steps", {"ids": [3, 999]}, "999 is no token of the model"),
        ("decoder/steps", {"ids": [3] * 41}, "the text has 41 tokens, and the model has room for 40"),
    ],
)
def test_what_cannot_be_written_is_one_sentence(
    client: FlaskClient, path: str, changes: dict[str, Any], sentence: str
) -> None:
    of_text = {"device": "node-dawn", "prompt_ids": [3, 5], "tokens": 4}
    of_step = {"device": "node-dawn", "ids": [3, 5, 7], "prompt_tokens": 2}
    body = {**(of_text if path.endswith("texts") else of_step), **changes}
    answer = client.post(f"/api/suites/{path}", json=body, headers={"X-Tapml": "1"})
    assert answer.status_code == 400
    assert sentence in answer.json["error"]


def test_a_prompt_that_does_not_fit_ends_the_job_with_a_sentence(server: Server, decoded: Suite) -> None:
    job = started(server, decoded, prompt_ids=[3] * (CAPACITY + 2))
    ended(job)
    assert job.state == "failed"
    assert job.given
    assert job.error is not None
    assert "the prompt has 42 tokens, and decoder has room for 40: leave 2 out" in job.error


def test_a_page_is_told_how_a_suite_of_a_language_model_writes(client: FlaskClient) -> None:
    facts = client.get("/api/suites/decoder").json["generation"]
    assert facts["capacity"] == CAPACITY
    assert (facts["tokenizer"], facts["encoder"], facts["prompt"]) == (False, False, None)
    assert client.get("/api/suites/small").json["generation"] is None
