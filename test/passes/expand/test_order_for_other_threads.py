"""Nothing moves above an op that may acquire, or below one that may release, and no barrier before
or after one goes; without it, it does.

Covers: pipeliner/dependence/memory_dependences.py, pipeliner/schedule/by_count.py, pipeliner/plan/legality.py,
pipeliner/plan/barrier_pairs.py, pipeliner/ask_checker/needed_barriers.py
"""

from __future__ import annotations

import re

import pytest

from mlir_async_pipe import pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session.diagnostics import AsyncPipeError

# Ops that may make what other threads did precede what comes after them.
ACQUIRES = {
    "load acquire": "%f = llvm.load %F atomic acquire {alignment = 4 : i64} : !llvm.ptr<1> -> i32",
    "load seq_cst": "%f = llvm.load %F atomic seq_cst {alignment = 4 : i64} : !llvm.ptr<1> -> i32",
    "block scope": '%f = llvm.load %F atomic syncscope("block") acquire {alignment = 4 : i64} '
    ": !llvm.ptr<1> -> i32",
    "atomicrmw": "%f = llvm.atomicrmw add %F, %v acq_rel : !llvm.ptr<1>, i32",
    "cmpxchg": "%f = llvm.cmpxchg %F, %v, %v acquire monotonic : !llvm.ptr<1>, i32",
    "used memref atomic": "%f = memref.atomic_rmw addi %v, %G[%i] : (i32, memref<?xi32>) -> i32\n"
    "memref.store %f, %H[%t] : memref<?xi32>",
    "fence acquire": "llvm.fence acquire",
    "fence seq_cst": 'llvm.fence syncscope("device") seq_cst',
    "memory barrier": "nvvm.memory.barrier <gpu>",
    "cluster fence": "nvvm.fence.sc.cluster",
    "cluster barrier": "nvvm.cluster.arrive {aligned}\nnvvm.cluster.wait {aligned}",
    "warp barrier": "nvvm.bar.warp.sync %v : i32",
    "grid dependency": "nvvm.griddepcontrol wait",
    "phase": "nvgpu.mbarrier.try_wait.parity %bars[%c0], %yes, %c0 : "
    "!nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>>",
    "fence of products": "nvvm.wgmma.fence.aligned",
    "assembly": 'llvm.inline_asm has_side_effects "membar.gl;", "" : () -> ()',
    "unknown call": "func.call @unknown() : () -> ()",
    "known call": "func.call @fences() : () -> ()",
    "spin on volatile": """scf.while : () -> () {
      %f = llvm.load volatile %F : !llvm.ptr<1> -> i32
      %go = arith.cmpi eq, %f, %v : i32
      scf.condition(%go)
    } do { scf.yield }""",
}
# Ops that make what their thread did precede what others do that see them.
RELEASES = {
    "store release": "llvm.store %v, %F atomic release {alignment = 4 : i64} : i32, !llvm.ptr<1>",
    "atomicrmw release": "%f = llvm.atomicrmw add %F, %v release : !llvm.ptr<1>, i32",
    "memref atomic": "%f = memref.atomic_rmw addi %v, %G[%i] : (i32, memref<?xi32>) -> i32",
    "fence and store": "llvm.fence release\nllvm.store volatile %v, %F : i32, !llvm.ptr<1>",
    "memory barrier": "nvvm.memory.barrier <gpu>\nllvm.store volatile %v, %F : i32, !llvm.ptr<1>",
    "assembly": 'llvm.inline_asm has_side_effects "red.release.gpu.add.u32;", "" : () -> ()',
    "unknown call": "func.call @unknown() : () -> ()",
    "known call": "func.call @fences() : () -> ()",
}
# Twins that order no other memory.
NOTHING = {
    "none": "",
    "plain load": "%f = llvm.load %F : !llvm.ptr<1> -> i32",
    "relaxed": "%f = llvm.atomicrmw add %F, %v monotonic : !llvm.ptr<1>, i32",
    "volatile": "%f = llvm.load volatile %F : !llvm.ptr<1> -> i32",
    "one thread's": '%f = llvm.load %F atomic syncscope("singlethread") acquire '
    "{alignment = 4 : i64} : !llvm.ptr<1> -> i32",
    "pure call": "func.call @computes() : () -> ()",
    "arithmetic": "%f = arith.addi %v, %v : i32",
    "assembly of values": '%f = llvm.inline_asm "mov.u32 $0, $1;", "=r,r" %v : (i32) -> i32',
}

