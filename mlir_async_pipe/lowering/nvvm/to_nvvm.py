"""The pass `async-pipe-to-nvvm`: from pipelined IR to the LLVM and NVVM dialects.

    abstract ops      -->  nvgpu.device_async_*, or in place     (abstract_ops)
    workgroup memory  -->  globals, dynamic above 48 KiB          (shared_memory, dynamic_shared)
    vector accesses   -->  with their proven alignment            (vector_alignment)
    block sizes       -->  stated once, then exact                (block_sizes)
    thread 0's copies -->  those of an elected thread             (elected_copies)
    divisions in loops -->  counted up                             (carried_quotients)
    special functions -->  beside the products, not after them    (opaque_assembly)
    tensor memory     -->  loads are read after their waits       (opaque_assembly)
    gpu.module        -->  llvm.func with nvvm.cp.async.*         (MLIR's own conversions)
    masked loads      -->  loads of what the mask keeps           (masked_llvm_loads)
    addresses         -->  what varies apart from what does not   (split_addresses)

What MLIR's conversions do not know would make its translation crash, so ops of other dialects
are refused where they stand before anything is rewritten, and what is left over is refused
after the conversions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mlir_async_pipe import bindings
from mlir_async_pipe.bindings import ir, passmanager
from mlir_async_pipe.bindings.back_end_child import plain
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    OpWriter,
    before,
    constant,
    constant_value,
    retype,
    symbol_name,
    type_text,
    walk,
    walk_named,
)
from mlir_async_pipe.chips.target import Chip, ChipOptions, chip_for
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.lowering.nvvm.elected_copies import elect_copies
from mlir_async_pipe.lowering.nvvm.nvidia_ops import bypass_first_level, note_whole_lines
from mlir_async_pipe.lowering.nvvm.opaque_assembly import (
    hold_constants,
    keep_beside_products,
    read_after_waits,
)
from mlir_async_pipe.lowering.nvvm.shared_memory import (
    DynamicShared,
    align_workgroup_buffers,
    annotate_alignment,
    ask_at_launch,
    globalise_allocations,
    module_functions,
    move_large_kernels,
)
from mlir_async_pipe.lowering.ordered_steps import (
    BARE_POINTERS,
    Step,
    gpu_modules,
    has_complex,
    in_each,
    on_root,
    run_steps,
)
from mlir_async_pipe.lowering.scopes.abstract_ops import lower_abstract_ops
from mlir_async_pipe.lowering.scopes.block_sizes import (
    BlockSizes,
    name_kernels,
    require_sizes,
    state_once,
)
from mlir_async_pipe.lowering.scopes.carried_quotients import carry_quotients
from mlir_async_pipe.lowering.scopes.dense_buffers import flatten_buffers, join_dynamic_globals
from mlir_async_pipe.lowering.scopes.known_types import (
    check_layouts,
    check_ptx_names,
    check_symbols,
    check_types,
)
from mlir_async_pipe.lowering.scopes.masked_loads import MASKED_LOAD, settle_masked_loads
from mlir_async_pipe.lowering.split_addresses import split_all
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import LoweringError, UsageError
from mlir_async_pipe.session.plugins import install
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import Queue, accesses, given_count, row_of, set_count
from mlir_async_pipe.vocabulary.rows import CP_ASYNC, WGMMA

# Keeps the counts of waits within what the hardware can express.
#
#     nvgpu.device_async_wait %t {numGroups = 70}  -->  … {numGroups = 63}
#
# MLIR's ops accept any number, and assemblers clamp (ptxas) or wrap it (rocdl.wait.asyncmark
# 40000 becomes -25536) without a word. Fewer groups in flight is always safe.


def clamp_counts(root: Any, session: Session) -> None:
    """Lower every count above its queue's largest to that, with a remark (counter-limit).

    Raises LoweringError (negative-count) for a count below 0.
    """
    for op in walk(root):
        row = row_of(op)
        if row.wait is None or not isinstance(row.queue, Queue):
            continue
        count, largest = given_count(op), row.queue.largest_count
        if count is not None and count < 0:
            raise LoweringError(
                f"a wait for at most {count} groups in flight", code="negative-count", at=op
            )
        if count is None or largest is None or count <= largest:
            continue
        said = f"queue {row.queue.name} can leave at most {largest} groups in flight, not {count}"
        session.diagnostics.remark(said, code="counter-limit", at=op)
        set_count(op, largest)


# convert-vector-to-llvm is there for the n-dimensional vector ops (extract_strided_slice of
# fragments) that convert-gpu-to-nvvm does not lower itself.
RECIPE = (
    "{loops}convert-nvgpu-to-nvvm,convert-vector-to-scf,convert-scf-to-cf,expand-strided-metadata,"
    "lower-affine,{complex}convert-vector-to-llvm,convert-gpu-to-nvvm{{has-redux=true{bare}}},canonicalize,"
    "cse,convert-nvvm-to-llvm,reconcile-unrealized-casts"
)
# convert-nvgpu-to-nvvm refuses loops and branches that give matrices of a wave.
LOOPS_FIRST = "convert-vector-to-scf,convert-scf-to-cf,"
COMPLEX = "convert-complex-to-standard,convert-complex-to-llvm,"

# What the recipe lowers, by dialect; the abstract ops are gone before it runs.
_LOWERED = frozenset(
    "affine arith async_pipe builtin cf complex func gpu index llvm math memref nvgpu nvvm scf ub "
    "vector".split()
)
# Their conversions emit errors and succeed, which their Python layer answers with an abort.
_CANNOT_CONVERT = ("flydsl",)
_FINAL = frozenset(("llvm", "nvvm"))


@dataclass(frozen=True)
class ToNvvmOptions(ChipOptions):
    """Options of `async-pipe-to-nvvm`: those of `mlir_async_pipe.lower`."""

    strict: bool = False
    bypass_l1: str = field(default="all", metadata={"choices": ("all", "formed")})
    l2_lines: bool = True
    bare_pointers: bool = False


@dataclass
class ToNvvm:
    """One module on its way to NVVM. By the names of its gpu.modules: the dynamic shared memory
    of their kernels, and the block sizes that these state. By their names: the converted ops that are
    written anew."""

    root: Operation
    chip: Chip
    options: ToNvvmOptions
    session: Session
    shared: dict[str, DynamicShared] = field(default_factory=dict)
    sizes: dict[str, BlockSizes] = field(default_factory=dict)
    converted: dict[str, list[Operation]] = field(default_factory=dict)


@passes.register(
    "async-pipe-to-nvvm", "abstract and nvgpu async ops to NVVM, kernels to LLVM", ToNvvmOptions
)
def run(module: Any, options: ToNvvmOptions, session: Session) -> None:
    """Lower every gpu.module in `module` to the LLVM dialect."""
    chip = chip_for(options, session, "nvvm")
    run_steps(STEPS, ToNvvm(module.operation, chip, options, session))


def _check_known(gpu_module: Operation) -> None:
    """Raise LoweringError (left-over-op) at the first op of a dialect that is not lowered."""
    for op in walk_named(gpu_module, lambda name: name.split(".")[0] not in _LOWERED):
        why = f"'{op.name}' cannot be lowered to NVVM"
        advice = "lower it to arith, memref, vector, scf, gpu or nvgpu ops first"
        raise LoweringError(why, code="left-over-op", at=op, advice=advice)


def _check_converted(to: ToNvvm) -> None:
    """Raise LoweringError (left-over-op) at the first op that MLIR did not convert, and keep those
    that the next steps look for.

    A cast is left where one side was converted: the type of the other is what is not known.
    """
    to.converted = {MASKED_LOAD: [], CAST: []}
    modules = gpu_modules(to.root)
    for op in (found for each in modules for found in walk_named(each, _is_looked_at)):
        if op in modules:
            continue
        if op.name in to.converted:
            to.converted[op.name].append(op)
            continue
        what = f"'{op.name}'"
        if op.name == "builtin.unrealized_conversion_cast":
            types = {str(v.type) for v in (*op.operands, *op.results)}
            what = f"a value that is used as {' and '.join(sorted(types))}"
        raise LoweringError(f"MLIR's conversions to NVVM leave {what}", code="left-over-op", at=op)


def _is_looked_at(name: str) -> bool:
    return name in (MASKED_LOAD, CAST) or name.split(".")[0] not in _FINAL


def _lower_abstract_ops(to: ToNvvm) -> None:
    lower_abstract_ops(to.root, to.chip, to.session, strict=to.options.strict)


def _hint_caches(to: ToNvvm) -> None:
    for gpu_module in gpu_modules(to.root):
        if to.options.bypass_l1 == "all":
            bypass_first_level(gpu_module)
        if to.options.l2_lines:
            note_whole_lines(gpu_module)


def _make_dynamic(to: ToNvvm) -> None:
    for gpu_module in gpu_modules(to.root):
        name = symbol_name(gpu_module)
        to.shared[name] = move_large_kernels(gpu_module, to.chip)
        ask_at_launch(to.root, name, to.shared[name])


def _state_sizes(to: ToNvvm) -> None:
    to.sizes = {symbol_name(found): state_once(found) for found in gpu_modules(to.root)}


def _elect_copies(to: ToNvvm) -> None:
    if to.chip.tensor_copies:
        for gpu_module in gpu_modules(to.root):
            elect_copies(gpu_module)


def _drop_noalias(gpu_module: Operation) -> None:
    """Drop `llvm.noalias` of memref arguments: a memref becomes two pointers and more, where
    MLIR cannot put it and warns. All our analyses have used it by now."""
    for function in module_functions(gpu_module):
        if "arg_attrs" not in function.attributes:
            continue
        kept = []
        for entry in ir.ArrayAttr(function.attributes["arg_attrs"]):
            named = {n.name: n.attr for n in ir.DictAttr(entry) if n.name != "llvm.noalias"}
            kept.append(ir.DictAttr.get(named, function.context))
        function.attributes["arg_attrs"] = ir.ArrayAttr.get(kept, function.context)


def _gives_wave_matrix(op: Operation) -> bool:
    return len(op.regions) > 0 and any(
        type_text(result.type).startswith("!gpu.mma_matrix<") for result in op.results
    )


def _convert(to: ToNvvm) -> None:
    """Run MLIR's conversions on every gpu.module. Raises LoweringError (lowering-failed)."""
    root = to.root
    bare = BARE_POINTERS if to.options.bare_pointers else ""
    complex_ops = COMPLEX if any(map(has_complex, gpu_modules(root))) else ""
    loops = LOOPS_FIRST if any(map(_gives_wave_matrix, walk(root))) else ""
    recipe = RECIPE.format(bare=bare, complex=complex_ops, loops=loops)
    if bindings.current().name in _CANNOT_CONVERT:
        raise UsageError(
            f"bindings '{bindings.current().name}' end the process in MLIR's conversions to NVVM",
            code="bindings-incomplete",
            advice=install("nvidia") + ', and use("numba-cuda-mlir")',
        )
    try:
        manager = passmanager.PassManager.parse(f"gpu.module({recipe})", root.context)
    except ValueError as error:
        why = f"these bindings lack MLIR's conversions to NVVM: {str(error).strip()}"
        raise UsageError(why, code="bindings-incomplete", advice=install("nvidia")) from error
    # Before and after eleven conversions, not after each: that took a fifth of their time.
    manager.enable_verifier(False)
    try:
        root.verify()
        for gpu_module in gpu_modules(root):
            manager.run(gpu_module)
        root.verify()
    except ir.MLIRError as error:
        first = next(iter(error.error_diagnostics), None)
        raise LoweringError(
            plain(first.message if first else str(error)),
            code="lowering-failed",
            at=first.location if first else None,
        ) from error


