"""The pass `async-pipe-to-rocdl`: async copies, groups and waits become those of an AMD chip.

    nvgpu.device_async_copy, _create_group, _wait
        --> amdgpu.gather_to_lds async, rocdl.asyncmark, rocdl.wait.asyncmark       gfx9, gfx10
        --> amdgpu.global_load_async_to_lds with marks, or rocdl.s.wait.asynccnt    gfx1250

Abstract ops become per-thread copies first (`abstract_ops`), workgroup allocations become
globals, and vector accesses get their proven alignment, as for NVIDIA. Which form a chip takes,
and its limits, are data in `chips`. The kernels themselves stay in gpu, scf and memref ops:
`rocdl_code` takes them on to instructions.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    ancestors,
    before,
    constant,
    create,
    defining_op,
    function_type,
    is_function,
    is_used,
    operations,
    symbol_name,
    type_text,
    walk,
    walk_named,
)
from mlir_async_pipe.chips.table import CHIPS, Chip
from mlir_async_pipe.chips.target import chip_for
from mlir_async_pipe.facts.flow.algorithms import walked
from mlir_async_pipe.facts.flow.region_flow import origins
from mlir_async_pipe.facts.values.uniformity import Uniformity
from mlir_async_pipe.lowering.nvvm.shared_memory import (
    align_workgroup_buffers,
    annotate_alignment,
    check_fits,
    end_of,
    globalise_allocations,
    kernels,
    workgroup_buffers,
)
from mlir_async_pipe.lowering.ordered_steps import Step, gpu_modules, in_each, on_root, run_steps
from mlir_async_pipe.lowering.rocdl.rocdl_copies import (
    WaveCopies,
    plan_copy,
    read_copy,
    rewrite_copy,
)
from mlir_async_pipe.lowering.rocdl.wave_layout import Wave, WaveBlock
from mlir_async_pipe.lowering.scopes.abstract_ops import lower_abstract_ops
from mlir_async_pipe.lowering.scopes.block_sizes import name_kernels, state_once
from mlir_async_pipe.lowering.scopes.carried_quotients import carry_quotients
from mlir_async_pipe.lowering.scopes.dense_buffers import flatten_buffers
from mlir_async_pipe.lowering.scopes.known_types import check_layouts, check_symbols, check_types
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import (
    CountError,
    Diagnostics,
    InputError,
    LoweringError,
    UsageError,
)
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import Queue, given_count, row_of
from mlir_async_pipe.vocabulary.async_ops import DEVICE_COPY, NO_COPIES, TOKEN_TYPE
from mlir_async_pipe.vocabulary.control_flow import callee_name
from mlir_async_pipe.vocabulary.launch_ids import Launches, block_size, launched_sizes
from mlir_async_pipe.vocabulary.rows import ASYNC_LDS, ASYNCCNT, CP_ASYNC, TENSORCNT


@dataclass(frozen=True)
class ToRocdlOptions:
    """Options of `async-pipe-to-rocdl`.

    `chip` is the AMD chip. `waits` chooses how gfx1250 waits: "marks" in groups, "counter" in
    copies; other chips have marks only. With `strict` a scope that the chip cannot run
    asynchronously is an error; else it runs in place, with a warning. `smem_limit` is the
    workgroup memory in bytes that a kernel may use, 0 for what the chip has.
    """

    chip: str = ""
    strict: bool = False
    smem_limit: int = 0
    waits: Form = field(default="marks", metadata={"choices": ("marks", "counter")})


def chip_of(options: ToRocdlOptions, session: Session) -> Chip:
    """The AMD chip of the option or of the session, which has what `options` ask for.

    Raises UsageError (chip-missing, unknown-target, wrong-vendor, wait-form).
    """
    chip = chip_for(options, session, "rocdl")
    if chip.copy_form is not None and options.waits not in chip.copy_form.waits:
        why = f"{chip.name} has no counter of async copies to wait for"
        advice = "leave out waits=counter"
        raise UsageError(why, code="wait-form", advice=advice)
    return chip


@dataclass(frozen=True)
class ToRocdl:
    """One module on its way to an AMD chip."""

    root: Operation
    chip: Chip
    options: ToRocdlOptions
    session: Session


@passes.register(
    "async-pipe-to-rocdl", "async copies, groups and waits to an AMD chip", ToRocdlOptions
)
def run(module: Any, options: ToRocdlOptions, session: Session) -> None:
    """Lower every async copy, group and wait in `module`."""
    run_steps(STEPS, ToRocdl(module.operation, chip_of(options, session), options, session))


def _lower_abstract_ops(to: ToRocdl) -> None:
    refuse = WaveCopies(to.root, to.chip).refuse
    strict = to.options.strict
    lower_abstract_ops(to.root, to.chip, to.session, strict=strict, refuse=refuse)


def _lower_copies(to: ToRocdl) -> None:
    """Plan all copies, groups and waits, then rewrite them."""
    root, chip, form = to.root, to.chip, to.options.waits
    ops = list(walk(root))
    copies = [op for op in ops if op.name == DEVICE_COPY]
    groups = [op for op in ops if is_group(op)]
    waits = [op for op in ops if is_wait(op)]
    _check_chip_copies([*copies, *groups, *waits], chip)
    uniformity, launches = Uniformity(), launched_sizes(root)
    blocks = {f: _block(f, launches, chip) for f in map(enclosing_function, copies)}
    plans = [
        plan_copy(read_copy(op), chip, blocks[enclosing_function(op)], uniformity) for op in copies
    ]
    check_control([*groups, *waits], uniformity)
    pieces = {plan.copy.op: plan.pieces for plan in plans}
    functions = {
        function: CountedCopies.of(function, groups, pieces)
        for function in map(enclosing_function, [*waits, *groups])
    }
    planned = plan_waits(waits, functions, form, to.session.diagnostics)
    makers = [op for op in ops if op.name == DEVICE_COPY or is_group(op)]
    waves = {f: Wave(f, block, uniformity) for f, block in blocks.items() if block is not None}
    for plan in plans:
        rewrite_copy(plan, waves.get(enclosing_function(plan.copy.op)))
    marked = [
        group for group in groups if functions[enclosing_function(group)].form(form) == "marks"
    ]
    rewrite(planned, marked)
    replace_tokens(root, makers)


def _check_workgroup_memory(to: ToRocdl) -> None:
    """Raise LoweringError (workgroup-memory) for a kernel that needs more than there is."""
    limit = to.options.smem_limit or to.chip.workgroup_bytes
    allowed = dataclasses.replace(to.chip, workgroup_bytes=limit)
    for gpu_module in gpu_modules(to.root):
        for kernel in kernels(gpu_module):
            check_fits(kernel, end_of(workgroup_buffers(kernel, gpu_module)), allowed)


def _check_foreign(to: ToRocdl) -> None:
    for op in walk_named(to.root, lambda name: name.startswith(("nvgpu.", "nvvm."))):
        if op.name != DEVICE_COPY and not is_group(op) and not is_wait(op):
            why = f"'{op.name}' has no counterpart on {to.chip.name}"
            advice = "write the tile operations with vector or amdgpu ops"
            raise LoweringError(why, code="foreign-op", at=op, advice=advice)


def _check_chip_copies(ops: list[Operation], chip: Chip) -> None:
    if ops and chip.copy_form is None:
        able = ", ".join(c.name for c in CHIPS.values() if c.lowering == "rocdl" and c.copy_form)
        why = f"{chip.name} cannot copy from global memory to LDS asynchronously"
        advice = f"AMD chips that can: {able}"
        raise LoweringError(why, code="no-async-copies", at=ops[0], advice=advice)


def _block(function: Operation, launches: Launches, chip: Chip) -> WaveBlock | None:
    size = block_size(function, launches)
    return None if size is None else WaveBlock(size, chip.lanes)


STEPS: tuple[Step[ToRocdl], ...] = (
    Step("foreign", _check_foreign, (), "the ops are those that the user wrote"),
    Step("symbols", in_each(check_symbols), (), "MLIR has made no symbols yet"),
    Step("kernels", on_root(name_kernels), (), "MLIR has not yet named kernels a second time"),
    Step("layouts", on_root(check_layouts), (), "the types are those that the user wrote"),
    Step("align", on_root(align_workgroup_buffers), ("layouts",), "each type has a layout"),
    Step("abstract", _lower_abstract_ops, ("foreign", "align"), "copies may be as wide as can be"),
    Step(
        "scope",
        lambda to: check_scope(to.root, to.chip, to.session),
        ("abstract",),
        "all groups and waits are nvgpu's",
    ),
    Step(
        "empty",
        lambda to: drop_empty_groups(to.root, to.chip, to.session),
        ("scope",),
        "no wait relies on groups of another function",
    ),
    Step("copies", _lower_copies, ("empty",), "the groups are those that become marks"),
    Step("types", in_each(check_types), ("copies",), "no function hands over tokens any more"),
    Step("globals", in_each(globalise_allocations), ("abstract",), "no scope is left around them"),
    Step("dense", in_each(flatten_buffers), ("globals",), "buffers are attributions or globals"),
    Step("sizes", in_each(state_once), ("kernels",), "kernels are found by one attribute"),
    Step("memory", _check_workgroup_memory, ("dense",), "each buffer reserves all its bytes"),
    Step("quotients", in_each(carry_quotients), ("abstract",), "analyses have used the counters"),
    Step(
        "vectors", in_each(annotate_alignment), ("copies", "dense"), "no access is added any more"
    ),
)


# Marks of a scope ----------------------------------------------------------------------------
#
# Marks count in the function that makes them only; refuses what relies on more.
#
#     func.func @callee(%t) { nvgpu.device_async_wait %t }      on NVIDIA: waits for the caller's group
#                                                               on AMD: knows no mark of its caller
#
# cp.async groups belong to the thread, whatever function commits them. A mark belongs to the
# sequence of the running function body (LLVM, AMDGPU asynchronous operations), so a wait cannot
# name a group of another function, and a count that includes groups of a callee is too large.


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
    called = set(map(callee_name, ops))
    groups = [op for op in ops if is_group(op)]
    in_callees = [op for op in groups if symbol_name(enclosing_function(op)) in called]
    if not in_callees:
        return
    for wait in waits:
        if len(wait.operands) == 0:
            raise _refused(wait, in_callees[0])
    passes.run_one("async-pipe-count-waits", root, session, chip=chip.name)


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
        if not origins(value).complete and (is_function(end) or callee_name(end)):
            return end
    return None


# Groups without copies -----------------------------------------------------------------------


def drop_empty_groups(root: Operation, chip: Chip, session: Session) -> None:
    """Erase the empty groups that nothing names, then count all token waits again."""
    empty = [op for op in walk(root) if is_group(op) and NO_COPIES in op.attributes]
    unnamed = [op for op in empty if not any(map(is_used, op.results))]
    # A wait with a count and no token cannot be counted again.
    if not unnamed or walk_named(root, "nvvm.cp.async.wait.group".__eq__):
        return
    for op in unnamed:
        op.erase()
    passes.run_one("async-pipe-count-waits", root, session, chip=chip.name)


# Groups and waits of async copies become marks and mark waits, or counter waits.
#
#     %g = nvgpu.device_async_create_group %t          -->  rocdl.asyncmark
#     nvgpu.device_async_wait %g {numGroups = 2}       -->  rocdl.wait.asyncmark 2      (marks)
#                                                      -->  rocdl.s.wait.asynccnt 8     (counter)
#
# A mark is a group, so counts stay. The counter of gfx1250 counts copies: with at least c copies
# in every group of the function, N groups are at least N * c copies, and the wait leaves that
# many in flight.
#
#     scf.if %first_wave { tensor copy }; group          -->  rocdl.s.wait.tensorcnt 2
#
# The back end counts what is issued on every path, and would wait for all copies of one wave. A wave
# that meets the condition has issued c copies a group, one that does not has none in flight: where
# a condition is the same in every group, its copies count as if there were none.
# Tokens have no counterpart; values of their type become i32 zeros that nothing reads.

Form = Literal["marks", "counter"]


@dataclass(frozen=True)
class MarkWait:
    """One wait and the ops that it becomes, each with how many groups (marks) or copies (counters) it
    leaves in flight."""

    op: Operation
    counts: tuple[tuple[str, int], ...]


MARK_WAIT = "rocdl.wait.asyncmark"
COUNTER_WAITS = {ASYNCCNT: "rocdl.s.wait.asynccnt", TENSORCNT: "rocdl.s.wait.tensorcnt"}
# The condition and branch under which a wave copies; None: always.
Guard = tuple[Value, int] | None


@dataclass(frozen=True)
class CountedCopies:
    """The copies of a function: by counter the fewest that a wave with any in flight has issued in a group.
    `guarded`: some of them stand under conditions, which waits for marks would not count."""

    fewest: dict[Queue, int]
    guarded: bool

    @staticmethod
    def of(
        function: Operation, groups: list[Operation], pieces: Mapping[Operation, int]
    ) -> CountedCopies:
        """Those of one function; `pieces` says how many copies a copy op becomes."""
        own = [group for group in groups if enclosing_function(group) == function]
        found = [_copies(group, pieces) for group in own]
        used = {counter for op in walk(function) if (counter := _counter_of(op, pieces))}
        fewest = {
            counter: _fewest([copies[counter] for copies in found]) if found else 0
            for counter in sorted(used, key=lambda counter: counter.name)
        }
        guards = (guard for copies in found for counter in copies.values() for guard in counter)
        return CountedCopies(fewest, any(guard is not None for guard in guards))

    def form(self, asked: Form) -> Form:
        """How the function waits: by the counter of tensor copies, where marks would count none."""
        of_waves = self.guarded and set(self.fewest) == {TENSORCNT}
        return "counter" if of_waves else asked


def _counter_of(op: Operation, pieces: Mapping[Operation, int]) -> Queue | None:
    if op in pieces:
        return ASYNCCNT
    row = row_of(op)
    return row.counter if row.asynchronous(op) else None


def _fewest(groups: list[Counter[Guard]]) -> int:
    """The fewest copies of a group in a wave that has any in flight: one that meets no condition, or one
    alone."""
    plain = min(copies[None] for copies in groups)
    if plain or any(copies[None] for copies in groups):
        return plain
    guards = {guard for copies in groups for guard in copies}
    return min((min(copies[guard] for copies in groups) for guard in guards), default=0)


def is_group(op: Operation) -> bool:
    """Whether an op commits a group of per-thread copies."""
    row = row_of(op)
    return row.queue == CP_ASYNC and row.commits == "group"


def is_wait(op: Operation) -> bool:
    """Whether an op waits for groups of per-thread copies."""
    row = row_of(op)
    return row.queue == CP_ASYNC and row.wait is not None


def check_control(ops: list[Operation], uniformity: Uniformity) -> None:
    """Raise LoweringError (divergent-mark) at a group or wait that some threads may not reach.

    A wave walks both sides of such a branch, or skips one, whichever its other lanes need:
    its marks are then not those of any one thread.
    """
    for op in ops:
        branch = uniformity.divergent_control(op)
        if branch is not None:
            kind = "group" if is_group(op) else "wait"
            raise LoweringError(
                f"a {kind} of async copies stands where only some threads of a wave may come",
                code="divergent-mark",
                at=op,
                notes=(("threads part here", branch),),
                advice=f"put the condition around the copies only, and the {kind} outside",
            )


def plan_waits(
    waits: list[Operation],
    functions: Mapping[Operation, CountedCopies],
    asked: Form,
    diagnostics: Diagnostics,
) -> list[MarkWait]:
    """The numbers of every wait. Raises CountError (negative-count)."""
    planned = []
    for op in waits:
        count = given_count(op) or 0
        if count < 0:
            raise CountError(
                f"a wait cannot leave {count} groups in flight", code="negative-count", at=op
            )
        copies = functions[enclosing_function(op)]
        if copies.form(asked) == "marks":
            counts = [_marks_left(op, count, copies, diagnostics)]
        else:
            fewest = copies.fewest or {ASYNCCNT: 0}
            counts = [
                (COUNTER_WAITS[counter], _limited(op, count * smallest, counter, diagnostics))
                for counter, smallest in fewest.items()
            ]
        planned.append(MarkWait(op, tuple(counts)))
    return planned


def _marks_left(
    op: Operation, count: int, copies: CountedCopies, diagnostics: Diagnostics
) -> tuple[str, int]:
    left = _limited(op, count, ASYNC_LDS, diagnostics)
    counted, smallest = ASYNC_LDS.copies_in_flight, copies.fewest.get(ASYNCCNT, 0)
    assert counted is not None
    if left * smallest > counted:
        said = f"{count} groups of {smallest} copies may stay in flight, and the chip can tell {counted} copies"
        diagnostics.remark(f"{said} apart: it waits until {counted} are", code="counter-limit", at=op)  # fmt: skip
    return MARK_WAIT, left


def _limited(op: Operation, wanted: int, queue: Queue, diagnostics: Diagnostics) -> int:
    """As many as the queue, or the counter, can tell apart."""
    largest = queue.largest_count
    assert largest is not None
    if wanted > largest:
        what = "groups" if queue == ASYNC_LDS else "copies"
        said = (
            f"the wait leaves {wanted} {what} in flight, and {queue.name} can tell {largest} apart"
        )
        diagnostics.remark(f"{said}: it waits until {largest} are", code="counter-limit", at=op)
    return min(wanted, largest)


def _copies(group: Operation, pieces: Mapping[Operation, int]) -> dict[Queue, Counter[Guard]]:
    """Copies that are in the group, by counter and condition: those since the group before, in its
    block. What stands in loops, or under conditions that a loop decides anew, may be none."""
    found: dict[Queue, Counter[Guard]] = {counter: Counter() for counter in COUNTER_WAITS}
    siblings = operations(group.block)
    for op in reversed(siblings[: siblings.index(group)]):
        if is_group(op):
            break
        counter = _counter_of(op, pieces)
        if counter is not None:
            found[counter][None] += pieces.get(op, 1)
        elif op.name == "scf.if" and _is_decided_once(op.operands[0]):
            for branch, region in enumerate(op.regions):
                for inner in (inner for block in region.blocks for inner in operations(block)):
                    row = row_of(inner)
                    # A wave that comes there copies, whatever its lanes decide.
                    if row.by_wave and row.counter is not None:
                        found[row.counter][op.operands[0], branch] += 1
    return found


def _is_decided_once(condition: Value) -> bool:
    """Whether a condition is one value in the whole run of its function."""
    made = defining_op(condition)
    if made is None:
        holder = condition.owner.owner.operation
        return is_function(holder) and condition.owner == next(iter(condition.owner.region.blocks))
    block = made.block
    return is_function(made.parent.operation) and block == next(iter(block.region.blocks))


def rewrite(waits: list[MarkWait], marked: list[Operation]) -> None:
    """Put marks and waits in place of groups and waits; tokens become zeros."""
    for wait in waits:
        for name, count in wait.counts:
            number = ir.IntegerAttr.get(ir.IntegerType.get_signless(16, wait.op.context), count)
            create(name, (), (), {"count": number}, ip=before(wait.op), loc=wait.op.location)
        wait.op.erase()
    for group in marked:
        create("rocdl.asyncmark", ip=before(group), loc=group.location)


def enclosing_function(op: Operation) -> Operation:
    found = next(filter(is_function, ancestors(op)), None)
    if found is None:
        raise InputError(f"'{op.name}' stands in no function", code="no-function", at=op)
    return found


def replace_tokens(module: Any, makers: list[Operation]) -> None:
    """Turn all token values into i32 and erase their `makers` (in textual order), leaving zeros
    where loops and branches carry them on."""
    i32 = ir.IntegerType.get_signless(32, module.context)
    for op in walk(module):
        blocks = (block for region in op.regions for block in region.blocks)
        for value in (*op.results, *(argument for block in blocks for argument in block.arguments)):
            if type_text(value.type) == TOKEN_TYPE:
                value.set_type(i32)
        if is_function(op) and op.name != "llvm.func":
            _retype_function(op, i32)
    # Last first: a copy's token has no users once its group is gone.
    for op in reversed(makers):
        if any(map(is_used, op.results)):
            op.results[0].replace_all_uses_with(constant(0, i32, before(op), op.location))
        op.erase()


def _retype_function(function: Operation, i32: Any) -> None:
    """Tokens in a signature become i32; a gpu.func or func.func holds it as an attribute."""
    kind = function_type(function)
    parts = ([i32 if type_text(one) == TOKEN_TYPE else one for one in ones] for ones in (kind.inputs, kind.results))  # fmt: skip
    made = ir.FunctionType.get(*parts, function.context)
    if made != kind:
        function.attributes["function_type"] = ir.TypeAttr.get(made, function.context)
