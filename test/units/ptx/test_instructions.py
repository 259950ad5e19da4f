"""Every row of the table of PTX instructions, by an instruction that it reads and the ops that come of it.

Covers: ptx/instructions.py, ptx/function_writer.py
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from mlir_async_pipe import check, machine
from mlir_async_pipe.bindings import new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.machine import dialects  # noqa: F401  (fills the table of semantics)
from mlir_async_pipe.machine.decode import SEMANTICS
from mlir_async_pipe.ptx.instructions import EFFECTS, VALUES
from mlir_async_pipe.ptx.raise_ptx import raise_ptx
from mlir_async_pipe.session.diagnostics import AsyncPipeError

HEAD = """\
.version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 16 .b8 smem[];
.visible .entry k(.param .u64 .ptr .global .align 16 x, .param .u32 n)
.reqntid 128, 1, 1
{
  .reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<90>; .reg .b64 %d<9>; .reg .f32 %f<9>; .reg .b128 %q<4>;
  ld.param.u64 %d1, [x];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, smem;
"""
SUMS = ", ".join(f"%r{number}" for number in range(10, 42))

# The row, an instruction that it reads, and the ops that do what it says.
ROWS = {
    "add": ("add.s32 %r3, %r1, 4", "llvm.add"),
    "sub": ("sub.f32 %f1, %f2, %f3", "llvm.fsub"),
    "and": ("and.pred %p1, %p2, %p3", "llvm.and"),
    "or": ("or.b32 %r3, %r1, %r2", "llvm.or"),
    "xor": ("xor.b64 %d2, %d1, 1", "llvm.xor"),
    "mul": ("mul.wide.u32 %d2, %r1, 16", "llvm.mul"),
    "div": ("div.u32 %r3, %r1, %r2", "llvm.udiv"),
    "rem": ("rem.s32 %r3, %r1, %r2", "llvm.srem"),
    "min": ("min.s32 %r3, %r1, 7", "llvm.intr.smin"),
    "max": ("max.NaN.f32 %f1, %f2, %f3", "llvm.intr.maximum"),
    "mad.lo": ("mad.lo.s32 %r3, %r1, 8, %r2", "llvm.mul llvm.add"),
    "mad.wide": ("mad.wide.s32 %d2, %r1, 8, %d1", "llvm.sext llvm.mul llvm.add"),
    "mad.hi": ("mad.hi.u32 %r3, %r1, %r2, %r1", "llvm.lshr llvm.trunc llvm.add"),
    "fma": ("fma.rn.f32 %f1, %f2, %f3, %f1", "llvm.intr.fma"),
    "mad.f32": ("mad.f32 %f1, %f2, %f3, %f1", "llvm.intr.fma"),
    "mad.f64": ("mad.f64 %d2, %d1, %d1, %d1", "llvm.intr.fma"),
    "mad.rn": ("mad.rn.f32 %f1, %f2, %f3, %f1", "llvm.intr.fma"),
    "not": ("not.b32 %r3, %r1", "llvm.xor"),
    "neg": ("neg.s32 %r3, %r1", "llvm.sub"),
    "abs": ("abs.s32 %r3, %r1", "llvm.intr.abs"),
    "sqrt": ("sqrt.rn.f32 %f1, %f2", "llvm.intr.sqrt"),
    "rcp": ("rcp.rn.f32 %f1, %f2", "llvm.fdiv"),
    "ex2": ("ex2.approx.ftz.f32 %f1, %f2", "llvm.intr.exp2"),
    "lg2": ("lg2.approx.f32 %f1, %f2", "llvm.intr.log2"),
    "sin": ("sin.approx.f32 %f1, %f2", "llvm.intr.sin"),
    "cos": ("cos.approx.f32 %f1, %f2", "llvm.intr.cos"),
    "popc": ("popc.b64 %r3, %d1", "llvm.intr.ctpop llvm.trunc"),
    "clz": ("clz.b32 %r3, %r1", "llvm.intr.ctlz"),
    "brev": ("brev.b32 %r3, %r1", "llvm.intr.bitreverse"),
    "shl": ("shl.b32 %r3, %r1, 2", "llvm.shl"),
    "shr": ("shr.s32 %r3, %r1, %r2", "llvm.intr.umin llvm.ashr"),
    "shf": ("shf.l.wrap.b32 %r3, %r1, %r2, 3", "llvm.intr.fshl"),
    "bfe": ("bfe.u32 %r3, %r1, 5, 3", "llvm.shl llvm.lshr"),
    "bfi": ("bfi.b32 %r3, %r1, %r2, 8, 8", "llvm.shl llvm.and llvm.or"),
    "lop3": ("lop3.b32 %r3, %r1, %r2, %r1, 0x96", "llvm.and llvm.or"),
    "prmt": ("prmt.b32 %r3, %r1, %r2, 0x5410", "llvm.lshr llvm.or"),
    "setp": ("setp.ge.u32 %p1, %r1, 7", "llvm.icmp"),
    "selp": ("selp.b32 %r3, %r1, 0, %p1", "llvm.select"),
    "mov": ("mov.b32 %r3, {%h1, %h2}", "llvm.zext llvm.shl llvm.or"),
    "cvta": ("cvta.to.shared.u64 %d2, %d1", "llvm.addrspacecast"),
    "cvt": ("cvt.rn.f16x2.f32 %r3, %f1, %f2", "llvm.fptrunc llvm.or"),
    "shfl.sync": ("shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1", "nvvm.shfl.sync"),
    "vote.sync": ("vote.sync.any.pred %p1, %p1, -1", "nvvm.vote.sync"),
    "vote.sync.ballot": ("vote.sync.ballot.b32 %r3, %p1, -1", "nvvm.vote.sync"),
    "elect.sync": ("elect.sync _|%p1, -1", "nvvm.elect.sync"),
    "redux.sync": ("redux.sync.max.u32 %r3, %r1, -1", "nvvm.redux.sync"),
    "match.any.sync": ("match.any.sync.b32 %r3, %r1, -1", "nvvm.match.sync"),
    "mapa": ("mapa.shared::cluster.u32 %r3, %r2, 1", "nvvm.mapa"),
    "ld": ("ld.global.acquire.gpu.u32 %r3, [%d1+4]", "llvm.load"),
    "ldu": ("ldu.global.u32 %r3, [%d1]", "llvm.load"),
    "multimem.ld_reduce": (
        "multimem.ld_reduce.relaxed.sys.global.add.v2.f32 {%f1, %f2}, [%d1+16]",
        "llvm.getelementptr llvm.inline_asm llvm.extractvalue",
    ),
    "multimem.st": ("multimem.st.release.sys.global.u32 [%d1], %r1", "llvm.inline_asm"),
    "multimem.red": ("multimem.red.global.add.f32 [%d1], %f1", "llvm.inline_asm"),
    "st.async": (
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r2], {%r1, %r1, %r1, %r1}, [%r2+16]",
        "llvm.inttoptr llvm.getelementptr llvm.inline_asm",
    ),
    "red.async": (
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r2], %r1, [%r2+16]",
        "llvm.inline_asm",
    ),
    "cp.reduce.async.bulk.global": (
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%d1], [%r2], %r1",
        "llvm.inline_asm",
    ),
    "bar.red": ("bar.red.or.pred %p1, 0, %p2", "llvm.zext nvvm.barrier llvm.icmp"),
    "barrier.red": ("barrier.red.popc.u32 %r3, 0, %p1", "nvvm.barrier"),
    "bar.cta.red": ("bar.cta.red.and.pred %p1, 0, %p1", "nvvm.barrier"),
    "barrier.cta.red": ("barrier.cta.red.popc.aligned.u32 %r3, 0, !%p1", "nvvm.barrier"),
    "clusterlaunchcontrol.try_cancel": (
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r2], [%r2+16]",
        "nvvm.clusterlaunchcontrol.try.cancel",
    ),
    "clusterlaunchcontrol.query_cancel": (
        "mov.b128 %q1, {%d1, %d1}; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q1",
        "nvvm.clusterlaunchcontrol.query.cancel",
    ),
    "brkpt": ("brkpt", "nvvm.breakpoint"),
    "match.all.sync": ("match.all.sync.b64 %r3|%p1, %d1, -1", "nvvm.match.sync llvm.extractvalue"),
    "movmatrix": ("movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r1", "nvvm.movmatrix"),
    "mbarrier.arrive_drop": ("mbarrier.arrive_drop.shared::cta.b64 _, [%r2]", "nvvm.mbarrier.arrive_drop"),
    "cp.async.mbarrier.arrive": ("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r2]", "nvvm.cp.async.mbarrier.arrive"),
    **{
        f"fence.{before}{order}.sync_restrict::shared::{space}": (
            f"fence.{before}{order}.sync_restrict::shared::{space}.cluster", f"nvvm.fence.{op}sync_restrict"
        )
        for before, op in (("", ""), ("proxy.async::generic.", "proxy."))
        for order, space in (("acquire", "cluster"), ("release", "cta"))
    },
    "st": ("st.shared.v2.b32 [%r2+8], {%r1, %r2}", "llvm.insertelement llvm.store"),
    "atom": ("atom.global.cas.b32 %r3, [%d1], 0, 1", "llvm.cmpxchg"),
    "red": ("red.global.add.f32 [%d1], %f1", "llvm.atomicrmw"),
    "fence.sc": ("fence.sc.gpu", "llvm.fence"),
    "fence.acq_rel": ("fence.acq_rel.cta", "llvm.fence"),
    "fence.acquire": ("fence.acquire.gpu", "llvm.fence"),
    "fence.release": ("fence.release.gpu", "llvm.fence"),
    "membar": ("membar.gl", "llvm.fence"),
    "fence.mbarrier_init": ("fence.mbarrier_init.release.cluster", "nvvm.fence.mbarrier.init"),
    "fence.proxy.tensormap::generic.acquire": (
        "fence.proxy.tensormap::generic.acquire.gpu [%d1], 128",
        "nvvm.fence.proxy.acquire",
    ),
    "fence.proxy.tensormap::generic.release": (
        "fence.proxy.tensormap::generic.release.gpu",
        "nvvm.fence.proxy.release",
    ),
    "tensormap.replace": (
        "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r2], 6",
        "nvvm.tensormap.replace",
    ),
    "tensormap.cp_fenceproxy": (
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d1], [%r2], 128",
        "llvm.load llvm.store nvvm.fence.proxy.release",
    ),
    "fence.proxy.async": ("fence.proxy.async.shared::cta", "nvvm.fence.proxy"),
    "ldmatrix": ("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r3, %r4}, [%r2]", "nvvm.ldmatrix"),
    "wmma.load": ("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r3, %r4, %r5, %r6, %r7, %r8, %r9, %r10}, [%r2], %r1", "nvvm.wmma.load"),
    "wmma.store": ("wmma.store.d.sync.aligned.col.m16n16k16.shared.s32 [%r2], {%r3, %r4, %r5, %r6, %r7, %r8, %r9, %r10}, %r1", "nvvm.wmma.store"),
    "wmma.mma": (
        "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16 {%r3, %r4, %r5, %r6}, {%r3, %r4, %r5, %r6, %r7, %r8, %r9, %r10}, "
        "{%r3, %r4, %r5, %r6, %r7, %r8, %r9, %r10}, {%r3, %r4, %r5, %r6}",
        "nvvm.wmma.mma",
    ),
    "stmatrix": ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2], {%r3}", "nvvm.stmatrix"),
    "bar.sync": ("bar.sync 1, 64", "nvvm.barrier"),
    "barrier.sync": ("barrier.sync 0", "nvvm.barrier"),
    "bar.cta.sync": ("bar.cta.sync 0", "nvvm.barrier"),
    "barrier.cta.sync": ("barrier.cta.sync %r1", "nvvm.barrier"),
    "bar.arrive": ("bar.arrive 1, 64", "nvvm.barrier.arrive"),
    "barrier.arrive": ("barrier.arrive 1, 64", "nvvm.barrier.arrive"),
    "bar.cta.arrive": ("bar.cta.arrive 1, 64", "nvvm.barrier.arrive"),
    "barrier.cta.arrive": ("barrier.cta.arrive 1, 64", "nvvm.barrier.arrive"),
    "bar.warp.sync": ("bar.warp.sync -1", "nvvm.bar.warp.sync"),
    "barrier.cluster.arrive": ("barrier.cluster.arrive.aligned", "nvvm.cluster.arrive"),
    "barrier.cluster.arrive.relaxed": (
        "barrier.cluster.arrive.relaxed.aligned",
        "nvvm.cluster.arrive.relaxed",
    ),
    "barrier.cluster.wait": ("barrier.cluster.wait.aligned", "nvvm.cluster.wait"),
    "cp.async.ca": ("cp.async.ca.shared.global [%r2], [%d1], 4, %r1", "nvvm.cp.async.shared.global"),
    "cp.async.cg": ("cp.async.cg.shared.global.L2::128B [%r2], [%d1], 16", "nvvm.cp.async.shared.global"),
    "cp.async.commit_group": ("cp.async.commit_group", "nvvm.cp.async.commit.group"),
    "cp.async.wait_group": ("cp.async.wait_group 3", "nvvm.cp.async.wait.group"),
    "cp.async.wait_all": ("cp.async.wait_all", "nvvm.cp.async.commit.group nvvm.cp.async.wait.group"),
    "cp.async.bulk.commit_group": ("cp.async.bulk.commit_group", "nvvm.cp.async.bulk.commit.group"),
    "cp.async.bulk.wait_group": ("cp.async.bulk.wait_group.read 1", "nvvm.cp.async.bulk.wait_group"),
    "cp.async.bulk.tensor": (
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%r2], [%d1, {%r1, %r3}], [%r2+64], %h1",
        "nvvm.cp.async.bulk.tensor.shared.cluster.global",
    ),
    "cp.async.bulk.shared::cluster": (
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%d1], %r1, [%r2+64]",
        "nvvm.cp.async.bulk.shared.cluster.global",
    ),
    "cp.async.bulk.shared::cta": (
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%d1], %r1, [%r2+64]",
        "llvm.addrspacecast nvvm.cp.async.bulk.shared.cluster.global",
    ),
    "cp.async.bulk.global": (
        "cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r2], %r1",
        "nvvm.cp.async.bulk.global.shared.cta",
    ),
    "cp.reduce.async.bulk.tensor": (
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%d1, {%r1, %r3}], [%r2]",
        "nvvm.cp.async.bulk.tensor.reduce",
    ),
    "discard": ("discard.global.L2 [%d1], 128", "llvm.mlir.poison llvm.store"),
    "mbarrier.init": ("mbarrier.init.shared::cta.b64 [%r2], 128", "nvvm.mbarrier.init"),
    "mbarrier.inval": ("mbarrier.inval.shared::cta.b64 [%r2]", "nvvm.mbarrier.inval"),
    "mbarrier.arrive": (
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 512",
        "nvvm.mbarrier.arrive.expect_tx",
    ),
    "mbarrier.expect_tx": ("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r2], 64", "nvvm.mbarrier.expect_tx"),
    "mbarrier.complete_tx": ("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r2], 64", "nvvm.mbarrier.complete_tx"),
    "mbarrier.try_wait": ("mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], %r1", "nvvm.mbarrier.try_wait"),
    "mbarrier.test_wait": ("mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r2], %r1", "nvvm.mbarrier.test.wait"),
    "mma.sync": (
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f1, %f2}, {%r1, %r2, %r1, %r2}, "
        "{%r1, %r2}, {%f1, %f2, %f1, %f2}",
        "nvvm.mma.sync llvm.extractvalue",
    ),
    "wgmma.fence": ("wgmma.fence.sync.aligned", "nvvm.wgmma.fence.aligned"),
    "wgmma.commit_group": ("wgmma.commit_group.sync.aligned", "nvvm.wgmma.commit.group.sync.aligned"),
    "wgmma.wait_group": ("wgmma.wait_group.sync.aligned 1", "nvvm.wgmma.wait.group.sync.aligned"),
    "wgmma.mma_async": (
        f"wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {{{SUMS}}}, %d1, %d2, %p1, 1, 1, 0, 0",
        "nvvm.wgmma.mma_async",
    ),
    "tcgen05.alloc": ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 64", "nvvm.tcgen05.alloc"),
    "tcgen05.dealloc": ("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 64", "nvvm.tcgen05.dealloc"),
    "tcgen05.relinquish_alloc_permit": (
        "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned",
        "nvvm.tcgen05.relinquish_alloc_permit",
    ),
    "tcgen05.ld": (
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r3, %r4}, [%r1 + 8]; tcgen05.wait::ld.sync.aligned",
        "nvvm.tcgen05.ld nvvm.tcgen05.wait llvm.extractelement",
    ),
    "tcgen05.st": ("tcgen05.st.sync.aligned.16x128b.x1.b32 [%r1], {%r2, %r1}", "nvvm.tcgen05.st"),
    "tcgen05.wait::ld": ("tcgen05.wait::ld.sync.aligned", "nvvm.tcgen05.wait"),
    "tcgen05.wait::st": ("tcgen05.wait::st.sync.aligned", "nvvm.tcgen05.wait"),
    "tcgen05.fence::before_thread_sync": ("tcgen05.fence::before_thread_sync", "nvvm.tcgen05.fence"),
    "tcgen05.fence::after_thread_sync": ("tcgen05.fence::after_thread_sync", "nvvm.tcgen05.fence"),
    "tcgen05.mma": (
        "tcgen05.mma.cta_group::1.kind::f16.collector::a::fill [%r1], %d1, %d1, %r2, {%r3, %r3, %r3, %r3}, %p1",
        "nvvm.tcgen05.mma",
    ),
    "tcgen05.commit": (
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r2+8]",
        "nvvm.tcgen05.commit",
    ),
    "tcgen05.cp": ("tcgen05.cp.cta_group::1.64x128b.warpx2::02_13 [%r1], %d1", "nvvm.tcgen05.cp"),
    "tcgen05.shift": ("tcgen05.shift.cta_group::1.down [%r1]", "nvvm.tcgen05.shift"),
    "call": ("call.uni (%r3), nobody, (%r1)", "llvm.inline_asm"),
    "setmaxnreg": ("setmaxnreg.dec.sync.aligned.u32 40", "nvvm.setmaxregister"),
    "prefetch": ("prefetch.global.L2 [%d1]", ""),
    "prefetchu": ("prefetchu.L1 [%d1]", ""),
    "applypriority": ("applypriority.global.L2::evict_normal [%d1], 128", ""),
    "nanosleep": ("nanosleep.u32 20", ""),
    "pmevent": ("pmevent 1", ""),
    "cp.async.bulk.prefetch": ("cp.async.bulk.prefetch.L2.global [%d1], 128", ""),
    "griddepcontrol": ("griddepcontrol.wait", "nvvm.griddepcontrol"),
}  # fmt: skip


KEPT = (("u32", "%r3"), ("u64", "%d2"), ("f32", "%f1"))


def ops_of(instruction: str) -> list[str]:
    """The ops of one instruction; registers are stored after it, since nobody misses what nobody reads."""
    stored = "".join(f"  st.global.{kind} [%d1], {name};\n" for kind, name in KEPT)
    kernel = f"{HEAD}  {instruction};\n{stored}  selp.b32 %r3, 1, 0, %p1;\n  st.global.u32 [%d1], %r3;\n  ret;\n}}\n"
    line = HEAD.count("\n") + 1
    module = raise_ptx(kernel, new_context(), "k.ptx")
    place = f'"k.ptx":{line}:'
    return [op.name for op in walk(module.operation) if place in str(op.location)]


def test_the_table_has_an_example_for_each_row() -> None:
    assert ROWS.keys() == VALUES.keys() | EFFECTS.keys()


@pytest.mark.parametrize("row", ROWS)
def test_an_instruction_becomes_the_ops_of_its_row(row: str) -> None:
    instruction, wanted = ROWS[row]
    found = ops_of(instruction)
    assert ("llvm.inline_asm" in found) == ("llvm.inline_asm" in wanted)
    at = -1
    for name in wanted.split():
        at = found.index(name, at + 1)


@pytest.mark.parametrize(
    "instruction",
    [
        "ld.global.mmio.relaxed.sys.u32 %r3, [%d1]",
        "st.async.release.sys.global.mmio.b32 [%d1], %r1",
        "multimem.st.mmio.release.sys.global.b32 [%d1], %r1",
        "barrier.red.popc.u32 %r3, 1, 64, %p1",
        "multimem.cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r2], %r1",
        "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%r2], [%r2+64], 16, [%r2+128]",
        "tcgen05.mma.cta_group::1.kind::f16.collector::a::fill.later [%r1], %d1, %d1, %r2, %p1",
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f1, %f2, %f1, %f2}, %d1, %d1, %r1, 0, 1, 1, 1, 0, 0",
    ],
)
def test_an_instruction_without_a_row_may_do_anything(instruction: str) -> None:
    """It stays with its text, and with effects."""
    kernel = f"{HEAD}  {instruction};\n  ret;\n}}\n"
    module = raise_ptx(kernel, new_context(), "k.ptx")
    (op,) = [op for op in walk(module.operation) if op.name == "llvm.inline_asm"]
    assert instruction.split()[0] in str(op.attributes["asm_string"])
    assert "has_side_effects" in op.attributes


def test_products_of_integers_have_no_signs() -> None:
    product = f"wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 {{{SUMS}}}, %d1, %d2, 1"
    assert "nvvm.wgmma.mma_async" in ops_of(product)


def test_numbers_of_numbers_without_a_row_stay_without_effects() -> None:
    kernel = f"{HEAD}  dp4a.u32.u32 %r3, %r1, %r2, %r1;\n  st.global.u32 [%d1], %r3;\n  ret;\n}}\n"
    module = raise_ptx(kernel, new_context(), "k.ptx")
    (op,) = [op for op in walk(module.operation) if op.name == "llvm.inline_asm"]
    assert "has_side_effects" not in op.attributes


NUMBERS = [
    ("shl.b32 %r3, %r1, %r4", lambda n, m: n << m if m < 32 else 0),
    ("shr.u32 %r3, %r1, %r4", lambda n, m: n >> m if m < 32 else 0),
    ("shr.s32 %r3, %r1, %r4", lambda n, m: signed(n) >> min(m, 31)),
    ("bfe.u32 %r3, %r1, 5, 7", lambda n, m: n >> 5 & 127),
    ("bfe.s32 %r3, %r1, 5, 7", lambda n, m: (n >> 5 & 127) - (128 if n >> 11 & 1 else 0)),
    ("bfi.b32 %r3, %r4, %r1, 4, 8", lambda n, m: n & ~0xFF0 | (m & 255) << 4),
    ("lop3.b32 %r3, %r1, %r4, %r1, 0x6c", lambda n, m: table(0x6C, n, m, n)),
    ("prmt.b32 %r3, %r1, %r4, 0x6130", lambda n, m: by_bytes(0x6130, n, m)),
    ("prmt.b32 %r3, %r1, %r4, 0xb39f", lambda n, m: by_bytes(0xB39F, n, m)),
    ("cvt.s8.s32 %h1, %r1; cvt.s32.s16 %r3, %h1", lambda n, m: (n & 255) - 2 * (n & 128)),
    ("cvt.u8.u32 %h1, %r1; cvt.s32.s16 %r3, %h1", lambda n, m: n & 255),
    ("mul.hi.u32 %r3, %r1, -1431655765", lambda n, m: n * 2863311531 >> 32),
    ("mul.hi.s32 %r3, %r1, -7", lambda n, m: signed(n) * -7 >> 32),
    *(
        (
            f"mov.b64 %d2, {{%r1, %r4}}; mul.hi.{kind}64 %d2, {factors}; cvt.u32.u64 %r3, %d2",
            meaning,
        )
        for kind, factors, meaning in (
            (
                "u",
                "%d2, 6148914691236517206",
                lambda n, m: (m << 32 | n) * 6148914691236517206 >> 64,
            ),
            ("u", "%d2, -3", lambda n, m: (m << 32 | n) * (2**64 - 3) >> 64),
            ("u", "%d2, %d2", lambda n, m: (m << 32 | n) ** 2 >> 64),
            ("s", "-7, %d2", lambda n, m: (signed(m) << 32 | n) * -7 >> 64),
            ("s", "%d2, %d2", lambda n, m: (signed(m) << 32 | n) ** 2 >> 64),
        )
    ),
    ("min.u32 %r3, %r1, -5", lambda n, m: min(n, 2**32 - 5)),
    ("add.u32 %r3, %r1, WARP_SZ", lambda n, m: n + 32),
    ("not.b32 %r3, %r1", lambda n, m: ~n),
    ("abs.s32 %r3, %r1", lambda n, m: abs(signed(n))),
    ("clz.b32 %r3, %r1", lambda n, m: 32 - n.bit_length()),
    ("popc.b32 %r3, %r1", lambda n, m: n.bit_count()),
    ("brev.b32 %r3, %r1", lambda n, m: int(f"{n:032b}"[::-1], 2)),
    ("shf.l.wrap.b32 %r3, %r1, %r4, %r4", lambda n, m: (m << 32 | n) << m % 32 >> 32),
    ("shf.r.wrap.b32 %r3, %r1, %r4, %r4", lambda n, m: (m << 32 | n) >> m % 32),
]


def signed(number: int) -> int:
    return number - 2**32 if number >> 31 else number


def table(bits: int, a: int, b: int, c: int) -> int:
    return sum(
        (bits >> (4 * (a >> n & 1) + 2 * (b >> n & 1) + (c >> n & 1)) & 1) << n for n in range(32)
    )


def by_bytes(selector: int, a: int, b: int) -> int:
    whole = [*a.to_bytes(4, "little"), *b.to_bytes(4, "little")]
    chosen = [(whole[selector >> 4 * n & 7], selector >> 4 * n & 8) for n in range(4)]
    # The highest bit of a selector spreads the sign of its byte.
    made = [255 * (byte >> 7) if spreads else byte for byte, spreads in chosen]
    return sum(byte << 8 * n for n, byte in enumerate(made))


@pytest.mark.parametrize(("instruction", "meaning"), NUMBERS, ids=[one for one, _ in NUMBERS])
def test_an_instruction_computes_what_the_manual_says(instruction: str, meaning) -> None:
    """For 64 pairs of numbers, on the machine; in the words of Python."""
    numbers = np.random.default_rng(0).integers(0, 2**32, (64, 2), dtype=np.uint32)
    numbers[:40, 1] %= 40
    kernel = HEAD.replace(".reqntid 128", ".reqntid 64") + (
        "  mov.u32 %r5, %tid.x;\n  mul.wide.u32 %d2, %r5, 8;\n  add.s64 %d3, %d1, %d2;\n"
        f"  ld.global.v2.u32 {{%r1, %r4}}, [%d3];\n  {instruction};\n  st.global.u32 [%d3], %r3;\n  ret;\n}}\n"
    )
    kernel = re.sub(r"  mov\.u32 %r2, smem;\n", "", kernel)
    module = raise_ptx(kernel, new_context(), "k.ptx")
    result = machine.run(module, "k", [numbers, 0], threads=64)
    found = result.arrays[0][:, 0].tolist()
    assert found == [meaning(int(n), int(m)) % 2**32 for n, m in numbers]


def lanes_with(values: list[int], value: int) -> int:
    return sum(1 << lane for lane, other in enumerate(values) if other == value)


TOGETHER = [
    ("redux.sync.add.u32 %r3, %r1, -1", lambda v: [sum(v)] * 32),
    ("redux.sync.max.s32 %r3, %r1, -1", lambda v: [max(map(signed, v))] * 32),
    ("redux.sync.min.u32 %r3, %r1, -1", lambda v: [min(v)] * 32),
    ("redux.sync.xor.b32 %r3, %r1, -1", lambda v: [int(np.bitwise_xor.reduce(v))] * 32),
    (
        "and.b32 %r6, %r1, 3; match.any.sync.b32 %r3, %r6, -1",
        lambda v: [lanes_with([n & 3 for n in v], own & 3) for own in v],
    ),
    (
        "setp.gt.s32 %p1, %r1, 0; vote.sync.ballot.b32 %r3, %p1, -1",
        lambda v: [lanes_with([signed(n) > 0 for n in v], True)] * 32,
    ),
    *(
        (
            f"setp.gt.u32 %p1, %r1, {bound}; vote.sync.{kind}.pred %p2, %p1, -1; selp.b32 %r3, 1, 0, %p2",
            lambda v, bound=bound, of=of: [int(of([n > bound for n in v]))] * 32,
        )
        for bound in (0, 2**31, 2**32 - 1)
        for kind, of in (("any", any), ("all", all), ("uni", lambda all_: len(set(all_)) == 1))
    ),
    (
        "movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r1",
        lambda v: np.array(v, "<u4").view("<u2").reshape(8, 8).T.copy().view("<u4").reshape(-1).tolist(),
    ),
]  # fmt: skip


def of_lanes(instruction: str) -> str:
    kernel = HEAD.replace(".reqntid 128", ".reqntid 64") + (
        "  mov.u32 %r5, %tid.x;\n  mul.wide.u32 %d2, %r5, 4;\n  add.s64 %d3, %d1, %d2;\n"
        f"  ld.global.u32 %r1, [%d3];\n  {instruction};\n  st.global.u32 [%d3], %r3;\n  ret;\n}}\n"
    )
    return kernel.replace("  mov.u32 %r2, smem;\n", "")


@pytest.mark.parametrize(("instruction", "meaning"), TOGETHER, ids=[one for one, _ in TOGETHER])
def test_lanes_make_together_what_the_manual_says(instruction: str, meaning) -> None:
    numbers = np.random.default_rng(0).integers(0, 2**32, 64, dtype=np.uint32)
    module = raise_ptx(of_lanes(instruction), new_context(), "k.ptx")
    result = machine.run(module, "k", [numbers, 0], threads=64)
    expected = [n % 2**32 for warp in (numbers[:32], numbers[32:]) for n in meaning(warp.tolist())]
    assert not result.races and result.arrays[0].tolist() == expected


def test_lanes_of_a_mask_that_do_not_come_are_found() -> None:
    part = "setp.ge.u32 %p1, %r5, 40;\n  @%p1 bra $over;\n  redux.sync.add.u32 %r3, %r1, -1"
    text = of_lanes(part).replace("  ret;", "$over:\n  ret;")
    module = raise_ptx(text, new_context(), "k.ptx")
    result = machine.run(module, "k", [np.zeros(64, np.uint32), 0], threads=64)
    assert result.race_codes == {"divergent-warp-op"}


def test_a_shuffle_may_say_whether_the_lane_is_there() -> None:
    """CUTLASS writes it so, and does not look; who does gets what no op says."""
    shuffle = "shfl.sync.idx.b32 %r3|%p2, %r1, 0, 31, -1"
    assert "nvvm.shfl.sync" in ops_of(shuffle)
    read = f"{shuffle};\n  selp.b32 %r4, 1, 0, %p2"
    assert "llvm.inline_asm" in ops_of(read) and "nvvm.shfl.sync" not in ops_of(read)


def test_generic_addresses_are_mapped_to_other_blocks() -> None:
    found = ops_of("mapa.u64 %d2, %d1, %r1")
    assert found.index("nvvm.mapa") > found.index("llvm.addrspacecast")
    assert "llvm.inline_asm" not in found


# What the machine does not run, by the instruction; the checker reads all of these by their names.
NOT_RUN = {
    "match.all.sync", "clusterlaunchcontrol.query_cancel", "mbarrier.arrive_drop",
    "wmma.load", "wmma.store", "wmma.mma",
    "tensormap.replace", "mbarrier.inval", "mbarrier.complete_tx",
}  # fmt: skip


def test_the_machine_refuses_by_name_what_it_does_not_run() -> None:
    """Rows with semantics run; of all others the name of the op is said."""
    refused = {
        row
        for row, (instruction, _) in ROWS.items()
        for name in ops_of(instruction)
        if name not in SEMANTICS
    }
    assert refused == NOT_RUN - {"match.all.sync"}
    for row in sorted(NOT_RUN):
        kernel = f"{HEAD}  {ROWS[row][0]};\n  st.global.u32 [%d1], %r3;\n  selp.b32 %r3, 1, 0, %p1;\n  st.global.u32 [%d1], %r3;\n  ret;\n}}\n"  # fmt: skip
        module = raise_ptx(kernel, new_context(), "k.ptx")
        with pytest.raises(AsyncPipeError) as found:
            machine.run(module, "k", [np.zeros(64, np.uint32), 0], dynamic_shared_bytes=256)
        # An answer of 128 bits is no type of the machine.
        assert found.value.code in ("unsupported-op", "unsupported-type")
        assert "k.ptx" in str(found.value)


RELATIONS = {
    "eq": np.equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "ne": lambda a, b: (a < b) | (a > b),
}  # fmt: skip
# With an u they hold, too, where one is no number.
UNORDERED = {"equ": "eq", "ltu": "lt", "leu": "le", "gtu": "gt", "geu": "ge", "neu": "ne"}


@pytest.mark.parametrize("relation", [*RELATIONS, *UNORDERED, "num", "nan"])
def test_floating_point_numbers_compare_as_the_manual_says(relation: str) -> None:
    values = np.array([0.0, -0.0, 1.0, 2.0, -1.0, np.inf, np.nan, 2.0], np.float32)
    pairs = np.stack(np.meshgrid(values, values), axis=-1).reshape(-1, 2).copy()
    kernel = HEAD.replace(".reqntid 128", ".reqntid 64") + (
        "  mov.u32 %r5, %tid.x;\n  mul.wide.u32 %d2, %r5, 8;\n  add.s64 %d3, %d1, %d2;\n"
        f"  ld.global.v2.f32 {{%f1, %f2}}, [%d3];\n  setp.{relation}.f32 %p1, %f1, %f2;\n"
        "  selp.f32 %f3, 0f3F800000, 0f00000000, %p1;\n  st.global.f32 [%d3], %f3;\n  ret;\n}\n"
    )
    kernel = kernel.replace("  mov.u32 %r2, smem;\n", "")
    module = raise_ptx(kernel, new_context(), "k.ptx")
    found = machine.run(module, "k", [pairs, 0], threads=64).arrays[0][:, 0]
    a, b = pairs.T
    none = np.isnan(a) | np.isnan(b)
    if relation in ("num", "nan"):
        wanted = none if relation == "nan" else ~none
    else:
        wanted = RELATIONS[UNORDERED.get(relation, relation)](a, b)
        wanted = wanted | none if relation in UNORDERED else wanted & ~none
    np.testing.assert_array_equal(found, wanted)


COLUMNS = """\
.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 .ptr .global .align 16 x)
.reqntid 128, 1, 1
{
  .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %d<4>;
  .shared .align 4 .b8 place[4];
  mov.u32 %r1, %tid.x;
  setp.lt.u32 %p1, %r1, 32;
  mov.u32 %r2, place;
  @!%p1 bra $taken;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 32;
  tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
$taken:
  bar.sync 0;
  ld.shared.b32 %r3, [place];
  shl.b32 %r4, %r1, 16;
  and.b32 %r4, %r4, 0x600000;
  add.s32 %r4, %r3, %r4;
  FILLED
  tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r6}, [%r4 + 1];
  WAITED
  ld.param.u64 %d1, [x];
  mul.wide.u32 %d2, %r1, 4;
  add.s64 %d1, %d1, %d2;
  st.global.u32 [%d1], %r6;
  tcgen05.fence::before_thread_sync;
  bar.sync 0;
  tcgen05.fence::after_thread_sync;
  @!%p1 bra $given;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 32;