def _join_dynamic(to: ToNvvm) -> None:
    for gpu_module in gpu_modules(to.root):
        join_dynamic_globals(gpu_module, to.shared[symbol_name(gpu_module)].alignment)


def _check_chip(to: ToNvvm) -> None:
    check_tensor_ops(to.root, to.chip)


def _require_sizes(to: ToNvvm) -> None:
    for gpu_module in gpu_modules(to.root):
        require_sizes(gpu_module, to.sizes[symbol_name(gpu_module)])


# Loops of 32 bits ----------------------------------------------------------------------------
#
# Counts loops of constant bounds in 32 bits.
#
#     scf.for %i = 0 to 4096 step 32 {      -->   scf.for %n = 0 to 4096 step 32 : i32 {
#                                                   %i = arith.index_castui %n : i32 to index
#
# A counter of 64 bits takes two registers, two additions and two comparisons. Its last number is below
# the upper bound plus a step: that must fit, too. Bounds that are no constants may be anything.

_BOUNDS = 3


def narrow_loops(gpu_module: Operation) -> None:
    """Narrow the counters of all loops that are known to stay small."""
    for op in walk_named(gpu_module, "scf.for".__eq__):
        bounds = [constant_value(value) for value in list(op.operands)[:_BOUNDS]]
        counter = op.regions[0].blocks[0].arguments[0]
        if str(counter.type) == "index" and _are_small(bounds):
            _narrow(op, counter, bounds)


