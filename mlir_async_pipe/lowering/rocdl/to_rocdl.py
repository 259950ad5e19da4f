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
    is_function,
    is_used,
    operations,
    symbol_name,
    walk,
)
from mlir_async_pipe.chips.table import CHIPS, Chip
from mlir_async_pipe.chips.target import chip_for
from mlir_async_pipe.facts.flow.algorithms import walked
from mlir_async_pipe.facts.flow.region_flow import origins
from mlir_async_pipe.facts.values.uniformity import Uniformity
from mlir_async_pipe.lowering.nvvm.shared_memory import (
    check_fits,
    end_of,
    globalise_allocations,
    kernels,
    workgroup_buffers,
)
from mlir_async_pipe.lowering.nvvm.workgroup_alignment import (
    align_workgroup_buffers,
    annotate_alignment,
)
from mlir_async_pipe.lowering.ordered_steps import Step, gpu_modules, in_each, on_root, run_steps
from mlir_async_pipe.lowering.rocdl.other_lanes import Wave
from mlir_async_pipe.lowering.rocdl.rocdl_copies import rewrite_copy
from mlir_async_pipe.lowering.rocdl.rocdl_copy_plan import (
    COPY,
    CopyPlan,
    ThreadCopy,
    plan_copy,
    read_copy,
)
from mlir_async_pipe.lowering.rocdl.wave_layout import WaveBlock
from mlir_async_pipe.lowering.scopes.abstract_ops import lower_abstract_ops
from mlir_async_pipe.lowering.scopes.block_sizes import name_kernels, state_once
from mlir_async_pipe.lowering.scopes.dense_buffers import flatten_buffers
from mlir_async_pipe.lowering.scopes.known_types import check_layouts, check_symbols, check_types
from mlir_async_pipe.lowering.scopes.scope_copies import CopyPair
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import CountError, Diagnostics, LoweringError, UsageError
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import accesses, given_count, row_of
from mlir_async_pipe.vocabulary.launch_ids import Launches, block_size, launched_sizes
from mlir_async_pipe.vocabulary.rows import ASYNC_LDS, ASYNCCNT, CP_ASYNC


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
        raise UsageError(
            f"{chip.name} has no counter of async copies to wait for",
            code="wait-form",
            advice="leave out waits=counter",
        )
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
    copies = [op for op in ops if op.name == COPY]
    groups = [op for op in ops if is_group(op)]
    waits = [op for op in ops if is_wait(op)]
    _check_chip_copies([*copies, *groups, *waits], chip)
    uniformity = Uniformity()
    launches = launched_sizes(root)
    blocks = {
        function: _block(function, launches, chip) for function in map(enclosing_function, copies)
    }
    plans = [
        plan_copy(read_copy(op), chip, blocks[enclosing_function(op)], uniformity) for op in copies
    ]
    check_control([*groups, *waits], uniformity)
    pieces = {plan.copy.op: plan.pieces for plan in plans}
    planned = plan_waits(waits, groups, pieces, form, to.session.diagnostics)
    makers = [op for op in ops if op.name == COPY or is_group(op)]
    _rewrite_copies(plans, blocks, uniformity)
    rewrite(planned, groups, form)
    replace_tokens(root, makers)


def _check_workgroup_memory(to: ToRocdl) -> None:
    """Raise LoweringError (workgroup-memory) for a kernel that needs more than there is."""
    limit = to.options.smem_limit or to.chip.workgroup_bytes
    allowed = dataclasses.replace(to.chip, workgroup_bytes=limit)
    for gpu_module in gpu_modules(to.root):
        for kernel in kernels(gpu_module):
            check_fits(kernel, end_of(workgroup_buffers(kernel, gpu_module)), allowed)


def _check_foreign(to: ToRocdl) -> None:
    for op in walk(to.root):
        ours = op.name == COPY or is_group(op) or is_wait(op)
        if op.name.startswith(("nvgpu.", "nvvm.")) and not ours:
            raise LoweringError(
                f"'{op.name}' has no counterpart on {to.chip.name}",
                code="foreign-op",
                at=op,
                advice="write the tile operations with vector or amdgpu ops",
            )


