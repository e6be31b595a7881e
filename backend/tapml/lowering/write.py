"""From TVM's PrimFunc to a program (see program.py), node by node; what a program cannot hold is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tapml.errors import InputError
from tapml.expressions import ExpressionError, printed, symbols_of
from tapml.lowering.by_hand import ATTRIBUTE
from tapml.lowering.sizes import expression_of
from tapml.operators.program import (
    ANNOTATIONS,
    ARITHMETIC,
    FUNCTIONS_OF_ONE,
    FUNCTIONS_OF_TWO,
    LONGEST_NAME,
    PREDICATES,
    Axis,
    Block,
    Buffer,
    Expression,
    Let,
    Loop,
    OperatorProgram,
    Store,
    integer,
)

_BINARY = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "Mod": "mod", "FloorDiv": "floordiv",
    "FloorMod": "floormod", "Min": "min", "Max": "max", "EQ": "eq", "NE": "ne", "LT": "lt", "LE": "le", "GT": "gt",
    "GE": "ge", "And": "and", "Or": "or", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor", "LShift": "shift_left", "RShift": "shift_right",
}  # fmt: skip

OPERATIONS: Mapping[str, tuple[str, Sequence[str]]] = {
    **{node: (kind, ("a", "b")) for node, kind in _BINARY.items()},
    "Not": ("not", ("a",)),
    "BitwiseNot": ("bitwise_not", ("a",)),
    "Cast": ("cast", ("value",)),
    "Select": ("select", ("condition", "true_value", "false_value")),
}
"""TVM's nodes that are one operation: what a program calls it, and the fields that are its operands."""

_SPATIAL, _REDUCTION = 0, 2  # tirx.IterVar.DataPar and CommReduce
# The symbol is whoever compiles it to choose, and kernels by hand are of what the loops say; of the others all but the
# pattern are always the same.
_ATTRIBUTES = {"op_pattern", "tirx.noalias", "s_tir", "global_symbol", ATTRIBUTE}
_FUNCTIONS = {*FUNCTIONS_OF_ONE, *FUNCTIONS_OF_TWO, *PREDICATES}


def program_of(name: str, prim_func: Any, symbols: Mapping[Any, Any] | None = None) -> OperatorProgram:
    """The program of an unscheduled PrimFunc: a template where it has `symbols`, its variables of sizes, each with the
    expression over the model's symbols that stands for it.

    Raises InputError, naming the operator, where it has something else.
    """
    return _Writer(name, prim_func, symbols or {}).program()