KERNEL = """
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {
func.func private @unknown()
func.func @fences() { llvm.fence seq_cst  func.return }
func.func @computes() { func.return }
gpu.func @k(%A: memref<?x64xf32> {A_MARKS}, %D: memref<?x64xf32> {llvm.noalias},
    %F: !llvm.ptr<1> {llvm.noalias}, %G: memref<?xi32> {llvm.noalias},
    %H: memref<?xi32> {llvm.noalias}, %n: index)
    workgroup(%s: memref<64xf32, #wg> {llvm.align = 16 : i64 S_MARKS})
    kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c63 = arith.constant 63 : index
  %v = arith.constant 1 : i32
  %yes = arith.constant true
  %bars = nvgpu.mbarrier.create -> !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>>
  %t = gpu.thread_id x
  %o = arith.subi %c63, %t : index
  %leader = arith.cmpi eq, %t, %c0 : index
  BODY
  gpu.return
}
}
"""
LOADS = """scf.for %i = %c0 to %n step %c1 {
    OP
    %a = memref.load %A[%i, %t] : memref<?x64xf32>
    %b = arith.addf %a, %a : f32
    memref.store %b, %D[%i, %t] : memref<?x64xf32>
  } {async_pipe.num_stages = 3 : i64, async_pipe.stage_through = "registers"}"""
COPIES = """scf.for %i = %c0 to %n step %c1 {
    OP
    gpu.barrier
    %copy = nvgpu.device_async_copy %A[%i, %t], %s[%t], 1 : memref<?x64xf32> to memref<64xf32, #wg>
    %group = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %group
    gpu.barrier
    %a = memref.load %s[%o] : memref<64xf32, #wg>
    memref.store %a, %D[%i, %t] : memref<?x64xf32>
    gpu.barrier
  } {async_pipe.num_stages = 3 : i64}"""
BY_LATENCY = (
    COPIES.replace("%s[%t], 1 :", "%s[%t], 1 {async_pipe.latency = 500 : i64} :")
    .replace("%D[%i, %t] :", "%D[%i, %t] {async_pipe.latency = 300 : i64} :")
    .replace(" {async_pipe.num_stages = 3 : i64}", "")
)
# The loads of iteration i + 1 may not come before what releases iteration i only if that acquires.
SENDS = COPIES.replace("    OP\n", "").replace(
    "    gpu.barrier\n  }", "    gpu.barrier\n    scf.if %leader {\n      OP\n    }\n  }"
)


def _text(body: str, op: str, a_marks: str = "llvm.noalias", s_marks: str = "") -> str:
    kernel = KERNEL.replace("BODY", body.replace("OP", op))
    return kernel.replace("A_MARKS", a_marks).replace("S_MARKS", s_marks)


def _pipelined(text: str) -> tuple[str, list] | AsyncPipeError:
    """The result and its loops, or why there is none."""
    with new_context():
        module = ir.Module.parse(text)
        try:
            report = pipeline(module, target="nvvm:sm_90", check="warn")
        except AsyncPipeError as error:
            return error
        return str(module), report.of("loops")


def _name(op: str) -> str:
    return next(re.finditer(r"(?:= |^)(\w+\.[\w.]+)", op, re.M))[1].removesuffix("=")


