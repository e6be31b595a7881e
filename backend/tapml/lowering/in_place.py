"""Moves that are read in place: a kernel that reads what a transform made reads what that was made of.

What is left of transforms when TVM has fused stands before a product, a reduction, or several kernels: heads that are
taken apart, windows, concatenations. Each is a kernel that does nothing but to move elements (tapml.regions). Where all
who read its result may as well compute where each element lies, they do, and the move is gone. Whether they may is for
those to say who write the kernels (`AcceptsMove`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import tvm
from tvm import relax, topi

from tapml.lowering.accepts import AcceptsMove, Read
from tapml.lowering.by_hand import is_by_hand
from tapml.lowering.calls import results_of, shape_of, shown_by, uses_of
from tapml.lowering.fuse import MOST_BUFFERS
from tapml.lowering.moves import (
    Called,
    calls_of,
    fused_name,
    is_move,
    is_plain,
    merged_by,
    read_by_these_alone,
    with_joined_moves,
)
from tapml.lowering.operator import Operator

_MOST_ROUNDS = 32


def with_moves_in_place(module: tvm.IRModule, read: Read, accepts: AcceptsMove) -> tvm.IRModule:
    """The lowered module, without those kernels that only move elements whose readers are all better off without. Of
    those that are left one kernel does all moves of the same tensors (horizontal merging)."""
    without = _without_moves(module, read, accepts)
    return with_joined_moves(without, read(without))


def _without_moves(module: tvm.IRModule, read: Read, accepts: AcceptsMove) -> tvm.IRModule:
    refused: set[_Pair] = set()
    accepted: set[_Pair] = set()
    for _ in range(_MOST_ROUNDS):
        moves = _Moves(module, read(module), refused)
        while chosen := moves.chosen():
            merged, together = moves.merged(chosen)
            made = read(merged)
            wrong = {
                pair
                for name, pair in together.items()
                if pair not in accepted
                and not accepts(moves.operators[pair.move], moves.operators[pair.reader], made[name], pair.readers)
            }
            accepted.update(pair for pair in together.values() if pair not in wrong)
            if not wrong:
                break
            refused |= wrong
        if not chosen:
            break
        module = merged
    return module


class _Pair(NamedTuple):
    """PrimFuncs of a move and of one of its readers, which are so many."""

    move: str
    reader: str
    readers: int


class _Moves:
    def __init__(self, module: tvm.IRModule, operators: Mapping[str, Operator], refused: Collection[_Pair]):
        self._module = module
        self.operators = operators
        self._refused = refused
        main = module["main"]
        self._calls = {call.variable: call for call in calls_of(main)}
        self._shown = shown_by(main)
        self._results = {*results_of(main)}
        self._uses = uses_of(main)
        self._movers = {name for name, found in operators.items() if is_move(found)}

    def chosen(self) -> dict[Any, list[Called]]:
        """Variables of moves that go, with who reads each. None of these goes itself, or reads another one that does:
        whether a move may go is asked of each by itself."""
        found: dict[Any, list[Called]] = {}
        taken: set[Any] = set()
        for variable, call in reversed(self._calls.items()):
            readers = self._readers(variable) if call.name in self._movers else []
            own = {reader.variable for reader in readers}
            if (
                own
                and not own & (taken | found.keys())
                and all(self._may_read(call, reader, len(readers)) for reader in readers)
            ):
                found[variable] = readers
                taken |= own
        return found

    def _readers(self, variable: Any) -> list[Called]:
        """Calls that read a value, or a view of it; none where something else needs it in memory: a result, a tuple."""
        names = [variable, *(view for view, shown in self._shown.items() if shown == variable)]
        readers = [call for call in self._calls.values() if any(name in call.operands for name in names)]
        alone = read_by_these_alone(names, readers, self._uses) and self._results.isdisjoint(names)
        return readers if alone else []

    def _may_read(self, move: Called, reader: Called, readers: int) -> bool:
        few = len(reader.operands) + len({*move.operands}) < MOST_BUFFERS
        one = isinstance(reader.variable.ty, relax.TensorType)  # not several outputs, as words and scales are
        known = reader.name in self.operators and _Pair(move.name, reader.name, readers) not in self._refused
        return few and one and known and not is_by_hand(self._module[reader.name])

    def merged(self, chosen: Mapping[Any, Sequence[Called]]) -> tuple[tvm.IRModule, dict[str, _Pair]]:
        """The module without these moves, and by name of a new PrimFunc the move and the reader that it is of."""
        moves = {variable: (self._calls[variable], len(readers)) for variable, readers in chosen.items()}
        mutator = _Merging(self._module, moves, self._shown)
        return merged_by(mutator, self._module), mutator.made


@relax.expr_functor.mutator
class _Merging(relax.PyExprMutator):  # type: ignore[misc]  # TVM has no types
    """Calls that read moves become calls of functions of both, which FuseTIR makes one PrimFunc of."""

    def __init__(self, module: tvm.IRModule, moves: Mapping[Any, tuple[Called, int]], shown: Mapping[Any, Any]) -> None:
        super().__init__(module)
        self._module, self._moves, self._shown = module, moves, shown
        self.made: dict[str, _Pair] = {}
        self._known: dict[Any, Any] = {}

    def visit_call_(self, call: Any) -> Any:
        fields = list(call.args[1].fields) if is_plain(call) else []
        variable = next((found for field in fields if (found := self._shown.get(field, field)) in self._moves), None)
        if variable is None:
            return super().visit_call_(call)
        move, readers = self._moves[variable]
        given = list(dict.fromkeys(found for found in (*move.operands, *fields) if not self._shows(found, variable)))
        # Calls of the same PrimFuncs, of which the same operands are one, are calls of one function.
        places = [-1 if self._shows(found, variable) else given.index(found) for found in (*move.operands, *fields)]
        types = [str(found.ty) for found in (*move.operands, *fields)]
        key = move.name, call.args[0], readers, str(places), *types
        if key not in self._known:
            self._known[key] = self._function(call, variable, given)
        return tvm.ir.Call(self._known[key], [self.visit_expr(found) for found in given])

    def _shows(self, found: Any, variable: Any) -> bool:
        return bool(self._shown.get(found, found) == variable)

    def _function(self, call: Any, variable: Any, given: Sequence[Any]) -> Any:
        (move, readers), reader = self._moves[variable], call.args[0]
        inside = {found: relax.Var(f"given{number}", found.ty) for number, found in enumerate(given)}
        builder = relax.BlockBuilder()
        with builder.function("merged", [*inside.values()]):
            with builder.dataflow():
                operands = relax.Tuple([inside[found] for found in move.operands])
                callee = self._module.get_global_var(move.name)
                moved = inside[variable] = builder.emit(relax.call_tir(callee, operands, variable.ty))
                for field in call.args[1].fields:
                    if field not in inside:
                        # A view is a kernel like any other here, until both are one.
                        inside[field] = builder.emit(self.builder_.call_te(topi.reshape, moved, shape_of(field)))
                operands = relax.Tuple([inside[found] for found in call.args[1].fields])
                result = builder.emit_output(relax.call_tir(reader, operands, [*call.ty_args]))
            builder.emit_func_output(result)
        function = relax.utils.copy_with_new_vars(builder.finalize()["merged"]).with_attr("Primitive", True)
        made = self.builder_.add_func(function, fused_name((move.name, reader.name_hint)))
        self.made[made.name_hint] = _Pair(move.name, reader.name_hint, readers)
        return made
