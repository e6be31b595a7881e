"""What a person sees who opened an address that gives an error."""

from __future__ import annotations

import html
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} \u00b7 tapml</title>
<style>
body {{ margin: 0 auto; max-width: 40rem; padding: 2rem 1rem; font: 1rem/1.5 system-ui, sans-serif;
  overflow-wrap: anywhere; }}
:root {{ background: Canvas; color: CanvasText; }}
a {{ color: inherit; }}
h1 {{ font-size: 1.3rem; }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p>{sentence}</p>
<p><a href="/">All that is served here</a></p>
</main>
</body>
</html>
"""
_TITLES = {404: "Not found", 403: "Not allowed", 405: "Nothing to see at this address"}


def wants_page(environ: Mapping[str, Any]) -> bool:
    """Is this a browser that opens an address for a person? Programs and scripts of pages do not ask for HTML, and the
    API gives none.

    `environ`: as WSGI has it.
    """
    reads = environ.get("REQUEST_METHOD") in ("GET", "HEAD")
    path, accept = str(environ.get("PATH_INFO", "")), str(environ.get("HTTP_ACCEPT", ""))
    kinds = [kind.partition(";")[0].strip().lower() for kind in accept.split(",")]
    return reads and not path.startswith("/api/") and "text/html" in kinds


def error_page(status: int, sentence: str) -> str:
    """One sentence as a page. `sentence`: text, which may repeat what a stranger sent."""
    title = _TITLES.get(status) or HTTPStatus(status).phrase
    said = sentence[:1].upper() + sentence[1:]
    return _PAGE.format(title=html.escape(title), sentence=html.escape(said))
