"""`--compiler auto`: which kernels are shipped, by tables of times and by the model."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tvm import relax

from helpers import small_model, small_module
from tapml.carving.carve import carve
from tapml.compilers.auto.choice import CLOSE, NEVER, chosen, everywhere
from tapml.compilers.auto.combined import Offer, combined, together
from tapml.compilers.auto.compile import AutoCompiler
from tapml.compilers.auto.digest import digest, judged_sizes
from tapml.compilers.auto.expected import coefficients, modelled, offers
from tapml.compilers.auto.likely import likely_tiles
from tapml.compilers.auto.space import Candidate, NativeSpace, candidates
from tapml.compilers.auto.table import FORMAT, Tuned, read_table, shipped, text_key
from tapml.compilers.choose import check_kernel, compilers_of
from tapml.compilers.native.compile import recognised
from tapml.compilers.native.matmul import matmul
from tapml.compilers.native.skinny import Split
from tapml.compilers.native.tiles import Tile
from tapml.errors import InputError
from tapml.expressions import Symbol
from tapml.kernels.document import kernel_document
from tapml.lowering.lower import lower
from tapml.lowering.operator import Operator


@pytest.fixture(scope="module")
def operators() -> list[Operator]:
    return list(lower(small_module(), 1).operators)


@pytest.fixture(scope="module")
def space(operators: list[Operator]) -> dict[str, list[Candidate]]:
    return candidates(operators, splits=(1,))


def product(operators: Sequence[Operator]) -> Operator:
    return next(one for one in operators if "matmul" in one.name)


def product_of(rows: int, columns: int, inner: int) -> Operator:
    """Of x and w."""
    builder = relax.BlockBuilder()
    x, w = (
        relax.Var(name, relax.TensorType(shape, "float32"))
        for name, shape in (("x", (rows, inner)), ("w", (inner, columns)))
    )
    with builder.function("main", [x, w]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.matmul(x, w))
        builder.emit_func_output(out)
    return product(lower(builder.finalize(), 2).operators)


def table(device: str, wide: str, operator: Operator, found: Sequence[Candidate], times: Mapping[str, float]) -> Tuned:
    measured = [
        {"name": one.name, "text": one.key, "microseconds": times[one.name]} for one in found if one.name in times
    ]
    kernel = {"operator": digest(operator), "name": operator.name, "candidates": measured}
    return Tuned.model_validate(
        {"format": FORMAT, "classes": [device, wide], "device": "made up", "clock": "gpu", "kernels": [kernel]}
    )


def test_the_space_has_each_text_once_by_the_name_that_makes_it_again(
    operators: list[Operator], space: dict[str, list[Candidate]]
) -> None:
    for operator in operators:
        found = space[operator.name]
        keys = [one.key for one in found]
        assert len({tuple(one.texts) for one in found}) == len(found)
        assert [one.name for one in found[:2]] == ["tvm", "native"]
        for one, key in zip(found[1:], keys[1:], strict=True):
            again = NativeSpace(operator).named(one.name)
            assert again is not None
            assert again.key == key
    assert NativeSpace(operators[0]).named("native.tile-3x3x3x3") is None


def test_a_model_chooses_of_fewer_than_there_are() -> None:
    """Without tiles that mostly lie outside of a product, as one of 128 x 64 of sixteen rows does."""
    found = NativeSpace(product(lower(small_module(16), 1).operators))
    usual, every = [one.name for one in found.usual(found.tiles)], [one.name for one in found.all((1,))]
    assert usual[0] == every[0] == "native"
    assert {*usual} < {*every}
    assert "native.tile-8x8x16x8" in {*every} - {*usual}


def test_what_a_template_does_not_take_part_in_has_none_of_its_parameters(operators: list[Operator]) -> None:
    def kinds(operator: Operator) -> set[str]:
        space = NativeSpace(operator)
        return {one.name.split(".")[1].split("-")[0] for one in space.usual(space.tiles)[1:]}

    assert kinds(product(operators)) == {"split"}
    assert kinds(next(one for one in operators if "softmax" in one.name)) == set()
    sixteen = lower(small_module(16), 1).operators
    assert kinds(product(sixteen)) == {"tile"}


@pytest.mark.parametrize("rows", [1, 16])
def test_the_parameter_that_the_template_takes_itself_makes_its_own_text(rows: int) -> None:
    """So that no candidate of it is made."""
    operator = product(lower(small_module(rows), 1).operators)
    space, found = NativeSpace(operator), recognised(operator)
    own, native = space.own_parameter, space.named("native")
    assert isinstance(own, Tile if rows > 1 else Split)
    assert found is not None
    assert native is not None
    launches = matmul(found, chosen=own)
    assert launches is not None
    assert [launch.text for launch in launches] == [*native.texts]
    assert native.texts not in [one.texts for one in space.usual(space.tiles)[1:]]


def test_lanes_that_would_have_nothing_to_do_are_not_chosen_from() -> None:
    """Four of them have all nine points of the inner axis."""
    space = NativeSpace(product_of(2, 50, 9))
    assert [one.name for one in space.usual(space.tiles)] == ["native", "native.split-4.vectors-1"]


@pytest.mark.parametrize("shape", [(512, 384, 384), (64, 2000, 96), (33, 65, 1000), (1000, 40, 27)])
def test_of_the_tiles_that_are_likely_one_is_the_best_by_the_model(shape: tuple[int, int, int]) -> None:
    """Which is told from the text of one of them."""
    space = NativeSpace(product_of(*shape))
    likely = likely_tiles(space, {})
    assert len(likely) < len(space.tiles)
    times = {tile: modelled(made, {}) for tile in space.tiles if (made := space.tile(tile)) is not None}
    for kind in coefficients():
        spent = {tile: told[kind] for tile, told in times.items() if told is not None}
        assert min(spent[tile] for tile in likely) <= 1.05 * min(spent.values())


def test_operators_that_compute_the_same_have_one_digest(operators: list[Operator]) -> None:
    """Whatever they are called; of other sizes they have others."""
    again = lower(small_module(), 1).operators
    assert [digest(one) for one in operators] == [digest(one) for one in again]
    assert len({digest(one) for one in operators}) == len(operators)
    larger = lower(small_module(9), 1).operators
    assert not {digest(one) for one in operators} & {digest(one) for one in larger}


def offer(name: str, expected: Mapping[str, float], features: Sequence[str] = (), **limits: int) -> Offer:
    variant = {"name": "256", "requires": {"features": [*features], "limits": limits}}
    kernel: Any = type("Kernel", (), {"document": {"variants": [variant]}, "files": []})()
    return Candidate(name, kernel), expected


def names(offers: Sequence[Offer]) -> list[str]:
    return [candidate.name for candidate, _ in offers]


def test_one_that_is_close_to_the_fastest_everywhere_is_enough() -> None:
    found = chosen([offer("a", {"gpu": 1, "software": 9}), offer("b", {"gpu": CLOSE, "software": 8.9}),
                    offer("c", {"gpu": 3, "software": 8.5})])  # fmt: skip
    assert names(found) == ["b"]


def test_where_classes_differ_each_has_its_own_and_the_unknown_gpus_is_first() -> None:
    found = chosen([offer("a", {"gpu": 1, "software": 90}), offer("b", {"gpu": 5, "software": 3}),
                    offer("c", {"gpu": 2, "software": 4})])  # fmt: skip
    assert names(found) == ["a", "b"]


def test_where_nothing_is_known_of_gpus_they_have_what_the_template_estimates() -> None:
    found = chosen(
        [offer("tvm", {"llvmpipe": 9}), offer("native", {"llvmpipe": 8}), offer("native.x", {"llvmpipe": 1})]
    )
    assert names(found) == ["native", "native.x"]


def test_what_not_every_device_has_is_shipped_with_something_that_it_has() -> None:
    matrices = "chromium-experimental-subgroup-matrix"
    plain, wide = offer("a", {"gpu": 9.0}), offer("w", {"gpu": 1.0}, maxComputeWorkgroupStorageSize=32768)
    fast, slow = offer("m", {"gpu": 2.0}, [matrices]), offer("m", {"gpu": 8.9}, [matrices])
    assert names(chosen([wide, fast, plain])) == ["m", "a"]
    assert names(chosen([slow, plain])) == ["a"]
    [(_, told), *others] = chosen([slow, plain], measured=False)
    assert not told
    assert names(others) == ["a"]
    assert chosen([wide, fast]) == []


def test_a_kernel_of_several_has_the_texts_of_all(operators: list[Operator], space: dict[str, list[Candidate]]) -> None:
    operator = product(operators)
    found = space[operator.name][:3]
    other = found[2].name.removeprefix("native.")
    assert together(found)
    kernel = combined(operator.name, [(one, {"gpu": 1.0 + place}) for place, one in enumerate(found)])
    check_kernel(kernel, operator)
    variants = kernel.document["variants"]
    assert [one["name"] for one in variants] == ["256+tvm", "256", f"256+{other}"]
    assert [one.get("compiler") for one in variants] == ["tvm", None, None]
    assert [one["expected"] for one in variants] == [{"gpu": 1.0}, {"gpu": 2.0}, {"gpu": 3.0}]
    files = [file.name for file in kernel.files]
    assert files == [f"{operator.name}{suffix}.wgsl" for suffix in ("@tvm", "@native", "")]
    assert [file.text for file in kernel.files] == [text for one in found for text in one.texts]
    (alone,) = combined(operator.name, [(found[0], {"gpu": 1.0})]).document["variants"]
    assert alone["name"] == "256"
    assert "expected" not in alone


def test_tables_decide(operators: list[Operator], space: dict[str, list[Candidate]]) -> None:
    operator = product(operators)
    found = space[operator.name]
    other = found[2].name
    quick, best = {"tvm": 5.0, "native": 7.0}, {"tvm": 50.0, "native": 40.0, other: 4.0}
    both = [
        table("swiftshader", "software", operator, found, quick),
        table("acme/one", "gpu", operator, found, best),
    ]
    kernel = AutoCompiler(both).compile([operator], ("256",))[operator.name].document
    assert [one["name"] for one in kernel["variants"]] == [f"256+{other.removeprefix('native.')}", "256+tvm"]
    # What a class was not measured with is nothing for it.
    assert kernel["variants"][0]["expected"]["swiftshader"] == NEVER
    assert kernel["variants"][1]["expected"]["acme/one"] == 50.0
    alone = AutoCompiler([table("swiftshader", "software", operator, found, {"tvm": 5.0}), both[1]])
    assert alone.compile([operator], ("1024",))[operator.name].document["compiler"]["name"] == "tvm"


def test_a_time_is_of_a_text_and_of_no_other(operators: list[Operator], space: dict[str, list[Candidate]]) -> None:
    """What a later version of a template writes has not been measured."""
    operator = product(operators)
    found = space[operator.name]
    given = table("acme/one", "gpu", operator, found, {"tvm": 5.0, "native": 1.0})
    (kernel,) = given.kernels
    stale = kernel.model_copy(
        update={"candidates": [one.model_copy(update={"text": "0" * 16}) if one.name == "native" else one
                               for one in kernel.candidates]}
    )  # fmt: skip
    told = {one.name: expected["acme/one"] for one, expected in offers(found, [(given, stale)], {})}
    assert told["tvm"] == 5.0
    assert told["native"] == NEVER


def test_a_table_without_native_kernels_as_they_are_now_says_nothing(
    operators: list[Operator], space: dict[str, list[Candidate]]
) -> None:
    operator = product(operators)
    given = table("acme/one", "gpu", operator, space[operator.name], {"tvm": 5.0, "native": 1.0})
    assert chosen_of(operator, given) == ["native"]
    (kernel,) = given.kernels
    old = [one.model_copy(update={"text": "0" * 16}) if one.name != "tvm" else one for one in kernel.candidates]
    stale = given.model_copy(update={"kernels": [kernel.model_copy(update={"candidates": old})]})
    variants = AutoCompiler([stale]).compile([operator], ("256",))[operator.name].document["variants"]
    assert all("acme/one" not in one.get("expected", {}) for one in variants)


def test_a_table_whose_fastest_native_kernel_is_another_now_says_nothing(
    operators: list[Operator], space: dict[str, list[Candidate]]
) -> None:
    """TVM's would be taken for it: of what it was measured beside, the slower ones alone are left."""
    operator = product(operators)
    slower = next(one.name for one in space[operator.name] if one.name.startswith("native."))
    given = table("acme/one", "gpu", operator, space[operator.name], {"tvm": 5.0, "native": 1.0, slower: 9.0})
    (kernel,) = given.kernels
    old = [one.model_copy(update={"text": "0" * 16}) if one.name == "native" else one for one in kernel.candidates]
    stale = given.model_copy(update={"kernels": [kernel.model_copy(update={"candidates": old})]})
    variants = AutoCompiler([stale]).compile([operator], ("256",))[operator.name].document["variants"]
    assert all("acme/one" not in one.get("expected", {}) for one in variants)