def _are_small(bounds: list[int | None]) -> bool:
    low, high, step = bounds
    if low is None or high is None or step is None:
        return False
    return low >= 0 and high >= 0 and step > 0 and max(low, high) + step < 1 << 31


def _narrow(loop: Operation, counter: Any, bounds: list[int | None]) -> None:
    kind, wide = ir.IntegerType.get_signless(32, loop.context), counter.type
    for place, bound in enumerate(bounds):
        assert bound is not None
        loop.operands[place] = constant(bound, kind, before(loop), loop.location)
    begin = ir.InsertionPoint.at_block_begin(loop.regions[0].blocks[0])
    write = OpWriter(begin, loop.location)
    retype(counter, kind, lambda: write.make("arith.index_castui", (counter,), wide))


# Addresses in a cluster ----------------------------------------------------------------------
#
# Addresses of a block's own shared memory, where an op takes one of the cluster.
#
#     %c = llvm.addrspacecast %p : ptr<3> to ptr<7>   -->   %i = llvm.ptrtoint %p : ptr<3> to i64
#                                                           %c = llvm.inttoptr %i : i64 to ptr<7>
#
# The window of a block lies in that of its cluster, and the same number names the same byte in both
# (PTX ISA, state spaces: shared::cta and shared::cluster). LLVM goes by the generic address instead,
# which costs a read of the window's base and 64-bit arithmetic for each tensor copy.

