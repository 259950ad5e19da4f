"""Values that all lanes of a warp have: what a reduction by butterflies leaves in each of them.

    %1 = shfl.sync bfly %0, 16     %2 = fadd %0, %1        lanes l and l xor 16 have one %2
    %3 = shfl.sync bfly %2, 8      %4 = fadd %2, %3        … and l xor 8
    …                                                      after 4, 2, 1 all 32

A value is followed by the numbers x for which lanes l and l xor x have the same of it. A butterfly
keeps them, since l xor x xor k is l xor k xor x; adding up both ends of one adds k, if it does not
matter which is added to which; any other op has what all of its operands have.
"""

from __future__ import annotations

from mlir_async_pipe.bindings.raw_ops import Operation, Value, constant_value, defining_op
from mlir_async_pipe.facts.values.uniformity import Uniformity, is_made_of_operands
from mlir_async_pipe.vocabulary.launch_ids import SHUFFLES
from mlir_async_pipe.vocabulary.pure_ops import BIT_CASTS, COMMUTATIVE

# Steps that together lead from any lane of 32 to any other (PTX ISA, shfl.sync).
ALL = frozenset({1, 2, 4, 8, 16})
NONE: frozenset[int] = frozenset()
ALL_LANES, LAST_LANE = 0xFFFFFFFF, 31


class WarpValues:
    """Answers for the values of one kernel."""

    def __init__(self) -> None:
        self._uniformity = Uniformity()
        self._known: dict[Value, frozenset[int]] = {}

    def same_in_warp(self, value: Value) -> bool:
        """Whether lanes of a warp were handed one value, that need not be the same in all threads."""
        return self._uniformity.difference(value) is not None and self._steps(value) == ALL

    def _steps(self, value: Value) -> frozenset[int]:
        """The steps from lane to lane over which a value is the same."""
        pending = [value]
        while pending:
            op = defining_op(pending[-1])
            reads = [] if op is None or not _is_followed(op) else list(op.operands)
            missing = [operand for operand in reads if operand not in self._known]
            if missing:
                pending += missing
            else:
                current = pending.pop()
                self._known[current] = self._find(current, op)
        return self._known[value]

    def _find(self, value: Value, op: Operation | None) -> frozenset[int]:
        if self._uniformity.difference(value) is None:
            return ALL
        if op is None or not _is_followed(op):
            return NONE
        if op.name in SHUFFLES:
            return self._known[op.operands[SHUFFLES[op.name]]] if _butterfly(op) else NONE
        steps = ALL.intersection(*(self._known[operand] for operand in op.operands))
        if op.name in COMMUTATIVE:
            one, other = op.operands
            for given, handed in ((one, other), (other, one)):
                shuffle = defining_op(_plain(handed))
                if shuffle is None or shuffle.name not in SHUFFLES:
                    continue
                if _plain(shuffle.operands[SHUFFLES[shuffle.name]]) == _plain(given):
                    steps |= {_butterfly(shuffle)} - {0}
        return steps


def _is_followed(op: Operation) -> bool:
    return op.name in SHUFFLES or (is_made_of_operands(op.name) and not len(op.regions))


def _butterfly(op: Operation) -> int:
    """By which power of two the lanes differ that hand their numbers to each other; 0 of other shuffles."""
    if op.name == "gpu.shuffle":
        step, lanes = (constant_value(op.operands[n]) for n in (1, 2))
        known = "xor" in str(op.attributes["mode"]) and lanes == LAST_LANE + 1
    else:
        mask, step, last = (constant_value(op.operands[n]) for n in (0, 2, 3))
        everybody = mask is not None and mask & ALL_LANES == ALL_LANES
        known = "bfly" in str(op.attributes["kind"]) and everybody and last == LAST_LANE
    return step if known and step in ALL else 0


def _plain(value: Value) -> Value:
    """What a value is before casts that keep its bits."""
    op = defining_op(value)
    while op is not None and op.name in BIT_CASTS:
        value = op.operands[0]
        op = defining_op(value)
    return value
