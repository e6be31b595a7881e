"""Tokenizers as models bring them, trained here on the documentation, and texts that are hard for them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

_CHECKOUT = Path(__file__).parents[2]
_CONTRACTED = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORDS_OR_DIGITS = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
_LLAMA = rf"{_CONTRACTED}|{_WORDS_OR_DIGITS}|\s*[\r\n]+|\s+(?!\S)|\s+"
_SPECIAL = ["<s>", "</s>", "<unk>", "<pad>", "<mask>"]


@cache
def corpus() -> list[str]:
    texts = [path.read_text() for path in (_CHECKOUT / "README.md", _CHECKOUT / "docs/tutorial.md")]
    foreign = ["日本語のテキスト 東京 北京", "Ünïcödé straße naïve café", "🙂👍🏽 emoji", "Привет мир", "مرحبا"]
    return [*(line for text in texts for line in text.splitlines(True)), *foreign * 5]


def _byte_level(pre: object = None, post: object = None, norm: object = None, prefix: bool = False) -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.normalizer = norm
    made.pre_tokenizer = pre or pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    made.decoder = decoders.ByteLevel()
    made.post_processor = post or processors.ByteLevel(trim_offsets=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=_SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(corpus(), trainer)
    return made


def _split(pattern: str) -> object:
    words = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    return pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _llama3() -> Tokenizer:
    template = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B:1", special_tokens=[("<s>", 0)])
    post = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    made = _byte_level(_split(_LLAMA), post)
    made.enable_truncation(20, strategy="longest_first")
    made.enable_padding(length=24, pad_id=3, pad_token="<pad>", direction="left")
    return made


def _digits(individual: bool) -> Tokenizer:
    parts = [pre_tokenizers.Digits(individual_digits=individual), pre_tokenizers.Punctuation("contiguous")]
    return _byte_level(pre_tokenizers.Sequence([*parts, pre_tokenizers.ByteLevel(add_prefix_space=False)]))


def _llama2() -> Tokenizer:
    made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    every_byte = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=900, special_tokens=[*_SPECIAL, *every_byte], show_progress=False, max_token_length=12
    )
    made.train_from_iterator([text.replace(" ", "▁") for text in corpus()], trainer)
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    made.decoder = decoders.Sequence(parts)
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 0)]
    )
    return made


def _unigram(norm: object, pre: object) -> Tokenizer:
    made = Tokenizer(models.Unigram())
    made.normalizer, made.pre_tokenizer, made.decoder = norm, pre, decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=600, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    made.train_from_iterator(corpus(), trainer)
    made.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B:1 </s>:1", special_tokens=[("</s>", 1)]
    )
    return made


def _t5() -> Tokenizer:
    spaces = normalizers.Replace(Regex(" {2,}"), " ")
    return _unigram(normalizers.Sequence([normalizers.NFKC(), spaces]), pre_tokenizers.Metaspace())


def _first_metaspace() -> Tokenizer:
    first = pre_tokenizers.Metaspace(prepend_scheme="first")
    return _unigram(normalizers.NFKC(), pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), first]))


def _word_piece(norm: object, pre: object) -> Tokenizer:
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer, made.decoder = norm, pre, decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=600, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"], show_progress=False
    )
    made.train_from_iterator(corpus(), trainer)
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return made


def _stripped() -> Tokenizer:
    parts = [normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()]
    made = _word_piece(normalizers.Sequence(parts), pre_tokenizers.Whitespace())
    made.enable_truncation(12, strategy="only_first", direction="left")
    made.enable_padding(pad_to_multiple_of=8, pad_id=0)
    return made


def _compatible() -> Tokenizer:
    pre = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
    return _word_piece(normalizers.Sequence([normalizers.NFKD(), normalizers.Strip()]), pre)


ALL: dict[str, Callable[[], Tokenizer]] = {
    "gpt2": _byte_level,
    "roberta": lambda: _byte_level(prefix=True, post=processors.RobertaProcessing(("</s>", 1), ("<s>", 0))),
    "llama3": _llama3,
    "qwen": lambda: _byte_level(_split(_LLAMA.replace("{1,3}", "")), norm=normalizers.NFC()),
    "single digits": lambda: _digits(True),
    "digits together": lambda: _digits(False),
    "llama2": _llama2,
    "t5": _t5,
    "first metaspace": _first_metaspace,
    "cased": lambda: _word_piece(normalizers.BertNormalizer(lowercase=False), pre_tokenizers.BertPreTokenizer()),
    "stripped": _stripped,
    "compatible": _compatible,
}

_CHARACTERS = [
    "abcdefghijklmnopqrstuvwxyz",
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "0123456789",
    "     \t\n\r",
    "'.,!?-_()[]{}<>/\\@#$%^&*+=~`|:;\"",
    "äöüßéèñçåøłıİſÆœΣς",
    "日本語東京北京中文字漢한국어ひらカタ",
    "Приветмирабв",
    "مرحباשלום",
    "🙂👍🏽👩‍👩‍👧‍👦🇩🇪❤️☃️",
    "\u0300\u0301\u0308\u200d\u200b\ufeff\u00ad\u2028\u2029\u0085\u00a0\u3000\u2003\u212a",
    "\x00\x01\x07\x0b\x0c\x1b\x7f\x80\x9f\ufffd\uffff\ue000",
    "①②½ﬁﬂ㎏Ａｂ１²³ⅣⅨ",
    "𝒜𝔅𐍈𠀀𠮷\U000e0001\U0010ffff",
    "ताहिন্দিไทย",
    "▁<s></s>[CLS]",
]
_WORDS = ["<s>", "</s>", "[CLS]", "[MASK]", " [MASK] ", "[SEP]", "<unk>", " <mask> ", "don't", "I'LL", "we've", "he'S"]
_MORE_WORDS = ["12345", "3.14", "http://x.y/z?q=1", "Hello", "tokenization", "  ", "\r\n", " \n ", "...", "'\u017f"]


def texts(count: int, seed: int) -> Iterator[str]:
    """Lines of the documentation, and scripts, signs and control characters in any mixture."""
    rng = random.Random(seed)
    yield from ["", " ", "\n", "a" * 150, "[CLS][SEP]"]
    for _ in range(count):
        if rng.random() < 0.25:
            yield rng.choice(corpus())[: rng.randrange(1, 200)]
            continue
        parts = []
        for _ in range(rng.randrange(1, 14)):
            if rng.random() < 0.35:
                parts += [rng.choice(_WORDS + _MORE_WORDS), rng.choice(["", " "])]
            else:
                characters = rng.choice(_CHARACTERS)
                parts += [rng.choice(characters) for _ in range(rng.randrange(1, 6))]
                parts.append(rng.choice(["", " "]))
        yield "".join(parts)