def _check_chip_copies(ops: list[Operation], chip: Chip) -> None:
    if ops and chip.copy_form is None:
        able = ", ".join(c.name for c in CHIPS.values() if c.lowering == "rocdl" and c.copy_form)
        raise LoweringError(
            f"{chip.name} cannot copy from global memory to LDS asynchronously",
            code="no-async-copies",
            at=ops[0],
            advice=f"AMD chips that can: {able}",
        )


def _block(function: Operation, launches: Launches, chip: Chip) -> WaveBlock | None:
    size = block_size(function, launches)
    return None if size is None else WaveBlock(size, chip.lanes)


def _rewrite_copies(
    plans: list[CopyPlan], blocks: dict[Operation, WaveBlock | None], uniformity: Uniformity
) -> None:
    waves = {
        function: Wave(function, block, uniformity)
        for function, block in blocks.items()
        if block is not None
    }
    for plan in plans:
        rewrite_copy(plan, waves.get(enclosing_function(plan.copy.op)))


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
    Step(
        "vectors", in_each(annotate_alignment), ("copies", "dense"), "no access is added any more"
    ),
)


# Copies of a wave ----------------------------------------------------------------------------
#
# Whether lanes that copy side by side can issue a copy that is still a load and a store.
#
# Asked before a scope becomes copies: a scope that a wave cannot issue runs in place, while a
# copy that its author wrote as one is refused (`rocdl_copy_plan`).


class WaveCopies:
    """The waves of the functions of a module on one chip; valid as long as nothing is edited."""

    def __init__(self, root: Operation, chip: Chip) -> None:
        self._launches = launched_sizes(root)
        self._chip = chip
        self._uniformity = Uniformity()

    def refuse(self, pair: CopyPair) -> str | None:
        """Why a wave cannot issue the pair, None if it can.

        Raises LoweringError (unknown-block-size): that is for the user to mend.
        """
        if self._chip.copy_form is None:
            return None
        (source,), (target,) = accesses(pair.load), accesses(pair.store)
        copy = ThreadCopy(
            pair.store,
            source.memory,
            list(source.indices),
            target.memory,
            list(target.indices),
            pair.piece_bytes // pair.element_bytes,
            None,
        )
        size = block_size(enclosing_function(pair.store), self._launches)
        block = None if size is None else WaveBlock(size, self._chip.lanes)
        try:
            plan_copy(copy, self._chip, block, self._uniformity)
        except LoweringError as refused:
            if refused.code == "unknown-block-size":
                raise
            return refused.diagnostic.message
        return None


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


# Groups without copies -----------------------------------------------------------------------

EMPTY = "async_pipe.empty"


def drop_empty_groups(root: Operation, chip: Chip, session: Session) -> None:
    """Erase the empty groups that nothing names, then count all token waits again."""
    empty = [op for op in walk(root) if is_group(op) and EMPTY in op.attributes]
    unnamed = [op for op in empty if not any(map(is_used, op.results))]
    if not unnamed or _has_bare_waits(root):
        return
    for op in unnamed:
        op.erase()
    counting = passes.find("async-pipe-count-waits")
    options = passes.with_defaults(counting.options(), {"chip": chip.name})
    counting.run(root, options, session)


def _has_bare_waits(root: Operation) -> bool:
    """Whether some wait has a count but no token: it cannot be counted again."""
    return any(op.name == "nvvm.cp.async.wait.group" for op in walk(root))


# Groups and waits of async copies become marks and mark waits, or counter waits.
#
#     %g = nvgpu.device_async_create_group %t          -->  rocdl.asyncmark
#     nvgpu.device_async_wait %g {numGroups = 2}       -->  rocdl.wait.asyncmark 2      (marks)
#                                                      -->  rocdl.s.wait.asynccnt 8     (counter)
#
# A mark is a group, so counts stay. The counter of gfx1250 counts copies: with at least c copies
# in every group of the function, N groups are at least N * c copies, and the wait leaves that
# many in flight.
# Tokens have no counterpart; values of their type become i32 zeros that nothing reads.

TOKEN = "!nvgpu.device.async.token"

Form = Literal["marks", "counter"]


