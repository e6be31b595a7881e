"""Products in which nothing is read twice, as in a depthwise convolution: an invocation adds up the few terms of an
element."""

from __future__ import annotations

from contextlib import ExitStack

from tapml.compilers.native.contraction import TOTAL, Contraction
from tapml.compilers.native.elementwise import bind, decompose
from tapml.compilers.native.factors import extents
from tapml.compilers.native.kernel import Found, Launch, Text, ceildiv, grid_of, product, times
from tapml.compilers.native.polynomials import Indices
from tapml.compilers.native.product import arguments_of
from tapml.compilers.native.stages import variable
from tapml.compilers.native.words import bare, wgsl_type

LANES = 256
MOST_TERMS = 64


def direct(found: Found, indices: Indices, made: Contraction, elements: int) -> Launch:
    """The dispatch of a product of at most so many elements."""
    text = Text(found, found.entry_point, indices, ("group", "groups", "number", "at", "sum"))
    bind(text, [made.left, made.right, made.finish], None)
    output = text.bind(str(made.stored.value), write=True)
    writer = text.writer()
    count = times(*extents(made.axes))
    grid, group = grid_of(ceildiv(count, LANES), -(-elements // LANES))
    writer.line(f"let at = i32({group} * {LANES}u + number);")
    with writer.block(f"if (at >= {bare(writer.polynomial(product(indices, extents(made.axes))))}) {{"):
        writer.line("return;")
    decompose(writer, made.axes, 1)
    writer.line("var sum = 0.0;")
    with ExitStack() as loops:
        for axis in made.inner:
            name = writer.names(axis.variable)
            end = bare(writer.polynomial(indices.size(axis.extent)))
            loops.enter_context(writer.block(f"for (var {name} = 0; {name} < {end}; {name}++) {{"))
            writer.variables[axis.variable] = name
        left, right = (bare(writer.value(factor)) for factor in (made.left, made.right))
        writer.line(f"sum = fma({left}, {right}, sum);")
    writer.give(variable(TOTAL, made.dtype), "sum" if made.dtype == "float32" else f"{wgsl_type(made.dtype)}(sum)")
    value = bare(writer.value(made.finish))
    writer.line(writer.store(output, writer.flat(made.stored), value))
    return text.launch(writer, "Each invocation adds up an element.", arguments_of(group), LANES, grid)
