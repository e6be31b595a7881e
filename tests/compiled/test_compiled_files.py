"""Compiled models on disk, and their definition."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from compiled_models import doubled
from tapml.compiled.files import CompiledFiles, document_of, single_pieces, write_folder
from tapml.compiled.model import CompiledModel
from tapml.compiled.schema import schema
from tapml.errors import InputError

DOCS = Path(__file__).parents[2] / "docs"


def test_the_schema_on_disk_is_that_of_the_definitions() -> None:
    assert json.loads((DOCS / "model.schema.json").read_text()) == schema(), "run `make schemas`"


@pytest.fixture(params=["folder", "single"])
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    model, parts = doubled()
    path = tmp_path / "m.tapml"
    if request.param == "folder":
        path.mkdir()
        write_folder(path, model, parts.__getitem__)
    else:
        path.write_bytes(b"".join(single_pieces(model, parts.__getitem__)))
    return path


def test_what_was_written_is_read(written: Path) -> None:
    model, parts = doubled()
    files = CompiledFiles(written)
    assert files.model == model
    assert files.weights()[0].view(np.float32)[:2].tolist() == [2.0, 2.0]
    assert files.attachment("tokenizer.json") == parts["tokenizer.json"]
    with pytest.raises(InputError, match="has no attachment operators/x"):
        files.attachment("operators/x.json")


def test_damaged_bytes_are_named_by_their_digest(written: Path) -> None:
    model, _ = doubled()
    shard = model.weights.shards[0]
    place = written if written.is_file() else written / f"weights/{shard.sha256}.bin"
    data = place.read_bytes()
    at = data.rindex(np.float32(2).tobytes())
    place.write_bytes(data[:at] + b"\1" + data[at + 1 :])
    with pytest.raises(InputError, match=f"are not those of the digest {shard.sha256}; copy the model again"):
        CompiledFiles(written).weights()


def test_missing_and_cut_files_are_one_sentence(written: Path) -> None:
    model, _ = doubled()
    if written.is_file():
        written.write_bytes(written.read_bytes()[:-1])
        with pytest.raises(InputError, match="bytes, and its document says"):
            CompiledFiles(written)
        written.write_bytes(written.read_bytes()[:40])
        with pytest.raises(InputError, match="ends within its document"):
            CompiledFiles(written)
        written.write_bytes(b"not a model")
        with pytest.raises(InputError, match="does not begin with TAPMLM1"):
            CompiledFiles(written)
    else:
        shard = written / f"weights/{model.weights.shards[0].sha256}.bin"
        shard.unlink()
        with pytest.raises(InputError, match=r"\.bin is missing; copy the model again"):
            CompiledFiles(written).weights()
        shard.symlink_to("/etc/passwd")
        with pytest.raises(InputError, match="symbolic link"):
            CompiledFiles(written).weights()
        (written / "model.json").unlink()
        with pytest.raises(InputError, match="is no compiled model: it has no model"):
            CompiledFiles(written)


def test_a_wrong_field_is_named(tmp_path: Path) -> None:
    model, _ = doubled()
    document = document_of(model)
    document["functions"]["main"]["tensors"][0]["at"] = ["heap", 0, 0]
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"functions.main.tensors\[0\].at"):
        CompiledFiles(tmp_path)
    document["format"] = "tapml.model/2"
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match="written by a newer tapml"):
        CompiledFiles(tmp_path)


def test_a_document_is_the_same_after_reading() -> None:
    model, _ = doubled()
    document = document_of(model)
    assert document_of(CompiledModel.model_validate(json.loads(json.dumps(document)))) == document
    assert "encoding" not in document["functions"]["main"]["tensors"][0]