CAST = "llvm.addrspacecast"
_OF_BLOCK, _OF_CLUSTER = "!llvm.ptr<3>", "!llvm.ptr<7>"


def keep_cluster_addresses(casts: Iterable[Operation]) -> None:
    """Write each of the casts that is one of a block's shared memory to its cluster's as the number
    that it is."""
    for op in casts:
        source, cast = op.operands[0], op.results[0]
        if str(source.type) != _OF_BLOCK or str(cast.type) != _OF_CLUSTER:
            continue
        i64 = ir.IntegerType.get_signless(64, op.context)
        write = OpWriter.before(op)
        number = write.make("llvm.ptrtoint", [source], i64)
        cast.replace_all_uses_with(write.make("llvm.inttoptr", [number], cast.type))
        op.erase()


# Spaces of copies ----------------------------------------------------------------------------
#
# Refuses async copies between memories that the chip cannot copy between.
#
#     nvgpu.device_async_copy %tile[…], %other[…]     copy-spaces: cp.async reads global memory only
#
# MLIR verifies the destination; a source in workgroup or private memory becomes an address that
# the instruction takes for one of global memory.


def check_copy_spaces(root: Operation) -> None:
    """Raise LoweringError (copy-spaces) at the first cp.async that does not read global memory."""
    for op in walk(root):
        row = row_of(op)
        if row.queue != CP_ASYNC or not row.accesses:
            continue
        for access in accesses(op):
            source = root_of(access.memory)
            if access.kind == "read" and source.space != "global":
                raise LoweringError(
                    f"'{op.name}' reads {source.space} memory: the chip copies from global memory",
                    code="copy-spaces",
                    at=op,
                    notes=(("the memory that it reads", source.value.owner),),
                    advice="load and store instead",
                )


# The steps ------------------------------------------------------------------------------------

