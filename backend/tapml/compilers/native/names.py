"""Names in WGSL for what an operator calls otherwise."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from tapml.compilers.tvm.functions import is_of_wgsl
from tapml.compilers.wgsl_names import RESERVED

_LONGEST = 28

_ACCESS = ("read", "write", "read_write", "storage", "uniform", "workgroup", "private", "function")
"""What stands in a `var<...>`, which a variable of that name would hide."""


class Names:
    """Names that are each given once. `taken`: those that a template uses itself."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def __call__(self, wanted: str) -> str:
        """`wanted` as a name of WGSL: the last of its words, where it has many, and a number where it is taken."""
        base = _of_words(wanted)
        name, number = base, 1
        while name in self._taken or name in RESERVED or name in _ACCESS or _is_of_wgsl(name):
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name


@functools.lru_cache(maxsize=4096)
def _of_words(wanted: str) -> str:
    words = re.findall(r"[A-Za-z0-9]+", wanted) or ["value"]
    while len(words) > 1 and len("_".join(words)) > _LONGEST:
        words = words[1:]
    base = "_".join(words)[-_LONGEST:].lstrip("_")
    return base if base[:1].isalpha() else f"of_{base}"


def _is_of_wgsl(name: str) -> bool:
    return is_of_wgsl(name) or name in ("mat2x2", "mat3x3", "mat4x4", "ptr", "atomic", "sampler")
