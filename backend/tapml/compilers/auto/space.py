"""The search space of a kernel: what each compiler makes of an operator, and every parameter that a native template
has."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, product
from types import MappingProxyType
from typing import Any

from tapml.compilers.auto.table import text_key
from tapml.compilers.native.attention import attention
from tapml.compilers.native.blocks import BLOCKS, BLOCKS_OF_BITS, BLOCKS_OF_LEFT_PIECES, BLOCKS_OF_PIECES, Blocks
from tapml.compilers.native.compile import (
    NATIVE,
    TEMPLATES,
    by_hand,
    generated_of,
    has_words,
    may_have_matrices,
    recognised,
)
from tapml.compilers.native.dots import uses_dots
from tapml.compilers.native.elementwise import elementwise
from tapml.compilers.native.encoded import candidate_encodings, encoded
from tapml.compilers.native.kernel import Found, Launch
from tapml.compilers.native.layouts import Layout
from tapml.compilers.native.matmul import Shape, matmul, shape_of
from tapml.compilers.native.matrices import uses_matrices
from tapml.compilers.native.rows import rows
from tapml.compilers.native.skinny import INVOCATIONS, Split
from tapml.compilers.native.skinny_integers import WordSplit
from tapml.compilers.native.staged import Template, of_any
from tapml.compilers.native.tiles import TILES, Tile
from tapml.compilers.native.winograd import WINOGRAD
from tapml.compilers.native.words import Unknown
from tapml.compilers.tvm.compile import TVM
from tapml.kernels.bundle import CompiledKernel
from tapml.lowering.operator import Operator

VARIANT = "256"
"""The most invocations of a workgroup that every device has: what candidates are made for."""

DEFAULT = "native"
"""A native kernel as the template's own estimates have it."""

SPLITS = (1, 2, 4, 8)
LANES = (1, 4, 8, 16, 32, 64, 128, 256)
VECTORS = (1, 2, 4, 8)
FEW_LANES, FEW_VECTORS = (1, 4, 16, 64), (1,)
"""That a model tells apart, which knows times less well than these differ. It never takes more of either for the best:
of vectors that are on their way together it knows nothing, and more lanes wait for each other."""


