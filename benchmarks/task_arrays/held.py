"""One function's cases, one after the other, and what differs."""

from __future__ import annotations

import warnings
from typing import Any

import cv2
import numpy as np
from hypothesis import HealthCheck, Phase, given, settings

from benchmarks.task_arrays.numbers import Case
from benchmarks.task_arrays.pictures import Picture, apart
from benchmarks.task_arrays.places import keys
from benchmarks.task_arrays.vm import Refused, Vm, calling, evaluating

CHECKS = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large, HealthCheck.large_base_example]


def _run(vm: Vm, examples: int, drawn: Any, call: Any, check: Any) -> int:
    """How many cases passed. `check(found, one)`. Raises what a case raises that does not pass, made small."""
    options = {"max_examples": examples, "deadline": None, "database": None, "suppress_health_check": CHECKS}
    drawings: list[Any] = []

    # Drawn first and run together: each turn of a VM waits for the machine.
    @settings(**options, derandomize=True, phases=[Phase.generate])
    @given(drawn)
    def draw(one: Any) -> None:
        drawings.append(one)

    @settings(**options, derandomize=True, phases=[Phase.generate, Phase.shrink], report_multiple_bugs=False)
    @given(drawn)
    def each(one: Any) -> None:
        judge(vm.run([call(one)])[0], one)

    def judge(found: Any, one: Any) -> None:
        if isinstance(found, Refused):
            raise found
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            check(found, one)

    draw()
    try:
        for found, one in zip(vm.run([call(one) for one in drawings]), drawings, strict=True):
            judge(found, one)
    except (AssertionError, Refused):
        each()
        raise
    return len(drawings)


def hold(vm: Vm, name: str, case: Case, examples: int, of: str = "np") -> int:
    """Raises AssertionError for another type, shape or value than the reference's, and Refused."""

    def check(found: Any, one: Any) -> None:
        compare(found, case.reference(*one[0], **one[1]), case)

    return _run(vm, examples, case.drawn, lambda one: calling(name, *one, of=of), check)


def compare(found: Any, expected: Any, case: Case) -> None:
    if isinstance(expected, list | tuple):
        assert len(found) == len(expected), f"{len(found)} arrays, and not {len(expected)}"
        for one, other in zip(found, expected, strict=True):
            compare(one, other, case)
        return
    expected = np.asarray(expected)
    assert found.dtype == expected.dtype, f"{found.dtype} is not {expected.dtype}"
    assert found.shape == expected.shape, f"{found.shape} is not {expected.shape}"
    if case.exact or expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
        if case.zeros and expected.dtype.kind == "f":  # and -0.0 is not 0.0
            numbers = ~np.isnan(expected)
            np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))
        return
    relative = case.relative if expected.dtype == np.float32 else min(case.relative, 1e-13)
    absolute = case.absolute if expected.dtype == np.float32 else case.absolute * 1e-6
    np.testing.assert_allclose(found, expected, rtol=relative, atol=absolute)


def _key(key: Any, values: list[Any]) -> str:
    """The text of what stands between brackets; arrays become values."""
    if isinstance(key, tuple):
        return "(" + "".join(_key(one, values) + ", " for one in key) + ")"
    if isinstance(key, np.ndarray):
        values.append(key)
        return f"v[{len(values) - 1}]"
    return {type(Ellipsis): "...", type(None): "None"}.get(type(key)) or repr(key)


_EXACT = Case(None, lambda: None)  # type: ignore[arg-type]


def hold_indexing(vm: Vm, examples: int) -> int:
    """Slices, integers, None, ..., masks and arrays of integers."""

    def call(drawn: Any) -> dict[str, Any]:
        values = [drawn[0]]
        text = _key(drawn[1], values)
        return evaluating(f"v[0][{text}]", values)

    return _run(vm, examples, keys(), call, lambda found, one: compare(found, one[0][one[1]], _EXACT))


def hold_assignment(vm: Vm, examples: int) -> int:
    def call(drawn: Any) -> dict[str, Any]:
        values = [drawn[0], drawn[2]]
        text = _key(drawn[1], values)
        return evaluating(f"(v[0].__setitem__({text}, v[1]), v[0])[1]", values)

    def check(found: Any, drawn: Any) -> None:
        x, key, value = drawn
        expected = x.copy()
        expected[key] = value
        compare(found, expected, _EXACT)

    return _run(vm, examples, keys(), call, check)


def hold_picture(vm: Vm, picture: Picture, examples: int) -> tuple[int, float]:
    """How many cases passed, and the largest difference in units of 255; raises AssertionError where it is above 1."""
    worst = 0.0

    def check(found: Any, drawn: Any) -> None:
        nonlocal worst
        difference = apart(found, picture.reference(*drawn[0], **drawn[1]), picture.around)
        assert difference <= 1, f"{difference} of 255 apart"
        worst = max(worst, difference)

    name = picture.name.partition(",")[0]
    return _run(vm, examples, picture.drawn, lambda one: calling(name, *one, of="cv2"), check), worst


def names_of_codes(vm: Vm) -> list[str]:
    """Of cvtColor. Raises AssertionError where OpenCV has another number for one."""
    numbers = vm.evaluate(
        "[[name, getattr(cv2, name)] for name in dir(cv2) if name[:6] in ('COLOR_', 'INTER_', 'BORDER')]"
    )
    for name, number in numbers:
        assert number == getattr(cv2, name), f"{name} is {number}, and {getattr(cv2, name)} in OpenCV"
    return [name for name, _ in numbers if name.startswith("COLOR_")]
