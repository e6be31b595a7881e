"""A document as one HTML file that needs nothing else: no network, no server."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from pathlib import Path

from tapml.errors import ToolchainError
from tapml.results.locate import LocateDocument
from tapml.results.run import RunDocument

TEMPLATE = Path(__file__).parents[1] / "server" / "static" / "report" / "template.html"
"""Built by `npm --prefix webui run build` from webui/report."""

_PLACE = "@@TAPML-DATA@@"


def report_template() -> str:
    """The page without its data. Raises ToolchainError where it was not built."""
    try:
        text = TEMPLATE.read_text()
    except OSError as error:
        raise ToolchainError(
            f"the report's page is not built ({TEMPLATE}): run `make setup` in the checkout"
        ) from error
    if text.count(_PLACE) != 1:
        raise ToolchainError(f"{TEMPLATE} is damaged: run `npm --prefix webui run build` in the checkout")
    return text


def html(document: RunDocument | LocateDocument, screenshots: Mapping[str, bytes] | None = None) -> str:
    """tapml.test/1 or tapml.locate/1 as a page; `screenshots` are PNG files by device id.

    The data is in the page as base64, which no text in it can break out of; the page's script draws it as text. Its
    Content-Security-Policy allows that script and nothing else. Raises ToolchainError where the page was not built.
    """
    pictures = {device: base64.b64encode(png).decode() for device, png in (screenshots or {}).items()}
    data = json.dumps({"document": document, "screenshots": pictures}, allow_nan=False, separators=(",", ":"))
    packed = base64.b64encode(gzip.compress(data.encode(), 6, mtime=0)).decode()
    return report_template().replace(_PLACE, packed)