def chosen_of(operator: Operator, given: Tuned) -> list[str]:
    """Whose kernels these are that an unknown GPU could run."""
    document = AutoCompiler([given]).compile([operator], ("256",))[operator.name].document
    best = min(document["variants"], key=lambda one: one.get("expected", {}).get("acme/one", 0.0))
    return [best.get("compiler", document["compiler"]["name"])]


def test_names_are_none_of_a_text(operators: list[Operator]) -> None:
    text = "fn a(b : f32) -> f32 { return b * 2.0; } // what it does"
    assert text_key([text]) == text_key(["fn other(x : f32) -> f32 {\n  return x * 2.0;\n}"])
    assert text_key([text]) != text_key([text.replace("2.0", "3.0")])


def test_where_no_table_knows_the_model_decides(space: dict[str, list[Candidate]]) -> None:
    """Its numbers are positive, and of all kinds that it has coefficients of."""
    for found in space.values():
        for one in found:
            told = modelled(one, {})
            assert told is not None
            assert set(told) == set(coefficients())
            assert all(value > 0 for value in told.values())


def test_what_comes_with_tapml_is_whole() -> None:
    assert len({one.classes[0] for one in shipped()}) == len(shipped()) > 0
    for one in shipped():
        assert one.kernels
        assert all(any(found.microseconds for found in kernel.candidates) for kernel in one.kernels)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": "tapml.suite/1"}, "not 'tapml.tuned/1'"),
        ({"format": "tapml.tuned/2"}, "newer tapml"),
        ({"classes": []}, "classes"),
        ({"classes": ["../x"]}, "classes"),
        ({"clock": "sun"}, "clock"),
        ({"kernels": [{"operator": "x", "name": "a", "candidates": []}]}, "operator"),
        ({"kernels": [{"operator": "0" * 64, "name": "a", "candidates": [{"name": "tvm", "text": "0" * 16,
          "microseconds": -1.0}]}]}, "microseconds"),
        ({"kernels": [{"operator": "0" * 64, "name": "a", "candidates": [{"name": "native.$(x)", "text": "0" * 16}]}]},
         "name"),
        ({"more": 1}, "more"),
    ],
)  # fmt: skip
def test_a_table_that_is_wrong_is_refused_by_its_field(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    whole = {"format": FORMAT, "classes": ["a", "gpu"], "device": "", "clock": "gpu", "kernels": []}
    path.write_text(json.dumps(whole))
    assert read_table(path).kernels == []
    path.write_text(json.dumps({**whole, **change}))
    with pytest.raises(InputError, match=says) as refused:
        read_table(path)
    assert str(path) in str(refused.value)


def test_a_table_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="tapml tune"):
        read_table(tmp_path / "none.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(InputError, match="no JSON object"):
        read_table(tmp_path / "list.json")
    with pytest.raises(InputError, match="--compiler native leaves nothing"):
        compilers_of("native", [tmp_path / "list.json"])


def test_all_that_is_shipped_is_carved(tmp_path: Path) -> None:
    suite = carve(small_model(), tmp_path / "small.suite", name="small", compilers=compilers_of("auto"))
    for name in suite.kernels:
        document = suite.bundle(name)
        assert document["variants"]
        assert all(variant.get("expected") for variant in document["variants"]) or len(document["variants"]) == 1
    assert suite.edited_kernels == []


@pytest.fixture(scope="module")
def large() -> Operator:
    """A product that reads each element of its factors 85 times."""
    return product_of(128, 256, 128)


def test_only_what_was_measured_has_textures(large: Operator) -> None:
    """A product that reads its factors often has candidates with textures, of which a model knows nothing."""
    space = NativeSpace(large)
    own = [one for one in space.all((1,)) if one.variant.get("textures")]
    assert len(own) == 4
    assert not any(one.variant.get("textures") for one in space.usual(space.tiles))
    for one in own:
        assert modelled(one, {}) is None
        assert everywhere(one)
        again = NativeSpace(large).named(one.name)
        assert again is not None
        assert again.key == one.key
        assert one.variant["encodings"].keys() == {"x", "w"}


def test_a_measured_kernel_with_textures_is_chosen(large: Operator) -> None:
    found = candidates([large], splits=(1,))[large.name]
    fast = next(one for one in found if one.variant.get("textures"))
    times = {"tvm": 9.0, "native": 5.0, fast.name: 2.0}
    measured = table("some/gpu", "gpu", large, found, times)
    document = AutoCompiler([measured], others=[]).compile([large], ("256",))[large.name].document
    (variant,) = [one for one in document["variants"] if one.get("textures")]
    assert variant["textures"] == fast.variant["textures"]
    assert min(one["expected"]["some/gpu"] for one in document["variants"]) == variant["expected"]["some/gpu"] == 2.0
    assert kernel_document(Path("product.json"), document)["variants"]


@pytest.mark.parametrize(
    ("least", "most", "judged"),
    [(1, 1, 1), (1, 8, 3), (1, 64, 16), (1, 1024, 256), (0, 1024, 256), (512, 1024, 724), (1, 2**17, 1024)],
)
def test_a_kernel_of_many_sizes_is_judged_at_large_ones(
    operators: list[Operator], least: int, most: int, judged: int
) -> None:
    operator = dataclasses.replace(operators[0], symbols=[Symbol(name="n", minimum=least, maximum=most)])
    assert judged_sizes(operator) == {"n": judged}


def test_the_template_chooses_for_gpus_of_products_of_few_rows() -> None:
    """Where no table of a GPU knows them. What it takes there is what the model expects of the fastest."""
    operator = product_of(1, 768, 1536)
    space = NativeSpace(operator)
    own = space.named("native")
    assert own is not None
    kernel = AutoCompiler(others=[]).compile([operator], ("256",))[operator.name]
    fastest = min(kernel.document["variants"], key=lambda variant: variant["expected"]["gpu"])
    texts = {file.name: file.text for file in kernel.files}
    assert tuple(texts[point["file"]] for point in fastest["entry_points"]) == own.texts
    usual = [told["gpu"] for one in space.usual(space.tiles) if (told := modelled(one, {})) is not None]
    assert fastest["expected"]["gpu"] == pytest.approx(min(usual), rel=1e-3)
    assert len({variant["expected"]["gpu"] for variant in kernel.document["variants"]}) > 1