class _Writer:
    def __init__(self, name: str, prim_func: Any, symbols: Mapping[Any, Any]) -> None:
        self._name = name
        self._function = prim_func
        self._sizes = symbols
        self._symbols = tuple(dict.fromkeys(symbol for found in symbols.values() for symbol in symbols_of(found)))
        # TVM's variables are compared by identity, and several may have one name.
        self._names: dict[Any, str] = {}
        self._taken: set[str] = set(self._symbols)

    def program(self) -> OperatorProgram:
        function = self._function
        attributes = dict(function.attrs.items()) if function.attrs else {}
        self._require(set(attributes) <= _ATTRIBUTES, f"the attributes {sorted(set(attributes) - _ATTRIBUTES)}")
        root = function.body
        self._require(_kind(root) == "SBlockRealize" and not root.iter_values, f"{_kind(root)} as its body")
        block = root.block
        plain = not (block.reads or block.writes or block.annotations or block.init or block.match_buffers)
        self._require(plain and block.name_hint == "root", "a body that is one block")
        parameters = tuple(self._buffer(buffer) for buffer in function.params if buffer not in self._sizes)
        temporaries = tuple(self._buffer(buffer) for buffer in block.alloc_buffers)
        blocks = tuple(self._block(statement) for statement in _sequence(block.body))
        pattern = attributes.get("op_pattern")
        pattern = None if pattern is None else int(pattern)
        return OperatorProgram(self._name, pattern, parameters, temporaries, blocks, self._symbols)

    def _require(self, good: bool, what: str) -> None:
        if not good:
            raise InputError(
                f"operator {self._name} cannot be carved: its program has {what}, and a suite holds only loops over "
                "blocks of arithmetic; give the model without this operator"
            )

    def _called(self, variable: Any) -> str:
        """A name of its own for each variable."""
        if variable not in self._names:
            given = name = _readable(variable.name)
            number = 0
            while name in self._taken:
                number += 1
                name = f"{given}_{number}"
            self._names[variable] = name
            self._taken.add(name)
        return self._names[variable]

    def _buffer(self, buffer: Any) -> Buffer:
        ty = buffer.ty
        plain = (
            _kind(ty) == "BufferType"
            and ty.storage_scope == "global"
            and not (ty.strides or ty.allocated_addr)
            and ty.layout is None
            and _is(ty.elem_offset, 0)
            and (ty.data_alignment, ty.offset_factor) == (64, 1)
            and all(_dtype(extent) == "int64" for extent in ty.shape)
        )
        self._require(plain, f"the buffer {buffer.name}, which is no dense tensor")
        return Buffer(self._called(buffer), str(ty.dtype), tuple(self._extent(extent) for extent in ty.shape))

    def _extent(self, node: Any) -> Any:
        """An extent as an expression over the model's symbols."""
        try:
            return expression_of(node, self._sizes.get)
        except ExpressionError as error:
            self._require(False, f"an extent that depends on data ({error})")

    # ------------------------------------------------ statements

    def _block(self, statement: Any) -> Block:
        loops = []
        while _kind(statement) == "For":
            plain = statement.kind == 0 and not (statement.annotations or statement.thread_binding or statement.step)
            self._require(plain and _is(statement.min, 0), "a special loop")
            variable = statement.loop_var
            loops.append(Loop(self._called(variable), _dtype(variable), self._extent(statement.extent)))
            statement = statement.body
        self._require(_kind(statement) == "SBlockRealize", f"{_kind(statement)} outside a block")
        self._require(_is(statement.predicate, 1), "a block under a condition")
        block = statement.block
        self._require(not (block.alloc_buffers or block.match_buffers), "a block with buffers of its own")
        values = zip(block.iter_vars, statement.iter_values, strict=True)
        return Block(
            _readable(block.name_hint),
            tuple(loops),
            tuple(self._axis(variable, value) for variable, value in values),
            self._statements(block.init) if block.init is not None else (),
            self._statements(block.body),
            dict(_annotations(block)),
        )

    def _axis(self, variable: Any, value: Any) -> Axis:
        kind, domain = int(variable.iter_type), variable.dom
        plain = kind in (_SPATIAL, _REDUCTION) and not variable.thread_tag
        self._require(plain and _is(domain.min, 0), "a special axis")
        given = self._expression(value)
        name, extent = self._called(variable.var), self._extent(domain.extent)
        return Axis(name, _dtype(variable.var), extent, kind == _REDUCTION, given)

    def _statements(self, body: Any) -> tuple[Store | Let, ...]:
        found: list[Store | Let] = []
        for statement in _sequence(body):
            if _kind(statement) == "Bind":
                value = self._expression(statement.value)
                found.append(Let(self._called(statement.var), value))
            else:
                self._require(_kind(statement) == "BufferStore", f"{_kind(statement)} in a block")
                indices = tuple(self._expression(index) for index in statement.indices)
                found.append(Store(self._known(statement.buffer), indices, self._expression(statement.value)))
        return tuple(found)

    def _known(self, variable: Any) -> str:
        self._require(variable in self._names, f"{getattr(variable, 'name', variable)}, which nothing declares")
        return self._names[variable]

    # ------------------------------------------------ expressions

    def _expression(self, node: Any) -> Expression:
        kind, dtype = _kind(node), _dtype(node)
        if kind == "IntImm":
            return Expression("constant", dtype, (), bool(node.value) if dtype == "bool" else int(node.value))
        if kind == "FloatImm":
            return Expression("constant", dtype, (), float(node.value))
        if kind == "Var" and node in self._sizes:
            return self._size(self._sizes[node])
        if kind == "Var":
            return Expression("variable", dtype, (), self._known(node))
        if kind == "TensorLoad":
            return Expression("load", dtype, self._all(node.indices), self._known(node.source))
        if kind in OPERATIONS:
            name, operands = OPERATIONS[kind]
            return Expression(name, dtype, self._all(getattr(node, operand) for operand in operands))
        self._require(kind == "Call", f"the expression {kind}")
        namespace, _, function = str(getattr(node.op, "name", "")).partition(".")
        plain = node.attrs is None and not node.ty_args and namespace in ("tirx", "prim")
        if plain and function == "if_then_else":
            return Expression("if_then_else", dtype, self._all(node.args))
        if plain and function == "reinterpret":
            return Expression("reinterpret", dtype, self._all(node.args))
        self._require(plain and function in _FUNCTIONS, f"a call of {getattr(node.op, 'name', node.op)}")
        return Expression("call", dtype, self._all(node.args), function)

    def _size(self, expression: Any) -> Expression:
        if isinstance(expression, int):
            return integer(expression)
        if isinstance(expression, str):
            return Expression("variable", "int64", (), expression)
        operation, a, b = expression
        self._require(operation in ARITHMETIC, f"the size {printed(expression)} in its arithmetic")
        return Expression(operation, "int64", (self._size(a), self._size(b)))

    def _all(self, nodes: Any) -> tuple[Expression, ...]:
        return tuple(self._expression(node) for node in nodes)


def _readable(name: Any) -> str:
    """A name as a program may have it. It means nothing but to people."""
    kept = "".join(character if character.isprintable() else "_" for character in str(name))
    return kept[: LONGEST_NAME - 16] or "v"


def _annotations(block: Any) -> Iterator[tuple[str, int | str]]:
    for key, value in block.annotations.items():
        plain = int(value) if _kind(value) == "IntImm" or isinstance(value, int) else str(value)
        if key in ANNOTATIONS and ANNOTATIONS[key].fullmatch(str(plain)):
            yield str(key), plain


def _kind(node: Any) -> str:
    return type(node).__name__


def _dtype(node: Any) -> str:
    return str(getattr(getattr(node, "ty", None), "dtype", ""))


def _is(node: Any, value: int) -> bool:
    return _kind(node) == "IntImm" and int(node.value) == value


def _sequence(statement: Any) -> list[Any]:
    return list(statement.seq) if _kind(statement) == "SeqStmt" else [statement]