STEPS: tuple[Step[ToNvvm], ...] = (
    Step("known", in_each(_check_known), (), "the ops are those that the user wrote"),
    Step("symbols", in_each(check_symbols), (), "MLIR has made no symbols yet"),
    Step("names", in_each(check_ptx_names), (), "the names are those that the user wrote"),
    Step("kernels", on_root(name_kernels), (), "MLIR has not yet named kernels a second time"),
    Step("layouts", on_root(check_layouts), (), "the types are those that the user wrote"),
    Step("spaces", on_root(check_copy_spaces), (), "the copies are those that the user wrote"),
    Step("tensors", _check_chip, (), "the copies are those that the user wrote"),
    Step("types", in_each(check_types), (), "the types are those that the user wrote"),
    Step("align", on_root(align_workgroup_buffers), ("layouts",), "each type has a layout"),
    Step("abstract", _lower_abstract_ops, ("spaces", "align"), "copies may be as wide as can be"),
    Step("caches", _hint_caches, ("abstract",), "all copies are made, in loops of scf"),
    Step(
        "clamp",
        lambda to: clamp_counts(to.root, to.session),
        ("abstract",),
        "all waits are nvgpu's or nvvm's",
    ),
    Step("globals", in_each(globalise_allocations), ("abstract",), "no scope is left around them"),
    Step("dense", in_each(flatten_buffers), ("globals",), "buffers are attributions or globals"),
    Step("dynamic", _make_dynamic, ("kernels", "dense"), "each buffer reserves all its bytes"),
    Step("vectors", in_each(annotate_alignment), ("dynamic",), "buffers lie where they will be"),
    Step("sizes", _state_sizes, ("kernels",), "kernels are found by one attribute"),
    Step("elect", _elect_copies, ("abstract", "sizes"), "kernels say the one size of their blocks"),
    Step(
        "loops",
        in_each(narrow_loops),
        ("abstract", "caches", "elect"),
        "analyses have used the counters",
    ),
    Step("quotients", in_each(carry_quotients), ("loops",), "counters of 32 bits divide in place"),
    Step(
        "beside",
        in_each(keep_beside_products),
        ("clamp",),
        "waits have their counts, and blocks are those of scf",
    ),
    Step("loads", in_each(read_after_waits), (), "loads and their waits stand in blocks of scf"),
    Step("noalias", in_each(_drop_noalias), ("abstract", "vectors"), "analyses have used it"),
    Step(
        "convert",
        _convert,
        ("caches", "clamp", "sizes", "quotients", "beside", "loads", "noalias"),
        "all is known",
    ),
    Step("extern", _join_dynamic, ("convert",), "MLIR has declared the dynamic memory"),
    Step("converted", _check_converted, ("convert",), "MLIR has converted what it can"),
    Step("required", _require_sizes, ("convert",), "kernels are functions of LLVM"),
    Step(
        "masked",
        lambda to: settle_masked_loads(to.converted[MASKED_LOAD]),
        ("converted",),
        "masked loads are LLVM's",
    ),
    Step(
        "cluster",
        lambda to: keep_cluster_addresses(to.converted[CAST]),
        ("converted",),
        "casts of memory are LLVM's",
    ),
    Step("addresses", in_each(split_all), ("masked",), "all loads and stores are LLVM's"),
    Step("constants", in_each(hold_constants), ("converted",), "all arithmetic is LLVM's"),
)


# Refuses ops of tensor cores and tensor copies that the chip does not have, where they stand.
#
# | op                                  | chips                                | code                   |
# |-------------------------------------|--------------------------------------|------------------------|
# | copies that complete on an mbarrier | sm_90 and later                      | no-tensor-copies       |
# | products of warpgroups (wgmma)      | sm_90a                               | no-warpgroup-products  |
# | tensor memory (tcgen05)             | sm_100a, sm_103a, sm_110a            | no-tensor-memory       |


class _Lack(NamedTuple):
    """What a chip has not, and who has it or what to use."""

    what: str
    code: str
    advice: str


def check_tensor_ops(root: Operation, chip: Chip) -> None:
    """Raise LoweringError (the codes above) at the first op that the chip does not have."""
    for op in walk(root):
        found = _lacking(op, chip)
        if found is not None:
            why = f"{chip.name} has no {found.what}: '{op.name}'"
            raise LoweringError(why, code=found.code, at=op, advice=found.advice)


def _lacking(op: Operation, chip: Chip) -> _Lack | None:
    """What the chip lacks for an op, None if nothing."""
    row = row_of(op)
    if (row.tensor is not None or row.phase == "commit") and not chip.tensor_memory:
        advice = "sm_100a, sm_103a and sm_110a have; " + _products_of(chip)
        return _Lack("tensor memory", code="no-tensor-memory", advice=advice)
    if row.queue == WGMMA and not chip.warpgroup_products:
        advice = f"sm_90a has; {_products_of(chip)}"
        return _Lack("products of warpgroups", code="no-warpgroup-products", advice=advice)
    if row.completion == "mbarrier" and not chip.tensor_copies:
        advice = "sm_90 and later have; without roles all threads copy, by cp.async"
        return _Lack("copies that complete on an mbarrier", code="no-tensor-copies", advice=advice)
    return None


def _products_of(chip: Chip) -> str:
    if chip.tensor_memory:
        return "here nvvm.tcgen05.mma multiplies in tensor memory (docs/blackwell.md)"
    if chip.warpgroup_products:
        return "here warpgroups multiply by wgmma what tensor copies bring (docs/hopper.md)"
    return "here warps multiply by nvgpu.mma.sync what nvgpu.ldmatrix loads"
