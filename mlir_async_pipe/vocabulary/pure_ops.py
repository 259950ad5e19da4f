"""Ops that touch no memory, and whether the threads of a block agree on what they make.

arith.addi             pure: the same in all threads if its operands are
gpu.subgroup_size      pure: the same in all threads
gpu.shuffle            pure: another one in each thread, whatever it is given
cf.assert              harmless: touches no memory that a copy could, but makes no value
llvm.call_intrinsic "llvm.maxnum.f32"      pure, as llvm.intr.maxnum; another one in each thread

Names that end in "." stand for all ops that begin with them. An op that is neither here nor in a
row is opaque: it may touch any memory, and a loop that holds one keeps its order around it, or is refused.
`OPAQUE_ROWS` are those of the GPU dialects that are so on purpose, and why.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.vocabulary.barriers import PART_OF_A_BARRIER
from mlir_async_pipe.vocabulary.control_flow import (
    BRANCH_ROWS,
    CALL_OPS,
    DEAD_ENDS,
    EXIT_OPS,
    REGION_ROWS,
    SCOPE,
    callee_name,
    calls_mathematics,
)
from mlir_async_pipe.vocabulary.memory_names import ALLOCATION_OPS, DEALLOCATION_OPS, VIEW_OPS
from mlir_async_pipe.vocabulary.op_table import (
    CALL,
    INLINE_ASSEMBLY,
    ROWS,
    UNKNOWN,
    intrinsic_name,
    named_row,
    row_name,
)
from mlir_async_pipe.vocabulary.products import FACTORS, is_assembled
from mlir_async_pipe.vocabulary.ptx_rows import instruction_of
from mlir_async_pipe.vocabulary.rows import WGMMA, Opaque, Phase, Row, Tensor, unordered
from mlir_async_pipe.vocabulary.tensor_mover import DESCRIPTOR_ROWS

# Registers of threads, blocks and the clock; `launch_ids` knows what most of them hold.
REGISTERS = ("nvvm.read.ptx.sreg.", "rocdl.workitem.", "rocdl.workgroup.")


def _named(dialect: str, names: str) -> frozenset[str]:
    return frozenset(f"{dialect}.{name}" for name in names.split())


# Dialects without memory, and families of ops.
_FAMILIES = (
    *("arith.", "math.", "index.", "complex.", "ub.", "affine.", "vector."),
    "nvvm.convert.",
    *("nvvm.add.packed.", "nvvm.fma.packed.", "nvvm.mul.packed.", "nvvm.sub.packed."),
    *("rocdl.cvt.", "rocdl.dot4.", "rocdl.fdot2."),
    *("llvm.intr.vector.reduce.", "llvm.intr.vp.", "llvm.intr.experimental.constrained."),
    *("rocdl.cluster.id.", "rocdl.cluster.workgroup.id."),
)
# Ops of these families that are in no other table.
_UNKNOWN = _named("affine", "dma_start dma_wait prefetch vector_load vector_store")
_PURE_LLVM = _named(
    "llvm",
    "add sub mul sdiv udiv srem urem and or xor shl lshr ashr icmp fcmp fadd fsub fmul fdiv frem "
    "fneg select trunc zext sext fptrunc fpext fptosi fptoui sitofp uitofp bitcast ptrtoint "
    "inttoptr addrspacecast getelementptr extractvalue insertvalue extractelement insertelement "
    "shufflevector mlir.constant mlir.undef mlir.poison mlir.zero mlir.addressof mlir.none "
    "mlir.metadata_as_value freeze ptrtoaddr blockaddress dso_local_equivalent",
) | _named(
    "llvm.intr",
    "abs acos arithmetic.fence asin atan atan2 bitreverse bswap ceil copysign cos cosh ctlz ctpop "
    "cttz exp exp10 exp2 expect expect.with.probability fabs floor fma fmuladd frexp fshl fshr "
    "get.active.lane.mask is.constant is.fpclass launder.invariant.group ldexp llrint llround log "
    "log10 log2 lrint lround matrix.multiply matrix.transpose maximum maxnum minimum minnum "
    "nearbyint pow powi ptrmask rint round roundeven sadd.sat sadd.with.overflow scmp sin sincos "
    "sinh smax smin smul.with.overflow sqrt ssa.copy sshl.sat ssub.sat ssub.with.overflow "
    "stepvector strip.invariant.group tan tanh threadlocal.address trunc uadd.sat "
    "uadd.with.overflow ucmp umax umin umul.with.overflow ushl.sat usub.sat usub.with.overflow "
    "vector.deinterleave2 vector.extract vector.insert vector.interleave2 vscale",
)

# One lane's value for its wave (readfirstlane, readlane); other waves have their own.
_AS_OPERANDS = (
    _named("builtin", "unrealized_conversion_cast")
    | _named("async_pipe", "yield")
    | _named("scf", "yield condition")
    | _named(
        "memref",
        "dim distinct_objects extract_aligned_pointer_as_index extract_strided_metadata global "
        "rank",
    )
    | _named(
        "gpu",
        "block_dim block_id cluster_block_id cluster_dim cluster_dim_blocks cluster_id grid_dim "
        "lane_id subgroup_id subgroup_mma_constant_matrix thread_id",
    )
    | _named("nvgpu", "extf rcp truncf warpgroup.mma.init.accumulator")
    | _named(
        "nvvm",
        "addf clmad compare.and.set cos cvt.packfloat cvt.packfloat.f32 cvt.to.f4x8.packed divf "
        "clusterlaunchcontrol.query.cancel dot.accumulate.2way dot.accumulate.4way ex2 fabs fma fmax fmin log2 mapa mma_smem_desc mul prmt "
        "rcp.approx.ftz.f rsqrt sin spcompress spdecompress sqrt sqrt.approx subf "
        "tcgen05.mma_smem_desc tcgen05_mma_smem_desc_v2",
    )
    | _named(
        "amdgpu",
        "dot ds_barrier_state_init_count ds_barrier_state_pending_count ds_barrier_state_phase "
        "ds_barrier_state_phase_parity ext_packed_fp8 make_gather_dma_base "
        "make_gather_dma_descriptor packed_scaled_trunc packed_stoch_round_fp8 packed_trunc_2xfp8 scaled_ext_packed scaled_ext_packed_matrix",
    )
    | _named(
        "rocdl",
        "cos exp exp2 fdot2 fmed3 log make.buffer.rsrc rcp readfirstlane readlane rsq sdot2 sdot4 "
        "sdot8 sin sqrt sudot4 sudot8 tanh udot2 udot4 udot8",
    )
    # What IREE's dispatches ask of their launch, and what they promise about numbers.
    | _named(
        "hal",
        "interface.binding.subspan interface.constant.load interface.workgroup.count "
        "interface.workgroup.id interface.workgroup.size",
    )
    | _named("util", "assume.int")
)
# The same whichever operand comes first, and what gives bits of a register another type.
COMMUTATIVE = _named(
    "arith",
    "addf addi andi maximumf maxnumf maxsi maxui minimumf minnumf minsi minui mulf muli ori xori",
) | _named(
    "llvm",
    "add and fadd fmul mul or xor intr.maximum intr.maxnum intr.minimum intr.minnum intr.smax intr.smin "
    "intr.umax intr.umin",
)
BIT_CASTS = _named("arith", "bitcast") | _named("llvm", "bitcast") | _named("vector", "bitcast")
_SAME = (
    _named("memref", "get_global")
    | _named("gpu", "num_subgroups subgroup_size dynamic_shared_memory")
    | _named("nvvm", "read.ptx.sreg.warpsize")
    | _named("rocdl", "wavefrontsize")
)
# What a lane receives depends on which lane it is, or on what other lanes hold.
_DIFFERS = (
    _named(
        "gpu",
        "global_id shuffle subgroup_reduce subgroup_broadcast rotate ballot subgroup_mma_compute "
        "subgroup_mma_elementwise subgroup_mma_extract_thread_local "
        "subgroup_mma_insert_thread_local",
    )
    | _named("nvgpu", "mma.sync mma.sp.sync")
    | _named(
        "nvvm",
        "elect.sync match.sync mma.block_scale mma.sp.block_scale mma.sp.sync mma.sync movmatrix "
        "redux.sync shfl.sync vote.sync wmma.mma",
    )
    | _named(
        "amdgpu",
        "dpp swizzle_bitmode permlane_swap permlane_var mfma wmma scaled_mfma scaled_wmma "
        "sparse_mfma sparse_wmma",
    )
    | _named(
        "rocdl",
        "ballot ds.bpermute ds.permute ds.swizzle ds_bpermute ds_swizzle mbcnt.hi mbcnt.lo permlanex16 "
        "update.dpp wave.id",
    )
)
_DIFFERING_FAMILIES = (
    *("rocdl.mfma.", "rocdl.smfmac.", "rocdl.swmmac.", "rocdl.wmma."),
    *("rocdl.permlane16.", "rocdl.permlane32.", "rocdl.permlanex16."),
    *REGISTERS,
)

_HARMLESS = (
    {"cf.assert", *ALLOCATION_OPS}
    | _named("builtin", "module")
    | _named("func", "func")
    | _named("gpu", "func launch module")
    | _named("llvm", "func")
    | _named(
        "llvm.intr",
        "assume dbg.declare dbg.label dbg.value experimental.noalias.scope.decl fake.use invariant.end "
        "invariant.start lifetime.end lifetime.start prefetch var.annotation",
    )
)

_ASSEMBLY = (INLINE_ASSEMBLY, "nvvm.inline_ptx")
_CODE = (CALL, *_ASSEMBLY)
# The names of all ops that may be code of the target, of which the IR says nothing.
OPAQUE_CODE = (*_CODE, "llvm.call")


def _row(op: str, **options: Any) -> Row:
    return Row(op, does="value", **options)


def _nothing(op: str) -> Row:
    return Row(op, does="nothing", harmless=op in _HARMLESS)


def _of_code(op: Any) -> Row:
    name = row_name(op)
    if name != op.name:
        return ROWS[name]
    instruction = instruction_of(op)
    if instruction is not None:
        return ROWS[instruction.row]
    return _COMPUTED if _only_computes(op) else _PRODUCT if is_assembled(op) else _CODE_ROW


def _of_call(op: Any) -> Row:
    name = row_name(op)
    if name != op.name:
        return ROWS[name]
    # Triton calls some intrinsics by their symbols.
    pure = calls_mathematics(op) or is_pure_intrinsic(callee_name(op) or "")
    return _FUNCTION if pure else UNKNOWN


_CODE_ROW = replace(UNKNOWN, agree="differs")
_PRODUCT = Row(
    INLINE_ASSEMBLY,
    ("sums*", *(f"factor_{number}" for number in range(FACTORS)), "descriptor_b"),
    queue=WGMMA,
    asynchronous=lambda op: True,
    descriptors=("descriptor_b",),
)
_COMPUTED, _FUNCTION = _row("", agree="differs"), _row("")

PURE_ROWS = (
    *DESCRIPTOR_ROWS,
    *map(_row, (*_FAMILIES, *(_AS_OPERANDS | _PURE_LLVM | (VIEW_OPS.keys() - _AS_OPERANDS)))),
    *(_row(op, agree="same") for op in _SAME),
    *(_row(op, agree="differs") for op in (*_DIFFERS, *_DIFFERING_FAMILIES)),
    *(replace(UNKNOWN, op=op) for op in _UNKNOWN),
    *map(
        _nothing,
        {*_HARMLESS, *REGION_ROWS, *EXIT_OPS, *BRANCH_ROWS, *DEAD_ENDS, *DEALLOCATION_OPS}
        - {SCOPE, "gpu.all_reduce", "affine.yield", "ub.unreachable", *_AS_OPERANDS},
    ),
    # Those that are known to compute nothing but a value are found by the op.
    *(replace(_CODE_ROW, op=op, by_op=_of_code) for op in (CALL, INLINE_ASSEMBLY)),
    *(replace(UNKNOWN, op=op, by_op=_of_call) for op in CALL_OPS),
)


def is_opaque_code(op: Any) -> bool:
    """Whether an op stands for code of the target that may issue, commit, wait or be a barrier
    without a word in the IR: inline assembly with effects, and calls of intrinsics that have no row
    and do more than compute."""
    if op.name not in OPAQUE_CODE or (op.name == "llvm.call" and not intrinsic_name(op)):
        return False
    known = _only_computes(op) or is_assembled(op) or instruction_of(op) is not None
    return row_name(op) == op.name and not known


def has_effects(op: Any) -> bool:
    """Whether inline assembly may do more than make its results of its operands, as AMD's instructions for vectors of
    registers do, whatever is said of them: those that do not switch lanes off, and take nothing from LDS (MI300 ISA, 6
    "Vector ALU operations")."""
    if "has_side_effects" not in op.attributes:
        return False
    text = str(ir.StringAttr(op.attributes["asm_string"]).value).strip()
    return not all(map(_OF_REGISTERS.fullmatch, text.split("\n")))


_OF_REGISTERS = re.compile(r"\s*(?:v_(?!cmpx)(?!.*lds)|s_nop\b).*")


def _only_computes(op: Any) -> bool:
    """Whether code of the target makes a value of values: an intrinsic that is known to, assembly
    without side effects, clobbered memory and pointers."""
    if op.name not in _ASSEMBLY:
        return is_pure_intrinsic(intrinsic_name(op))
    if op.name != INLINE_ASSEMBLY or has_effects(op):
        return False
    constraints = str(ir.StringAttr(op.attributes["constraints"]).value)
    given = [str(operand.type) for operand in op.operands]
    return "{memory}" not in constraints and not any(kind.startswith("!llvm.ptr") for kind in given)


# The op of an intrinsic, by what their names begin with.
_OPS_OF_INTRINSICS = {"llvm.nvvm.": "nvvm.", "llvm.amdgcn.": "rocdl.", "llvm.": "llvm.intr."}
# Arithmetic, conversions and talk between lanes for which NVVM and ROCDL have no op, or one of another name.
_VALUES = {
    "nvvm.": (
        "abs activemask add bf16x2 bitcast brev ceil clz cos d2f d2i d2ll d2ui d2ull div e2m1x2 e2m3x2 e3m2x2 "
        "e4m3x2 e5m2x2 elect ex2 f16x2 f2bf16 f2f16 f2h f2i f2ll f2tf32 f2ui f2ull fabs ff ff2bf16x2 "
        "ff2f16x2 floor fma fmax fmin fns i2d i2f idp2a idp4a isspacep lg2 ll2d ll2f lohi match mma mul mul24 "
        "mulhi mulwide neg popc prmt rcp redux round rsqrt sad saturate shfl sin sqrt sub tanh trunc ue8m0x2 ui2d "
        "ui2f ull2d ull2f vote"
    ).split(),
    "rocdl.": "alignbyte lerp mqsad msad perm qsad sad sbfe ubfe".split(),
}


@cache
def is_pure_intrinsic(name: str) -> bool:
    """Whether an intrinsic, whose types may stand after its name, touches no memory."""
    for begin, of_op in _OPS_OF_INTRINSICS.items():
        if not name.startswith(begin):
            continue
        first, *rest = name.removeprefix(begin).split(".")
        if first in _VALUES.get(of_op, ()):
            return True
        named = [of_op + ".".join([first, *rest[:count]]) for count in range(len(rest) + 1)]
        # llvm.vp.load is no llvm.intr.vp.add: the longest name that is known counts.
        rows = [named_row(of_op) for of_op in named]
        return any(row.pure for row in rows) and not any(row.described for row in rows)
    return False


# They hand numbers on as they are.
_NUMBERS_AS_THEY_ARE = ("arith.bitcast", "arith.constant", "arith.select")


def computes(op: Any) -> bool:
    """Whether an op makes numbers of its operands by an instruction for their type."""
    return op.name.startswith(("arith.", "math.")) and op.name not in _NUMBERS_AS_THEY_ARE


_UNQUEUED = Opaque(
    "it copies asynchronously in a direction, or with a completion, that no queue here has",
    orders=False,
    copies=True,
)
_CLUSTER = "it reaches shared memory of other blocks, or waits for them"

_HOST = "it belongs to the host's side of a launch"
_OPS: dict[Opaque, str] = {
    Opaque(_HOST): "gpu.binary gpu.host_register gpu.host_unregister gpu.memcpy gpu.memset gpu.set_default_device "
    "gpu.wait memref.realloc",
    Opaque(_HOST, orders=False, harmless=True): "gpu.launch_func nvgpu.tma.create.descriptor",
    Opaque("it calls a library for sparse matrices on the host", orders=False): "gpu.create_ "
    "gpu.destroy_ gpu.sddmm gpu.sddmm_ gpu.set_csr_pointers gpu.spgemm_ gpu.spmat_ gpu.spmm gpu.spmm_ "
    "gpu.spmv gpu.spmv_",
    replace(Phase.opaque, phases=True): "nvvm.mbarrier. nvvm.cp.async.mbarrier. rocdl.ds.atomic.barrier.",
    replace(Phase.opaque, orders=False, phases=True, harmless=True): "nvgpu.mbarrier.",
    Opaque("it arrives at a barrier when copies are over, which no queue here counts", ends_copies=True, phases=True):
    "amdgpu.ds_async_barrier_arrive rocdl.ds.atomic.async.barrier.",
    Opaque(_CLUSTER, meets=True): "nvvm.griddepcontrol",
    Opaque(_CLUSTER, meets=True, phases=True): "nvvm.cluster. nvvm.cp.async.bulk.shared.cluster.shared.cta",
    replace(Tensor.opaque, phases=True): "nvvm.tcgen05.ld. nvvm.tcgen05.mma. nvvm.tcgen05.mma_",
    PART_OF_A_BARRIER: "nvvm.barrier.reduction gpu.initialize_named_barrier rocdl.s.barrier. "
    "rocdl.s.get. rocdl.s.wakeup.barrier",
    Opaque("nobody has looked at what it does", meets=True, phases=True): "nvvm.cp.async.bulk. nvvm.tcgen05.",
    _UNQUEUED: "memref.dma_ rocdl.cluster.load. rocdl.tensor.",
    Opaque("the address is a descriptor of four words, of which no memory can be told", orders=False):
    "rocdl.raw.buffer.",
    Opaque("it reads its shape from memory", orders=False): "memref.reshape",
    Opaque("it may end the thread", meets=True): "nvvm.exit llvm.intr.debugtrap llvm.intr.trap llvm.intr.ubsantrap",
    Opaque("how much it touches behind its pointers no row says"): "llvm.intr.experimental.vp. llvm.intr.masked. "
    "llvm.intr.matrix.column.major. llvm.intr.vp.load llvm.intr.vp.store",
    Opaque("it keeps notes for somebody else beside a value"): "llvm.intr.annotation llvm.intr.ptr.annotation",
    Opaque("it is about the stack, the arguments or the exceptions of the host"): "llvm.intr.coro. "
    "llvm.intr.eh.typeid.for llvm.intr.stackrestore llvm.intr.stacksave llvm.intr.vacopy llvm.intr.vaend "
    "llvm.intr.vastart",
    Opaque("its text may do anything", meets=True): "nvvm.inline_ptx",
    Opaque("it fills shared memory through a port of its own", orders=False, phases=True): "nvvm.st.bulk",
}  # fmt: skip

OPAQUE_ROWS = tuple(
    Row(
        op,
        effects=(opaque,),
        order=UNKNOWN.order if opaque.orders else unordered,
        harmless=opaque.harmless,
    )
    for opaque, ops in _OPS.items()
    for op in ops.split()
)
