"""From a template's texts to a kernel document: header, bindings, uniforms, grids."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tapml.compilers.native.access import Access
from tapml.compilers.native.functions import with_own_functions
from tapml.compilers.native.names import Names
from tapml.compilers.native.polynomials import Indices, Polynomial, number
from tapml.compilers.native.remembered import Memory
from tapml.compilers.native.stages import Stage
from tapml.compilers.native.text import Writer
from tapml.compilers.native.textures import TEXEL, Texture
from tapml.compilers.native.words import Unknown, wgsl_type
from tapml.compilers.tvm.spelling import spelled
from tapml.compilers.wgsl_names import of_symbol
from tapml.lowering.operator import Operator
from tapml.operators.program import Buffer, OperatorProgram
from tapml.protocol.kernels import MOST_WORKGROUPS


@dataclass(frozen=True)
class Launch:
    """One dispatch: WGSL with one entry point, the buffers that it binds in their order, the symbols of its uniform,
    workgroups as expressions.

    A buffer that is no parameter is one of `temporaries`, by name: bytes, an expression, or a texture as documents have
    it. `overwrites`: output -> input
    in whose bytes it is written, which nothing binds; `grows`: parameter -> axis of which any size is taken.
    `shared_out`: by what parameter of its template the work is, a tile or how many lanes; None where it has none.
    """

    text: str
    entry_point: str
    buffers: tuple[str, ...]
    symbols: tuple[str, ...]
    grid: tuple[Any, Any, Any]
    temporaries: Mapping[str, Any] = field(default_factory=dict)
    overwrites: Mapping[str, str] = field(default_factory=dict)
    grows: Mapping[str, int] = field(default_factory=dict)
    shared_out: Hashable = None


@dataclass
class Found:
    """An operator as templates take it. `stages` are inlined; `threads`: the most invocations of a workgroup.

    `outputs` are what these stages have to leave in memory, by default the operator's own; `part` counts the dispatches
    before them, where they are not all of the operator.
    """

    operator: Operator
    program: OperatorProgram
    stages: Sequence[Stage]
    threads: int
    outputs: Sequence[str] = ()
    part: int = 0
    matrices: bool = False
    """Whether it is for devices that have subgroup matrices."""
    dots: bool = False
    """Whether it is for devices that have WGSL's `dot4I8Packed`."""
    padded: frozenset[str] = frozenset()
    """Temporaries whose rows end with zeros, so that they are of whole vectors (packed.py)."""
    stored: frozenset[str] = frozenset()
    """Parameters of float32 that lie in memory as float16: what reads them is changed afterwards to read that
    (tapml.compilers.halves)."""
    textures: Mapping[str, Texture] = field(default_factory=dict)
    """Temporaries that are textures (encoded.py): their shape is that in which their elements lie."""
    memory: Memory = field(default_factory=Memory, compare=False)
    buffers: Mapping[str, Buffer] = field(init=False)

    def __post_init__(self) -> None:
        program = self.program
        self.buffers = {buffer.name: buffer for buffer in (*program.parameters, *program.temporaries)}
        roles = [argument["role"] for argument in self.operator.arguments]
        named = zip(program.parameters, roles, strict=True)
        self.outputs = self.outputs or [buffer.name for buffer, role in named if role == "output"]

    @property
    def entry_point(self) -> str:
        return f"{self.operator.name}_kernel{f'_{self.part}' if self.part else ''}"

    def bytes_of(self, buffer: str) -> Any:
        """That a temporary takes, an expression. Raises Unknown for numbers that no buffer holds."""
        found = self.buffers[buffer]
        if wgsl_type(found.dtype) == "bool":
            raise Unknown("a temporary of bools")
        return times(*found.shape, 2 if found.dtype == "float16" else 4)

    def by_fours(self, buffer: str) -> bool:
        """Whether four elements beside each other may be written at once: not to texels of one channel."""
        return buffer not in self.textures or self.in_texels(buffer)

    def in_texels(self, buffer: str) -> bool:
        """Whether four elements beside each other must be written at once."""
        return buffer in self.textures and self.textures[buffer].channels == TEXEL

    def own_indices(self) -> Indices:
        """Of its stages. What is remembered of them depends on nothing else that is replaced in it."""
        key = tuple(self.outputs), self.padded, tuple(self.textures)
        return self.memory.begun(key, (self.program, *self.stages), lambda: self.indices(self.stages))

    def indices(self, stages: Iterable[Stage]) -> Indices:
        """With the extents of all their variables."""
        found = Indices({symbol.name: (symbol.minimum, symbol.maximum) for symbol in self.operator.symbols})
        for stage in stages:
            for index in (*stage.spatial, *stage.reduction):
                found.declare(index.variable, index.extent)
        return found


