"""Documents from Debian packages whose licences allow training and sharing what came of it.

Each reader takes the folder a package was unpacked into and gives `Document`s. Held-out documents are chosen
by `group`: all documents of a group are on one side, so that no text is trained on and tested with.
"""

from __future__ import annotations

import gzip
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Document:
    """One text; `group` is what is held out or trained on as a whole."""

    source: str
    group: str
    text: str


@dataclass(frozen=True)
class Source:
    """A Debian package, who owns its text, how often an epoch has it (small ones more than once), how it is read.

    Chapters of `prose` are trained on a second time as passages.
    """

    name: str
    package: str
    licence: str
    repeats: int
    read: Callable[[Path], Iterator[Document]]
    prose: bool = False


# Words that a page for strangers should not write; the texts are of 1881 to 2006.
_REFUSED = re.compile(
    r"\b(nigg\w+|negro\w*|pickaninn\w*|squaws?|kike|fag|faggots?|jap|japs|darky|darkies|coon|wetbacks?|wop|dago"
    r"|chink|spic|dyke|cunts?|fuck\w*|shit\w*|whores?|slut\w*|rap(e|ed|es|ist|ists)|ethnic slur|disparag\w+|obscene"
    r"|offensive (name|term|word)\w*)\b",
    re.IGNORECASE,
)


def wordnet(folder: Path) -> Iterator[Document]:
    """A document a synset: `moonlight (noun): the light of the Moon`, examples, what it is a kind of."""
    parts = {"noun": "noun", "verb": "verb", "adj": "adjective", "adv": "adverb"}
    synsets = {}
    for part in parts:
        lines = (folder / f"usr/share/wordnet/data.{part}").read_text(encoding="utf-8").splitlines()
        for line in lines:
            if line.startswith("  "):  # the licence
                continue
            fields, _, gloss = line.partition(" | ")
            words, pointers = _synset(fields.split())
            synsets[{"noun": "n", "verb": "v", "adj": "a", "adv": "r"}[part], fields[:8]] = (
                part,
                words,
                pointers,
                gloss.strip(),
            )
    for key, (part, words, pointers, gloss) in synsets.items():
        lines = [f"{words[0]} ({parts[part]}): {_gloss(gloss)}"]
        kinds = [synsets[target][1][0] for relation, target in pointers if relation in ("@", "@i")]
        opposites = [synsets[target][1][0] for relation, target in pointers if relation == "!"]
        more = []
        if kinds:
            more.append(f"A kind of {', '.join(kinds)}." if part == "noun" else f"A way to {', '.join(kinds)}.")
        if words[1:]:
            more.append(f"Also: {', '.join(words[1:])}.")
        if opposites:
            more.append(f"Opposite: {', '.join(dict.fromkeys(opposites))}.")
        if more:
            lines.append(" ".join(more))
        yield Document("wordnet", "".join(key), "\n".join(lines))


def _synset(fields: list[str]) -> tuple[list[str], list[tuple[str, tuple[str, str]]]]:
    count = int(fields[3], 16)
    words = [re.sub(r"\((a|p|ip)\)$", "", word).replace("_", " ") for word in fields[4 : 4 + 2 * count : 2]]
    first = 4 + 2 * count
    pointers = []
    for at in range(first + 1, first + 1 + 4 * int(fields[first]), 4):
        symbol, offset, part = fields[at : at + 3]
        pointers.append((symbol, ("a" if part == "s" else part, offset)))
    return words, pointers


def _gloss(gloss: str) -> str:
    """The definition on the first line, each example on one of its own."""
    pieces = re.split(r";\s*(?=\")", gloss)
    return "\n".join([pieces[0].strip(), *(f"  {piece.strip()}" for piece in pieces[1:])])


def austen(folder: Path) -> Iterator[Document]:
    """A document a chapter of the six novels, in R's serialized lists of lines."""
    data = (folder / "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb").read_bytes()
    at = 0
    while at < len(data):
        unpacker = zlib.decompressobj()
        lines = _r_strings(unpacker.decompress(data[at + 4 :]))  # four bytes of length come first
        at = len(data) - len(unpacker.unused_data)
        yield from _chapters(lines)


def _r_strings(data: bytes) -> list[str]:
    """A character vector of R's serialization, version 2 or 3, big endian."""
    if data[:2] != b"X\n":
        raise ValueError("R's data is not in its binary form: the package is of another version")
    (version,) = struct.unpack_from(">i", data, 2)
    at = 14
    if version == 3:
        at += 4 + struct.unpack_from(">i", data, at)[0]
    flags, count = struct.unpack_from(">ii", data, at)
    if flags & 0xFF != 16:
        return []
    at += 8
    texts = []
    for _ in range(count):
        (length,) = struct.unpack_from(">i", data, at + 4)
        at += 8
        texts.append(data[at : at + length].decode("utf-8", "replace"))
        at += length
    return texts


_CHAPTER = re.compile(r"^\s*(chapter\s+([ivxlc]+|\d+)|volume\s+([ivxlc]+|\d+))\.?\s*$", re.IGNORECASE)


