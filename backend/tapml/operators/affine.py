"""Indices that are a sum of variables, each times a number."""

from __future__ import annotations

from tapml.operators.program import Expression


def affine(index: Expression) -> tuple[int, dict[str, int]] | None:
    """(constant, coefficient of each variable), or None where the index is not of that form."""
    kind = index.kind
    if kind == "constant":
        return int(index.value or 0), {}
    if kind == "variable":
        return 0, {str(index.value): 1}
    if kind == "cast":
        return affine(index.operands[0])
    if kind not in ("add", "sub", "mul"):
        return None
    a, b = map(affine, index.operands)
    if a is None or b is None:
        return None
    if kind == "mul":
        if a[1] and b[1]:
            return None
        factor, other = (a[0], b) if not a[1] else (b[0], a)
        return factor * other[0], {variable: factor * c for variable, c in other[1].items()}
    sign = 1 if kind == "add" else -1
    coefficients = dict(a[1])
    for variable, c in b[1].items():
        coefficients[variable] = coefficients.get(variable, 0) + sign * c
    return a[0] + sign * b[0], coefficients
