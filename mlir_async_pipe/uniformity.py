"""Whether a value is the same for all threads of a block.

Block ids, function arguments, constants and pure functions of them are; thread ids, loaded
values, loop-carried values and everything computed from them may differ. Block arguments
are judged by the caller, who knows which loops count.
"""

from __future__ import annotations

from collections.abc import Callable

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.ir_helpers import FUNCTION_OPS, Operation, Value, defining_op, parent
from mlir_async_pipe.vocabulary import is_pure

# Pure, but different for every thread.
THREAD_DEPENDENT = frozenset(
    {
        "gpu.thread_id",
        "gpu.lane_id",
        "gpu.subgroup_id",
        "gpu.global_id",
        "gpu.shuffle",
        "gpu.subgroup_reduce",
    }
)


class Uniformity:
    """Answers `varies` for values, each computed once."""

    def __init__(self, argument_varies: Callable[[Value], bool]) -> None:
        self._argument_varies = argument_varies
        self._known: dict[Value, bool] = {}

    def varies(self, value: Value) -> bool:
        """Whether the value may differ between threads."""
        pending = [value]
        while pending:
            current = pending[-1]
            if current in self._known:
                pending.pop()
                continue
            op = defining_op(current)
            if op is None:
                self._known[current] = self._argument_varies(current)
            elif not is_pure(op) or op.name in THREAD_DEPENDENT or len(op.regions):
                self._known[current] = True
            else:
                missing = [o for o in op.operands if o not in self._known]
                if missing:
                    pending.extend(missing)
                    continue
                self._known[current] = any(self._known[o] for o in op.operands)
            pending.pop()
        return self._known[value]


class ThreadUniformity(Uniformity):
    """Uniformity over a whole function: induction variables of uniform loops are uniform."""

    def __init__(self) -> None:
        super().__init__(self._varies_as_argument)

    def diverges(self, op: Operation) -> bool:
        """Whether threads may disagree on how, or (an async scope) when the regions run."""
        if op.name in FUNCTION_OPS or op.name in _ALWAYS_TOGETHER:
            return False
        if op.name in ("scf.for", "scf.if", "scf.index_switch"):
            return any(self.varies(operand) for operand in list(op.operands)[: _CONTROL[op.name]])
        return True

    def _varies_as_argument(self, argument: Value) -> bool:
        block = ir.BlockArgument(argument).owner
        holder = block.owner.operation
        if holder.name in FUNCTION_OPS:
            return block != holder.regions[0].blocks[0]
        is_index = holder.name == "scf.for" and ir.BlockArgument(argument).arg_number == 0
        return not is_index or self.diverges(holder)


# How many of the operands decide about control.
_CONTROL = {"scf.for": 3, "scf.if": 1, "scf.index_switch": 1}
_ALWAYS_TOGETHER = frozenset({"scf.execute_region", "builtin.module", "gpu.module", "gpu.launch"})


def divergent_ancestor(op: Operation, uniformity: ThreadUniformity) -> Operation | None:
    """The outermost op around `op`, inside its function, whose regions threads may run
    differently; None if all threads reach `op` together."""
    found = None
    above = parent(op)
    while above is not None and above.name not in FUNCTION_OPS and above.name != "gpu.launch":
        if uniformity.diverges(above):
            found = above
        above = parent(above)
    return found
