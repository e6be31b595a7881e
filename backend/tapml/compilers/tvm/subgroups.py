"""What of TVM's subgroup operations holds in WGSL."""

from __future__ import annotations

import re

SUBGROUP_SIZE = 32
"""Invocations that TVM's reductions assume to advance together. Wider subgroups do too: shuffles reach no further."""

_ENABLE = "enable subgroups;\n\n"
_CALL = re.compile(r"\bsubgroup[A-Z]\w*\(")
_SAME_IN_WGSL = re.compile(r"\bsubgroupShuffleDown\(|\bsubgroupShuffle\([^,]*, u32\(0i\)\)")


def uses_subgroups(wgsl: str) -> bool:
    """Whether a subgroup operation is called; TVM enables them also where none is."""
    return _CALL.search(wgsl) is not None


def without_idle_enable(wgsl: str) -> str:
    """The text without `enable subgroups` where it calls none."""
    return wgsl if uses_subgroups(wgsl) else wgsl.replace(_ENABLE, "", 1)


def same_in_wgsl(wgsl: str) -> bool:
    """Whether all subgroup operations mean what TVM means.

    TVM numbers lanes modulo 32, as CUDA does; WGSL counts from the subgroup's first. They agree on shuffles down
    and on reading the first lane.
    """
    return len(_CALL.findall(wgsl)) == len(_SAME_IN_WGSL.findall(wgsl))