@dataclass(frozen=True)
class MarkWait:
    """One wait and the number it gets: groups (marks) or copies (counter) left in flight."""

    op: Operation
    count: int


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
    groups: list[Operation],
    pieces: Mapping[Operation, int],
    form: Form,
    diagnostics: Diagnostics,
) -> list[MarkWait]:
    """The number of every wait; `pieces` says how many copies a copy op becomes.

    Raises CountError (negative-count).
    """
    queue = ASYNC_LDS if form == "marks" else ASYNCCNT
    fewest: dict[Operation, int] = {}
    for group in groups:
        function, number = enclosing_function(group), _copies(group, pieces)
        fewest[function] = min(number, fewest.get(function, number))
    planned = []
    for op in waits:
        row = row_of(op)
        assert row.wait is not None
        count = given_count(op) or 0
        if count < 0:
            raise CountError(
                f"a wait cannot leave {count} groups in flight", code="negative-count", at=op
            )
        smallest = fewest.get(enclosing_function(op), 0)
        wanted = count if form == "marks" else count * smallest
        largest = queue.largest_count
        assert largest is not None
        if wanted > largest:
            diagnostics.remark(
                f"the wait leaves {wanted} {'groups' if form == 'marks' else 'copies'} in flight, "
                f"and {queue.name} can tell {largest} apart: it waits until {largest} are",
                code="counter-limit",
                at=op,
            )
        counted = ASYNC_LDS.copies_in_flight
        assert counted is not None
        if form == "marks" and min(count, largest) * smallest > counted:
            diagnostics.remark(
                f"{count} groups of {smallest} copies may stay in flight, and the chip can tell "
                f"{counted} copies apart: it waits until {counted} are",
                code="counter-limit",
                at=op,
            )
        planned.append(MarkWait(op, min(wanted, largest)))
    return planned


def _copies(group: Operation, pieces: Mapping[Operation, int]) -> int:
    """Copies that are in the group on every path: those since the group before, in its block."""
    total = 0
    siblings = operations(group.block)
    for op in reversed(siblings[: siblings.index(group)]):
        if is_group(op):
            break
        total += pieces.get(op, 0)
    return total


def rewrite(waits: list[MarkWait], groups: list[Operation], form: Form) -> None:
    """Put marks and waits in place of groups and waits; tokens become zeros."""
    for wait in waits:
        name = "rocdl.wait.asyncmark" if form == "marks" else "rocdl.s.wait.asynccnt"
        number = ir.IntegerAttr.get(ir.IntegerType.get_signless(16, wait.op.context), wait.count)
        create(name, (), (), {"count": number}, ip=before(wait.op), loc=wait.op.location)
        wait.op.erase()
    if form == "marks":
        for group in groups:
            create("rocdl.asyncmark", ip=before(group), loc=group.location)


def enclosing_function(op: Operation) -> Operation:
    return next(above for above in ancestors(op) if is_function(above))


def replace_tokens(module: Any, makers: list[Operation]) -> None:
    """Turn all token values into i32 and erase their `makers` (in textual order), leaving zeros
    where loops and branches carry them on."""
    i32 = ir.IntegerType.get_signless(32, module.context)
    for op in walk(module):
        values = [*op.results]
        for region in op.regions:
            for block in region.blocks:
                values += block.arguments
        for value in values:
            if str(value.type) == TOKEN:
                value.set_type(i32)
        if is_function(op):
            _retype_function(op, i32)
    # Last first: a copy's token has no users once its group is gone.
    for op in reversed(makers):
        if any(map(is_used, op.results)):
            op.results[0].replace_all_uses_with(constant(0, i32, before(op), op.location))
        op.erase()


def _retype_function(function: Operation, i32: Any) -> None:
    """Tokens in a signature become i32; a gpu.func or func.func holds it as an attribute."""
    if function.name == "llvm.func":
        return
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    if not any(str(part) == TOKEN for part in (*kind.inputs, *kind.results)):
        return

    def kept(parts: Any) -> list[Any]:
        return [i32 if str(part) == TOKEN else part for part in parts]

    made = ir.FunctionType.get(kept(kind.inputs), kept(kind.results), function.context)
    function.attributes["function_type"] = ir.TypeAttr.get(made, function.context)