@pytest.mark.parametrize("body", [LOADS, COPIES, BY_LATENCY], ids=["loads", "copies", "latency"])
@pytest.mark.parametrize("kind", ACQUIRES)
def test_nothing_runs_ahead_of_what_may_acquire(kind, body):
    op = ACQUIRES[kind]
    found = _pipelined(_text(body, op))
    if isinstance(found, AsyncPipeError):
        assert found.code in ("memory-order", "unproven-independence", "opaque-barrier")
        return
    # It runs ahead itself, and each read stands after one of it.
    text = found[0].split("gpu.func", 1)[1]
    name = "llvm.load" if "spin" in kind else _name(op)
    reads = [m.start() for m in re.finditer(r"memref.load %arg0|device_async_copy %arg0", text)]
    orders = [m.start() for m in re.finditer(re.escape(name) + r"\b", text)]
    assert len(reads) == len(orders)
    # By latencies the loop stays as it is where nothing can run ahead.
    assert len(reads) > 1 or body is BY_LATENCY
    assert all(order < read for order, read in zip(orders, reads, strict=True))


@pytest.mark.parametrize("body", [LOADS, COPIES], ids=["loads", "copies"])
@pytest.mark.parametrize("kind", NOTHING)
def test_what_orders_no_other_memory_hinders_nothing(kind, body):
    found = _pipelined(_text(body, NOTHING[kind]))
    assert not isinstance(found, AsyncPipeError), found
    assert "device_async_wait" in found[0] or body is LOADS
    assert len(re.findall(r"memref.load %arg0|device_async_copy %arg0", found[0])) > 2


@pytest.mark.parametrize("kind", RELEASES)
def test_a_barrier_before_what_may_release_stays(kind):
    found = _pipelined(_text(SENDS, RELEASES[kind]))
    if isinstance(found, AsyncPipeError):
        assert found.code in ("memory-order", "unproven-independence", "opaque-barrier")
        return
    for part in re.split(r"memref.store [^\n]*%arg1\[", found[0])[1:]:
        until = part.split("scf.if", 1)[0]
        assert "gpu.barrier" in until


def test_without_a_release_no_barrier_stands_after_the_stores():
    found = _pipelined(_text(SENDS, "llvm.store %v, %F : i32, !llvm.ptr<1>"))
    parts = re.split(r"memref.store [^\n]*%arg1\[", found[0])[1:-1]
    assert any("gpu.barrier" not in part.split("scf.if", 1)[0] for part in parts)


ADVISED = {
    "memory that only A's author knows": ("llvm.noalias, async_pipe.independent", LOADS, ""),
    "memory that nobody writes": ("llvm.noalias, llvm.readonly", LOADS, ""),
    "both": ("llvm.noalias, llvm.readonly", COPIES, ", async_pipe.independent"),
}


@pytest.mark.parametrize("kind", ADVISED)
def test_memory_that_no_flag_guards_runs_ahead_as_advised(kind):
    marks, body, own = ADVISED[kind]
    op = ACQUIRES["used memref atomic"]
    assert isinstance(_pipelined(_text(body, op)), AsyncPipeError)
    found = _pipelined(_text(body, op, marks, own))
    assert not isinstance(found, AsyncPipeError), found
    assert len(re.findall(r"memref.load %arg0|device_async_copy %arg0", found[0])) > 2


def test_independent_loops_still_keep_the_order_of_flags():
    """The assertion is about memory that meets, not about flags."""
    body = LOADS.replace("{async_pipe.num", "{async_pipe.independent, async_pipe.num")
    found = _pipelined(_text(body, ACQUIRES["used memref atomic"]))
    assert isinstance(found, AsyncPipeError) and found.code == "memory-order"


def test_what_orders_in_the_statement_of_the_loads_is_named():
    guarded = """scf.for %i = %c0 to %n step %c1 {
    scf.execute_region {
      OP
      %x = memref.load %A[%i, %t] : memref<?x64xf32>
      memref.store %x, %s[%t] : memref<64xf32, #wg>
      cf.br ^end
    ^end:
      scf.yield
    }
    gpu.barrier
    %y = memref.load %s[%o] : memref<64xf32, #wg>
    memref.store %y, %D[%i, %t] : memref<?x64xf32>
    gpu.barrier
  } {async_pipe.num_stages = 3 : i64}"""
    error = _pipelined(_text(guarded, "func.call @unknown() : () -> ()"))
    assert isinstance(error, AsyncPipeError)
    assert error.code == "memory-order"
    assert "'func.call' orders memory" in str(error)
