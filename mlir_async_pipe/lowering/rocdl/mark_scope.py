"""Marks count in the function that makes them only; refuses what relies on more.

    func.func @callee(%t) { nvgpu.device_async_wait %t }      on NVIDIA: waits for the caller's group
                                                              on AMD: knows no mark of its caller

cp.async groups belong to the thread, whatever function commits them. A mark belongs to the
sequence of the running function body (LLVM, AMDGPU asynchronous operations), so a wait cannot
name a group of another function, and a count that includes groups of a callee is too large.
"""

from __future__ import annotations

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    defining_op,
    is_function,
    symbol_name,
    walk,
)
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.flow.algorithms import walked
from mlir_async_pipe.flow.origins import origins
from mlir_async_pipe.lowering.rocdl.rocdl_waits import enclosing_function, is_group, is_wait
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import LoweringError
from mlir_async_pipe.session.report import Session


def check_scope(root: Operation, chip: Chip, session: Session) -> None:
    """Refuse waits for groups of other functions, and count again where callees make groups.

    Raises LoweringError (group-of-another-function).
    """
    ops = list(walk(root))
    waits = [op for op in ops if is_wait(op)]
    for wait in waits:
        origin = next((found for token in wait.operands if (found := _crossing(token))), None)
        if origin is not None:
            raise _refused(wait, origin)
    called = {str(op.attributes["callee"]).lstrip("@") for op in ops if "callee" in op.attributes}
    groups = [op for op in ops if is_group(op)]
    in_callees = [op for op in groups if symbol_name(enclosing_function(op)) in called]
    if not in_callees:
        return
    for wait in waits:
        if len(wait.operands) == 0:
            raise _refused(wait, in_callees[0])
    counting = passes.find("async-pipe-count-waits")
    options = passes.with_defaults(counting.options(), {"chip": chip.name})
    counting.run(root, options, session)


def _refused(wait: Operation, origin: Operation) -> LoweringError:
    return LoweringError(
        "this wait relies on groups that another function commits, and marks count in their own "
        "function only",
        code="group-of-another-function",
        at=wait,
        notes=(("they come from here", origin),),
        advice="inline the call first (--inline)",
    )


def _crossing(token: Value) -> Operation | None:
    """The function whose argument, or the call whose result, the token may be."""
    for value in walked([token], lambda value: origins(value).values):
        made = defining_op(value)
        end = value.owner.owner.operation if made is None else made
        if not origins(value).complete and (is_function(end) or "callee" in end.attributes):
            return end
    return None
