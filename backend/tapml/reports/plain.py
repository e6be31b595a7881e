"""Texts that several reports share."""

from __future__ import annotations

import shlex

from tapml.program.generation import Generation
from tapml.text import counted, listed, size, visible


def lines(text: str) -> str:
    """Each line fit for a terminal (tapml.text), without the spaces at its end."""
    return "\n".join(visible(line).replace("\t", " ").rstrip() for line in text.splitlines())


def generation_text(found: Generation) -> str:
    """How a language model generates, in one line."""
    calls = f"a call of {found.prefill} takes 1 to {found.chunk} tokens"
    if found.decode != found.prefill:
        calls += f", one of {found.decode} takes 1"
    end = f"a text ends with {listed([str(token) for token in found.end], 8)}" if found.end else "no token ends a text"
    begin = "" if found.begin is None else f"; it begins with {found.begin}"
    fit = f"{found.capacity} fit, {size(found.bytes_per_token)} each"
    if found.blocks is not None:
        texts = found.blocks.places // found.capacity
        fit += f", {counted(texts, 'text')} of that length in {found.blocks.count} blocks, tokens of several in a call"
    if found.places is not None:
        fit += ", reserved as a text grows"
    return f"{calls}; {fit}; token 0 to {found.vocabulary - 1}, {end}{begin}"


def export_command(suite_path: str, test: str) -> str:
    """What makes a page of one test that needs nothing else."""
    return f"tapml export {shlex.quote(suite_path)} {shlex.quote(test)} --html repro.html"
