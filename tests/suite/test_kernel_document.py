"""kernels/NAME.json: variants written by hand work, with sizes too, and mistakes in them are named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers import small_model
from tapml.carving.carve import carve
from tapml.errors import InputError
from tapml.server.watching import state_of
from tapml.suite import Suite

Document = dict[str, Any]


def path_of(suite: Suite, kernel: str) -> Path:
    return suite.path / "kernels" / f"{kernel}.json"


def rewrite(suite: Suite, kernel: str, change: Callable[[Document], object]) -> None:
    path = path_of(suite, kernel)
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def by_hand(suite: Suite, kernel: str, **changes: Any) -> None:
    """An author's variant before the generated one, with no more than has to be written."""

    def add(document: Document) -> None:
        (base,) = document["variants"]
        entry_point = {k: v for k, v in base["entry_points"][0].items() if k != "generated_sha256"}
        requires = {"features": ["shader-f16"], "limits": {"maxComputeInvocationsPerWorkgroup": 128}}
        variant = {
            **base, "name": "f16", "requires": requires, "entry_points": [{**entry_point, "file": f"{kernel}@f16.wgsl"}]
        }  # fmt: skip
        document["variants"].insert(0, {**variant, **changes})

    generated = suite.kernel_files(kernel)[0].text
    (suite.path / "kernels" / f"{kernel}@f16.wgsl").write_text("enable f16;\n" + generated)
    rewrite(suite, kernel, add)


def test_a_variant_by_hand_works(suite: Suite) -> None:
    kernel = suite.kernels[0]
    by_hand(suite, kernel)
    first, base = suite.bundle(kernel)["variants"]
    assert first["requires"]["features"] == ["shader-f16"]
    assert first["entry_points"][0] == {
        **base["entry_points"][0], "file": f"{kernel}@f16.wgsl", "generated_sha256": None
    }  # fmt: skip
    files = suite.kernel_files(kernel)
    assert [(file.name, file.edited) for file in files] == [(f"{kernel}@f16.wgsl", True), (f"{kernel}.wgsl", False)]
    assert files[0].text.startswith("enable f16;")
    assert suite.edited_kernels == [kernel], "what nobody generated is reported, and not replaced by the demo"


def test_the_documented_example_reads(suite: Suite) -> None:
    text = (Path(__file__).parents[2] / "docs/suite-format.md").read_text()
    example = json.loads(text.split("### A variant by hand")[1].split("```json")[1].split("```")[0])
    rewrite(suite, "softmax", lambda document: document["variants"].insert(0, example))
    first, base = suite.bundle("softmax")["variants"]
    assert first["temporaries"] == base["temporaries"]
    written, generated = (
        [(b["binding"], b["access"]) for b in variant["entry_points"][0]["bindings"]] for variant in (first, base)
    )
    assert written == generated[:-1], "all but the uniform, which a kernel by hand need not have"
    assert [{**launch, "uniforms": []} for launch in base["launches"]] == first["launches"]


BASE: Document = {"entry_point": "nothing", "operands": [], "uniforms": [], "grid": [1, 1, 1]}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"requires": {"features": ["shader-f16"], "limit": {}}}, ["there is no field limit", "limits?"]),
        ({"requires": {"features": "shader-f16", "limits": {}}}, ["variants[0].requires.features", "list"]),
        ({"requires": {"features": [], "limits": {"maxBufferSize": "large"}}}, ["requires.limits.maxBufferSize"]),
        ({"requires": {"features": [], "limits": {"maxBufferSize": -1}}}, ["maxBufferSize", "negative"]),
        ({"name": "256"}, ["variants[1].name", "'256'", "twice"]),
        ({"name": "a/b"}, ["variants[0].name"]),
        ({"speed": "fast"}, ["variants[0]: there is no field speed"]),
        ({"entry_points": []}, ["variants[0].entry_points"]),
        ({"launches": []}, ["variants[0].launches"]),
        ({"launches": [BASE]}, ["variants[0].launches[0].entry_point", "'nothing'", "_kernel"]),
    ],
)  # fmt: skip
def test_a_mistake_in_a_variant_names_file_and_field(suite: Suite, changes: Document, words: list[str]) -> None:
    kernel = suite.kernels[0]
    by_hand(suite, kernel, **changes)
    with pytest.raises(InputError) as caught:
        suite.bundle(kernel)
    for word in (str(path_of(suite, kernel)), "docs/suite-format.md", *words):
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


