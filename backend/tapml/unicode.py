"""Texts that tokenizers take."""

from __future__ import annotations

from tapml.errors import InputError


def encodable(text: str, what: str) -> str:
    """The text. Raises InputError where it has halves of surrogate pairs: bytes on a command line that are no UTF-8
    become such, and no tokenizer takes them."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{what} has {text[error.start]!a} at {error.start}, which is no character: give UTF-8"
        ) from None
    return text
