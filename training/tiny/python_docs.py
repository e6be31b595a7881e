"""Documents from the Python documentation's own sources (reStructuredText), a section each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from sources import Document

_FOLDERS = ("library", "tutorial", "howto", "faq", "reference", "extending", "using")
# Directives whose blocks say nothing to a reader of plain text.
_DROPPED = re.compile(
    r"^(module|moduleauthor|sectionauthor|index|highlight|toctree|include|tabularcolumns|audit-event|currentmodule"
    r"|availability|testsetup|testcleanup|literalinclude|contents|image|program|productionlist|only|list-table"
    r"|versionadded|versionchanged|deprecated|deprecated-removed|_.*)$"
)
_DIRECTIVE = re.compile(r"^(\s*)\.\. ([\w:-]+):: ?(.*)$")
_UNDERLINE = re.compile(r"^([=\-~^\"*'`#])\1{2,}\s*$")


def python_docs(folder: Path) -> Iterator[Document]:
    """A document a section; files are held out as a whole."""
    root = folder / "usr/share/doc/python3.11/html/_sources"
    for name in _FOLDERS:
        for file in sorted((root / name).rglob("*.rst.txt")):
            group = str(file.relative_to(root)).removesuffix(".rst.txt")
            title = ""
            for heading, body in _sections(_plain(file.read_text(encoding="utf-8"))):
                title = title or heading
                text = re.sub(r"\s?\[#?\w*\]_|``", "", re.sub(r"\n{3,}", "\n\n", body)).strip()
                if len(text) > 150:
                    above = f"{title}\n" if heading == title else f"{title}\n{heading}\n"
                    yield Document("python", group, f"Python: {above}\n{text}")


def _plain(text: str) -> list[str]:
    """Lines without comments, dropped directives and the marks of roles; paragraphs on one line each."""
    lines: list[str] = []
    skip = code = -1  # the indentation of a directive that is dropped; of the line that begins code
    for line in re.sub(r"\\\n\s*", "", text.replace("\t", "    ")).split("\n"):
        indent = len(line) - len(line.lstrip())
        if line.strip():
            if skip >= 0 and indent > skip:
                continue
            skip = -1
            if code >= 0 and indent <= code:
                code = -1
        found = _DIRECTIVE.match(line)
        if found and code < 0:
            name, rest = found[2], found[3]
            if _DROPPED.match(name):
                skip = indent
                continue
            if name in ("code-block", "doctest", "testcode", "testoutput", "parsed-literal"):
                code = indent
                lines.append("")
                continue
            if name in ("note", "warning", "seealso", "tip", "caution", "important", "impl-detail", "rubric"):
                label = {"seealso": "See also", "impl-detail": "Note", "rubric": ""}.get(name, name.title())
                lines += ["", " " * indent + f"{label}: {_inline(rest)}".strip(": "), ""]
                continue
            lines += [" " * indent + _inline(rest), ""]
            continue
        if re.match(r"^\s*\.\. ", line) and code < 0:  # a comment or a target
            skip = indent
            continue
        if re.match(r"^\s*:[\w -]+:( |$)", line) and code < 0:  # an option of a directive
            continue
        if code >= 0 or not line.strip():
            lines.append(line.rstrip())
            continue
        begins = line.rstrip().endswith("::")
        shown = _inline(line.rstrip()[:-1] if begins else line.rstrip())
        if begins:
            code = indent
        if _joins(lines[-1] if lines else "", shown):
            lines[-1] += " " + shown.strip()
        else:
            lines.append(shown)
    return lines


def _joins(above: str, line: str) -> bool:
    """Whether a line goes on with the paragraph of the line above it."""
    if not above.strip() or _UNDERLINE.match(line) or _UNDERLINE.match(above):
        return False
    inner = line.strip()
    if re.match(r"^([*+-] |\d+\. |#\. |[|]|[+][-=]|>>>|\.\.\. |==)", inner):
        return False
    if re.match(r"^([|]|[+][-=]|==|>>>|\.\.\. )", above.strip()):
        return False
    depth = len(line) - len(line.lstrip())
    above_depth = len(above) - len(above.lstrip())
    item = re.match(r"^\s*([*+-]|\d+\.|#\.) +", above)
    return depth == (len(item[0]) if item else above_depth)


def _inline(text: str) -> str:
    text = re.sub(r":[\w:+-]+:`([^`]*?)\s*<[^`>]*>`", r"\1", text)
    text = re.sub(r":[\w:+-]+:`[!~]?([^`]*)`", r"\1", text)
    text = re.sub(r"`([^`<]*?)\s*<[^`>]*>`__?", r"\1", text)
    text = re.sub(r"``([^`]*)``", r"\1", text)
    return text.replace(" --- ", " — ").replace("\\ ", " ").replace("\\*", "*")


def _sections(lines: list[str]) -> Iterator[tuple[str, str]]:
    heading, body = "", list[str]()
    for at, line in enumerate(lines):
        below = lines[at + 1] if at + 1 < len(lines) else ""
        if _UNDERLINE.match(below) and line.strip() and not _UNDERLINE.match(line) and len(below) >= len(line) - 3:
            if heading:
                yield heading, "\n".join(body)
            heading, body = line.strip(), []
        elif not _UNDERLINE.match(line):
            body.append(line)
    if heading:
        yield heading, "\n".join(body)
