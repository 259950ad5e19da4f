"""Lets two groups of four waves take memory and products in turn, on AMD.

    wait 2; barrier                        wait 2; barrier; late waves: barrier
    scf.for {                              scf.for {
      wait 1; barrier                        copies, reads for half of the products      memory
      copies; commit               -->       barrier; half of the products; barrier      products
      reads and products                     other copies; commit; other reads; wait 1   memory
    } {roles = "ping-pong"}                  barrier; other products; barrier            products
                                           }
                                           early waves: barrier

While the early waves multiply the late ones copy and read, and the other way round: a SIMD of a compute unit has a wave of
either group. The wait is that of the next iteration, with its own token, so its count is derived as any other; two
barriers lie between it and the first read, so that both groups know of what the other one has waited for
(`checker/commit_groups.py`, which proves the loop afterwards). Products run at a priority of 1.

Within a thread copies and reads of an iteration are in no order: each copy was issued before all of the reads, and the
wait for it comes after these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    after,
    attribute,
    before,
    create,
    defining_op,
    operations,
    terminator,
    unchanged,
    users,
    walk_named,
)
from mlir_async_pipe.bindings.structured_ops import at_end_of, write_if
from mlir_async_pipe.chips.target import Chip, ChipOptions, target_for
from mlir_async_pipe.facts.loops.annotations import ROLES, remove
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.session.diagnostics import Refusal
from mlir_async_pipe.session.passes import register
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import accesses, is_pure, row_of
from mlir_async_pipe.vocabulary.barriers import write_fence, write_wave_barrier
from mlir_async_pipe.vocabulary.launch_ids import enclosing_launch_size
from mlir_async_pipe.vocabulary.products import is_product

# Two on each SIMD of a compute unit, one of either group.
WAVES = 8
# The parts of an iteration, memory and products in turn; the wait stands at the end of the last part for memory.
PARTS = 4
LAST_MEMORY = PARTS - 2
WORKGROUP = frozenset({"workgroup"})


@dataclass(frozen=True)
class TurnsPlan:
    """A loop to be written: `parts` are its ops, `waits` those that go to the end of the part before the last one, each with
    the iter_args that are its tokens; `barriers` go."""

    loop: Operation
    parts: tuple[tuple[Operation, ...], ...]
    waits: tuple[tuple[Operation, tuple[int, ...]], ...]
    barriers: tuple[Operation, ...]
    late: int


@register("async-pipe-turns", "two groups of waves take memory and products in turn", ChipOptions)
def run(module: Any, options: ChipOptions, session: Session) -> None:
    loops = [loop for loop in walk_named(module, "scf.for".__eq__) if asks_for_turns(loop)]
    if not loops:
        return
    target = target_for(options, session)
    with unchanged():
        plans = [plan_turns(loop, None if target is None else target.chip) for loop in loops]
    for plan in plans:
        _write(plan)


def asks_for_turns(loop: Operation) -> bool:
    return ROLES in loop.attributes and ir.StringAttr(loop.attributes[ROLES]).value == "ping-pong"


refuse = Refusal(
    "cannot let two groups of waves take turns:",
    code="roles-unsupported",
    advice=f"without '{ROLES}' all waves copy and compute",
)


def check_block(loop: Operation, chip: Chip | None) -> int:
    """Half of the threads of a block of eight waves of a chip that copies to LDS wave by wave.

    Raises PipelineError (roles-unsupported)."""
    if chip is None or chip.copy_form is None or not chip.copy_form.wave_base:
        known = "the chip is not known" if chip is None else f"{chip.name} has no such copies"
        why = f"{known}, and waves that copy to LDS by themselves do so on gfx942 and gfx950"
        refuse(why, loop, loop)
    size = enclosing_launch_size(loop)
    if size != (WAVES * chip.lanes, 1, 1):
        shape = "of unknown size" if size is None else f"of {' x '.join(map(str, size))} threads"
        why = f"{WAVES} waves of {chip.lanes} threads along x make two groups"
        refuse(f"{why}, and this is a block {shape}", loop, loop)
    return WAVES * chip.lanes // 2


def plan_turns(loop: Operation, chip: Chip | None) -> TurnsPlan:
    """Which op of a pipelined loop is in which part. Raises PipelineError (roles-unsupported)."""
    late = check_block(loop, chip)
    *ops, end = operations(loop.regions[0].blocks[0])
    found = _Kinds(loop)
    for op in ops:
        found.add(op)
    if len(found.products) < 2:
        refuse("it has not two products of matrices to be shared out", loop, loop)
    if not (found.copies and found.waits):
        refuse("it does not copy, and wait for copies of an earlier iteration", loop, loop)
    waits = tuple((wait, _carried(wait, loop)) for wait in found.waits)
    early = set(found.products[: len(found.products) // 2])
    # What is waited for at once is copied as early as can be.
    ends = [end.operands[number] for _, numbers in waits for number in numbers]
    at_once = any(made in set(ops) for value in ends if (made := defining_op(value)) is not None)
    copies = [n for n, op in enumerate(found.copies) if row_of(op).accesses]
    cut = copies[-1 if at_once else (len(copies) - 1) // 2] + 1
    part: dict[Operation, int] = {op: 1 if op in early else PARTS - 1 for op in found.products}
    part |= {op: 0 if n < cut else LAST_MEMORY for n, op in enumerate(found.copies)}
    # Backwards: what is read or computed stands with the first that needs it.
    for op in reversed(ops):
        if op not in part and op not in found.waits and op not in found.barriers:
            needed = [part[user] for result in op.results for user in users(result) if user in part]
            first = min(needed, default=PARTS - 1)
            part[op] = min(first - first % 2, LAST_MEMORY) if op in found.reads else first
    for op in ops:
        makers = (defining_op(operand) for operand in op.operands)
        if op in part and any(part.get(made, 0) > part[op] for made in makers if made is not None):
            refuse("it needs what a later part of the iteration makes", op, loop)
    parts = tuple(tuple(op for op in ops if part.get(op) == n) for n in range(PARTS))
    return TurnsPlan(loop, parts, waits, tuple(found.barriers), late)


class _Kinds:
    """The ops of a loop by what they do there."""

    def __init__(self, loop: Operation) -> None:
        self.loop = loop
        self.waits: list[Operation] = []
        self.barriers: list[Operation] = []
        self.copies: list[Operation] = []
        self.reads: list[Operation] = []
        self.products: list[Operation] = []

    def add(self, op: Operation) -> None:
        """Raises PipelineError (roles-unsupported) for what has no place in turns, or stands in none."""
        row = row_of(op)
        first = not (self.copies or self.reads or self.products)
        if row.wait is not None:
            if not first:
                why = f"'{op.name}' does not stand before all copies, reads and products"
                refuse(why, op, self.loop)
            self.waits.append(op)
        elif row.barrier is not None:
            if not row.barrier(op) <= WORKGROUP:
                refuse(f"'{op.name}' orders more than workgroup memory", op, self.loop)
            self.barriers.append(op)
        elif row.commits or row.asynchronous(op):
            if self.reads:
                why = f"'{op.name}' comes after what reads workgroup memory"
                advice = 'let the loop issue its copies first: async_pipe.issue = "first"'
                refuse(why, op, self.loop, advice=advice)
            self.copies.append(op)
        elif is_product(op):
            self.products.append(op)
        elif (found := accesses(op)) and not any(access.writes for access in found):
            self.reads.append(op)
        elif not is_pure(op) or len(op.regions):
            refuse(f"'{op.name}' is neither a copy nor a read nor a product", op, self.loop)


def _carried(wait: Operation, loop: Operation) -> tuple[int, ...]:
    """The iter_args that are the tokens of a wait."""
    arguments = list(loop.regions[0].blocks[0].arguments)[1:]
    if not len(wait.operands) or any(token not in arguments for token in wait.operands):
        refuse(f"'{wait.name}' waits for no token that the iteration before handed on", wait, loop)
    return tuple(arguments.index(token) for token in wait.operands)


# Writing it ----------------------------------------------------------------------------------


def _write(plan: TurnsPlan) -> None:
    loop = plan.loop
    remove(loop, (ROLES,))
    body, location = loop.regions[0].blocks[0], loop.location
    end = terminator(body)
    for number, ops in enumerate(plan.parts):
        multiplies = bool(number % 2)
        if multiplies:
            _set_priority(1, end)
        for op in ops:
            op.move_before(end)
        if multiplies:
            _set_priority(0, end)
        if number == LAST_MEMORY:
            for wait, numbers in plan.waits:
                again = wait.clone(ip=before(end)).operation
                wait.move_before(loop)
                for operand, carried in enumerate(numbers):
                    again.operands[operand] = end.operands[carried]
                    wait.operands[operand] = loop.operands[3 + carried]
        write_wave_barrier(before(end), location)
    # The loop has waited for those of its last iteration.
    known = {loop.results[number] for _, numbers in plan.waits for number in numbers}
    later = {user for token in known for user in users(token) if row_of(user).wait is not None}
    for op in (*plan.barriers, *(wait for wait in later if known.issuperset(wait.operands))):
        op.erase()
    write_fence(WORKGROUP, before(loop), location)
    build = IntegerWriter(before(loop), location)
    i32 = ir.IntegerType.get_signless(32, loop.context)
    thread = build.cast("arith.index_cast", build.thread_id("x"), i32)
    # One number of the wave, so that it jumps and no lane is masked.
    first = build.cast("rocdl.readfirstlane", build.divide(thread, plan.late // (WAVES // 2)), i32)
    late = build.compare("uge", first, WAVES // 2)
    early = build.compare("ult", first, WAVES // 2)
    for alone, place in ((late, before(loop)), (early, after(loop))):
        branch = write_if(alone, (), None, place, location)
        write_wave_barrier(at_end_of(branch.regions[0]), location)


def _set_priority(number: int, end: Operation) -> None:
    given = {"priority": attribute(f"{number} : i16", end.context)}
    create("rocdl.s.setprio", attributes=given, ip=before(end), loc=end.location)
