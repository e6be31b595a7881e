"""Kernels by subgroup matrices with one mistake each: validation fails, `locate` names them, and of a barrier that is
left out the lines that it orders."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from compilers.attention_programs import attending
from compilers.subgroup_matrices import in_software
from compilers.test_native_matrices import ATTENTION, SMALL, all_packed, blocks_are
from compilers.test_native_products import CONVOLUTIONS, PRODUCTS, Case, carved, matmul
from tapml.compilers.native.matrices import uses_matrices
from tapml.devices.messages import KernelMessages
from tapml.jobs.job import JobSpecification, run_job
from tapml.locating import Locate
from tapml.locating.barriers import unordered
from tapml.locating.races import missing_barriers
from tapml.server import Server
from tapml.suite import KernelFile, Suite
from tapml.validation.context import JobContext

BARRIER = "workgroupBarrier();"


def matrix_texts_of(suite: Suite) -> dict[str, str]:
    return {name: file.text for name in suite.kernels for file in suite.kernel_files(name) if uses_matrices(file.text)}


def without(text: str, number: int) -> str:
    """Without one of its barriers, on as many lines."""
    *before, after = text.split(BARRIER, number + 1)
    return BARRIER.join(before) + after


def needless(text: str, number: int) -> bool:
    """Whether another barrier follows, or nothing, before workgroup memory is touched again in the same way: at the end
    of the text, behind the last matrix of queries, and behind the last matrices that are scaled."""
    before, after = text.split(BARRIER)[number : number + 2]
    last = before.strip().split("\n")[-1].strip()
    ends = after.strip().startswith("}") and number == text.count(BARRIER) - 1
    of_queries = last.startswith("let query_") and not after.strip().startswith("weight_part")
    return ends or of_queries or (last.startswith("mixed_") and after.strip().startswith("}"))


@pytest.mark.parametrize(("packed", "splits"), [((), 1), (("left", "right"), 3)])
def test_every_barrier_of_every_text_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: Sequence[str], splits: int
) -> None:
    """And those that there are order all that matrices and invocations hand to each other."""
    blocks_are(monkeypatch, lambda *sizes: dataclasses.replace(SMALL, splits=splits))
    all_packed(monkeypatch, packed)
    cases = {**PRODUCTS, **CONVOLUTIONS, **({} if packed else ATTENTION)}
    texts = matrix_texts_of(carved(cases, tmp_path, "float16"))
    assert len(texts) > len(CONVOLUTIONS)
    for name, text in texts.items():
        assert unordered(text) is None, name
        for number in range(text.count(BARRIER)):
            changed = without(text, number)
            found = unordered(changed)
            assert (found is None) == needless(text, number), (name, number)
            if found is not None:
                lines = changed.split("\n")
                assert re.search(rf"\b{found.variable}\b.* \*?= |Store<.*&{found.variable}\b", lines[found.written - 1])
                assert found.variable in lines[found.read - 1]


def replaced(found: str, by: str, number: int = 0) -> Callable[[str], str]:
    """In place of the match of that number, of a pattern."""

    def change(text: str) -> str:
        match = list(re.finditer(found, text))[number]
        return text[: match.start()] + match.expand(by) + text[match.end() :]

    return change


def barrier(number: int) -> Callable[[str], str]:
    return lambda text: without(text, number)


PRODUCT_FAULTS: Mapping[str, Callable[[str], str]] = {
    "none": lambda text: text,
    "no barrier before the first step": barrier(0),
    "no barrier behind what is multiplied": barrier(1),
    "no barrier before the next step": barrier(2),
    "no barrier before sums are read": barrier(3),
    "another offset, left": replaced(r"(&left_part\[own_row\], )2u", r"\g<1>0u"),
    "another offset, right": replaced(r"(&right_part\[own_column\], )82u", r"\g<1>80u"),
    "another stride": replaced(r"(&right_part\[own_column\], 0u, )5u", r"\g<1>4u"),
    "right by columns": replaced(r"(right<f16, 16, 16>, )row_major", r"\1col_major", 1),
    "left by columns": replaced(r"(left<f16, 16, 16>, )row_major", r"\1col_major"),
    "another sum": replaced(r"(a0_1, b1_1, )sum_0_1", r"\1sum_0_0"),
    "another factor": replaced(r"a0_0, b1_0", "a0_0, b0_0"),
    "rows and columns of subgroups": replaced(r"let own_row = subgroup / 2", "let own_row = subgroup % 2"),
    "sums at another offset": replaced(r"(&sums_part\[subgroup\], )4u", r"\g<1>2u"),
    "sums by another stride": replaced(r"(sum_0_0, )8u", r"\g<1>9u"),
}
ATTENTION_FAULTS: Mapping[str, Callable[[str], str]] = {
    "none": lambda text: text,
    "no barrier before queries are loaded": barrier(2),
    "no barrier before the next keys are kept": barrier(4),
    "keys by rows": replaced(r"(right<f16, 16, 16>, )col_major", r"\1row_major"),
    "values at another offset": replaced(r"(let value_1_0 = .*&value_part\[0\], )\d+u", r"\g<1>0u"),
    "another mixed value": replaced(r"(weight_part_1, value_1_0, )mixed_0", r"\1mixed_1"),
    "without the rest of weights": replaced(r"rest_part_0, value_0_0", "weight_part_0, value_0_0"),
}


class InSoftware:
    """A suite as a device without subgroup matrices is given it."""

    def __init__(self, suite: Suite) -> None:
        self._suite = suite

    def __getattr__(self, name: str) -> Any:
        return getattr(self._suite, name)

    def kernel_files(self, kernel: str) -> list[KernelFile]:
        return [
            dataclasses.replace(file, text=in_software(file.text)) if uses_matrices(file.text) else file
            for file in self._suite.kernel_files(kernel)
        ]


def as_matrices(
    suite: Suite,
    faults: Mapping[str, Callable[[str], str]],
    matrix_texts: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, str]:
    """Each of the suite's kernels gets one of the faults, and its text is the one with matrices again, which goes to
    devices in software. Fault -> kernel."""
    named = dict(zip(faults, suite.kernels, strict=True))
    for fault, kernel in named.items():
        (file,) = suite.kernel_files(kernel)
        text = matrix_texts[file.text]
        changed = faults[fault](text)
        assert (changed == text) == (fault == "none")
        (suite.path / "kernels" / file.name).write_text(changed)
    begun = KernelMessages.__init__

    def begin(self: KernelMessages, suite: Suite, *more: Any, **named: Any) -> None:
        begun(self, InSoftware(suite), *more, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(KernelMessages, "__init__", begin)
    return named


def validated(suite: Suite, named: Mapping[str, str]) -> None:
    """Each but the first fails, or lacks a barrier and is warned of."""
    with Server() as server:
        context = JobContext(suite, [server.state.device("deno")], server.state.blobs)
        document = run_job(JobSpecification(kind="validation", devices=["deno"], save=False, record=False), context)
    verdicts = {test["kernel"]: test["verdict"] for test in document["tests"]}
    results = {kernel: [test for test in document["tests"] if test["kernel"] == kernel] for kernel in verdicts}
    warned = {found["kernel"] for found in missing_barriers(suite, results)}
    assert warned == {kernel for fault, kernel in named.items() if fault.startswith("no barrier")}
    for fault, kernel in named.items():
        if kernel not in warned:
            assert verdicts[kernel] == ("pass" if fault == "none" else "fail"), fault


def products(faults: Mapping[str, Any], tmp_path: Path) -> Suite:
    cases: dict[str, Case] = {fault: (matmul, [(30 + n, 53), (53, 41 + n)]) for n, fault in enumerate(faults)}
    return carved(cases, tmp_path, "float16")


@pytest.mark.slow
def test_products_with_a_fault(
    tmp_path: Path, software: list[str], matrix_texts: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks_are(monkeypatch, lambda *sizes: SMALL)
    suite = products(PRODUCT_FAULTS, tmp_path)
    validated(suite, as_matrices(suite, PRODUCT_FAULTS, matrix_texts, monkeypatch))


@pytest.mark.slow
def test_attention_with_a_fault(
    tmp_path: Path, software: list[str], matrix_texts: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cases: dict[str, Case] = {
        fault: (attending(0.5), [(1, 33 + n, 32), (1, 65, 32), (1, 65, 32)]) for n, fault in enumerate(ATTENTION_FAULTS)
    }
    suite = carved(cases, tmp_path, "float16")
    validated(suite, as_matrices(suite, ATTENTION_FAULTS, matrix_texts, monkeypatch))


@pytest.mark.slow
def test_faults_of_products_are_named(
    tmp_path: Path, software: list[str], matrix_texts: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the second barrier there is nothing else to be seen, of the third one that the output is zeros."""
    blocks_are(monkeypatch, lambda *sizes: SMALL)
    barriers = "no barrier behind what is multiplied", "no barrier before sums are read"
    chosen = {fault: PRODUCT_FAULTS[fault] for fault in ("none", *barriers, "another offset, left")}
    suite = products(chosen, tmp_path)
    named = as_matrices(suite, chosen, matrix_texts, monkeypatch)
    with Server() as server:
        context = JobContext(suite, [server.state.device("deno")], server.state.blobs)
        document = Locate(context, model=False).run()
    accused = {found["kernel"]: found for found in document["kernels"]}
    assert accused.keys() == {kernel for fault, kernel in named.items() if fault != "none"}
    assert document["missing_barriers"] == []
    for fault in barriers:
        kernel = accused[named[fault]]
        (race,) = [finding for finding in kernel["findings"] if finding["pattern"] == "race"]
        (file,) = suite.kernel_files(named[fault])
        assert race["text"] in kernel["reason"]
        lines = [file.text.split("\n")[race["details"][which] - 1] for which in ("written", "read")]
        assert all(race["details"]["variable"] in line for line in lines)
        assert ["subgroupMatrix" in line for line in lines] == (
            [False, True] if fault == barriers[0] else [True, False]
        )
    assert "no workgroupBarrier()" not in accused[named["another offset, left"]]["reason"]
