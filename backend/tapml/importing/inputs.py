"""The inputs a model is run with: read from files or made up, and checked against what the model
takes.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from tapml.errors import InputError
from tapml.files import check_file
from tapml.importing.dtypes import narrow_array
from tapml.importing.model import Array
from tapml.npy import MOST_BYTES, open_npz, read_npy
from tapml.program import TensorType
from tapml.text import exact_size, listed, meant

_BYTES = {
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "F8_E8M0": ml_dtypes.float8_e8m0fnu,
}
"""Numbers of a byte, by the names that .safetensors has for them."""

# Of a .safetensors file; the library takes ten times as much memory to read it.
_MOST_HEADER = 8_000_000


@dataclass(frozen=True)
class InputSpec:
    """One input of a model as its file declares it.

    A dimension is a number, or a name (equal names are equal numbers), or None for any number;
    `shape` None is any rank. `bound` is one more than the largest index the model can take here (a
    table's rows), if it is one. `example` gives the sizes to use for named dimensions where the
    file suggests some.
    """

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] | None
    bound: int | None = None
    example: tuple[int, ...] | None = None

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.name} {self.dtype}[...]"
        sizes = ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.name} {self.dtype}[{sizes}]"


@dataclass(frozen=True)
class RawStep:
    """One run's inputs in the model's own dtypes (int64, bool and float64 included), in the order
    of its specs.
    """

    description: str
    arrays: dict[str, Array]
    synthetic: bool

    def narrowed(self) -> tuple[dict[str, Array], list[str]]:
        """The inputs as the graph takes them, and notes on values that had to change."""
        arrays, notes = {}, []
        for name, array in self.arrays.items():
            arrays[name], note = narrow_array(array, f"input {name} of {self.description}")
            notes += [note] if note else []
        return arrays, notes


GatherSteps: TypeAlias = Callable[[Sequence[InputSpec]], list[RawStep]]
"""From what a model takes to the runs that it is given."""


def gather_steps(
    specs: Sequence[InputSpec],
    input_files: Sequence[Path],
    input_arrays: Mapping[str, Path],
    random_inputs: bool,
    seed: int,
) -> list[RawStep]:
    """One step for each input file, one for the named arrays together, or one that is made up.

    Raises InputError where none is asked for, a file cannot be read, an input is missing,
    unexpected or of the wrong shape or dtype.
    """
    steps = [_from_file(specs, path) for path in input_files]
    if input_arrays:
        arrays = {name: _read_array(name, path) for name, path in input_arrays.items()}
        names = ", ".join(f"{name}={path.name}" for name, path in input_arrays.items())
        steps.append(
            _checked(
                specs,
                names,
                _Given({n: TensorType(a.shape, str(a.dtype)) for n, a in arrays.items()}, arrays.__getitem__),
            )
        )
    if random_inputs and not steps:
        steps.append(RawStep(f"random inputs, seed {seed}", _made_up(specs, seed), synthetic=True))
    if not steps:
        raise InputError(
            f"the model needs inputs ({_listed(specs)}): give real inputs with --inputs or "
            "--input, or --random-inputs for made-up ones"
        )
    return steps


@dataclass(frozen=True)
class _Given:
    """Arrays that somebody gave, by name: what they say that they are, and how to read one."""

    types: Mapping[str, TensorType]
    read: Callable[[str], Array]


def _from_file(specs: Sequence[InputSpec], path: Path) -> RawStep:
    """Nothing is read of a file whose arrays are not those that the model takes."""
    if path.suffix not in (".npz", ".safetensors"):
        raise InputError(
            f"{path}: inputs are a .npz or a .safetensors file (a .npy goes with its name: --input NAME=FILE)"
        )
    check_file(path)
    try:
        with _safetensors(path) if path.suffix == ".safetensors" else _npz(path) as given:
            return _checked(specs, path.name, given)
    except InputError:
        raise
    except Exception as error:  # each reader has errors of its own
        raise InputError(f"{path} is not a readable {path.suffix} file: {str(error)[:500]}; write it again") from error


@contextmanager
def _npz(path: Path) -> Iterator[_Given]:
    with open_npz(path) as archive:
        types = {name: TensorType(header.shape, str(header.dtype)) for name, header in archive.headers.items()}
        yield _Given(types, archive.read)


@contextmanager
def _safetensors(path: Path) -> Iterator[_Given]:
    from safetensors import safe_open

    with path.open("rb") as file:
        if (length := int.from_bytes(file.read(8), "little")) > _MOST_HEADER:
            raise ValueError(f"its header is said to have {length} bytes")
    if path.stat().st_size > MOST_BYTES + _MOST_HEADER:
        raise ValueError(f"it is larger than {exact_size(MOST_BYTES)}")
    with safe_open(path, "numpy") as opened:
        views = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118 - it is no dict
        types = {name: TensorType(tuple(view.get_shape()), view.get_dtype()) for name, view in views.items()}

        @functools.cache
        def places() -> tuple[int, Any]:
            """Where the tensors begin, and the header, read once for all tensors that the library does not give."""
            with path.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                return 8 + length, json.loads(file.read(length))

        def read(name: str) -> Array:
            if (dtype := _BYTES.get(types[name].dtype)) is None:
                return np.asarray(opened.get_tensor(name))
            # The library gives numpy no such numbers. What it says of the file it has checked.
            start, header = places()
            first, end = header[name]["data_offsets"]
            with path.open("rb") as file:
                file.seek(start + first)
                return np.frombuffer(file.read(end - first), dtype).reshape(types[name].shape)

        yield _Given(types, read)


def _read_array(name: str, path: Path) -> Array:
    check_file(path, f" (for input {name})")
    try:
        return read_npy(path)
    except OSError as error:
        raise InputError(f"{path} (for input {name}) cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(
            f"{path} (for input {name}) is not a readable .npy file: {error}; write it again with numpy.save"
        ) from error


def _checked(specs: Sequence[InputSpec], source: str, given: _Given) -> RawStep:
    expected = f"the model takes {_listed(specs)}"
    for spec in specs:
        if spec.name not in given.types:
            has = f"it has {listed([*given.types], 8)}" if given.types else "it has none"
            others = given.types.keys() - {other.name for other in specs}
            like = meant(spec.name, sorted(others))
            raise InputError(f"{source}: the input {spec.name!r} is missing{like or ':'} {has}, and {expected}")
    for name in given.types:
        if name not in {spec.name for spec in specs}:
            like = meant(name, [spec.name for spec in specs])
            raise InputError(f"{source}: there is no input {name[:200]!r}{like or ';'} {expected}")
    sizes: dict[str, tuple[int, str]] = {}
    for spec in specs:
        _check_shape(spec, source, given.types[spec.name], sizes)
    checked = {spec.name: _converted(spec, source, given.read(spec.name)) for spec in specs}
    return RawStep(source, checked, synthetic=False)


def _check_shape(spec: InputSpec, source: str, given: TensorType, sizes: dict[str, tuple[int, str]]) -> None:
    if spec.shape is None:
        return
    got = f"got {given}"
    if len(given.shape) != len(spec.shape):
        raise InputError(f"{source}: expected {spec}, {got}: {_reshaped(spec, given)}")
    for dimension, size in zip(spec.shape, given.shape, strict=True):
        if isinstance(dimension, int) and dimension != size:
            raise InputError(f"{source}: expected {spec}, {got}: {_reshaped(spec, given)}")
        if isinstance(dimension, str):
            known, where = sizes.setdefault(dimension, (size, spec.name))
            if known != size:
                raise InputError(
                    f"{source}: {dimension} is {known} in {where} but {size} in {spec.name} ({got}): give the same in "
                    "both"
                )


def _reshaped(spec: InputSpec, given: TensorType) -> str:
    """What to do about an array of another shape."""
    wanted = spec.shape or ()
    sizes = [size for size in wanted if isinstance(size, int)]
    if sizes and len(given.shape) == len(wanted) - 1 and _fits(wanted, (1, *given.shape)):
        return "give it an axis more, array[None]"
    if len(sizes) == len(wanted) and sorted(sizes) == sorted(given.shape):
        # Axes of one size stay in their order, such as height and width.
        places: dict[int, list[int]] = {}
        for axis, size in enumerate(given.shape):
            places.setdefault(size, []).append(axis)
        axes = ", ".join(str(places[size].pop(0)) for size in sizes)
        return f"its axes lie in another order, array.transpose({axes}) may be it"
    return f"give an array of {str(spec).removeprefix(f'{spec.name} ')}"


def _fits(wanted: Sequence[int | str | None], sizes: Sequence[int]) -> bool:
    return all(not isinstance(one, int) or one == size for one, size in zip(wanted, sizes, strict=True))


def _values_of(dtype: np.dtype[Any]) -> str:
    if dtype == np.bool_:
        return "0 and 1"
    limits = ml_dtypes.iinfo(dtype)
    return f"whole numbers from {limits.min} to {limits.max}"


def _converted(spec: InputSpec, source: str, array: Array) -> Array:
    """`array` in the model's dtype, where that loses nothing but float precision."""
    wanted = _dtype(spec)
    if array.dtype == wanted:
        return np.asarray(array, order="C")
    if (kind := _kind(wanted)) is None or kind != _kind(array.dtype):
        raise InputError(
            f"{source}: expected {spec}, got {array.dtype}{list(array.shape)}: give an array of {spec.dtype}, such as "
            f"array.astype({spec.dtype!r}) where its values mean the same"
        )
    converted = array.astype(wanted)
    if kind == "integer" and not _same(converted, array):
        raise InputError(f"{source}: {spec.name} has values that do not fit {spec.dtype}: give {_values_of(wanted)}")
    return np.asarray(converted, order="C")


def _same(converted: Array, array: Array) -> bool:
    # There and back is not enough: 2**63 becomes -2**63, which becomes 2**63 again.
    return np.array_equal(converted.astype(array.dtype), array) and np.array_equal(converted < 0, array < 0)


def _dtype(spec: InputSpec) -> np.dtype[Any]:
    """numpy's, or ml_dtypes' for what numpy lacks. Raises InputError for a dtype of neither."""
    try:
        return np.dtype(getattr(ml_dtypes, spec.dtype, spec.dtype))
    except TypeError as error:
        raise InputError(f"input {spec.name} is {spec.dtype}, which tapml cannot hold") from error


def _kind(dtype: np.dtype[Any]) -> str | None:
    """ "integer" (bools are) or "float", also of what numpy lacks: bfloat16, float8, numbers of 4 bits; else None."""
    if dtype.kind == "V" and not hasattr(ml_dtypes, dtype.name):
        return None
    if dtype.kind in "biu" or dtype.name.startswith(("int", "uint")):
        return "integer"
    return "float" if "float" in dtype.name else None


def _made_up(specs: Sequence[InputSpec], seed: int) -> dict[str, Array]:
    generator = np.random.default_rng(seed)
    sizes: dict[str, int] = {}
    arrays = {}
    for spec in specs:
        if spec.shape is None:
            raise InputError(f"the model does not say how many dimensions {spec.name} has: give real inputs")
        shape = [_size(spec, axis, sizes) for axis in range(len(spec.shape))]
        dtype = _dtype(spec)
        if "mask" in spec.name:
            # A made-up mask may hide everything, and then there is nothing left to test. Ones hide
            # nothing, whether they are multiplied or added.
            array = np.ones(shape, dtype)
        elif _kind(dtype) == "float":
            array = generator.standard_normal(shape).astype(dtype)
        else:
            array = generator.integers(0, 2 if dtype.kind == "b" else spec.bound or 2, shape).astype(dtype)
        arrays[spec.name] = array
    return arrays


def _size(spec: InputSpec, axis: int, sizes: dict[str, int]) -> int:
    dimension = (spec.shape or ())[axis]
    if isinstance(dimension, int):
        return dimension
    default = spec.example[axis] if spec.example else 1 if axis == 0 else 16
    return default if dimension is None else sizes.setdefault(dimension, default)


def _listed(specs: Sequence[InputSpec]) -> str:
    return ", ".join(map(str, specs)) or "no inputs"
