"""The formula of an output, from its operator's program: what is computed by element stands where it is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tapml.bounds.blocks import accumulation
from tapml.bounds.uncertain import NotDerivable
from tapml.locating.formula.nodes import ERF_BELOW, MOST_NODES, Node, Nodes, NotAFormula, Reduction, in_order
from tapml.operators.program import Block, Buffer, Expression, Let, OperatorProgram, Store

_ERF_ABOVE = (
    -2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05, -7.34990630326855e-04,
    -2.95459980854025e-03, -1.60960333262415e-02,
)  # fmt: skip


@dataclass(frozen=True)
class Formula:
    """One output. `variables`: those that stand for its indices, in their order."""

    nodes: Nodes
    root: Node
    variables: tuple[str, ...]
    shape: tuple[int, ...]
    inputs: Mapping[str, int]
    """Which input a buffer is."""
    shapes: Mapping[str, tuple[int, ...]]
    """Of the inputs' buffers."""
    dtypes: Mapping[str, str]
    names: Mapping[int, str]
    """id of a node -> the buffer that the program keeps it in."""


def formula(program: OperatorProgram, inputs: int, output: int) -> Formula:
    """Of one of the outputs, which come after so many `inputs`. Raises NotAFormula."""
    return _Builder(program, inputs).of(program.parameters[inputs + output])


def _alone(block: Block, store: Store) -> Store:
    """One of the results of a reduction of several values, each of which is accumulated by itself (a mean and a mean
    square, in one pass). Raises NotAFormula where one is made of another."""
    if len(block.body) == 1:
        return store
    named = {statement.variable: statement.value for statement in block.body if isinstance(statement, Let)}
    value = named.get(str(store.value.value)) if store.value.kind == "variable" else None
    others = {statement.buffer for statement in block.body if isinstance(statement, Store)} - {store.buffer}
    if value is None or any(
        node.value in others if node.kind == "load" else node.kind == "variable" and node.value in named
        for node in _all_of(value)
    ):
        raise NotAFormula("a reduction of several values")
    return replace(store, value=value)


def _all_of(found: Expression) -> Iterator[Expression]:
    yield found
    for operand in found.operands:
        yield from _all_of(operand)


