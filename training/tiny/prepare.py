#!/usr/bin/env python3
"""The corpus of the tiny model: fetch Debian packages, train the tokenizer, write all tokens to one file.

    .venv/bin/python training/tiny/prepare.py

writes build/tiny/corpus.npz (what train.py reads) and build/tiny/tokenizer.json. Packages come from Debian 12
by `apt-get download` and are only unpacked, never installed; --packages names a folder that has them already.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from python_docs import python_docs
from sources import Document, Source, austen, bible, devil, jargon, kept, passages, wordnet

VOCABULARY = 4096
BEGIN, END = "<|begin|>", "<|end|>"
HELD_OUT = 0.02  # of the groups of each source

SOURCES = [
    Source("wordnet", "wordnet-base", "WordNet 3.0 license (Princeton University)", 1, wordnet),
    Source("austen", "r-cran-janeaustenr", "public domain (the package: MIT)", 1, austen, prose=True),
    Source("bible", "sword-text-web", "public domain", 1, bible, prose=True),
    Source("devil", "dict-devil", "public domain", 3, devil),
    Source("jargon", "dict-jargon", "public domain", 2, jargon),
    Source("python", "python3.11-doc", "PSF license 2", 1, python_docs),
]

# Words with the space before them, digits one by one; without inline flags and possessive marks, which
# regular expressions in browsers do not know.
SPLIT = (
    r"'(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, default=Path("build/tiny/packages"), help="folder of .deb files")
    parser.add_argument("--output", type=Path, default=Path("build/tiny"))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    documents = list(read_all(options.packages))
    tokenizer = trained_tokenizer([document.text for document in documents if not held_out(document)])
    tokenizer.save(str(options.output / "tokenizer.json"))
    save(documents, tokenizer, options.output / "corpus.npz")


def read_all(packages: Path) -> list[Document]:
    """Documents of all sources, each text once, after what `kept` leaves out."""
    found: dict[str, Document] = {}
    for source in SOURCES:
        folder = unpacked(source.package, packages)
        for document in source.read(folder):
            if kept(document):
                found.setdefault(document.text, document)
                for passage in passages(document) if source.prose and not held_out(document) else ():
                    found.setdefault(passage.text, passage)
    return list(found.values())


def unpacked(package: str, packages: Path) -> Path:
    """The folder of a Debian package's files, fetched if it is not there."""
    packages.mkdir(parents=True, exist_ok=True)
    folder = packages / package
    if not folder.is_dir():
        archives = list(packages.glob(f"{package}_*.deb"))
        if not archives:
            subprocess.run(["apt-get", "download", package], cwd=packages, check=True, stdout=subprocess.DEVNULL)
            archives = list(packages.glob(f"{package}_*.deb"))
        subprocess.run(["dpkg-deb", "-x", archives[0], folder], check=True)
        print(f"{archives[0].name} sha256 {hashlib.sha256(archives[0].read_bytes()).hexdigest()}")
    return folder


def held_out(document: Document) -> bool:
    """Whether a document is for testing only: by a hash of its group, so always the same."""
    digest = hashlib.sha256(f"{document.source}/{document.group}".encode()).digest()
    return int.from_bytes(digest[:4], "big") < HELD_OUT * 2**32


def trained_tokenizer(texts: list[str]) -> Tokenizer:
    """A byte-level byte-pair tokenizer: any string comes back as it was."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[BEGIN, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", pair=f"{BEGIN} $A $B", special_tokens=[(BEGIN, tokenizer.token_to_id(BEGIN))]
    )
    return tokenizer


def save(documents: list[Document], tokenizer: Tokenizer, path: Path) -> None:
    """All tokens, where each document begins, its source, its bytes, and whether it is held out."""
    end = tokenizer.token_to_id(END)
    encodings = [
        np.array([*found.ids, end], np.uint16) for found in tokenizer.encode_batch([d.text for d in documents])
    ]
    names = [source.name for source in SOURCES]
    sides = np.array([held_out(document) for document in documents])
    sizes = np.array([len(document.text.encode()) for document in documents], np.int32)
    np.savez_compressed(
        path,
        tokens=np.concatenate(encodings),
        starts=np.cumsum([0, *map(len, encodings)], dtype=np.int64),
        sources=np.array([names.index(document.source) for document in documents], np.int8),
        bytes=sizes,
        held_out=sides,
        names=np.array(names),
        repeats=np.array([source.repeats for source in SOURCES], np.int8),
        vocabulary=np.int32(tokenizer.get_vocab_size()),
    )
    counts: Counter[tuple[str, bool]] = Counter()
    for document, encoding in zip(documents, encodings, strict=True):
        counts[document.source, held_out(document)] += len(encoding)
    for source in SOURCES:
        here = [d for d in documents if d.source == source.name]
        print(
            f"{source.name:8} {len(here):7} documents {sum(len(d.text.encode()) for d in here) / 1e6:6.2f} MB"
            f" {counts[source.name, False]:8} tokens to train on x{source.repeats},"
            f" {counts[source.name, True]:6} held out; {source.licence}"
        )
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB, {sum(sizes) / sum(map(len, encodings)):.2f} bytes a token")


if __name__ == "__main__":
    sys.exit(main())