@dataclass(frozen=True)
class Candidate:
    """A kernel of one variant. `name` says whose it is and with what parameters: `tvm`, `native`, or
    `native.tile-4x4x16x16`; the same in every process."""

    name: str
    kernel: CompiledKernel

    @property
    def compiler(self) -> str:
        return self.name.split(".", 1)[0]

    @property
    def variant(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.kernel.document["variants"][0]
        return found

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(file.text for file in self.kernel.files)

    @functools.cached_property
    def key(self) -> str:
        """By which tables know what ran."""
        return text_key(self.texts)


def candidates(operators: Sequence[Operator], splits: Sequence[int] = SPLITS) -> dict[str, list[Candidate]]:
    """Of each operator, by its name, each text once: TVM's kernel first, then the native one, then those of other
    parameters; `splits`: how many workgroups share out a sum. None for an operator that TVM has no WGSL for, or that no
    native template knows."""
    found: dict[str, list[Candidate]] = {}
    made = TVM.compile(operators, (VARIANT,))
    for operator in operators:
        kernel = made.get(operator.name)
        if kernel is None or not kernel.document["variants"]:
            continue
        native = list(NativeSpace(operator).all(splits))
        if native:
            found[operator.name] = [Candidate("tvm", kernel), *native]
    return found


class NativeSpace:
    """The native candidates of an operator. Each is made when it is first asked for."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._found = recognised(operator)
        self._named: dict[str, Candidate | None] = {}
        self._made: dict[str, list[Launch] | None] = {}
        self._used: set[Template] = set()
        """Templates that made the native kernel as their own estimates have it."""
        self._own: list[Launch] = []
        """Its dispatches."""

    def named(self, name: str) -> Candidate | None:
        """The one of that name, without making the others; None where the operator has none."""
        if name not in self._named:
            if name in (DEFAULT, f"{DEFAULT}.matrices") or name.removeprefix(f"{DEFAULT}.") in _parameters():
                launches = None if self._found is None else self._launches(self._found, name)
                self._named[name] = None if launches is None else self._candidate(name, launches)
            else:
                self._named[name] = next((one for one in self._encoded() if one.name == name), None)
        return self._named[name]

    @property
    def tiles(self) -> Sequence[Tile]:
        """Those of one workgroup to a sum that do not mostly lie outside of the product."""
        if self.shape is None:
            return TILES
        computed = {tile: _computed(tile, self.shape) for tile in TILES}
        return [tile for tile in TILES if computed[tile] <= _MOST_OUTSIDE * min(computed.values())]

    @property
    def own_parameter(self) -> Hashable:
        """By which the template's own estimates share out an operator that is one dispatch: another candidate of that
        parameter would have the same text. None where the template has no parameters for it."""
        self.named(DEFAULT)
        return self._own[0].shared_out if len(self._own) == 1 else None

    def tile(self, tile: Tile) -> Candidate | None:
        return self.named(f"{DEFAULT}.{_name_of(tile)}")

    def usual(self, tiles: Sequence[Tile]) -> list[Candidate]:
        """Those that a model chooses from: without those that fill a large GPU by sharing out sums, of which the
        template's own estimates know better, with every other number of lanes and vectors, without other subgroup
        matrices than the template's own (the model knows too little of them to tell), and without parameters of
        templates that the operator does not need."""
        if self.named(DEFAULT) is None:
            return []
        of_products = matmul in self._used
        alike = len(self._own) == 1 and self.own_parameter is None
        # Rows of one invocation each are the other way to compute a product that can be faster.
        of_rows = FEW_LANES if rows in self._used else FEW_LANES[:1] if of_products else ()
        if not of_products:
            return list(self._of((), (), (), () if alike else of_rows))
        lanes: Sequence[int] = FEW_LANES
        if self.shape is not None and not has_words(self._operator):
            # Each lane has vectors of four points of the inner axis: four times as many of them would do nothing.
            lanes = () if alike else [of for of in lanes if of <= _SPLIT[0] or of < self.shape.inner]
        return list(self._of(tiles, lanes, FEW_VECTORS, of_rows))

    def all(self, splits: Sequence[int] = SPLITS) -> Iterator[Candidate]:
        """Each text once, the template's own one first, those with textures last: nothing but a table knows of them."""
        tiles = [dataclasses.replace(tile, splits=parts) for parts in splits for tile in TILES]
        yield from self._of(tiles, LANES, VECTORS, LANES, blocks=True)
        yield from self._encoded()

    def _of(
        self,
        tiles: Sequence[Tile],
        lanes: Sequence[int],
        vectors: Sequence[int],
        of_rows: Sequence[int],
        *,
        blocks: bool = False,
    ) -> Iterator[Candidate]:
        found = self._found
        own = self.named(DEFAULT)
        if found is None or own is None:
            return
        seen = {own.texts}
        yield own
        by_matrices = may_have_matrices(self._operator)
        if by_matrices:
            fast = generated_of(found, matrices=True)
            if fast is not None and any(uses_matrices(launch.text) for launch in fast):
                seen.add(_texts(fast))
                yield self._candidate(f"{DEFAULT}.matrices", fast)
        if by_hand(self._operator):
            return
        of_words, windows = has_words(self._operator), blocks
        blocks = blocks and by_matrices
        more = {"blocks": blocks, "of_words": of_words, "windows": windows, "apart": attention in self._used}
        for kind in _kinds(tiles, lanes, vectors, of_rows, self.shape, **more):
            for name, launches in kind.texts(partial(self._of_parameter, found)):
                if (key := _texts(launches)) not in seen:
                    seen.add(key)
                    yield self._candidate(f"{DEFAULT}.{name}", launches)

    def _encoded(self) -> Iterator[Candidate]:
        found = self._found
        if found is None or by_hand(self._operator):
            return
        for name, layouts in candidate_encodings(found):
            if (launches := encoded(found, layouts, TEMPLATES)) is not None:
                yield self._candidate(f"{DEFAULT}.{name}", launches, layouts)

    def with_dots(self, candidate: Candidate) -> Candidate | None:
        """The same for devices that have WGSL's `dot4I8Packed`; None where that is the same text."""
        found, name = self._found, candidate.name
        if found is None or candidate.compiler != DEFAULT or not has_words(self._operator):
            return None
        parameter = _parameters().get(name.removeprefix(f"{DEFAULT}."))
        if name != DEFAULT and parameter is None:
            return None
        launches = generated_of(found, (parameter.template,) if parameter else TEMPLATES, dots=True)
        if launches is None or not any(uses_dots(launch.text) for launch in launches):
            return None
        return self._candidate(f"{name}.dots", launches)

    @functools.cached_property
    def shape(self) -> Shape | None:
        """Where all of it is one product."""
        with contextlib.suppress(Unknown):
            return None if self._found is None else shape_of(self._found)
        return None

    def _candidate(
        self, name: str, launches: Sequence[Launch], layouts: Mapping[str, Layout] = MappingProxyType({})
    ) -> Candidate:
        suffix = "" if name == DEFAULT else f"@{name.split('.', 1)[1]}"
        return Candidate(name, NATIVE.document(self._operator, VARIANT, launches, suffix, layouts))

    def _launches(self, found: Found, name: str) -> list[Launch] | None:
        if name == DEFAULT:
            launches = generated_of(found, [self._watched(template) for template in TEMPLATES])
            self._own = launches or []
            return launches
        if name == f"{DEFAULT}.matrices":
            return generated_of(found, matrices=True)
        return self._of_parameter(found, _parameters()[name.removeprefix(f"{DEFAULT}.")])

    def _of_parameter(self, found: Found, parameter: _Parameter) -> list[Launch] | None:
        if parameter.value is not None and parameter.value == self.own_parameter:
            return self._own
        if parameter.name not in self._made:
            self._made[parameter.name] = parameter.launches(found)
        return self._made[parameter.name]

    def _watched(self, template: Template) -> Template:
        def made(found: Found) -> list[Launch] | None:
            launches = template(found)
            if launches is not None:
                self._used.add(template)
            return launches

        return made


@functools.cache
def _parameters() -> dict[str, _Parameter]:
    tiles = [dataclasses.replace(tile, splits=parts) for parts in SPLITS for tile in TILES]
    kinds = _kinds(tiles, LANES, VECTORS, LANES, None, blocks=True, of_words=True, windows=True, apart=True)
    return {one.name: one for kind in kinds for one in kind.parameters}


_MOST_OUTSIDE = 2
"""Times the elements that the tiles compute that fit best."""


def _computed(tile: Tile, shape: Shape) -> int:
    """Elements, in the product or not."""
    return -(-shape.rows // tile.height) * tile.height * -(-shape.columns // tile.width) * tile.width


@dataclass(frozen=True)
class _Parameter:
    """`value`: as launches have it in `shared_out`, where they do."""

    name: str
    template: Template
    value: Hashable = None
    matrices: bool = False

    def launches(self, found: Found) -> list[Launch] | None:
        made = generated_of(found, (self.template,), self.matrices)
        return made if made and self.matrices == any(uses_matrices(one.text) for one in made) else None


@dataclass(frozen=True)
class _Kind:
    """Parameters of one kind. `differ`: the first and the last of them make two texts where the template looks at this
    kind at all."""

    parameters: Sequence[_Parameter]
    differ: bool = True

    def texts(self, launches_of: Callable[[_Parameter], list[Launch] | None]) -> Iterator[tuple[str, list[Launch]]]:
        if not self.parameters:
            return
        first, last = launches_of(self.parameters[0]), launches_of(self.parameters[-1])
        if first is None and last is None:
            return
        if self.differ and len(self.parameters) > 1 and first and last and _texts(first) == _texts(last):
            return
        for one in self.parameters:
            if (launches := launches_of(one)) is not None:
                yield one.name, launches


def _kinds(
    tiles: Sequence[Tile],
    lanes: Sequence[int],
    vectors: Sequence[int],
    of_rows: Sequence[int],
    shape: Shape | None,
    *,
    blocks: bool,
    of_words: bool,
    windows: bool,
    apart: bool,
) -> Iterator[_Kind]:
    """Parameters, by what they are of: `lanes` and `vectors` of products of few rows, `of_rows` lanes of rows. `shape`:
    of the operator, where all of it is one product; `apart`: whether it is attention."""
    if tiles and (shape is None or shape.tiled):
        yield _Kind([_Parameter(_name_of(tile), partial(matmul, chosen=tile), tile) for tile in tiles])
    if windows:
        yield _Kind([_Parameter("winograd", partial(matmul, chosen=WINOGRAD))])
    of_floats = dict.fromkeys((*BLOCKS, *chain(*BLOCKS_OF_BITS.values())))
    for some in (of_floats, BLOCKS_OF_PIECES, BLOCKS_OF_LEFT_PIECES) if blocks else ():
        yield _Kind([_Parameter(_name_of(one), partial(matmul, chosen=one), matrices=True) for one in some])
    if shape is None or not shape.tiled:
        splits = [
            Split(INVOCATIONS // of, of, each) for of in lanes if _SPLIT[0] <= of <= _SPLIT[1] for each in vectors
        ]
        yield _Kind([_Parameter(_name_of(split), partial(matmul, chosen=split), split) for split in splits])
        if of_words:
            shared = product(_WORD_COLUMNS, (of for of in lanes if of >= _LEAST_WORD_LANES), _WORDS)
            words = [WordSplit(columns, of, *read) for columns, of, read in shared]
            # Those that do not fit give what the other parameters do.
            yield _Kind([_Parameter(_name_of(split), partial(matmul, chosen=split)) for split in words], differ=False)
        yield _Kind([_Parameter(f"lanes-{of}", partial(rows, lanes=of), of) for of in of_rows], differ=False)
    if apart:
        products: dict[str, Template] = {"apart": matmul}
        products |= {f"apart.{_name_of(tile)}": partial(matmul, chosen=tile) for tile in _APART}
        others = partial(rows, lanes=1), elementwise
        yield _Kind([_Parameter(name, partial(of_any, (one, *others))) for name, one in products.items()], differ=False)


_WORD_COLUMNS, _LEAST_WORD_LANES, _WORDS = (1, 2, 4), 16, ((1, False), (2, False), (4, True))
"""Of products of integers in words: columns, lanes, and words at a time, four of them at once or one by one."""

_APART = Tile(4, 4, 8, 8), Tile(8, 8, 8, 8), Tile(8, 8, 16, 8)
"""Of attention whose products have dispatches of their own, and rows an invocation each: what a GPU in software wants,
to which barriers are dear."""

_SPLIT = (4, 64)
"""Lanes that share out an inner axis, at least and at most."""


def _name_of(chosen: Tile | Blocks | Split | WordSplit) -> str:
    if isinstance(chosen, WordSplit):
        return f"words-{chosen.columns}x{chosen.lanes}x{chosen.words}{'.fours' if chosen.fours else ''}"
    if isinstance(chosen, Split):
        return f"split-{chosen.lanes}.vectors-{chosen.vectors}"
    if isinstance(chosen, Blocks):
        return f"blocks-{chosen.rows}x{chosen.columns}x{chosen.depth}x{chosen.high}x{chosen.wide}"
    parts = f".parts-{chosen.splits}" if chosen.splits > 1 else ""
    return f"tile-{chosen.rows}x{chosen.columns}x{chosen.high}x{chosen.wide}{parts}"


def of_matrices(name: str) -> bool:
    """Whether the native candidate of that name multiplies by subgroup matrices."""
    return name == f"{DEFAULT}.matrices" or name.startswith(f"{DEFAULT}.blocks-")


def _texts(launches: Sequence[Launch]) -> tuple[str, ...]:
    return tuple(launch.text for launch in launches)