class _Builder:
    def __init__(self, program: OperatorProgram, inputs: int) -> None:
        self._nodes = Nodes()
        self._inputs = {buffer.name: place for place, buffer in enumerate(program.parameters[:inputs])}
        self._buffers = {buffer.name: buffer for buffer in (*program.parameters, *program.temporaries)}
        self._writers: dict[str, list[tuple[Block, Store]]] = {}
        for block in program.blocks:
            for statement in block.body:
                if isinstance(statement, Store):
                    self._writers.setdefault(statement.buffer, []).append((block, statement))
        self._values: dict[str, tuple[Node, tuple[str, ...]]] = {}
        self._open: set[str] = set()
        self._names: dict[int, str] = {}

    def of(self, buffer: Buffer) -> Formula:
        root, variables = self._value(buffer.name)
        if root.kind == "reduce":
            indices = tuple(self._nodes.make("variable", "int64", (), name) for name in variables)
            root = self._nodes.make("read", root.dtype, (root, *indices))
        self._names[id(root)] = buffer.name
        if len(in_order(root)) > MOST_NODES:
            raise NotAFormula("it is too large")
        self._nodes.settle()
        inputs = self._inputs
        shapes = {name: self._buffers[name].shape for name in inputs}
        dtypes = {name: self._buffers[name].dtype for name in inputs}
        return Formula(self._nodes, root, variables, buffer.shape, inputs, shapes, dtypes, self._names)

    # ------------------------------------------------ buffers

    def _value(self, name: str) -> tuple[Node, tuple[str, ...]]:
        """What a buffer holds, in variables for its indices."""
        if name not in self._values:
            if name in self._open or len(self._writers.get(name, ())) != 1:
                raise NotAFormula(f"{name} is not written by one block")
            self._open.add(name)
            block, store = self._writers[name][0]
            self._values[name] = self._written(block, store)
            self._open.discard(name)
            self._names.setdefault(id(self._values[name][0]), name)
        return self._values[name]

    def _written(self, block: Block, store: Store) -> tuple[Node, tuple[str, ...]]:
        scope: dict[str, Node] = {}
        for axis in block.axes:
            if axis.value.kind == "variable":
                scope[axis.variable] = self._nodes.make("variable", axis.dtype, (), axis.variable)
            elif axis.extent == 1:
                scope[axis.variable] = self._nodes.constant(0, axis.dtype)
            else:
                raise NotAFormula("a block that is no simple loop")
        extents = {axis.variable: axis.extent for axis in block.axes}
        reduced = tuple((axis.variable, axis.extent) for axis in block.axes if axis.reduction)
        variables = self._indices(store, extents, {name for name, _ in reduced})
        if not reduced:
            for statement in block.body:
                if isinstance(statement, Let):
                    scope[statement.variable] = self._node(statement.value, scope)
            return self._node(store.value, scope), variables
        try:
            kind, term = accumulation(_alone(block, store))
        except NotDerivable as error:
            raise NotAFormula(str(error)) from error
        start = next((s.value for s in block.first if isinstance(s, Store) and s.buffer == store.buffer), None)
        if start is None or start.kind != "constant":
            raise NotAFormula("a reduction whose start is no number")
        spatial = tuple(zip(variables, self._buffers[store.buffer].shape, strict=True))
        found = Reduction(kind, spatial, reduced, store.buffer)
        operands = (self._node(term, scope), self._node(start, scope))
        return self._nodes.make("reduce", store.value.dtype, operands, found), variables

    def _indices(self, store: Store, extents: Mapping[str, int], reduced: set[str]) -> tuple[str, ...]:
        """The variable of each index of what is stored."""
        names: list[str] = []
        for place, (index, extent) in enumerate(zip(store.indices, self._buffers[store.buffer].shape, strict=True)):
            plain = index.kind == "variable" and extents.get(str(index.value)) == extent
            if plain and index.value not in reduced and index.value not in names:
                names.append(str(index.value))
            elif index.kind == "constant" and extent == 1:
                names.append(f"_{place}")
            else:
                raise NotAFormula(f"{store.buffer} is not written in order")
        return tuple(names)

    # ------------------------------------------------ expressions

    def _node(self, found: Expression, scope: Mapping[str, Node]) -> Node:
        if found.kind == "variable":
            return scope[str(found.value)]
        operands = tuple(self._node(operand, scope) for operand in found.operands)
        if found.kind == "call" and found.value == "sigmoid":
            return self._sigmoid(operands[0], found.dtype)
        if found.kind == "call" and found.value == "tanh":
            return self._tanh(operands[0], found.dtype)
        if found.kind == "call" and found.value == "erf" and found.dtype == "float32":
            return self._erf(operands[0], found.dtype)
        if found.kind != "load" or found.value in self._inputs:
            return self._nodes.make(found.kind, found.dtype, operands, found.value)
        value, variables = self._value(str(found.value))
        if value.kind == "reduce":
            return self._nodes.make("read", found.dtype, (value, *operands))
        return self._put(value, dict(zip(variables, operands, strict=True)))

    def _sigmoid(self, x: Node, dtype: str) -> Node:
        """1 / (1 + exp(0 - x)), as kernels have it: any part of that may be wrong."""
        make, one = self._nodes.make, self._nodes.constant(1.0, dtype)
        negative = make("sub", dtype, (self._nodes.constant(0.0, dtype), x))
        return make("div", dtype, (one, make("add", dtype, (one, make("call", dtype, (negative,), "exp")))))

    def _tanh(self, x: Node, dtype: str) -> Node:
        """As TVM has it, by exp of what is negative: of -2 x and of 2 x."""
        make = self._nodes.make
        one, zero, two, minus = (self._nodes.constant(number, dtype) for number in (1.0, 0.0, 2.0, -2.0))
        small, large = (make("call", dtype, (make("mul", dtype, (by, x)),), "exp") for by in (minus, two))
        above = make("div", dtype, (make("sub", dtype, (one, small)), make("add", dtype, (one, small))))
        below = make("div", dtype, (make("sub", dtype, (large, one)), make("add", dtype, (large, one))))
        return make("select", dtype, (make("ge", "bool", (x, zero)), above, below))

    def _erf(self, x: Node, dtype: str) -> Node:
        """As TVM has it (tirx.fast_erf), a ratio of polynomials: any of their coefficients may be wrong."""
        make, number = self._nodes.make, self._nodes.constant
        x = make("max", dtype, (make("min", dtype, (x, number(4.0, dtype))), number(-4.0, dtype)))
        square = make("mul", dtype, (x, x))

        def polynomial(first: float, *rest: float) -> Node:
            found = number(first, dtype)
            for coefficient in rest:
                found = make("add", dtype, (make("mul", dtype, (square, found)), number(coefficient, dtype)))
            return found

        return make("div", dtype, (make("mul", dtype, (x, polynomial(*_ERF_ABOVE))), polynomial(*ERF_BELOW)))

    def _put(self, value: Node, indices: Mapping[str, Node]) -> Node:
        """`value` with indices for its variables. Reductions have variables of their own."""
        done: dict[int, Node] = {}
        for node in in_order(value, reductions=False):
            if node.kind == "variable" and node.value in indices:
                found = indices[str(node.value)]
            elif node.kind in ("variable", "reduce"):
                found = node
            else:
                operands = tuple(done.get(id(operand), operand) for operand in node.operands)
                found = self._nodes.with_operands(node, operands)
            done[id(node)] = found
            if id(node) in self._names:
                self._names.setdefault(id(found), self._names[id(node)])
        return done[id(value)]
