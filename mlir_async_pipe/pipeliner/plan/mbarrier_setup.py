"""Where the mbarriers of a loop are made and initialised, and what stands between that and the loop.

%full = nvgpu.mbarrier.create                              the group: V mbarriers for each
nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader
gpu.barrier
scf.for %tile = … {                                        carries slot and phase through
  scf.for %k = … { expect, copy, wait, use }
}
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    ancestors,
    constant_value,
    defining_op,
    operations,
    parent,
    users,
    walk,
)
from mlir_async_pipe.facts.loops.transactions import Completion, Transaction, handle_of, operand
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.vocabulary import is_barrier, shows_writes, use_of
from mlir_async_pipe.vocabulary.mbarrier_ops import number_of_mbarriers


@dataclass(frozen=True)
class MbarrierSetup:
    """The group `create` makes, with `count` mbarriers, and the ops that initialise them.

    `last_init` is the op after which all are initialised, in the block that leads to the loop;
    `fenced`: a fence for copies follows it already; `meeting` is the barrier of the block that
    does. `sharing`: other loops of tensor copies on the group."""

    create: Operation
    count: int
    inits: tuple[Operation, ...]
    last_init: Operation
    fenced: bool
    meeting: Operation | None
    sharing: tuple[Operation, ...]


def mbarrier_setups(
    loop: Operation,
    transactions: tuple[Transaction, ...],
    completions: tuple[Completion, ...] = (),
    beside: tuple[Operation, ...] = (),
) -> tuple[tuple[MbarrierSetup, ...], tuple[Operation, ...]]:
    """The setup of each group, and the ops between them and the loop, outermost first. `beside` are
    the other loops of tensor copies.

    Raises PipelineError (transaction-incomplete, mbarrier-shared, phase-not-carried)."""
    phases: list[Transaction | Completion] = [*transactions, *completions]
    groups = dict.fromkeys(phase.barriers for phase in phases)
    setups = []
    for group in groups:
        numbers = [phase.number for phase in phases if phase.barriers == group]
        create = defining_op(group)
        if create is None or use_of(create) != "handle" or len(create.operands):
            raise PipelineError(
                "cannot pipeline: the mbarriers of these copies are not made in this function",
                code="transaction-incomplete",
                at=transactions[0].expect,
                advice="make them with nvgpu.mbarrier.create, and initialise them there",
            )
        parts = {op for phase in phases for op in phase.ops}
        setups.append(_setup(loop, create, numbers, parts, beside))
    outer = [_between(loop, setup) for setup in setups]
    if any(len(chain) != len(outer[0]) for chain in outer):
        raise shared(setups[0].create, setups[-1].create, "another group is made elsewhere")
    return tuple(setups), outer[0]


def _setup(
    loop: Operation,
    create: Operation,
    numbers: list[int],
    parts: set[Operation],
    beside: tuple[Operation, ...],
) -> MbarrierSetup:
    parts |= {handle for op in list(parts) if (handle := handle_of(op)) is not None}
    using = {op for op in users(create.results[0]) if op not in parts}
    above = {op: list(ancestors(op)) for op in using} if beside else {}
    holders = set[Operation]().union(*above.values())
    sharing = tuple(other for other in beside if other in holders)
    theirs = set(sharing)
    using = {op for op in using if not theirs or theirs.isdisjoint(above[op])}
    block = create.block
    order = operations(block)
    # In textual order, in which uses are not: fences follow the last one.
    inits = [op for top in order for op in walk(top) if op in using]
    other = next((op for op in inits if use_of(op) != "init"), None)
    if other is not None:
        raise shared(create, other, f"'{other.name}' uses them too")
    found = [_initialised(op) for op in inits]
    if sharing and set(numbers) < set(found):
        raise shared(create, sharing[0], "another loop uses others of their group")
    if sorted(found) != sorted(numbers):
        raise PipelineError(
            "cannot pipeline: not each mbarrier of the loop is initialised once, with one arrival",
            code="transaction-incomplete",
            at=create,
            notes=tuple(("an initialisation", op) for op in inits),
            advice="nvgpu.mbarrier.init by one thread, with count 1 and a constant number: "
            "arrive.expect_tx is the one arrival",
        )
    tops = [next(op for op in (init, *ancestors(init)) if op.block == block) for init in inits]
    last = max(tops, key=order.index)
    start = next((op for op in (loop, *ancestors(loop)) if op.block == block), None)
    if start is None or order.index(start) < order.index(last):
        raise shared(create, last, "they are initialised where the loop may not have been yet")
    between = order[order.index(last) + 1 : order.index(start)]
    meets = [n for n, op in enumerate(between) if is_barrier(op)]
    return MbarrierSetup(
        create,
        number_of_mbarriers(create.results[0].type),
        tuple(inits),
        last,
        any(map(shows_writes, between[: meets[0] if meets else None])),
        between[meets[0]] if meets else None,
        sharing,
    )


def _initialised(init: Operation) -> int:
    """The number of the mbarrier that is initialised with one arrival; -1 if that is not known."""
    index, arrivals = operand(init, "index"), operand(init, "arrivals")
    known = None if arrivals is None else constant_value(arrivals)
    number = None if index is None else constant_value(index)
    return number if known == 1 and number is not None else -1


def _between(loop: Operation, setup: MbarrierSetup) -> tuple[Operation, ...]:
    chain: list[Operation] = []
    for above in ancestors(loop):
        if above == parent(setup.create):
            return tuple(reversed(chain))
        if above.name != "scf.for" and above.name != "scf.if":
            break
        chain.append(above)
    raise PipelineError(
        f"cannot pipeline: slot and phase cannot be carried through this '{above.name}'",
        code="phase-not-carried",
        at=above,
        notes=(("the loop", loop), ("its mbarriers are made here", setup.create)),
        advice="let nothing but scf.for and scf.if stand between the mbarriers and the loop",
    )


def shared(create: Operation, user: Operation, why: str) -> PipelineError:
    """The error for mbarriers that something else uses too."""
    return PipelineError(
        f"cannot pipeline: the loop needs its mbarriers for itself, and {why}",
        code="mbarrier-shared",
        at=create,
        notes=(("here", user),),
        advice="make an mbarrier group for each loop, or let both use the same ones of it",
    )
