"""@tapml/runtime/generation with the page's tokenizer, as pages load them: the pieces of a text are those of Python."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

import tapml
from tapml.browsers.headless import find_runtime
from tapml.generation.stream import TextStream
from tapml.models import folder_of
from tokenizers_of_all_kinds import ALL, texts

MODULES = Path(tapml.__file__).parent / "server/static/runtime"
SCRIPT = """\
import { readFileSync } from "node:fs";
const [folder, file] = process.argv.slice(1);
const { Tokenizer } = await import(`${folder}/tapml-tokenizer.js`);
const { generate } = await import(`${folder}/tapml-generation.js`);
const { tokenizer: json, vocabulary, sequences } = JSON.parse(readFileSync(file, "utf8"));
const tokenizer = new Tokenizer(json);
const facts = { prefill: "main", decode: "main", chunk: 8, capacity: 4096, vocabulary, end: [], begin: null };
const found = [];
for (const { before, ids } of sequences) {
  const run = async ({ positions: { data } }) => {
    const logits = new Float32Array(vocabulary);
    logits[ids[data.at(-1) + 1 - before.length]] = 1;
    return { logits };
  };
  const model = { name: "told", generation: facts, stateVersion: 0, functions: { main: { run } } };
  const pieces = [];
  const asked = { promptIds: before, tokens: ids.length, greedy: true };
  for await (const { id, text } of generate(model, tokenizer, asked)) {
    if (id !== ids[pieces.length]) throw new Error(`token ${id} in place of ${ids[pieces.length]}`);
    pieces.push(text);
  }
  found.push(pieces);
}
process.stdout.write(JSON.stringify(found));
"""
KINDS: dict[str, Any] = {"tiny": lambda: Tokenizer.from_file(str(folder_of("tiny") / "tokenizer.json")), **ALL}
FEW = ("tiny", "llama2", "t5", "cased")
HARD = (
    "🙂 é 👨\u200d👩\u200d👧 日本語",
    " lead and trail ",
    "a\n\nb\tc",
    "x<|end|>y",
    "don't stop. Now!",
    "\x00\x01\ufeffx",
)


@pytest.mark.parametrize(
    "name", [*FEW, *(pytest.param(name, marks=pytest.mark.slow) for name in KINDS if name not in FEW)]
)
def test_pieces_are_those_of_python(name: str, tmp_path: Path) -> None:
    tokenizer = KINDS[name]()
    tokenizer.no_truncation()
    tokenizer.no_padding()
    sequences = []
    for text in [*HARD, *texts(40, seed=len(name))]:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        if len(ids) > 1:
            cut = 1 + len(text) % (len(ids) - 1)
            sequences.append({"before": ids[:cut], "ids": ids[cut:]})
    file = tmp_path / "told.json"
    document = {"tokenizer": json.loads(tokenizer.to_str()), "vocabulary": tokenizer.get_vocab_size()}
    file.write_text(json.dumps({**document, "sequences": sequences}))
    command = [find_runtime("node-dawn").arguments[0], "--input-type=module", "--eval", SCRIPT, "--"]
    ran = subprocess.run([*command, MODULES.as_uri(), file], check=True, capture_output=True, text=True)
    for found, told in zip(json.loads(ran.stdout), sequences, strict=True):
        stream = TextStream(tokenizer, told["before"])
        assert found == [stream.push(token) for token in told["ids"]], told