@dataclass
class Text:
    """A kernel's text in the making. `taken`: the names of its own that its body has."""

    found: Found
    entry_point: str
    indices: Indices
    taken: Iterable[str] = ()
    accesses: dict[str, Access] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    declarations: list[str] = field(default_factory=list)
    """Of workgroup variables."""
    given: dict[str, str] = field(default_factory=dict)
    """Texts of symbols that the kernel reads off otherwise than from its uniform."""

    def __post_init__(self) -> None:
        self.names = Names({*self.taken, self.entry_point, "size", "Size"})

    def bind(self, buffer: str, width: int = 1, write: bool = False) -> Access:
        """Bound once, in this order; bound again, it has another width."""
        if buffer not in self.accesses:
            found = self.found.buffers[buffer]
            texture = self.found.textures.get(buffer)
            self.accesses[buffer] = Access(self.names(buffer), found.dtype, found.shape, width, texture)
        texture = self.accesses[buffer].texture
        width = width if texture is None else texture.channels
        self.accesses[buffer] = dataclasses.replace(self.accesses[buffer], width=width)
        if write:
            self.written.add(buffer)
        return self.accesses[buffer]

    def bind_singly(self, buffer: str) -> None:
        """A buffer that is bound, and only read, is bound a second time, as an array of its elements."""
        access = self.accesses[buffer]
        self.accesses[buffer] = dataclasses.replace(access, single=self.names(f"{access.name}_single"))

    def writer(self, lane: str | None = None) -> Writer:
        writer = Writer(self.indices, self.accesses, self.names, lane)
        writer.variables.update(self.given)
        return writer

    def launch(self, writer: Writer, comment: str, arguments: Sequence[str], workgroup: int, grid: Any) -> Launch:
        """`comment`: what the kernel does; `arguments`: of its entry point; `grid`: see `grid_of`."""
        head = [f"// {line}" for line in comment.splitlines()]
        bound = [(access, buffer in self.written) for buffer, access in self.accesses.items()]
        declared = [line for access, written in bound for line in access.declared(written)]
        head += [f"@group(0) @binding({place}) {line}" for place, line in enumerate(declared)]
        symbols = tuple(writer.symbols)
        if symbols:
            head.append(f"struct Size {{ {', '.join(f'{of_symbol(symbol)} : i32' for symbol in symbols)} }}")
            head.append(f"@group(0) @binding({len(declared)}) var<uniform> size : Size;")
        for access, written in bound:
            if access.texture is not None:
                head += access.texture.functions(access.name, access.dtype, written)
        head += self.declarations
        signature = [
            "",
            f"@compute @workgroup_size({workgroup})",
            f"fn {self.entry_point}({', '.join(arguments)}) {{",
        ]
        text = with_own_functions("\n".join([*head, *signature, *writer.lines, "}", ""]))
        text = spelled(text, ())
        for part, features in ENABLED.items():
            if part in text:
                text = f"enable {features};\n{text}"
        own = {buffer.name for buffer in self.found.program.temporaries}
        buffers: list[str] = []
        temporaries: dict[str, Any] = {}
        for buffer, access in self.accesses.items():
            texture = access.texture
            names = texture.names(buffer) if texture is not None else [buffer] * (1 + (access.single is not None))
            read = texture is not None and f"textureLoad({texture.names(access.name)[0]}," in text
            if read and buffer in self.written:
                raise Unknown("a texture that is read where it is written")
            buffers += names
            if buffer in own:
                size = self.found.bytes_of(buffer) if texture is None else texture.document(access.dtype)
                temporaries |= dict.fromkeys(names, size)
        return Launch(text, self.entry_point, tuple(buffers), symbols, tuple(grid), temporaries)


ENABLED = {"f16": "f16", "subgroup_matrix": "chromium_experimental_subgroup_matrix", "subgroup_id": "subgroups"}
"""What a text that has such a part enables."""

WORKGROUP_MEMORY = 16384
"""Bytes of workgroup memory that every device has."""

GROUP = "@builtin(workgroup_id) group : vec3<u32>"
GROUPS = "@builtin(num_workgroups) groups : vec3<u32>"
LOCAL = "@builtin(local_invocation_index) local : u32"


def grid_of(workgroups: Any, most: int) -> tuple[list[Any], str]:
    """The grid of so many workgroups, an expression that is at most `most`, and the text of a workgroup's number."""
    if most <= MOST_WORKGROUPS:
        return [workgroups, 1, 1], "group.x"
    if isinstance(workgroups, int):
        rows = -(-workgroups // MOST_WORKGROUPS)
        return [-(-workgroups // rows), rows, 1], "(group.y * groups.x + group.x)"
    planes = ["max", 1, ["ceildiv", workgroups, MOST_WORKGROUPS]]
    return [["ceildiv", workgroups, planes], planes, 1], "(group.y * groups.x + group.x)"


def times(*extents: Any) -> Any:
    """Their product, an expression."""
    found: Any = 1
    for extent in extents:
        if isinstance(found, int) and isinstance(extent, int):
            found *= extent
        elif found == 1:
            found = extent
        elif extent != 1:
            found = ["mul", found, extent]
    return found


def ceildiv(a: Any, b: int) -> Any:
    return -(-a // b) if isinstance(a, int) else a if b == 1 else ["ceildiv", a, b]


def product(indices: Indices, extents: Iterable[Any]) -> Polynomial:
    found = number(1)
    for extent in extents:
        found = found * indices.size(extent)
    return found


def check_counts(indices: Indices, extents: Sequence[Any]) -> int:
    """The most that their product comes to. Raises Unknown beyond what an i32 counts."""
    most = 1
    for extent in extents:
        most *= indices.greatest(extent)
    if most >= 2**31 - 1024:
        raise Unknown("more elements than an i32 counts")
    return most
