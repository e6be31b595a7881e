"""A model with an encoder, from its configuration to a text: the encoder is run once, and the decoder writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapml as tml
from decoders import decoder
from tapml.cli import main
from tapml.errors import InputError

pytestmark = [pytest.mark.torch, pytest.mark.slow]  # two models each, carved and built

STEPS = 24
SOURCES = {"encoder of tokens": [21, 7, 90, 1, 33], "encoder of features": None}


def built(config: Path, name: str, *options: str) -> tml.CompiledModel:
    suite = config.parent / f"{name}.suite"
    assert main(["carve", "--hf", str(config), *options, "-o", str(suite)]) == 0
    return tml.build(suite, suite.with_suffix(".tapml"))


@pytest.mark.parametrize("kind", SOURCES)
def test_tokens_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    from tapml.importing.hf_encoder import source_of
    from tapml.importing.hf_import import greedy
    from tapml.importing.hf_model import open_decoder

    config = decoder(kind, tmp_path)
    model = open_decoder(config).model
    source: Any = SOURCES[kind]
    if source is None:
        source = next(iter(source_of(model, None, 5).values())).numpy()
        np.save(tmp_path / "source.npy", source)
        given = ["--source-file", str(tmp_path / "source.npy")]
    else:
        given = ["--source-ids", ",".join(map(str, source))]
    encoder = built(config, "encoder", *given, "--encoder")
    begin = model.config.decoder_start_token_id
    found = built(config, "decoder", *given, "--prompt-ids", f"{begin},5", "--capacity", "64", "--steps", "1")
    generation = found.files.model.generation
    assert generation is not None
    assert (generation.begin, generation.given) == (begin, encoder.outputs)

    wanted = greedy(model, [begin], STEPS, source_of(model, source, 0))
    for device in (tml.cpu(), tml.webgpu("node-dawn")):
        for prompt in (None, [begin]):
            options = {"encoder": encoder, "source": source, "tokens": STEPS, "greedy": True, "stop_ids": []}
            writing = tml.generate(found, prompt, device, **options)
            ids = [piece.id for piece in writing]
            # transformers was not asked to end.
            assert ids == wanted[: len(ids)], device
            assert len(ids) == STEPS or writing.result.reason == "end"
    with pytest.raises(InputError, match="attends to what its encoder leaves: give the encoder"):
        tml.generate(found, [begin])
    with pytest.raises(InputError, match="an encoder and its source are given together"):
        tml.generate(found, [begin], encoder=encoder)
    with pytest.raises(InputError, match="is no language model that generates"):
        tml.generate(encoder, [begin])