$given:
  ret;
}
"""
WAIT = "tcgen05.wait::ld.sync.aligned;"
FILL = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r4 + 1], {%r1}; tcgen05.wait::st.sync.aligned;"


@pytest.mark.parametrize("completion", ["eager", "late"])
def test_registers_have_what_was_loaded_from_tensor_memory_after_the_wait(completion: str) -> None:
    text = COLUMNS.replace("FILLED", FILL).replace("WAITED", WAIT)
    module = raise_ptx(text, new_context(), "k.ptx")
    given = [np.zeros(128, np.int32)]
    result = machine.run(module, "k", given, threads=(128, 1, 1), grid=1, completion=completion)
    assert not result.races
    assert np.array_equal(result.arrays[0], np.arange(128))


@pytest.mark.parametrize(
    ("waited", "found"),
    [
        (WAIT, set()),
        (f"add.s32 %r6, %r6, 1;\n{WAIT}", {("read-in-flight", 23)}),
        # The load stays assembly where no wait comes in its block.
        (f"bra $on; $on: {WAIT}", {("unknown-hazard", 22)}),
        ("", {("unknown-hazard", 22)}),
    ],
)
def test_registers_are_read_after_the_wait(waited: str, found: set[tuple[str, int]]) -> None:
    text = COLUMNS.replace("FILLED", "").replace("WAITED", waited)
    reported = check(raise_ptx(text, new_context(), "k.ptx")).diagnostics
    assert found <= {(one.code, one.place.line) for one in reported}
    assert found or not reported


STORE, LOAD = (
    FILL.split(" tcgen05.wait")[0],
    "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r7}, [%r4 + 1];",
)


@pytest.mark.parametrize(
    ("filled", "found"),
    [
        (FILL, set()),
        (f"{LOAD} {WAIT} {FILL}", set()),
        (STORE.replace("+ 1", "+ 2") + " tcgen05.wait::st.sync.aligned;", set()),
        (STORE, {("read-in-flight", 22)}),
        (f"{LOAD} {FILL} {WAIT}", {("source-overwritten", 21)}),
    ],
)
def test_columns_are_touched_after_the_wait_for_a_store(
    filled: str, found: set[tuple[str, int]]
) -> None:
    """Lines 21 and 22 of the kernel are what is filled and the load after it."""
    text = COLUMNS.replace("FILLED", filled).replace("WAITED", WAIT)
    told = check(raise_ptx(text, new_context(), "k.ptx")).diagnostics
    assert {(one.code, one.place.line) for one in told} == found


@pytest.mark.parametrize(("counts", "name"), [("inc", "uinc_wrap"), ("dec", "udec_wrap")])
def test_counters_that_wrap_are_atomic(counts: str, name: str) -> None:
    """atomicInc, atomicDec: old >= most ? 0 : old + 1, and old == 0 or old > most ? most : old - 1."""
    text = f"{HEAD}  atom.global.{counts}.u32 %r3, [%d1], 7;\n  ret;\n}}\n"
    assert f"llvm.atomicrmw {name}" in str(raise_ptx(text, new_context(), "k.ptx"))


def test_each_element_of_a_vector_is_added_atomically() -> None:
    text = f"{HEAD}  red.global.add.v2.f32 [%d1], {{%f1, %f2}};\n  ret;\n}}\n"
    module = raise_ptx(text, new_context(), "k.ptx")
    added = [op for op in walk(module.operation) if op.name == "llvm.atomicrmw"]
    assert len(added) == 2
    assert "[4]" in str(added[1].operands[0].owner)