def _chapters(lines: list[str]) -> Iterator[Document]:
    if not lines:
        return
    title = lines[0].strip().title()
    chapters: list[list[str]] = [[]]
    for line in lines[1:]:
        if _CHAPTER.match(line):
            chapters.append([])
        else:
            chapters[-1].append(line)
    number = 0
    for chapter in chapters[1:]:
        text = unwrapped("\n".join(chapter)).replace("--", "—").replace("_", "")
        text = re.sub(r"\s*THE END\s*$|\bFINIS\s*$", "", text).strip()
        if len(text) < 500:
            continue
        number += 1
        yield Document("austen", f"{title} {number}", f"{title} by Jane Austen, chapter {number}\n\n{text}")


def bible(folder: Path) -> Iterator[Document]:
    """A document a chapter of the World English Bible, from SWORD's compressed blocks of OSIS."""
    module = folder / "usr/share/sword/modules/texts/ztext/engWEB2015eb"
    for testament in ("ot", "nt"):
        index, data = ((module / f"{testament}.{suffix}").read_bytes() for suffix in ("bzs", "bzz"))
        for offset, length, _ in struct.iter_unpack("<III", index):
            book = zlib.decompress(data[offset : offset + length]).decode("utf-8")
            yield from _book(book)


def _book(text: str) -> Iterator[Document]:
    name = re.search(r'<milestone n="([^"]*)" type="x-usfm-h"/>', text)
    for chapter in re.finditer(r'<chapter n="(\d+)"[^>]*sID[^>]*/>(.*?)<chapter eID', text, re.DOTALL):
        body = re.sub(r"<(note|title|rdg|catchWord)\b[^>]*>.*?</\1>", " ", chapter[2], flags=re.DOTALL)
        body = re.sub(r"\s+", " ", body)
        body = re.sub(r'<div [^>]*type="x-p"[^>]*/>|<lg [^>]*/>', "\n\n", body)
        body = re.sub(r"<l [^>]*sID[^>]*/>|<lb[^>]*/>", "\n", body)
        body = re.sub(r"<[^>]*>", "", body)
        body = re.sub(r" *\n *", "\n", re.sub(r" +", " ", body))
        body = re.sub(r" (?=[,.;:?!\u201d\u2019])", "", body)
        body = re.sub(r"\n{3,}", "\n\n", body).strip()
        if name and len(body) > 200:
            title = f"{name[1]}, chapter {chapter[1]}"
            yield Document("bible", title, f"{title}\n\n{body}")


def devil(folder: Path) -> Iterator[Document]:
    """A document an entry of The Devil's Dictionary: `LAPTOP, n. ...`."""
    for word, text in _dictionary(folder / "usr/share/dictd/devil"):
        if re.match(r"^[A-Z][A-Z' -]*, ", text):
            yield Document("devil", word, unwrapped(text))


def jargon(folder: Path) -> Iterator[Document]:
    """A document an entry of the Jargon File, without its drawings."""
    for word, text in _dictionary(folder / "usr/share/dictd/jargon"):
        if len(re.findall(r"[|_/\\=*^+<>-]{2,}", text)) > 3:
            continue
        head, _, body = text.partition("\n")
        body = re.sub(r"\{\s*([^}]*?)\s*\}", r"\1", re.sub(r"^    ", "", body, flags=re.MULTILINE))
        kind, _, rest = body.lstrip("\n").partition("\n") if body.startswith(" ") else ("", "", body)
        body = unwrapped(rest.strip())
        yield Document("jargon", word, f"{head.strip()} (jargon): {kind.strip()} {body}".replace("  ", " "))


def _dictionary(stem: Path) -> Iterator[tuple[str, str]]:
    """Entries of a dictd database, in the order of the file, each once."""
    digits = {c: i for i, c in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")}

    def number(text: str) -> int:
        value = 0
        for digit in text:
            value = value * 64 + digits[digit]
        return value

    data = gzip.decompress(stem.with_suffix(".dict.dz").read_bytes())
    places = {}
    for line in stem.with_suffix(".index").read_text(encoding="utf-8").splitlines():
        word, start, length = line.split("\t")[:3]
        if not word.startswith("00"):
            places.setdefault((number(start), number(length)), word)
    for (start, length), word in sorted(places.items()):
        yield word, data[start : start + length].decode("utf-8", "replace").strip()


def unwrapped(text: str) -> str:
    """Paragraphs on one line each; a block with indented lines (a poem, code) keeps its own."""
    blocks = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        lines = [line.rstrip() for line in block.split("\n")]
        indented = sum(line.startswith("   ") for line in lines)
        if indented > 1 or (indented == 1 and not lines[0].startswith(" ")):
            blocks.append("\n".join(re.sub(r"^ +", "    ", line) for line in lines))
        else:
            blocks.append(" ".join(line.strip() for line in lines))
    return "\n\n".join(block for block in blocks if block.strip())


def passages(document: Document, size: int = 700) -> Iterator[Document]:
    """The paragraphs of a chapter in passages of `size` characters or a little more, without its heading.

    Trained on beside the chapter, so that a sentence that nothing comes before is gone on with as prose.
    """
    passage: list[str] = []
    for paragraph in document.text.split("\n\n")[1:]:
        passage.append(paragraph)
        if sum(map(len, passage)) >= size:
            yield Document(document.source, document.group, "\n\n".join(passage))
            passage = []
    if passage:
        yield Document(document.source, document.group, "\n\n".join(passage))


def kept(document: Document) -> bool:
    """Whether a document is one to learn from."""
    return not _REFUSED.search(document.text) if document.source != "bible" else True
