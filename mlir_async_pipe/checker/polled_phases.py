"""Polls of mbarriers in LDS whose parity is compared: each asks for a phase, as a test of an mbarrier does.

    %s = amdgpu.ds_barrier_poll_state %b[%i]
    %now = amdgpu.ds_barrier_state_phase_parity %s
    %over = arith.cmpi ne, %now, %parity              %over = amdgpu.ds_barrier_poll_state %b[%i], %parity
    %again = arith.cmpi eq, %now, %parity     -->     %again = arith.xori %over, true

The running phase has the other parity if the phase of `%parity` is over. That is written on the copy that is proven,
where the poll gives this bit. What else is done with a state is not followed (`asks-for-a-phase`).
Which loop then waits until the answer is yes, `poll_loops` tells, of AMD and NVIDIA alike.
"""

from __future__ import annotations

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    before,
    constant,
    defining_op,
    integer_attribute,
    operations,
    users,
    walk_named,
)
from mlir_async_pipe.facts.values.integer_ops import PREDICATES, IntegerWriter
from mlir_async_pipe.vocabulary.mbarrier_ops import PARITY_OF_STATE, POLL

_EQUAL, _OTHER = PREDICATES.index("eq"), PREDICATES.index("ne")


def is_polled(name: str) -> bool:
    """Whether an op reads the state of an mbarrier."""
    return name == POLL


def replace(root: Operation) -> int:
    """Make each poll below `root` that asks for one phase a test; how many did."""
    return sum(_replaced(poll) for poll in walk_named(root, is_polled))


def _replaced(poll: Operation) -> bool:
    parities = users(poll.results[0])
    if len(parities) != 1 or parities[0].name != PARITY_OF_STATE:
        return False
    (parity,) = parities
    asked = users(parity.results[0])
    if len(asked) != 1:
        return False
    (compared,) = asked
    other = _compared_with(compared, parity.results[0])
    if other is None or not _is_there(other, poll):
        return False
    i1 = ir.IntegerType.get_signless(1, poll.context)
    build = IntegerWriter(before(poll), poll.location)
    over = build.make(POLL, [*poll.operands, other], i1)
    if _asks_whether_it_runs(compared):
        over = build.binary("arith.xori", over, constant(1, i1, build.ip, build.location))
    compared.results[0].replace_all_uses_with(over)
    for op in (compared, parity, poll):
        op.erase()
    return True


def _asks_whether_it_runs(compared: Operation) -> bool:
    return compared.name == "arith.cmpi" and integer_attribute(compared, "predicate") == _EQUAL


def _compared_with(op: Operation, parity: Value) -> Value | None:
    """With what a parity is compared; None if it is not."""
    is_compared = op.name == "arith.xori" or (
        op.name == "arith.cmpi" and integer_attribute(op, "predicate") in (_EQUAL, _OTHER)
    )
    others = [value for value in op.operands if value != parity]
    return others[0] if is_compared and len(others) == 1 else None


def _is_there(value: Value, op: Operation) -> bool:
    """Whether a value that is used after an op, in its block, is made before it."""
    made = defining_op(value)
    if made is None or made.block != op.block:
        return True
    ops = operations(op.block)
    return ops.index(made) < ops.index(op)
