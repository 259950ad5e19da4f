"""Passes and rewrites of this package among those of others, by the interfaces that MLIR has for both.

    manager.add(as_pass("async-pipe-count-waits", target="nvvm:sm_80"), name="count-waits")
    set_ = RewritePatternSet(); patterns(set_, target="nvvm:sm_80")

A pass runs on what the manager is anchored at: a module, a `gpu.module` or a function. An error fails
the pass, with MLIR's own diagnostic at the place; what it found is in `reports`. The pattern replaces
each function that has annotated loops by its pipelined form, and matches no function whose loops are
refused, which is said as an error of MLIR's too.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe import api
from mlir_async_pipe.bindings import ir, load
from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Block,
    Operation,
    ancestors,
    operations,
    outermost,
    plain_values,
    symbol_name,
)
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.annotations import requested_loops
from mlir_async_pipe.session.diagnostics import AsyncPipeError, Diagnostic
from mlir_async_pipe.session.report import Report


class PythonPass:
    """A pass for `PassManager.add`; `reports` has what each of its runs found and did."""

    def __init__(self, name: str, target: Target | str | None, options: dict[str, Any]) -> None:
        self.__name__ = name
        self.reports: list[Report] = []
        self._target = target
        self._options = options

    def __call__(self, op: Any, manager: Any) -> None:
        """Run on what the manager hands over; fails the pass on an error."""
        try:
            self.reports.append(api.run_pass(self.__name__, op, self._target, **self._options))
        except AsyncPipeError as error:
            _emit(error.diagnostic, op.context)
            manager.signal_pass_failure()


def as_pass(
    name: str, target: Target | str | None = None, **options: bool | int | str
) -> PythonPass:
    """The pass called `name` for the PassManager of any stack; `options` are its own."""
    return PythonPass(name, target, options)


def patterns(
    into: Any = None,
    target: Target | str | None = None,
    *,
    benefit: int = 1,
    **options: bool | int | str,
) -> Any:
    """A RewritePatternSet, `into` or a new one, with the pattern that pipelines functions.

    `options` are those of `pipeline`. Raises BindingsError where the stack has no rewriting."""
    found = load("rewrite").RewritePatternSet() if into is None else into
    # The driver comes back to what it could not match.
    refused: set[str] = set()

    def pipeline_function(op: Any, rewriter: Any) -> bool:
        function = op.operation
        if symbol_name(function) in refused:
            return True
        try:
            return not _replaced(function, rewriter, target, options)
        except AsyncPipeError as error:
            refused.add(symbol_name(function))
            _emit(error.diagnostic, function.context)
            return True

    for kind in FUNCTION_OPS:
        found.add(kind, pipeline_function, benefit)
    return found


@plain_values()
def _replaced(
    function: Operation, rewriter: Any, target: Target | str | None, options: dict[str, Any]
) -> bool:
    """Put the pipelined form of a function in its place; whether there was something to do.

    The whole module is copied, since a function's buffers may be globals beside it. The driver
    knows the old ops, so it has to erase them."""
    if not requested_loops(function):
        return False
    copy = outermost(function).clone(ip=False).operation
    alone = _counterpart(function, copy)
    for loop in requested_loops(copy):
        if alone not in ancestors(loop):
            names.forget(loop)
    api.pipeline(copy, target, **options)
    made = _counterpart(function, copy)
    mine, theirs = _symbols(function.block), _symbols(made.block)
    # A global with versions is another global, and the old one goes with its last user.
    for name in theirs.keys() - mine.keys():
        theirs[name].move_before(function)
    made.move_before(function)
    rewriter.erase_op(function)
    for name in mine.keys() - theirs.keys():
        rewriter.erase_op(mine[name])
    return True


def _symbols(block: Block) -> dict[str, Operation]:
    return {symbol_name(op): op for op in operations(block) if symbol_name(op)}


def _counterpart(op: Operation, copy: Operation) -> Operation:
    """The op of a copied module that has the same symbols around it and is called the same."""
    for step in [op, *ancestors(op)][-2::-1]:
        copy = _symbols(copy.regions[0].blocks[0])[symbol_name(step)]
    return copy


def _emit(found: Diagnostic, context: Any) -> None:
    """Say it by MLIR's own diagnostics, which have no notes here."""
    place = found.place
    at = (
        ir.Location.file(place.file, place.line, place.column, context)
        if place.line
        else ir.Location.unknown(context)
    )
    notes = [f"{note.place}: {note.message}" for note in found.notes]
    at.emit_error("\n  note: ".join([f"{found.message} [{found.code}]", *notes]))
