"""Loops of tensor copies: how many slots, which waits and barriers, and what is refused.

Covers: pipeliner/plan/ring_plan.py, pipeliner/plan/tensor_tiles.py, pipeliner/plan/mbarrier_setup.py, pipeliner/expand/write/write_ring.py, pipeliner/expand/write/versioned_buffers.py, pipeliner/expand/write/carried_ring.py, facts/loops/transactions.py, pipeliner/schedule/by_count.py, pipeliner/normalise/raise_mbarriers.py, facts/values/uniformity.py
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import pytest

from helpers.machine_programs import parse
from helpers.tensor_loops import Box, TensorLoop
from mlir_async_pipe import check, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import terminator
from mlir_async_pipe.facts.values.uniformity import compared_thread
from mlir_async_pipe.machine.launch import COMPLETIONS
from mlir_async_pipe.session.diagnostics import AsyncPipeError

LOADS = TensorLoop((Box(2, 32),))
PRODUCTS = TensorLoop(
    (Box(64, 64, "swizzle_128b"), Box(64, 64, "swizzle_128b")), reader="products", trips=5
)


def operands(types, line, b_by_k, sums="f32"):
    """A and B of 64 x k, in lines of so many elements and 128 bytes."""
    a = Box(64, line, "swizzle_128b", types=types)
    b = Box(*((64, line) if b_by_k else (line, 64)), "swizzle_128b", types=types, by_k=b_by_k)
    return TensorLoop((a, b), reader="descriptors", sums=sums, trips=7)


DESCRIPTORS = (
    operands("f16", 64, False),
    operands("e4m3", 128, True),
    operands("s8", 128, True, "s32"),
)


def pipelined(loop: TensorLoop, text: str = ""):
    module = parse(text or loop.text())
    report = pipeline(module, check="none")
    return module, report


def kernel_of(module) -> str:
    """The text of the pipelined loop: the last one that waits for a phase, up to its end."""
    text = str(module)
    start = text.rindex("scf.for", 0, text.index("try_wait.parity"))
    return text[start : text.index("scf.yield", text.index("try_wait.parity"))]


@pytest.mark.parametrize(
    ("loop", "slots"),
    [
        # d + p + 1 with the copies first, d + p with the copies last.
        (replace(LOADS, stages=2), 2),
        (replace(LOADS, stages=4), 4),
        (replace(LOADS, stages=4, issue="last"), 3),
        (replace(PRODUCTS, stages=3), 3),
        (replace(PRODUCTS, stages=3, in_flight=0), 3),
        (replace(PRODUCTS, stages=3, in_flight=0, issue="last"), 2),
        (replace(PRODUCTS, stages=3, in_flight=2), 4),
        (replace(PRODUCTS, stages=3, issue="first"), 4),
    ],
)
def test_slots_are_as_few_as_the_order_allows(loop, slots):
    module, report = pipelined(loop)
    (record,) = report.of("loops")
    assert {buffer.versions for buffer in record.buffers} == {slots}
    assert f"num_barriers = {slots}>" in str(module)
    for completion in ("eager", "late", "random"):
        assert not loop.right(module, completion)


def test_the_prologue_elects_once_and_compares_instead_of_counting_iterations():
    """One election before the loop and one in it, however many tiles are copied ahead."""
    module, _ = pipelined(replace(LOADS, stages=4, step=3))
    assert str(module).count("nvvm.elect.sync") == 2
    # The body divides twice, in each of three steps before the loop and in it.
    assert str(module).count("arith.divui") == 2 * 4


def test_tensor_stores_of_the_loop_itself_stay_in_flight():
    loop = replace(LOADS, stored="each")
    module, report = pipelined(loop)
    assert [record.in_flight for record in report.of("stores")] == [1]
    assert not loop.right(module, "late")


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize(("stages", "step"), [(5, 2**62), (3, 2**61), (5, 2**60)])
def test_the_end_is_found_where_as_many_steps_are_more_than_a_number_holds(stages, step, static):
    """Four steps of 2^62 are 0 modulo 2^64, and no iteration follows the first."""
    loop = replace(LOADS, stages=stages, step=step, trips=1, static=static)
    module, _ = pipelined(loop)
    assert not loop.right(module, "eager")


def test_one_slot_fewer_goes_wrong():
    """The ring of a loop with its copies last, taken for one with its copies first."""
    loop = replace(LOADS, stages=3, trips=9, issue="first")
    module, _ = pipelined(loop)
    fewer = re.sub(r"arith.constant 3 : index", "arith.constant 2 : index", str(module))
    assert fewer != str(module)
    found = [loop.right(parse(fewer), completion) for completion in ("eager", "late", "random")]
    assert any(found)


def test_products_of_an_iteration_stay_in_flight_and_are_over_after_the_loop():
    module, _ = pipelined(PRODUCTS)
    text = str(module)
    # 1 is what the op leaves in flight where it has no attribute.
    assert "waitGroup" not in kernel_of(module)
    assert text.index("nvvm.wgmma.wait.group.sync.aligned 0") < text.index("warpgroup.mma.store")


def test_a_weaker_wait_goes_wrong():
    module, _ = pipelined(PRODUCTS)
    weaker = str(module).replace("{transposeB}", "{transposeB, waitGroup = 2 : i64}")
    assert weaker != str(module)
    assert any(PRODUCTS.right(parse(weaker), c) for c in ("eager", "late", "random"))


@pytest.mark.parametrize("left", [0, 1, 2])
@pytest.mark.parametrize("loop", DESCRIPTORS, ids=["f16 by n", "e4m3", "s8 by k"])
def test_a_weaker_wait_for_products_by_descriptors_goes_wrong(loop, left):
    """Machine and checker agree on the exact count: one more, and a tile is overwritten too early."""
    loop = replace(loop, in_flight=left)
    module, _ = pipelined(loop)
    wait = "nvvm.wgmma.wait.group.sync.aligned "
    assert f"{wait}{left}\n" in kernel_of(module)
    assert not any(loop.right(module, completion) for completion in COMPLETIONS)
    weaker = parse(str(module).replace(f"{wait}{left}\n", f"{wait}{left + 1}\n", 1))
    assert any(loop.right(weaker, completion) for completion in COMPLETIONS)
    assert any(found.unsafe for found in check(weaker).of("checks"))


@pytest.mark.parametrize("loop", [LOADS, PRODUCTS])
def test_an_iteration_has_one_barrier_and_no_branch(loop):
    module, _ = pipelined(loop)
    kernel = kernel_of(module)
    # What stores in the loop keeps its own at the end, which serves the next iteration's copies.
    assert kernel.count("gpu.barrier") == 1
    assert "scf.if" not in kernel


def test_a_barrier_before_the_last_use_of_a_tile_does_not_serve_the_copies():
    text = LOADS.text()
    early = text.replace("gpu.barrier\n%next", "%next").replace("%k0_0 =", "gpu.barrier\n%k0_0 =")
    assert early.count("gpu.barrier") == text.count("gpu.barrier") and early != text
    module = parse(early)
    pipeline(module)
    assert kernel_of(module).count("gpu.barrier") == 2
    for schedule in ("lockstep", "random"):
        assert not LOADS.right(module, "eager", schedule)


def test_without_its_barrier_it_goes_wrong():
    module, _ = pipelined(PRODUCTS)
    kernel = kernel_of(module)
    without = str(module).replace(kernel, kernel.replace("gpu.barrier", ""))
    schedules = ("lockstep", "random")
    assert any(PRODUCTS.right(parse(without), "eager", schedule) for schedule in schedules)


def names_thread_0(condition: str) -> bool:
    """Whether a condition is taken to hold in thread 0 alone."""
    text = f"""
    func.func @f() -> i1 {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %zero = arith.constant 0 : i32
      %t = gpu.thread_id x
      %y = gpu.thread_id y
      %i = nvvm.read.ptx.sreg.tid.x : i32
      %p = {condition}
      return %p : i1
    }}"""
    with new_context():
        module = ir.Module.parse(text)
        (given,) = terminator(module.body.operations[0].regions[0].blocks[0]).operands
        return compared_thread(given) is not None


@pytest.mark.parametrize(
    ("compared", "thread_0"),
    [
        ("eq, %t, %c0", True),
        ("eq, %c0, %t", True),
        ("ult, %t, %c1", True),
        ("ule, %t, %c0", True),
        ("slt, %t, %c1", True),
        ("sle, %t, %c0", True),
        ("ugt, %c1, %t", True),
        ("uge, %c0, %t", True),
        ("sgt, %c1, %t", True),
        ("sge, %c0, %t", True),
        ("eq, %t, %c1", False),
        ("ult, %t, %c2", False),
        ("ule, %t, %c1", False),
        ("ult, %c1, %t", False),
        ("uge, %t, %c0", False),
        ("ne, %t, %c0", False),
        ("ult, %y, %c1", False),
    ],
)
def test_a_condition_of_thread_0_alone(compared: str, thread_0: bool) -> None:
    assert names_thread_0(f"arith.cmpi {compared} : index") == thread_0


@pytest.mark.parametrize(
    ("compared", "thread_0"),
    [
        ("index.cmp ult(%t, %c1)", True),
        ("index.cmp ult(%t, %c2)", False),
        ('llvm.icmp "eq" %i, %zero : i32', True),
        ('llvm.icmp "ne" %i, %zero : i32', False),
    ],
)
def test_comparisons_of_all_dialects_are_read(compared: str, thread_0: bool) -> None:
    assert names_thread_0(compared) == thread_0


@pytest.mark.parametrize("leader", ["index", "i32", "lane"])
def test_one_thread_of_warp_0_is_elected_where_the_input_names_thread_0(leader):
    module, _ = pipelined(replace(LOADS, leader=leader))
    assert "nvvm.elect.sync" in kernel_of(module)


@pytest.mark.parametrize("skip", [0, 2])
def test_a_branch_that_only_issues_becomes_predicates(skip):
    loop = replace(LOADS, branch=True, skip=skip)
    assert "scf.if %leader {" in loop.text()
    module, _ = pipelined(loop)
    assert str(module).count("scf.if") == (1 if skip else 0)
    assert "nvvm.elect.sync" in kernel_of(module)
    assert not loop.right(module, "late")


def test_a_branch_that_does_more_is_refused():
    text = replace(LOADS, branch=True).text()
    text = text.replace(
        "scf.if %leader {",
        "scf.if %leader {\nmemref.store %zero, %out[%i0, %i0] : memref<?x64xf32>",
    )
    with pytest.raises(AsyncPipeError) as refused:
        pipelined(LOADS, text)
    assert refused.value.code == "transaction-incomplete"


def test_only_the_phase_of_the_pipeline_is_carried():
    module, _ = pipelined(PRODUCTS)
    header = kernel_of(module).splitlines()[0]
    # The sum, the slot, its phase, the slot that is filled.
    assert header.count(" = %") - 1 == 4


def test_slot_and_phase_go_through_the_loops_around():
    module, _ = pipelined(replace(LOADS, executions=3, executed="odd"))
    text = str(module)
    assert re.search(r"scf.if .* -> \(i1, index, i1\)", text)
    assert re.search(r"scf.for .* -> \(i1, index, i1\)", text)


def test_slots_of_a_swizzled_tile_begin_where_its_pattern_repeats():
    module, _ = pipelined(TensorLoop((Box(4, 32, "swizzle_128b"),)))
    assert "memref<3x8x32xf32" in str(module)


@pytest.mark.parametrize("boxes", [LOADS.boxes, (Box(2, 32), Box(2, 32, transaction=1))])
def test_a_fence_and_a_barrier_follow_the_initialisation(boxes):
    loop = replace(LOADS, fenced=False, boxes=boxes)
    module, _ = pipelined(loop)
    assert not loop.right(module, "eager")
    text = str(module)
    last = text.rindex("nvgpu.mbarrier.init")
    assert last < text.index("fence.mbarrier.init") < text.index("fence.proxy")
    assert text.index("fence.proxy") < text.index("gpu.barrier") < text.index("expect_tx")


def test_the_input_s_fence_is_enough():
    module, _ = pipelined(LOADS)
    assert "fence.proxy" not in str(module)


def test_arrays_of_stages_and_orders_say_the_same():
    text = LOADS.text().replace(
        "async_pipe.num_stages = 3 : i64",
        "async_pipe.stage = [0, 2, 2], async_pipe.async_stages = [0]",
    )
    module, report = pipelined(LOADS, text)
    assert report.of("loops")[0].buffers[0].versions == 3
    assert not LOADS.right(module, "late")


@dataclass(frozen=True)
class Refusal:
    """`old` becomes `new` in a loop that is then refused with `code`; a note has `words`."""

    code: str
    old: str
    new: str
    words: str = ""
    loop: TensorLoop = LOADS


USE = "%v0_0 = memref.load"
REFUSALS = [
    Refusal("transaction-incomplete", "nvgpu.mbarrier.try_wait", "//", "by all"),
    Refusal("transaction-incomplete", "nvgpu.mbarrier.arrive.expect_tx", "//", "one thread"),
    Refusal("transaction-incomplete", "%i256, predicate = %leader", "%i256", "one thread"),
    Refusal("transaction-incomplete", "init %full[%i0], %i1", "init %full[%i0], %i2", "count 1"),
    Refusal("transaction-incomplete", "nvgpu.mbarrier.init", "//", "count 1"),
    Refusal(
        "transaction-incomplete",
        "nvgpu.mbarrier.try_wait",
        "%old = nvgpu.mbarrier.arrive %full[%i0] : GROUP -> !nvgpu.mbarrier.token\n"
        "nvgpu.mbarrier.try_wait",
        "alone",
    ),
    Refusal(
        "cluster-unsupported",
        "nvgpu.tma.async.load %m0[%col0, %i0], %full[%i0] to %b0,",
        "%mask = arith.constant 3 : i16\n"
        "nvgpu.tma.async.load %m0[%col0, %i0], %full[%i0] to %b0 multicast_mask = %mask,",
    ),
    Refusal("transaction-bytes", "%i256, predicate", "%i64, predicate", "whole boxes"),
    Refusal(
        "mbarrier-shared",
        "return",
        "nvgpu.mbarrier.try_wait.parity %full[%i0], %r#1, %i64 : GROUP\nreturn",
        "for each loop",
    ),
    Refusal(
        "copy-operands",
        "%col0 = arith.muli %tile, %i32",
        "%far = memref.load %b0[%i0, %i0] : memref<2x32xf32, WG>\n"
        "%near = arith.fptosi %far : f32 to i32\n"
        "%column = arith.index_cast %near : i32 to index\n"
        "%col0 = arith.muli %column, %i32",
        "integer arithmetic alone",
    ),
    Refusal(
        "not-privatisable",
        "return",
        "%late = memref.load %b0[%i0, %i0] : memref<2x32xf32, WG>\n"
        "memref.store %late, %out[%i0, %i0] : memref<?x64xf32>\nreturn",
        "of its own",
    ),
    Refusal(
        "not-privatisable",
        USE,
        f"memref.store %zero, %b0[%i0, %i0] : memref<2x32xf32, WG>\n{USE}",
        "another buffer",
    ),
    Refusal("unproven-independence", "{llvm.noalias}", "", "async_pipe.independent"),
    Refusal("memory-order", USE, f"llvm.fence acquire\n{USE}", "the copy"),
    Refusal("memory-order", USE, f"nvvm.griddepcontrol wait\n{USE}", "the copy"),
    Refusal(
        "products-in-use",
        "in_flight = 1",
        "in_flight = 8",
        "async_pipe.in_flight = 7",
        replace(PRODUCTS, in_flight=1),
    ),
    Refusal(
        "products-in-use",
        "num_stages = 3 : i64",
        "num_stages = 3 : i64, async_pipe.in_flight = 1",
        "= 0",
    ),
    Refusal(
        "transaction-stages",
        "async_pipe.num_stages = 3 : i64",
        "async_pipe.stage = [0, 1, 2], async_pipe.async_stages = [0]",
        "makes such stages",
    ),
    Refusal(
        "transaction-stages",
        "async_pipe.num_stages = 3 : i64",
        "async_pipe.stage = [0, 2, 2], async_pipe.order = [1, 0, 2], async_pipe.async_stages = [0]",
        "makes such stages",
    ),
    Refusal(
        "bad-annotation", "num_stages = 3 : i64", "num_stages = 3 : i64, async_pipe.in_flight = -1"
    ),
    Refusal("divergent-barrier", "to %upper", "to %t"),
]


@pytest.mark.parametrize("row", REFUSALS, ids=lambda row: f"{row.code}: {row.new[:30]}")
def test_what_is_refused_stays_as_it_was(row):
    group = re.search(r"!nvgpu.mbarrier.group<.*?num_barriers = 1>", row.loop.text())[0]
    assert row.old in row.loop.text()
    wrong = parse(row.loop.text().replace(row.old, row.new).replace("GROUP", group))
    before = str(wrong)
    with pytest.raises(AsyncPipeError) as refused:
        pipeline(wrong, check="none")
    assert refused.value.code == row.code
    assert str(wrong) == before
    notes = [note.message for note in refused.value.diagnostic.notes]
    assert any(row.words in note for note in notes) or not row.words, notes


def test_a_loop_between_the_mbarriers_and_the_loop_must_carry_the_phase():
    text = LOADS.text()
    start = text.index("%r:3 = scf.for")
    end = text.index("return")
    wrapped = f"{text[:start]}scf.execute_region {{\n{text[start:end]}\nscf.yield\n}}\n{text[end:]}"
    with pytest.raises(AsyncPipeError) as refused:
        pipelined(LOADS, wrapped)
    assert refused.value.code == "phase-not-carried"


@pytest.mark.parametrize(("limit", "slots"), [(65536, 4), (65535, 3), (49152, 3), (49151, 2)])
def test_where_the_slots_do_not_fit_fewer_tiles_are_copied_ahead(limit, slots):
    """Two tiles of 8 KiB a slot; one product in flight and one tile ahead need two slots."""
    module = parse(replace(PRODUCTS, stages=4).text())
    report = pipeline(module, check="error", smem_limit=limit)
    assert report.of("loops")[0].buffers[0].versions == slots
    remarks = [d.message for d in report.diagnostics if d.code == "fewer-slots"]
    assert len(remarks) == (slots < 4)
    assert not PRODUCTS.right(module, "late")


def test_slots_beyond_the_limit_are_refused():
    with pytest.raises(AsyncPipeError) as refused:
        pipeline(parse(PRODUCTS.text()), check="none", smem_limit=32767)
    assert refused.value.code == "smem-limit"


WINDOW = """%c0_ = arith.constant START : index
%all = gpu.dynamic_shared_memory : memref<?xi8, WG>
%b0 = memref.view %all[%c0_][] : memref<?xi8, WG> to memref<4x32xf32, WG>"""


@pytest.mark.parametrize("start", [0, 512])
def test_tiles_may_be_windows_of_dynamic_shared_memory(start):
    """Their slots begin where the swizzle does, whatever lies before them."""
    loop = TensorLoop((Box(4, 32, "swizzle_128b"),), trips=7)
    (made,) = re.findall(r"%b0 = memref.alloc\(\) : .*", loop.text())
    view = WINDOW.replace("START", str(start))
    module = parse(loop.text().replace(made, view))
    pipeline(module, check="error")
    assert not any(loop.right(module, completion) for completion in ("eager", "late", "random"))
    assert "memref<3x8x32xf32" in str(module)


def test_windows_that_overlap_have_no_slots():
    loop = TensorLoop((Box(4, 32),), trips=7)
    (made,) = re.findall(r"%b0 = memref.alloc\(\) : .*", loop.text())
    view = WINDOW.replace("START", "0")
    other = "\n%over = memref.view %all[%c0_][] : memref<?xi8, WG> to memref<64xf32, WG>"
    with pytest.raises(AsyncPipeError) as refused:
        pipeline(parse(loop.text().replace(made, view + other)), check="none")
    assert refused.value.code == "buffer-not-versionable"


def test_an_asserted_independence_is_believed():
    text = LOADS.text().replace("{llvm.noalias}", "")
    text = text.replace("num_stages = 3 : i64", "num_stages = 3 : i64, async_pipe.independent")
    module, _ = pipelined(LOADS, text)
    assert not LOADS.right(module, "late")


def test_one_stage_leaves_the_loop_as_it_is():
    module, report = pipelined(replace(LOADS, stages=1))
    assert not report.of("loops")
    assert not LOADS.right(module, "late")


@pytest.mark.parametrize(("step", "trips"), [(1, 7), (3, 7), (2, 0)])
def test_steps_and_bounds_may_be_unknown(step, trips):
    """The pipeline asks by quotients of them whether a tile exists, which the checker proves."""
    loop = replace(LOADS, trips=trips)
    text = loop.text().replace("%upper: index)", "%upper: index, %by: index, %low: index)")
    text = text.replace("%x = %i0 to %upper step %i1", "%x = %low to %upper step %by")
    text = text.replace("arith.subi %x, %i0", "arith.subi %x, %low")
    text = text.replace("arith.divui %from, %i1", "arith.divui %from, %by")
    module = parse(text)
    report = pipeline(module, check="error")
    assert not any(found.unknown for found in report.of("checks"))
    arguments = [*loop.arguments()[:-1], 5 + trips * step, step, 5]
    for completion in ("eager", "late", "random"):
        assert not loop.right(module, completion, arguments=arguments)
