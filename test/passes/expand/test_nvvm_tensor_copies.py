"""Loops of tensor copies in the nvvm dialect: upstream's conversion of our loops, and what other
front ends write around the same copies. Forms that cannot run ahead are refused with their reason.

Covers: machine/dialects/nvvm.py, machine/dialects/memref.py,
pipeliner/normalise/raise_mbarriers.py, pipeliner/normalise/own_buffers.py,
facts/loops/transactions.py, pipeliner/expand/write/versioned_buffers.py,
facts/values/memory_roots.py
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from helpers.machine_programs import parse
from helpers.nvvm_tensor_loops import CONVERSIONS, judge_nvvm, nvvm_text
from helpers.tensor_loops import Box, TensorLoop
from mlir_async_pipe import lower, machine, pipeline
from mlir_async_pipe.session.diagnostics import AsyncPipeError

LOADS = TensorLoop((Box(2, 32),))
FORMS = {
    "plain": LOADS,
    "from a global": replace(LOADS, memory="global", static=True),
    "two mbarriers": TensorLoop((Box(2, 32), Box(4, 32, "swizzle_128b", 1)), trips=7),
    "in a branch": replace(LOADS, branch=True, skip=2),
    "in outer loops": replace(LOADS, executions=3, executed="odd", trips=5),
    "carried": replace(LOADS, carried=True, issue="last"),
    "by ldmatrix": TensorLoop(
        (Box(32, 64, "swizzle_128b"), Box(8, 64, "swizzle_128b")), reader="matrices"
    ),
    "no trip": replace(LOADS, trips=0, executions=2),
}


@pytest.mark.parametrize("typed", [True, False], ids=["typed maps", "opaque maps"])
@pytest.mark.parametrize("conversion", CONVERSIONS)
@pytest.mark.parametrize("form", FORMS)
def test_what_upstream_converts_is_pipelined_and_right(form, conversion, typed):
    """Proven by the checker where it sees the maps, NumPy's in every completion either way."""
    assert judge_nvvm(FORMS[form], conversion, typed=typed) == []


def test_products_on_converted_copies_are_right():
    boxes = (Box(64, 64, "swizzle_128b"), Box(64, 64, "swizzle_128b"))
    loop = TensorLoop(boxes, reader="products", trips=3)
    module = parse(nvvm_text(loop, CONVERSIONS[0], typed=True))
    pipeline(module, check="none")
    assert not any(loop.right(module, completion) for completion in machine.COMPLETIONS)


def test_a_place_may_be_computed_by_a_long_chain_of_ops():
    """More of them than Python's stack is deep."""
    chain = "".join(f"%q{n + 1} = arith.addi %q{n}, %i0 : index\n" for n in range(2000))
    text = LOADS.text().replace("%i0 = arith.constant 0 : index\n", "")
    text = text.replace(
        "%i1 =", f"%i0 = arith.constant 0 : index\n%q0 = gpu.block_id x\n{chain}%i1 ="
    )
    module = parse(text.replace("%col0 = ", "%by = arith.muli %q2000, %i0 : index\n%col0 = "))
    pipeline(module, check="none")
    assert "async_pipe.num_stages" not in str(module)


def test_the_result_has_one_mbarrier_a_slot_and_keeps_its_copies():
    module = parse(nvvm_text(LOADS, CONVERSIONS[1], typed=False))
    pipeline(module, check="none")
    text = str(module)
    assert text.count("nvgpu.mbarrier.init") == 3
    assert text.count("nvvm.cp.async.bulk.tensor.shared.cluster.global") == 3
    assert "nvvm.mbarrier" not in text and "nvgpu.tma" not in text


def test_the_nvvm_form_goes_to_machine_code():
    text = nvvm_text(LOADS, CONVERSIONS[1], typed=False).replace("func.func", "gpu.func", 1)
    text = text.replace("gpu.known_block_size", "known_block_size").replace("return", "gpu.return")
    text = re.sub(r" attributes \{known", r" kernel attributes {known", text)
    text = re.sub(r" \{llvm.noalias\}", "", text).replace("module {", "gpu.module @m {", 1)
    module = parse(
        text.replace("async_pipe.num_stages", "async_pipe.independent, async_pipe.num_stages")
    )
    pipeline(module, check="none", target="nvvm:sm_90a")
    ptx = lower(module, target="nvvm:sm_90a").text
    # Two tiles before the loop, and one each time that LLVM writes its body.
    bodies = ptx.count("mbarrier.try_wait.parity")
    assert bodies > 0
    assert ptx.count("cp.async.bulk.tensor.2d.shared::cluster.global") == 2 + bodies


WAIT = re.compile(r"nvvm\.mbarrier\.try_wait\.parity (%\w+), (%\w+), (%\w+) : .*")
ASKED = """scf.while : () -> () {
  %over = nvvm.mbarrier.TEST
  %false_ = arith.constant true
  %again = arith.xori %over, %false_ : i1
  scf.condition(%again)
} do {
  scf.yield
}"""
TESTS = {
    "test.wait": r"test.wait \1, \2 : !llvm.ptr<3>, i32 -> i1",
    "try_wait": r"try_wait \1, \2 : !llvm.ptr<3>, i32 -> i1",
    "try_wait with ticks": r"try_wait \1, \2, \3 : !llvm.ptr<3>, i32, i32 -> i1",
}


