"""kernels/NAME.json: version 1 still opens, variants written by hand work, mistakes in them are named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers import small_model
from tapml.carving.carve import carve
from tapml.errors import InputError
from tapml.suite import Suite

Document = dict[str, Any]


def path_of(suite: Suite, kernel: str) -> Path:
    return suite.path / "kernels" / f"{kernel}.json"


def rewrite(suite: Suite, kernel: str, change: Callable[[Document], object]) -> None:
    path = path_of(suite, kernel)
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def to_version_1(document: Document) -> None:
    """As tapml wrote it before there were variants."""
    (variant,) = document.pop("variants") or [None]
    shapes = [argument["shape"] for argument in document["arguments"]]
    document |= {"format": "tapml.kernel/1", "generator": {"name": "tvm", "version": "0.27", "target": {}}}
    document |= {"entry_points": [], "dispatches": [], "requires": {"features": [], "limits": {}}}
    if variant:
        launched = {"shapes": shapes, "launches": variant["launches"], "temporaries": variant["temporaries"]}
        document |= {"entry_points": variant["entry_points"], "dispatches": [launched]}
        document["requires"] = variant["requires"]


def by_hand(suite: Suite, kernel: str, **changes: Any) -> None:
    """An author's variant before the generated one, with no more than has to be written."""

    def add(document: Document) -> None:
        (base,) = document["variants"]
        entry_point = {k: v for k, v in base["entry_points"][0].items() if k not in ("generated_sha256", "bindings")}
        requires = {"features": ["shader-f16"], "limits": {"maxComputeInvocationsPerWorkgroup": 128}}
        variant = {
            **base, "name": "f16", "requires": requires, "entry_points": [{**entry_point, "file": f"{kernel}@f16.wgsl"}]
        }  # fmt: skip
        document["variants"].insert(0, {**variant, **changes})

    generated = suite.kernel_files(kernel)[0].text
    (suite.path / "kernels" / f"{kernel}@f16.wgsl").write_text("enable f16;\n" + generated)
    rewrite(suite, kernel, add)


def test_version_1_reads_as_version_2_with_one_variant(suite: Suite) -> None:
    now = {kernel: suite.bundle(kernel) for kernel in suite.kernels}
    files = {kernel: suite.kernel_files(kernel) for kernel in suite.kernels}
    for kernel in suite.kernels:
        rewrite(suite, kernel, to_version_1)
        old = json.loads(path_of(suite, kernel).read_text())
        assert "variants" not in old
        assert suite.bundle(kernel) == {**now[kernel], "generator": old["generator"]}
        assert suite.kernel_files(kernel) == files[kernel]
    assert suite.edited_kernels == []
    assert json.loads(path_of(suite, suite.kernels[0]).read_text())["format"] == "tapml.kernel/1", "left as it was"


def test_version_1_without_wgsl_has_no_variant(suite: Suite) -> None:
    kernel = suite.kernels[0]

    def unsupported(document: Document) -> None:
        document |= {"variants": [], "unsupported": "no WGSL"}
        document |= {"format": "tapml.kernel/1", "entry_points": [], "dispatches": [], "requires": {}}
        del document["variants"]

    rewrite(suite, kernel, unsupported)
    assert suite.bundle(kernel)["variants"] == []
    assert suite.kernel_files(kernel) == []


def test_a_variant_by_hand_works(suite: Suite) -> None:
    kernel = suite.kernels[0]
    by_hand(suite, kernel)
    first, base = suite.bundle(kernel)["variants"]
    assert first["requires"]["features"] == ["shader-f16"]
    assert first["entry_points"][0] == {
        **base["entry_points"][0], "file": f"{kernel}@f16.wgsl", "generated_sha256": None, "bindings": []
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
    assert [first["launches"], first["temporaries"]] == [base["launches"], base["temporaries"]]
    assert first["entry_points"][0]["info"] == base["entry_points"][0]["info"]


BASE: Document = {"entry_point": "nothing", "arguments": [], "dispatch": [1, 1, 1], "workgroup_size": [1, 1, 1]}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"requires": {"features": ["shader-f16"], "limit": {}}}, ["variants[0].requires.limits"]),
        ({"requires": {"features": "shader-f16", "limits": {}}}, ["variants[0].requires.features", "list"]),
        ({"requires": {"features": [], "limits": {"maxBufferSize": "large"}}}, ["requires.limits.maxBufferSize"]),
        ({"requires": {"features": [], "limits": {"maxBufferSize": -1}}}, ["maxBufferSize", "negative"]),
        ({"name": "256"}, ["variants[1].name", "'256'", "twice"]),
        ({"name": "a/b"}, ["variants[0].name"]),
        ({"speed": "fast"}, ["variants[0].speed"]),
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


def first_launch(document: Document) -> Document:
    launch: Document = document["variants"][0]["launches"][0]
    return launch


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.pop("arguments"), ["arguments"]),
        (lambda d: d.update(variants=[]), ["variants", "none there"]),
        (lambda d: d.update(unsupported="too new"), ["unsupported", "'too new'", "null"]),
        (lambda d: d["variants"][0]["entry_points"][0].update(file="../suite.json"), ["entry_points[0].file"]),
        (lambda d: d["variants"][0]["entry_points"][0].pop("info"), ["entry_points[0].info"]),
        (lambda d: first_launch(d)["arguments"].pop(), ["launches[0].arguments", "info.arg_types"]),
        (lambda d: first_launch(d)["arguments"][0].update(argument=9), ["launches[0].arguments[0].argument"]),
        (lambda d: first_launch(d)["arguments"].__setitem__(0, {"temporary": 0}), ["arguments[0].temporary"]),
        (lambda d: d.update(format="tapml.kernel/3"), ["newer tapml", "pip install --upgrade"]),
        (lambda d: d.update(format="tapml.suite/1"), ["tapml.kernel/2"]),
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
