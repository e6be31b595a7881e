"""training/tiny: documents of packages as they are laid out, and which of them are held out."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "training/tiny"))


def test_a_definition_has_its_examples_its_kind_and_other_words(tmp_path: Path) -> None:
    from sources import wordnet  # type: ignore[import-not-found]

    folder = tmp_path / "usr/share/wordnet"
    folder.mkdir(parents=True)
    (folder / "data.noun").write_text(
        "  1 This software and database is being provided\n"
        "00000010 19 n 01 light 0 000 | what makes things visible  \n"
        "00000020 19 n 03 moonlight 0 moonshine 0 Moon(a) 1 001 @ 00000010 n 0000 "
        '| the light of the Moon; "by moonlight"; "it fades"  \n'
    )
    (folder / "data.verb").write_text("")
    (folder / "data.adj").write_text(
        "00000030 00 a 01 dark 0 001 ! 00000040 a 0101 | without light  \n"
        "00000040 00 s 02 full_of_light 0 lit(p) 0 001 ! 00000030 a 0101 | with light  \n"
    )
    (folder / "data.adv").write_text("")
    assert [document.text for document in wordnet(tmp_path)] == [
        "light (noun): what makes things visible",
        'moonlight (noun): the light of the Moon\n  "by moonlight"\n  "it fades"\n'
        "A kind of light. Also: moonshine, Moon.",
        "dark (adjective): without light\nOpposite: full of light.",
        "full of light (adjective): with light\nAlso: lit. Opposite: dark.",
    ]


def test_chapters_come_out_of_r_data(tmp_path: Path) -> None:
    from sources import austen

    body = "They were glad to see each other, " * 20
    lines = ["EMMA", "", "CHAPTER I", "", body, "with_all_ their heart--", "", "CHAPTER II", "", body]
    strings = b"".join(struct.pack(">ii", 0x40009, len(line)) + line.encode() for line in lines)
    header = struct.pack(">iiii", 3, 0, 0, 5) + b"UTF-8"
    data = b"X\n" + header + struct.pack(">ii", 16, len(lines)) + strings
    folder = tmp_path / "usr/lib/R/site-library/janeaustenr/data"
    folder.mkdir(parents=True)
    packed = struct.pack(">i", len(data)) + zlib.compress(data)
    (folder / "Rdata.rdb").write_bytes(packed + packed)  # two books, one after the other
    found = list(austen(tmp_path))
    assert [document.group for document in found] == ["Emma 1", "Emma 2"] * 2
    assert found[0].text == f"Emma by Jane Austen, chapter 1\n\n{body.strip()} withall their heart—"


def test_entries_of_a_dictionary_are_found_by_its_index(tmp_path: Path) -> None:
    from sources import devil, jargon

    folder = tmp_path / "usr/share/dictd"
    folder.mkdir(parents=True)
    entries = [
        "ALONE, adj.  In bad\ncompany.\n",
        "ROAD, n.  A strip.\n\n    All roads,\n    they say.\n",
        "about this\n",
    ]
    data = "".join(entries).encode()
    (folder / "devil.dict.dz").write_bytes(gzip.compress(data))
    first, second, third = map(len, entries)
    index = [
        f"alone\tA\t{_number(first)}",
        f"road\t{_number(first)}\t{_number(second)}",
        f"about\t{_number(first + second)}\t{_number(third)}",
        f"alone again\tA\t{_number(first)}",
    ]
    (folder / "devil.index").write_text("\n".join(index))
    texts = [document.text for document in devil(tmp_path)]
    assert texts == ["ALONE, adj.  In bad company.", "ROAD, n.  A strip.\n\n    All roads,\n    they say."]

    entry = "feature\n n.\n\n    1. A good property of a {program}.\n    Whether it was intended.\n"
    (folder / "jargon.dict.dz").write_bytes(gzip.compress(entry.encode()))
    (folder / "jargon.index").write_text(f"feature\tA\t{_number(len(entry))}\n")
    (found,) = jargon(tmp_path)
    assert found.text == "feature (jargon): n. 1. A good property of a program. Whether it was intended."


def _number(value: int) -> str:
    """As dictd writes it, in base 64."""
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    return (_number(value // 64) if value >= 64 else "") + digits[value % 64]


def test_chapters_of_the_bible_have_paragraphs_and_no_footnotes(tmp_path: Path) -> None:
    from sources import bible

    verse = (
        '<w lemma="strong:H1">Now</w>,<note type="x">Or, later</note><w>it</w> rained<note>Or, poured</note>,'
        " and <w>all</w> were wet. "
    ) * 8
    book = (
        '<milestone n="Noah" type="x-usfm-h"/><title type="main">The Book</title>'
        '<chapter n="1" osisID="N.1" sID="N.1"/><div sID="g1" type="x-p"/>'
        f'{verse}<div eID="g1" type="x-p"/><lg sID="g2"/><l level="1" sID="g3"/>It rained;'
        '<l eID="g3" level="1"/> <l level="2" sID="g4"/>it poured.<lg eID="g2"/><chapter eID="N.1"/>'
    ).encode()
    folder = tmp_path / "usr/share/sword/modules/texts/ztext/engWEB2015eb"
    folder.mkdir(parents=True)
    packed = zlib.compress(book)
    for testament, blocks in (("ot", packed), ("nt", b"")):
        (folder / f"{testament}.bzz").write_bytes(blocks)
        index = struct.pack("<III", 0, len(blocks), len(book)) if blocks else b""
        (folder / f"{testament}.bzs").write_bytes(index)
    (found,) = bible(tmp_path)
    rain = " ".join(["Now, it rained, and all were wet."] * 8)
    assert found.text == f"Noah, chapter 1\n\n{rain}\n\nIt rained;\nit poured."


def test_sections_of_the_python_documentation_lose_their_marks(tmp_path: Path) -> None:
    from python_docs import python_docs  # type: ignore[import-not-found]

    folder = tmp_path / "usr/share/doc/python3.11/html/_sources/library"
    folder.mkdir(parents=True)
    (folder / "cats.rst.txt").write_text(
        ":mod:`cats` --- Keep cats\n=========================\n\n.. module:: cats\n   :synopsis: Keep them.\n\n"
        "The :mod:`cats` module keeps cats, for as long as\nthey like :class:`~cats.Box`; see `there <https://x.org>`_.\n"
        "Nobody knows how long that is, which is why it is written here.\n\n"
        ".. function:: feed(cat, *, \\\n              much=True)\n\n   Give ``cat`` something to eat::\n\n"
        "      >>> feed(tom)\n      'purr'\n\n   .. versionadded:: 3.11\n      Cats.\n"
    )
    (found,) = python_docs(tmp_path)
    assert found.group == "library/cats"
    assert found.text == (
        "Python: cats — Keep cats\n\nThe cats module keeps cats, for as long as they like cats.Box; see there. "
        "Nobody knows how long that is, which is why it is written here.\n\nfeed(cat, *, much=True)\n\n"
        "   Give cat something to eat:\n\n      >>> feed(tom)\n      'purr'"
    )


def test_passages_are_of_the_chapter_and_on_its_side() -> None:
    from prepare import held_out  # type: ignore[import-not-found]
    from sources import Document, passages

    chapters = [
        Document("austen", f"Emma {at}", "Emma\n\n" + "\n\n".join("abcdef" * 50 for _ in range(7))) for at in range(300)
    ]
    found = list(passages(chapters[0]))
    assert "\n\n".join(passage.text for passage in found) == chapters[0].text.removeprefix("Emma\n\n")
    assert [passage.text.count("\n\n") for passage in found] == [2, 2, 0]
    for chapter in chapters:
        assert {held_out(passage) for passage in passages(chapter)} == {held_out(chapter)}
    assert 0 < sum(map(held_out, chapters)) < 20


@pytest.mark.parametrize(
    ("text", "kept_too"), [("a squaw", False), ("an ethnic slur", False), ("a square shirt", True), ("grapes", True)]
)
def test_insults_are_left_out_and_nothing_that_looks_like_one(text: str, kept_too: bool) -> None:
    from sources import Document, kept

    assert kept(Document("wordnet", "n1", text)) is kept_too