@pytest.mark.parametrize("test", TESTS)
def test_a_loop_that_asks_until_the_phase_is_over_is_its_wait(test):
    text = nvvm_text(LOADS, CONVERSIONS[1], typed=True)
    asking = WAIT.sub(ASKED.replace("TEST", TESTS[test]), text)
    assert asking != text
    module = parse(asking)
    pipeline(module, check="error")
    assert "scf.while" not in str(module)
    assert not any(LOADS.right(module, completion) for completion in machine.COMPLETIONS)


def test_an_mbarrier_may_be_an_llvm_global():
    text = nvvm_text(LOADS, CONVERSIONS[1], typed=True)
    text = re.sub(
        r"memref.global \"private\" @__mbarrier.*",
        "llvm.mlir.global internal @bar() {addr_space = 3 : i32} : !llvm.array<2 x i64>",
        text,
    )
    named = re.search(r"(%\w+) = llvm.extractvalue.*array<1 x i64>, array<1 x i64>.*", text)
    assert named is not None
    text = text.replace(named[0], f"{named[1]} = llvm.mlir.addressof @bar : !llvm.ptr<3>")
    text = re.sub(r".*memref.get_global @__mbarrier.*\n.*\n", "", text)
    module = parse(text)
    pipeline(module, check="error")
    assert not any(LOADS.right(module, completion) for completion in machine.COMPLETIONS)


def test_copies_into_shared_cta_memory_are_taken_for_those_of_the_cluster():
    text = nvvm_text(replace(LOADS, branch=True), CONVERSIONS[0], typed=True)
    cast = re.search(r"(%\w+) = llvm.addrspacecast (%\w+) : .*\n", text)
    assert cast is not None
    text = text.replace(cast[0], "")
    text = re.sub(
        rf"{cast[1]}(, .*box.*\]) : !llvm.ptr<7>",
        rf"{cast[2]}\1 {{isCTAOnly = true}} : !llvm.ptr<3>",
        text,
    )
    assert "isCTAOnly = true" in text
    module = parse(text)
    pipeline(module, check="error")
    assert not any(LOADS.right(module, completion) for completion in machine.COMPLETIONS)


COPY = r"(nvvm\.cp\.async\.bulk\.tensor\S* )(%\w+)(, %\w+, )(%\w+)(, box\[)(%\w+)(.*)"
REFUSED = {
    "multicast": (
        "cluster-unsupported",
        "how many blocks make a cluster is not known",
        r"%mask = arith.constant 3 : i16\n"
        r"nvvm.cp.async.bulk.tensor.shared.cluster.global \2\3\4\5\6, \6] multicast_mask = %mask "
        r"predicate = LEADER : !llvm.ptr<7>, !llvm.ptr",
    ),
    "im2col": (
        "async-op-unsupported",
        "im2col",
        r"%off = arith.constant 3 : i16\n"
        r"nvvm.cp.async.bulk.tensor.shared.cluster.global \2\3\4\5\6, \6, \6] im2col[%off] "
        r"predicate = LEADER {mode = #nvvm.tma_load_mode<im2col>} : !llvm.ptr<7>, !llvm.ptr",
    ),
    "bytes without a map": (
        "async-op-unsupported",
        "no predicate",
        r"%src = llvm.addrspacecast %arg0 : !llvm.ptr to !llvm.ptr<1>\n"
        r"%size = arith.constant 256 : i32\n"
        r"nvvm.cp.async.bulk.shared.cluster.global \2, %src, \4, %size : !llvm.ptr<7>, !llvm.ptr<1>",
    ),
    "a tile without a type": (
        "buffer-not-versionable",
        "no dense buffer",
        r"%tile = llvm.mlir.addressof @tile : !llvm.ptr<3>\n"
        r"%near = llvm.addrspacecast %tile : !llvm.ptr<3> to !llvm.ptr<7>\n\1%near\3\4\5\6\7",
    ),
    "an arrival besides": (
        "transaction-incomplete",
        "not part of a transaction",
        r"%old = nvvm.mbarrier.arrive \4 : !llvm.ptr<3> -> i64\n\1\2\3\4\5\6\7",
    ),
    "an mbarrier somewhere": (
        "transaction-incomplete",
        "constant number",
        r"%far = arith.index_cast %thread_id_x : index to i64\n"
        r"%bar = llvm.getelementptr \4[%far] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, i64\n"
        r"\1\2\3%bar\5\6\7",
    ),
    "a plain load of the mbarrier": (
        "transaction-incomplete",
        "constant number",
        r"%word = llvm.load \4 : !llvm.ptr<3> -> i64\n\1\2\3\4\5\6\7",
    ),
}


@pytest.mark.parametrize("form", REFUSED)
def test_what_cannot_run_ahead_is_refused_at_its_op_and_stays(form):
    code, words, instead = REFUSED[form]
    text = nvvm_text(LOADS, CONVERSIONS[1], typed=False)
    leader = re.search(r"predicate = (%\w+)", text)
    assert leader is not None
    wrong = re.sub(COPY, instead.replace("LEADER", leader[1]), text)
    assert wrong != text
    tile = "llvm.mlir.global internal @tile() {addr_space = 3 : i32} : !llvm.array<256 x i8>"
    wrong = wrong.replace("module {", f"module {{\n{tile}", 1)
    module = parse(wrong)
    before = str(module)
    with pytest.raises(AsyncPipeError, match=words) as refused:
        pipeline(module, check="none")
    assert refused.value.code == code
    assert str(module) == before
