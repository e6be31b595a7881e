"""What is worked out of an operator for one text after another: once.

That numbers the parts of its expressions, by which texts may be ordered. So it is remembered together with the indices
as it leaves them, and only for those that are as they were when it was worked out: a text is the same whichever came
before it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from tapml.compilers.native.polynomials import Indices

_Result = TypeVar("_Result")


class Memory:
    """Of one operator. Nobody changes what it gives."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[Any, Any, Indices]] = {}

    def begun(self, key: Hashable, objects: tuple[object, ...], made: Callable[[], Indices]) -> Indices:
        """New indices, the same for one key and the very same objects."""
        key = "begun", key, *map(id, objects)
        if key not in self._known:
            found = made()
            found.mark(key)
            self._known[key] = objects, None, found.copy()
        return self._known[key][2].copy()

    def of(self, indices: Indices, key: Hashable, objects: tuple[object, ...], made: Callable[[], _Result]) -> _Result:
        """What `made` makes of the indices and the very same objects; `key`: what else it depends on."""
        before = indices.marked
        if before is None:
            return made()
        key = before, key, *map(id, objects)
        if key not in self._known:
            found = made()
            indices.mark(key)
            self._known[key] = objects, found, indices.copy()
            return found
        _, result, after = self._known[key]
        indices.become(after)
        known: _Result = result
        return known