N: Document = {"name": "n", "minimum": 1, "maximum": 64}


def first_launch(document: Document) -> Document:
    launch: Document = document["variants"][0]["launches"][0]
    return launch


def uniform(document: Document) -> Document:
    found: Document = first_launch(document)["uniforms"][0]
    return found


def bindings(document: Document) -> list[Document]:
    found: list[Document] = document["variants"][0]["entry_points"][0]["bindings"]
    return found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.pop("arguments"), ["arguments"]),
        (lambda d: d.update(variants=[]), ["variants", "none there"]),
        (lambda d: d.update(unsupported="too new"), ["unsupported", "'too new'", "null"]),
        (lambda d: d["variants"][0]["entry_points"][0].update(file="../suite.json"), ["entry_points[0].file"]),
        (lambda d: d["variants"][0]["entry_points"][0].pop("bindings"), ["entry_points[0].bindings"]),
        (lambda d: bindings(d)[0].update(access="written"), ["entry_points[0].bindings[0].access"]),
        (lambda d: bindings(d)[0].update(binding=1), ["entry_points[0].bindings", "a number stands twice"]),
        (lambda d: bindings(d)[0].update(access="uniform"), ["bindings", "more than one is a uniform"]),
        (lambda d: first_launch(d)["operands"].pop(), ["launches[0].operands", "3 given", "has 4 bindings"]),
        (lambda d: first_launch(d)["operands"][0].update(argument=9), ["launches[0].operands[0].argument"]),
        (lambda d: first_launch(d)["operands"].__setitem__(0, {"temporary": 0}), ["operands[0].temporary"]),
        (lambda d: first_launch(d).update(uniforms=[]), ["launches[0].uniforms", "0 given", "1 uniform binding"]),
        (lambda d: uniform(d).update(value=-1), ["launches[0].uniforms[0].value: -1, and must be at least 0"]),
        (lambda d: uniform(d).update(value=2**32), ["uniforms[0].value: 4294967296, and must be at most 4294967295"]),
        (lambda d: uniform(d).update(value=0.5), ["uniforms[0].value: a number is no expression"]),
        (lambda d: first_launch(d).update(grid=[1, 1]), ["launches[0].grid"]),
        (lambda d: first_launch(d).update(grid=[1, ["sub", 1, 4], 1]), ["launches[0].grid[1]: 1 - 4 is -3"]),
        (lambda d: first_launch(d).update(grid=[["ceildiv", 1, 0], 1, 1]), ["grid[0]: ceildiv(1, 0) divides by zero"]),
        (lambda d: first_launch(d).update(grid=["n", 1, 1]), ["grid[0]: there is no symbol n here: there are none"]),
        (lambda d: first_launch(d).update(grid=[["pow", 2, 3], 1, 1]), ["grid[0]", "a list of 3 is no expression"]),
        (lambda d: d["variants"][0].update(temporaries=[["mul", 2**30, 2**30]]), ["temporaries[0]", "beyond 2^53"]),
        (lambda d: d.update(symbols=[{"name": "n", "minimum": 4, "maximum": 2}]), ["symbols[0]", "above its maximum"]),
        (lambda d: d.update(symbols=[N, N]), ["symbols", "a name stands twice"]),
        (lambda d: d.update(compiler={"name": "tvm"}), ["compiler.version"]),
        (lambda d: d.update(format="tapml.kernel/5"), ["newer tapml", "pip install --upgrade"]),
        (lambda d: d.update(format="tapml.suite/1"), ["tapml.kernel/4"]),
    ],
)
def test_damage_names_file_and_field(suite: Suite, change: Callable[[Document], object], words: list[str]) -> None:
    kernel = suite.kernels[0]
    rewrite(suite, kernel, change)
    with pytest.raises(InputError) as caught:
        suite.bundle(kernel)
    for word in (str(path_of(suite, kernel)), *words):
        assert word in str(caught.value)


