"""A decoder of transformers from its configuration to tokens that a compiled model gives."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapml as tml
from decoders import PROMPT, calls, decoder
from tapml.building.build import build
from tapml.cli import main
from tapml.program.generation import call_inputs
from tapml.suite import Suite

pytestmark = pytest.mark.torch

STEPS = 40
CAPACITY = 96
"""More than there is room for at first."""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return decoder("grouped queries", tmp_path_factory.mktemp("decoder"))


@pytest.fixture(scope="module")
def suite(config: Path) -> Suite:
    path = config.parent / "decoder.suite"
    prompt = ",".join(map(str, PROMPT))
    options = ["--prompt-ids", prompt, "--capacity", str(CAPACITY), "--chunk", "16", "--steps", "2", "--speculate", "3"]
    assert main(["carve", "--hf", str(config), *options, "-o", str(path)]) == 0
    return Suite(path)


def test_every_operator_is_held_against_pytorch_with_the_states_that_it_left(suite: Suite) -> None:
    """The second step's cache_append only moves numbers: given our own states, it would differ from PyTorch's in their
    last places."""
    operators = suite.manifest["oracle"]["operators"]
    assert operators["held"] == operators["of"] > 100
    assert suite.doubts == []


def test_caches_begin_with_zeros(suite: Suite) -> None:
    """And not with what the comparison with transformers left: no model carries that along."""
    assert [state.initial for state in suite.program.states] == [None] * 4


def test_a_compiled_model_gives_the_tokens_of_transformers(suite: Suite, config: Path, tmp_path: Path) -> None:
    """By its two functions, each with the states that the other left; and by prefill alone, in calls of other lengths
    than it was carved with."""
    from tapml.importing.hf_import import greedy
    from tapml.importing.hf_model import open_decoder

    wanted = greedy(open_decoder(config).model, PROMPT, STEPS)
    assert len(set(wanted)) > 10
    tokens = [*PROMPT, *wanted]
    model = tml.build(suite, tmp_path / "decoder.tapml")
    made = calls(tokens, [3, 4, len(PROMPT), *range(len(PROMPT) + 1, len(tokens))])
    for device in (tml.cpu(), tml.webgpu("node-dawn")):
        outputs = model.run_calls(made, device, function="prefill").outputs
        got = [int(np.argmax(found["logits"])) for found in outputs[2:]]
        assert got == wanted, device
        writing = tml.generate(model, PROMPT, device, tokens=STEPS, greedy=True)
        assert [piece.id for piece in writing] == wanted, device


def test_prompt_and_tokens_are_steps_of_two_functions_that_share_weights_and_states(suite: Suite) -> None:
    assert [step["function"] for step in suite.manifest["steps"]] == ["prefill", "decode", "decode", "prefill"]
    prefill, decode = (suite.program.functions[name] for name in ("prefill", "decode"))
    assert prefill.states.keys() == decode.states.keys() == {"keys0", "values0", "keys1", "values1"}
    weights = [{v.id for v in found.values.values() if v.kind == "parameter"} for found in (prefill, decode)]
    assert weights[0] == weights[1] == suite.parameters.keys()
    for name, found in suite.program.functions.items():
        tested = {test.node for test in suite.tests if suite.step_functions[test.step] == name}
        assert tested == {node.id for node in found.nodes if node.kind == "kernel"}
    symbolic = {name for name in suite.kernels if suite.bundle(name)["symbols"]}
    assert symbolic
    assert not symbolic & {node.kernel for node in decode.nodes}


@pytest.mark.slow
def test_kernels_of_one_token_move_to_a_device_with_those_of_many(
    suite: Suite, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["offload", str(suite.path), "--device", "node-dawn", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["final"]["verdict"] == "pass"
    assert found["summary"]["offloaded_nodes"] == found["summary"]["nodes"] == len(suite.model_graph.kernel_nodes)


def test_a_function_that_nobody_names_is_asked_for(
    suite: Suite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tml.build(suite, tmp_path / "decoder.tapml")
    path = str(tmp_path / "decoder.tapml")
    assert main(["run", path, "--random-inputs"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "there is no function main: it has prefill, decode; it is a language model, which `tapml generate`" in said
    assert main(["run", path, "--random-inputs", "--function", "decode"]) == 0
    assert "logits float32[1, 128]" in " ".join(capsys.readouterr().out.split())


def test_suite_and_model_say_how_tokens_are_generated(
    suite: Suite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = build(suite, tmp_path / "decoder.tapml", ranges={"tokens": (1, 5)}).model
    assert suite.generation is not None
    assert model.generation is not None
    assert model.generation.model_dump() == {**suite.generation.model_dump(), "chunk": 5, "places": "places"}
    grows = ", reserved as a text grows"
    for path, most, grown in ((suite.path, 16, ""), (tmp_path / "decoder.tapml", 5, grows)):
        assert main(["show", str(path)]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        taken = f"a call of prefill takes 1 to {most} tokens, one of decode takes 1"
        said = f"{taken}; 96 fit, 512 B each{grown}; token 0 to 127,"
        assert f"generation {said}" in shown


def test_a_token_beyond_the_capacity_is_refused_whether_or_not_a_table_is_read(suite: Suite, tmp_path: Path) -> None:
    """Bloom and its kin have no table of positions: its place in the caches would be left out without a word."""
    copied = tmp_path / "copied.suite"
    shutil.copytree(suite.path, copied)
    manifest = json.loads((copied / "suite.json").read_text())
    manifest["generation"]["capacity"] = 40
    (copied / "suite.json").write_text(json.dumps(manifest))
    build(Suite(copied), tmp_path / "decoder.tapml")
    model = tml.load_model(tmp_path / "decoder.tapml")
    for function in ("prefill", "decode"):
        with pytest.raises(tml.InputError, match=r"input positions is 40 at \[0\], and must be from 0 to 39"):
            model.run_calls([call_inputs([3], 40)], function=function)


def test_a_model_that_takes_no_single_token_is_not_built(suite: Suite, tmp_path: Path) -> None:
    with pytest.raises(tml.InputError, match="tokens is to be 2 or more: give a --range tokens=1:8"):
        build(suite, tmp_path / "decoder.tapml", ranges={"tokens": (2, 8)})


def test_a_suite_whose_functions_do_not_generate_is_refused(suite: Suite, tmp_path: Path) -> None:
    copied = tmp_path / "copied.suite"
    shutil.copytree(suite.path, copied)
    manifest = json.loads((copied / "suite.json").read_text())
    for field, wrong, said in (
        ("decode", "next", "suite.json: generation: decode: there is no function next"),
        ("vocabulary", 127, r"suite.json: generation: prefill: prefill has no output logits float32\[wanted, 127\]"),
        ("chunk", 0, "suite.json: generation.chunk: "),
    ):
        changed = {**manifest, "generation": {**manifest["generation"], field: wrong}}
        (copied / "suite.json").write_text(json.dumps(changed))
        with pytest.raises(tml.InputError, match=said):
            Suite(copied)


def test_a_model_without_a_tokenizer_prints_its_tokens(suite: Suite, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["generate", str(suite.path), "--prompt-ids", "3,17,42", "--tokens", "4", "--greedy"]
    assert main([*arguments, "--json", "-"]) == 0
    ids = json.loads(capsys.readouterr().out)["ids"]
    assert main(arguments) == 0
    assert capsys.readouterr().out.split() == [str(token) for token in ids]


@pytest.mark.slow
def test_generate_gives_the_tokens_of_transformers_on_every_device(suite: Suite, config: Path, tmp_path: Path) -> None:
    """The prompt in chunks of 16, and of what follows as much as fits: none of it is the token that ends a text."""
    from tapml.importing.hf_import import greedy
    from tapml.importing.hf_model import open_decoder

    prompt = [*range(22)]
    room = CAPACITY - len(prompt)
    # The last token needs no place: nothing follows it.
    wanted = greedy(open_decoder(config).model, prompt, room + 1)
    assert len(set(wanted)) > 20
    model = tml.build(suite, tmp_path / "decoder.tapml")
    # One that is always right: each call gives what it guessed, and one token more.
    draft = tml.load_model(shutil.copytree(model.path, tmp_path / "draft.tapml"))
    sampled: list[list[int]] = []
    for device in (tml.cpu(), tml.webgpu("node-dawn"), tml.webgpu("deno")):
        with tml.generate(model, prompt, device, greedy=True) as writing:
            assert [piece.id for piece in writing] == wanted, device
        assert writing.result.reason == "capacity"
        guessing = tml.generate(model, prompt * 2, device, greedy=True, tokens=9, speculate=3)
        plain = tml.generate(model, prompt * 2, device, greedy=True, tokens=9)
        assert [piece.id for piece in guessing] == [piece.id for piece in plain]
        by_draft = tml.generate(model, prompt, device, greedy=True, speculate=3, draft=draft)
        assert [piece.id for piece in by_draft] == wanted, device
        assert by_draft.result.tokens_per_call == pytest.approx(4, abs=0.2)
        drawn = tml.generate(model, prompt, device, tokens=20, temperature=1.5, top_k=40, top_p=0.9, seed=5)
        sampled.append([piece.id for piece in drawn])
        closed = tml.generate(model, prompt, device, greedy=True)
        assert next(closed).id == wanted[0]
        closed.close()
        assert (closed.result.ids, closed.result.reason) == (wanted[:1], "abort")
    assert sampled[0] == sampled[1] == sampled[2]
    assert len(set(sampled[0])) > 5


def test_a_writer_generates_where_its_states_are_and_forks_them(suite: Suite, tmp_path: Path) -> None:
    model = tml.build(suite, tmp_path / "decoder.tapml")
    prompt = [*range(22)]
    drawn: dict[str, Any] = {"temperature": 1.5, "seed": 5, "tokens": 12}
    wanted = [piece.id for piece in tml.generate(model, prompt, greedy=True, tokens=60)]
    other = [piece.id for piece in tml.generate(model, [*prompt, *wanted[:8]], **drawn)]
    for device in (tml.cpu(), tml.webgpu("node-dawn")):
        with tml.Writer(model, device) as writer:
            assert [piece.id for piece in writer.generate(prompt, greedy=True, tokens=8)] == wanted[:8]
            with writer.fork() as forked, writer.fork():
                writing = writer.generate(greedy=True)
                assert [next(writing).id for _ in range(4)] == wanted[8:12], device
                for busy in (writer.fork, writer.generate):
                    with pytest.raises(tml.InputError, match="the writer is writing"):
                        busy()
                writing.close()
                assert [piece.id for piece in forked.generate(**drawn)] == other, device
                # Behind the room for 64, which the states of both have by now.
                assert [piece.id for piece in writer.generate(greedy=True, tokens=48)] == wanted[12:], device
            assert writer.tokens == [*prompt, *wanted]
            assert [piece.id for piece in writer.generate(prompt, greedy=True, tokens=3)] == wanted[:3]


@pytest.mark.slow
def test_several_texts_are_those_of_separate_runs(suite: Suite, tmp_path: Path) -> None:
    """One of them ends where no more tokens fit, one at a token, and one at a length, behind the room for 64."""
    model = tml.build(suite, tmp_path / "decoder.tapml")
    prompts = [[*range(90)], [3, 17, 42], [*range(60)]]
    asked: dict[str, Any] = {"tokens": 12, "temperature": 1.5, "seed": 3}
    (ends, *_) = [piece.id for piece in tml.generate(model, prompts[1], **asked)][4:]
    asked["stop_ids"] = [ends]
    for device in (tml.cpu(), tml.webgpu("node-dawn")):
        alone = [tml.generate(model, prompt, device, **asked) for prompt in prompts]
        written = [[piece.id for piece in writing] for writing in alone]
        reasons = [writing.result.reason for writing in alone]
        assert reasons[0] == "capacity"
        assert reasons[1] == "stop"
        with tml.generate_several(model, prompts, device, **asked) as several:
            pieces = list(several)
        assert [result.ids for result in several.results] == written, device
        assert [result.reason for result in several.results] == reasons
        assert [[piece.id for of, piece in pieces if of == number] for number in range(3)] == written
    with pytest.raises(tml.InputError, match="prompts is no list with something in it"):
        tml.generate_several(model, [])


@pytest.mark.slow
def test_an_encoder_and_its_decoder_give_the_tokens_of_transformers(tmp_path: Path) -> None:
    """Of a source of another length than they were carved with."""
    from tapml.carving.carve import carve
    from tapml.importing import import_decoder
    from tapml.importing.hf_encoder import source_of
    from tapml.importing.hf_import import greedy
    from tapml.importing.hf_model import open_decoder

    seed, config = 5, decoder("encoder of tokens", tmp_path)
    given = {"capacity": 64, "chunk": 16, "seed": seed, "prompt": PROMPT, "steps": 1}
    models = {}
    for part in ("encoder", "decoder"):
        suite = carve(import_decoder(config, encoder=part == "encoder", **given), tmp_path / f"{part}.suite", name=part)
        models[part] = tml.build(suite, tmp_path / f"{part}.tapml")
    opened = open_decoder(config, seed).model
    source = source_of(opened, [5, 90, 33, 4, 71, 8, 20, 61, 17, 2, 11, 44, 3], 0)
    wanted = greedy(opened, PROMPT, STEPS, source)
    assert len(set(wanted)) > 5
    tokens = [*PROMPT, *wanted]
    for device in (tml.cpu(), tml.webgpu("node-dawn")):
        (cross,) = models["encoder"].run_calls([{"source": source["input_ids"].numpy()}], device).outputs
        made = calls(tokens, [4, *range(len(PROMPT), len(tokens))])
        outputs = models["decoder"].run_calls([{**call, **cross} for call in made], device).outputs
        assert [int(np.argmax(found["logits"])) for found in outputs[1:]] == wanted, device


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("positions", 96, r"positions is 96 at \[0\], and must be from 0 to 95"),
        ("positions", -1, r"positions is -1 at \[0\], and must be from 0 to 95"),
        ("input_ids", 128, r"input_ids is 128 at \[0, 0\], and must be from 0 to 127"),
        ("input_ids", -1, r"input_ids is -1 at \[0, 0\], and must be from 0 to 127"),
    ],
)
def test_what_no_table_has_is_refused(suite: Suite, tmp_path: Path, name: str, wrong: int, said: str) -> None:
    """Neither counts from the end, as an index of PyTorch's may: its embeddings do not."""
    model = tml.build(suite, tmp_path / "decoder.tapml")
    (call,) = calls([5], [1])
    for function in ("prefill", "decode"):
        with pytest.raises(tml.TapmlError, match=said):
            model.run_calls([{**call, name: np.full_like(call[name], wrong)}], function=function)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give one model: MODEL, or --hf"),
        (["model.onnx", "--hf", "config.json"], "give one model: MODEL, or --hf"),
        (["model.onnx", "--prompt", "Once"], "--prompt is for decoders of transformers"),
        (["--hf", "config.json", "--prompt", "Once", "--prompt-ids", "1,2"], "not both"),
        (["--hf", "config.json", "--text", "Once"], "a decoder takes a prompt"),
        (["--hf", "nothing.json"], "nothing.json: there is no such file"),
    ],
)
def test_options_that_do_not_go_together(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["carve", *arguments, "-o", str(tmp_path / "x.suite")]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
