"""Scripts to bytecode, by the very Python that runs them on devices: Pyodide, in node."""

from __future__ import annotations

import base64
import binascii
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tapml.browsers import find_node
from tapml.errors import InputError, ToolchainError
from tapml.field.tasks.paths import subject_of
from tapml.text import one_line

_PLACE = Path(__file__).parents[2] / "server/static/agent"
_SECONDS = 120.0


def compiled(scripts: Mapping[str, bytes]) -> dict[str, bytes]:
    """Bytecode by the same paths; the same for the same scripts. Nothing of them is run.

    Raises InputError for a script that is wrong, or that imports what tasks have not; ToolchainError.
    """
    if not scripts:
        return {}
    node, _ = find_node()
    if not (_PLACE / "python/modules.json").is_file():
        raise ToolchainError(
            "Python for tasks is not built: run `make setup`, or npm --prefix runner_js run build:python"
        )
    own = {_inside(path).partition("/")[0].removesuffix(".py") for path in scripts}
    sources = {path: base64.b64encode(source).decode() for path, source in scripts.items()}
    given = json.dumps({"files": sources, "own": sorted(own)}).encode()
    try:
        done = subprocess.run(
            [node, str(_PLACE / "tapml-compile.mjs")], input=given, capture_output=True, timeout=_SECONDS
        )
        found = json.loads(done.stdout)
        if (error := found.get("error")) is not None:
            raise InputError(one_line(str(error), 500))
        return {path: base64.b64decode(found["files"][path], validate=True) for path in scripts}
    except subprocess.TimeoutExpired:
        raise InputError(f"compiling the scripts takes more than {_SECONDS:.0f} s: make them smaller") from None
    except (ValueError, KeyError, AttributeError, TypeError, binascii.Error) as error:
        said = one_line(done.stderr.decode(errors="replace")[-300:], 300)
        raise ToolchainError(f"Python for tasks fails ({said}): run npm --prefix runner_js run build:python") from error


def _inside(path: str) -> str:
    """As it lies in /task."""
    return path if (owner := subject_of(path)) is None else owner[1]
