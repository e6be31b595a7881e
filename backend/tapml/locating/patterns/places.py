"""Where the wrong elements lie: every n-th, at a tile's edge, at the end."""

from __future__ import annotations

import numpy as np

from tapml.locating.evidence import Evidence, Finding
from tapml.locating.regions import AxisSet, Box, axis_name, box_of, first, ordinal

_DENSE = 0.5
_MODULI = tuple(2**power for power in range(1, 13))


def detect(evidence: Evidence) -> list[Finding]:
    """One finding for a product of index sets, else one for the flat index modulo a power of two or its tail."""
    wrong = evidence.wrong
    if evidence.count == wrong.size or evidence.count < 1 or wrong.size < 4:
        return []
    box = box_of(wrong)
    if box.density >= _DENSE and box.share <= 0.75:
        return [_of_box(evidence, box)]
    return _flat(evidence)


def _of_box(evidence: Evidence, box: Box) -> Finding:
    strided = [axis for axis in box.axes if axis.kind == "stride"]
    ends = [axis for axis in box.axes if axis.to_end]
    parts = [axis for axis in box.axes if not axis.is_all]
    details = {
        "first": first(evidence.wrong),
        "density": round(box.density, 4),
        "axes": [
            {"axis": a.axis, "kind": a.kind, "start": a.start, "stop": a.stop, "step": a.step, "size": a.size}
            for a in parts
        ],
    }
    dense = "" if box.density == 1.0 else f" ({box.density:.0%} of the elements there)"
    # A region that is most of the output says little.
    weight = (0.6 + 0.4 * box.density) * (1.0 if box.share <= 0.5 else 0.7)
    if strided:
        every = ", ".join(f"every {ordinal(axis.step)} {axis_name(axis.axis, len(box.axes))}" for axis in strided)
        rest = [axis for axis in parts if axis.kind != "stride"]
        also = f"; {_named(rest, len(box.axes))}" if rest else ""
        text = f"first wrong element {details['first']}, {every}{also}{dense}"
        return Finding("stride", text, 0.84 * weight, details)
    where = _named(parts, len(box.axes))
    if ends and all(axis.to_end or axis.kind in ("one", "range") for axis in parts):
        tile = max(_power(axis.start) for axis in ends)
        if tile >= 8:
            text = f"wrong only in {where}{dense}: from a multiple of {tile} on"
            return Finding("tile-edge", text, 0.8 * weight, {**details, "tile": tile})
        return Finding("tail", f"wrong only at the end: {where}{dense}", 0.78 * weight, details)
    inner = [axis for axis in parts if axis.kind == "range"]
    if inner and all(_power(axis.start or 1024) >= 8 and _power(axis.stop) >= 8 for axis in inner):
        return Finding("tile-edge", f"wrong only in {where}{dense}: a whole tile", 0.74 * weight, details)
    return Finding("scattered", f"wrong only in {where}{dense}", 0.6 * weight, details)


def _named(axes: list[AxisSet], ndim: int) -> str:
    return ", ".join(axis.words(ndim) for axis in axes)


def _flat(evidence: Evidence) -> list[Finding]:
    """By the place in memory, where rows and columns tell nothing: invocations and workgroups count that way."""
    places = np.flatnonzero(evidence.wrong.reshape(-1))
    total = evidence.wrong.size
    start = int(places[0])
    if start > 0 and len(places) >= _DENSE * (total - start) and total - start <= total // 2:
        density = len(places) / (total - start)
        text = f"wrong from {first(evidence.wrong)} on, element {start} of {total}: {density:.0%} of the rest"
        return [Finding("tail", text, 0.75 * (0.6 + 0.4 * density), {"start": start, "total": total})]
    if len(places) < 8:
        return []
    best: tuple[float, int, np.ndarray] | None = None
    for modulus in _MODULI:
        if modulus > total // 4:
            break
        residues = np.flatnonzero(np.bincount(places % modulus, minlength=modulus))
        if len(residues) > modulus // 2 or len(places) < 4 * len(residues):
            continue
        possible = sum(-(-(total - int(residue)) // modulus) for residue in residues)
        density = len(places) / possible
        if density >= _DENSE and (best is None or density > best[0]):
            best = (density, modulus, residues)
    if best is None:
        return []
    density, modulus, residues = best
    text = (
        f"first wrong element {first(evidence.wrong)}; wrong where the place in memory modulo {modulus} "
        f"is {_residues(residues)} ({density:.0%} of those)"
    )
    details = {"modulus": modulus, "residues": residues[:64], "density": round(density, 4)}
    return [Finding("stride", text, 0.76 * (0.6 + 0.4 * density), details)]


def _residues(residues: np.ndarray) -> str:
    if len(residues) == 1:
        return str(int(residues[0]))
    if len(residues) == residues[-1] - residues[0] + 1:
        return f"{int(residues[0])} to {int(residues[-1])}"
    shown = ", ".join(map(str, residues[:6].tolist()))
    return f"one of {shown}" + (", ..." if len(residues) > 6 else "")


def _power(number: int) -> int:
    """The largest power of two that divides it."""
    return number & -number
