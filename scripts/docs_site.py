"""MkDocs' hook: pages that are made rather than written, and links that leave docs/.

README, SECURITY, CONTRIBUTING and CHANGELOG stay at the checkout's root, where people look for them, and are pages of
the site, too.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
ROOT_PAGES = {
    "README.md": "index.md",
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
_BOUNDS = {
    "minimum": "at least",
    "maximum": "at most",
    "minLength": "length at least",
    "maxLength": "length at most",
}
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\\\[|\[\])+)\]\(((?!https?:)[^)#\s]*)(#[^)\s]*)?\)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    for source, page in ROOT_PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    markdown = markdown.replace("<!-- generated: commands -->", _commands() if page.file.src_uri == "cli.md" else "")
    markdown = markdown.replace(
        "<!-- generated: messages -->", _messages() if page.file.src_uri == "messages.md" else ""
    )
    return _LINK.sub(lambda link: _inside(link, files), markdown)


def _inside(link: re.Match[str], files: Files) -> str:
    """A link as the site has it; one to a file of the checkout that is no page is its text."""
    text, target, anchor = link[1], link[2], link[3] or ""
    if not target:
        return link[0]
    name = target.removeprefix("../")
    page = ROOT_PAGES.get(name, name)
    return f"[{text}]({page}{anchor})" if files.get_file_from_path(page) else text


def _commands() -> str:
    from tapml.cli.parser import command_parser

    parts = []
    for name, parser in _named("tapml", command_parser()):
        parser.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=100)
        parts.append(f"## {name}\n\n```text\n{parser.format_help()}```\n")
    return "\n".join(parts)


def _named(name: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """All commands of a parser, and theirs."""
    if parser._subparsers is None:
        return
    for action in parser._subparsers._group_actions:
        assert isinstance(action, argparse._SubParsersAction)
        for own, found in action.choices.items():
            yield f"{name} {own}", found
            yield from _named(f"{name} {own}", found)


def _messages() -> str:
    definitions = json.loads((ROOT / "docs/protocol.schema.json").read_text(encoding="utf-8"))["$defs"]
    parts = []
    for name, definition in definitions.items():
        parts.append(f"## {name}\n\n{_text(definition)}\n")
        fields = definition.get("properties")
        if not fields:
            parts.append(f"{_type(definition)}\n")
            continue
        parts.append("| field | type | |\n| --- | --- | --- |")
        parts += [f"| `{field}` | {_type(schema)} | {_text(schema)} |" for field, schema in fields.items()]
        parts.append("")
    return "\n".join(parts)


def _text(schema: dict[str, Any]) -> str:
    return " ".join(str(schema.get("description", "")).split()).replace("|", r"\|").replace("<", "&lt;")


def _type(schema: dict[str, Any]) -> str:
    """A schema in a few words, other messages as links."""
    if reference := schema.get("$ref"):
        name = reference.rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return " or ".join(_type(each) for each in schema[choice])
    if "const" in schema or "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type", "any")
    if kind == "array":
        inner = f"list of {_type(schema['items'])}" if "items" in schema else "list"
        return inner + (f", at most {schema['maxItems']}" if "maxItems" in schema else "")
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    bounds = [f"{words} {schema[key]}" for key, words in _BOUNDS.items() if key in schema]
    return ", ".join([str(kind), *bounds])
