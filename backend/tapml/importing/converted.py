"""Run one of TVM's importers, which log, print and raise whatever they like."""

from __future__ import annotations

import contextlib
import gc
import io
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tapml.errors import InputError
from tapml.lowering.quiet import quiet_tvm, reason

_Made = TypeVar("_Made")


def converted(path: Path, framework: str, convert: Callable[[], _Made]) -> _Made:
    """What `convert` makes of the file at `path`. Raises InputError, one sentence that names it."""
    # TVM's ONNX importer prints the operator that it fails at, with all its operands.
    said = io.StringIO()
    with quiet_tvm(), contextlib.redirect_stdout(said), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return convert()
        except InputError as error:
            failure = error
        except Exception as error:  # anything: they assert, raise ValueError, KeyError, TVM's errors...
            found = re.search(r"Error converting operator (\w+)", said.getvalue())
            what, why = f"the operator {found[1]}" if found else "it", reason(error)
            failure = InputError(
                f"TVM's {framework} importer cannot convert {what}: {why}",
                operator=found[1] if found else None,
                reason=why,
            )
        # Leaving the handler drops the half-built function, of which TVM warns while quiet.
        failure.__traceback__ = failure.__context__ = failure.__cause__ = None
        gc.collect()
    raise failure.within(str(path))