def test_a_missing_file_names_its_variant(suite: Suite) -> None:
    kernel = suite.kernels[0]
    by_hand(suite, kernel)
    (suite.path / "kernels" / f"{kernel}@f16.wgsl").unlink()
    with pytest.raises(InputError, match=rf"{kernel}, variant f16: .*{kernel}@f16\.wgsl is missing"):
        suite.kernel_files(kernel)


def test_a_fat_suite_lists_all_variants_files(tmp_path: Path) -> None:
    suite = carve(small_model(), tmp_path / "fat.suite", name="fat", variants=["256", "256+subgroups"])
    kernel = next(name for name in suite.kernels if name.startswith("softmax"))
    assert [variant["name"] for variant in suite.bundle(kernel)["variants"]] == ["256+subgroups", "256"]
    assert [file.name for file in suite.kernel_files(kernel)] == [f"{kernel}@256+subgroups.wgsl", f"{kernel}.wgsl"]
    assert suite.edited_kernels == []
    edited = suite.path / "kernels" / f"{kernel}@256+subgroups.wgsl"
    edited.write_text(edited.read_text() + "// tuned\n")
    assert suite.edited_kernels == [kernel]


def with_symbol(suite: Suite, **sizes: int) -> None:
    """The softmax of n rows, and the sizes of its calls."""

    def change(document: Document) -> None:
        document["symbols"] = [N]
        for argument in document["arguments"]:
            argument["shape"][0] = "n"
        first_launch(document).update(grid=[["sub", "n", 2], 1, 1])

    rewrite(suite, "softmax", change)
    tests = json.loads((suite.path / "tests.json").read_text())
    for test in tests["tests"]:
        if test["kernel"] == "softmax":
            test["sizes"] = sizes
    (suite.path / "tests.json").write_text(json.dumps(tests))


def test_a_carved_test_has_the_sizes_of_its_call(suite: Suite) -> None:
    with_symbol(suite, n=6)
    opened = Suite(suite.path)
    assert opened.bundle("softmax")["symbols"] == [N]
    assert {tuple(test.sizes.items()) for test in opened.tests if test.kernel == "softmax"} == {(("n", 6),)}
    node = next(test.node for test in opened.tests if test.kernel == "softmax")
    assert opened.sizes_of(node, opened.model_graph) == {"n": 6}


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({}, "no size is given for n (1 to 64)"),
        ({"n": 65}, "n is 65, and must be from 1 to 64"),
        ({"n": 6, "m": 1}, "a size is given for m, and there is no symbol m here: there are n"),
        ({"n": 1}, "variants[0].launches[0].grid[0]: n - 2 is -1 where n = 1, and must be at least 0"),
        ({"n": 5}, "calls it with float32[6, 16], float32[6, 16]"),
    ],
)
def test_sizes_that_are_no_call_are_told(suite: Suite, sizes: dict[str, int], words: str) -> None:
    with_symbol(suite, **sizes)
    with pytest.raises(InputError) as caught:
        Suite(suite.path).bundle("softmax")
    for word in (str(path_of(suite, "softmax")), "node n", words):
        assert word in str(caught.value)


def test_sizes_of_a_kernel_without_symbols_are_told(suite: Suite) -> None:
    document = path_of(suite, "softmax").read_text()
    with_symbol(suite, n=6)
    path_of(suite, "softmax").write_text(document)
    with pytest.raises(InputError, match=r"a size is given for n, and there is no symbol n here: there are none"):
        Suite(suite.path).bundle("softmax")


def test_another_launch_is_an_edit_until_it_is_undone(suite: Suite) -> None:
    """The WGSL is what was generated; who launches more workgroups of it does not run what was generated."""
    kernel = suite.kernels[0]
    before = path_of(suite, kernel).read_text()
    assert not suite.kernel(kernel).edited

    def more(document: Document) -> None:
        document["variants"][0]["launches"][0]["grid"][0] += 1

    rewrite(suite, kernel, more)
    assert not any(file.edited for file in suite.kernel_files(kernel))
    assert suite.edited_kernels == [kernel]
    assert state_of(suite, kernel)["edited"]
    rewrite(suite, kernel, lambda document: document["compiler"].pop("generated_sha256"))
    assert suite.edited_kernels == [], "what a former version carved does not tell"
    path_of(suite, kernel).write_text(before)
    assert suite.edited_kernels == []
