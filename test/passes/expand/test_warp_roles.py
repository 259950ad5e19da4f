"""Loops of tensor copies whose copies warps of their own issue: slots, threads, registers, what is
refused, and that each part of the result is needed.

Covers: pipeliner/plan/role_plan.py, pipeliner/plan/role_block.py, pipeliner/expand/write/write_roles.py,
pipeliner/expand/write/integers.py
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

from helpers.machine_programs import parse
from helpers.role_orders import ops, pipelined, wrong
from helpers.tensor_loops import Box, TensorLoop
from mlir_async_pipe import check, machine, pipeline
from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import before, constant, constant_value, is_block_argument
from mlir_async_pipe.session.diagnostics import AsyncPipeError

LOADS = TensorLoop((Box(2, 32),), roles="specialised")
PRODUCTS = TensorLoop(
    (Box(64, 64, "swizzle_128b"), Box(64, 64, "swizzle_128b")),
    reader="products",
    trips=5,
    roles="specialised",
)


@pytest.mark.parametrize(
    ("loop", "slots"),
    [
        # S where it is more than p, else p + 1.
        (replace(LOADS, stages=2), 2),
        (replace(LOADS, stages=4, issue="last"), 4),
        (replace(PRODUCTS, stages=3), 3),
        (replace(PRODUCTS, stages=2, in_flight=2), 3),
        (replace(PRODUCTS, stages=2, in_flight=3, executions=2), 4),
        (replace(PRODUCTS, stages=2, in_flight=0), 2),
    ],
)
def test_slots_are_as_many_as_stages_and_more_than_products(loop, slots):
    module, report = pipelined(loop)
    (record,) = report.of("loops")
    assert {buffer.versions for buffer in record.buffers} == {slots}
    assert str(module).count(f"num_barriers = {slots}>") > 2
    assert wrong(loop, module) == []


def test_the_pass_s_option_says_the_same():
    text = LOADS.text().replace(', async_pipe.roles = "specialised"', "")
    (asked, _), (annotated, _) = pipelined(LOADS, text, roles="specialised"), pipelined(LOADS)
    assert str(asked) == str(annotated)
    together, _ = pipelined(LOADS, roles="together")
    assert len(ops(together, "nvgpu.mbarrier.create")) == 1


def test_arrays_of_stages_and_orders_say_the_same():
    text = LOADS.text().replace(
        "async_pipe.num_stages = 3 : i64",
        "async_pipe.stage = [0, 2, 2], async_pipe.async_stages = [0]",
    )
    module, report = pipelined(LOADS, text)
    assert report.of("loops")[0].buffers[0].versions == 3
    assert wrong(LOADS, module) == []


# -- the block -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("loop", "threads"), [(LOADS, 64 + 32), (PRODUCTS, 128 + 128)])
def test_the_block_gets_a_warp_or_where_registers_move_a_warpgroup(loop, threads):
    module, _ = pipelined(loop)
    assert f"known_block_size = array<i32: {threads}, 1, 1>" in str(module)


def test_registers_go_from_the_producer_to_the_consumers():
    text = str(pipelined(PRODUCTS)[0])
    # 128 * 232 + 128 * 40 = 256 * 136.
    assert "nvvm.maxnreg = 136 : i32" in text
    assert text.count("setmaxregister increase 232") == 1
    assert text.count("setmaxregister decrease 40") == 1


@pytest.mark.parametrize("attribute", ["nvvm.maxnreg = 160 : i32", "nvvm.minctasm = 1 : i32"])
def test_registers_stay_where_the_kernel_says_how_many_it_has(attribute):
    text = PRODUCTS.text().replace("attributes {", f"attributes {{{attribute}, ")
    assert "setmaxregister" not in str(pipelined(PRODUCTS, text)[0])


def test_loops_without_products_keep_the_registers_they_have():
    assert "maxn" not in str(pipelined(LOADS)[0]) and "setmax" not in str(pipelined(LOADS)[0])


def test_barriers_after_the_roles_part_are_those_of_the_consumers():
    module, _ = pipelined(LOADS)
    assert len(ops(module, "gpu.barrier")) == 1
    (barrier,) = ops(module, "nvvm.barrier")
    assert [constant_value(value) for value in barrier.operands] == [1, 64]


def test_barriers_beside_the_loop_are_those_of_the_consumers():
    module, _ = pipelined(LOADS, LOADS.text().replace("return", "gpu.barrier\nreturn"))
    assert len(ops(module, "gpu.barrier")) == 1
    assert len(ops(module, "nvvm.barrier")) == 2
    assert wrong(LOADS, module) == []


def test_a_barrier_may_be_the_first_op_after_the_roles_part():
    text = LOADS.text().replace("gpu.barrier\n", "gpu.barrier\ngpu.barrier\n", 1)
    module, _ = pipelined(LOADS, text)
    assert len(ops(module, "nvvm.barrier")) == 2
    assert wrong(LOADS, module) == []


def test_a_named_barrier_of_the_input_stays_and_its_number_is_taken():
    used = (
        "%one32 = arith.constant 1 : i32\n%all32 = arith.constant 64 : i32\n"
        "nvvm.barrier id = %one32 number_of_threads = %all32\nreturn"
    )
    module, _ = pipelined(LOADS, LOADS.text().replace("return", used))
    numbers = [
        [constant_value(value) for value in op.operands] for op in ops(module, "nvvm.barrier")
    ]
    assert sorted(numbers) == [[1, 64], [2, 64]]
    assert wrong(LOADS, module) == []


def test_the_size_of_the_block_is_what_it_was():
    text = LOADS.text().replace(
        "return",
        "%size = gpu.block_dim x\n%wide = arith.index_cast %size : index to i32\n"
        "%back = arith.sitofp %wide : i32 to f32\n"
        "memref.store %back, %out[%i0, %i0] : memref<?x64xf32>\nreturn",
    )
    module, _ = pipelined(LOADS, text)
    arguments = LOADS.arguments()
    result = machine.run(module, None, arguments, threads=96)
    assert result.arrays[1][0, 0] == 64


LAUNCHED = """
module attributes {{gpu.container_module}} {{
gpu.module @kernels {{
{kernel}
}}
func.func @host(%m: !llvm.ptr, %out: memref<?x64xf32>, %n: index) {{
  %one = arith.constant 1 : index
  %threads = arith.constant {threads} : index
  gpu.launch_func @kernels::@f blocks in (%one, %one, %one) threads in (%threads, %one, %one)
      args(%m : !llvm.ptr, %out : memref<?x64xf32>, %n : index)
  return
}}
}}
"""


def launched(threads: int) -> str:
    kernel = LOADS.text().replace("WG", "#gpu.address_space<workgroup>")
    kernel = kernel.replace("func.func @f", "gpu.func @f").replace("return", "gpu.return")
    kernel = kernel.replace(
        "attributes {gpu.known_block_size", "kernel attributes {known_block_size"
    )
    return LAUNCHED.format(kernel=kernel, threads=threads)


def test_launches_in_the_module_get_the_threads_too():
    module, _ = pipelined(LOADS, launched(64))
    (launch,) = ops(module, "gpu.launch_func")
    assert [constant_value(value) for value in list(launch.operands)[3:6]] == [96, 1, 1]


def test_a_launch_of_another_size_is_refused():
    with pytest.raises(AsyncPipeError) as refused:
        pipelined(LOADS, launched(32))
    assert refused.value.code == "roles-block"
    assert refused.value.diagnostic.place.line


def inlined(loop: TensorLoop) -> str:
    """The kernel as a gpu.launch."""
    text = loop.text().replace("%t = gpu.thread_id x", "")
    text = re.sub(r"attributes \{gpu.known_block_size[^}]*\} ", "", text)
    head, body = re.split(r"(?<=\) \{\n)", text, maxsplit=1)
    launch = f"""%one = arith.constant 1 : index
%size = arith.constant {loop.threads} : index
gpu.launch blocks(%bx, %by, %bz) in (%gx = %one, %gy = %one, %gz = %one)
    threads(%t, %ty, %tz) in (%sx = %size, %sy = %one, %sz = %one) {{
"""
    return f"{head}{launch}{body[: body.rindex('return')]}gpu.terminator\n}}\nreturn\n}}"


@pytest.mark.parametrize(("loop", "threads"), [(LOADS, 96), (PRODUCTS, 256)])
def test_a_launch_with_its_kernel_inside_gets_them_too(loop, threads):
    module, _ = pipelined(loop, inlined(loop))
    (launch,) = ops(module, "gpu.launch")
    assert [constant_value(value) for value in list(launch.operands)[3:6]] == [threads, 1, 1]
    # Nothing on a gpu.launch says with how many registers its kernel begins.
    assert "setmaxregister" not in str(module)
    # The host's function around the launch is no kernel.
    assert [found.unsafe + found.unknown for found in check(module).of("checks")] == [0]


# -- values ----------------------------------------------------------------------------------------


def test_the_producer_computes_only_what_is_copied():
    module, _ = pipelined(replace(LOADS, executions=3, carried=True, step=2))
    (_, producer) = [
        op
        for op in ops(module, "scf.for")
        if len(op.regions[0].blocks)
        and any(inner.name == "nvgpu.mbarrier.try_wait.parity" for inner in op.regions[0].blocks[0])
    ]
    inside = {op.name for op in producer.regions[0].blocks[0]}
    assert "memref.load" not in inside and "arith.addf" not in inside
    assert {"nvvm.elect.sync", "nvgpu.mbarrier.arrive.expect_tx", "nvgpu.tma.async.load"} <= inside


def test_what_the_loops_around_carry_for_the_copies_the_producer_carries():
    """The column goes on from execution to execution, in both roles."""
    loop = replace(LOADS, executions=3, carried=True)
    text = loop.text()
    text = text.replace(
        "iter_args(%phase0 = %false) -> (i1)",
        "iter_args(%phase0 = %false, %col = %i0) -> (i1, index)",
    )
    text = text.replace("%end = scf.for", "%end:2 = scf.for")
    text = text.replace("(%at = %first,", "(%at = %col,")
    text = text.replace("scf.yield %r#1 : i1", "scf.yield %r#1, %r#0 : i1, index")
    module, _ = pipelined(loop, text)
    assert wrong(loop, module) == []


# -- each part is needed ---------------------------------------------------------------------------


def _group(op):
    return op.operands[0]


def _mbarriers(module):
    """The groups `empty` and `full`, in the order in which they are made."""
    return [op.results[0] for op in ops(module, "nvgpu.mbarrier.create")]


def _set(op, number: int, value: int) -> None:
    kind = op.operands[number].type
    op.operands[number] = constant(value, kind, before(op), op.location)


def _count(more: int) -> Callable:
    def change(module) -> None:
        empty, _ = _mbarriers(module)
        for init in ops(module, "nvgpu.mbarrier.init"):
            if _group(init) == empty:
                _set(init, 1, (constant_value(init.operands[1]) or 0) + more)

    return change


def _without(name: str, which: int) -> Callable:
    """One of the ops of a name is missing; of an arrival the whole branch is."""

    def change(module) -> None:
        found = ops(module, name)[which]
        (found.parent if name.endswith("arrive") else found).erase()

    return change


def _parity(which: int) -> Callable:
    """The first phase that a role waits for is the other one."""

    def change(module) -> None:
        value = ops(module, "nvgpu.mbarrier.try_wait.parity")[which].operands[1]
        while is_block_argument(value):
            argument = ir.BlockArgument(value)
            loop, number = argument.owner.owner, argument.arg_number + 2
            value = loop.operands[number]
        _set(loop, number, 1 - abs(constant_value(value) or 0))

    return change


def _never_flips(which: int) -> Callable:
    def change(module) -> None:
        wait = ops(module, "nvgpu.mbarrier.try_wait.parity")[which]
        argument = ir.BlockArgument(wait.operands[1])
        end = list(argument.owner)[-1]
        end.operands[argument.arg_number - 1] = argument

    return change


def _bytes(module) -> None:
    (expect,) = ops(module, "nvgpu.mbarrier.arrive.expect_tx")
    _set(expect, 1, (constant_value(expect.operands[1]) or 0) // 2)


def _weaker(module) -> None:
    (product,) = ops(module, "nvgpu.warpgroup.mma")
    product.attributes["waitGroup"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 3)


CONSUMER, PRODUCER = 0, 1
MUTANTS: dict[str, tuple[TensorLoop, Callable]] = {
    "empty counts one arrival more": (LOADS, _count(1)),
    "empty counts one arrival less": (LOADS, _count(-1)),
    "empty of products counts more": (PRODUCTS, _count(1)),
    "empty of products counts less": (PRODUCTS, _count(-1)),
    "no wait for full": (LOADS, _without("nvgpu.mbarrier.try_wait.parity", CONSUMER)),
    "no wait for empty": (LOADS, _without("nvgpu.mbarrier.try_wait.parity", PRODUCER)),
    "no arrival": (LOADS, _without("nvgpu.mbarrier.arrive", 0)),
    "no arrival after products": (PRODUCTS, _without("nvgpu.mbarrier.arrive", 0)),
    "no drain": (PRODUCTS, _without("nvgpu.mbarrier.arrive", 1)),
    "no expect_tx": (LOADS, _without("nvgpu.mbarrier.arrive.expect_tx", 0)),
    "half of the bytes": (LOADS, _bytes),
    "the consumers' first parity": (LOADS, _parity(CONSUMER)),
    "the producer's first parity": (LOADS, _parity(PRODUCER)),
    "the consumers' phase never flips": (LOADS, _never_flips(CONSUMER)),
    "the producer's phase never flips": (LOADS, _never_flips(PRODUCER)),
    "more products in flight": (PRODUCTS, _weaker),
}


def loop_of(loop: TensorLoop) -> TensorLoop:
    """As few slots as it needs, and several rounds of them, in two executions."""
    return replace(loop, stages=2, trips=7, static=True, executions=2)


@cache
def wrong_unchanged(loop: TensorLoop) -> list[str]:
    """Once for all changes of it."""
    return wrong(loop, pipelined(loop)[0])


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_change_of_one_part_goes_wrong(mutant):
    loop, change = MUTANTS[mutant]
    loop = loop_of(loop)
    assert wrong_unchanged(loop) == []
    module, _ = pipelined(loop)
    with module.context:
        change(module)
    assert module.operation.verify()
    assert wrong(loop, module)
    (found,) = check(module).of("checks")
    assert found.unsafe


@pytest.mark.parametrize("trips", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("in_flight", [1, 2])
def test_drains_give_back_as_many_slots_as_are_left(trips, in_flight):
    """min(p, n) tiles, in each of three executions."""
    loop = replace(PRODUCTS, stages=2, trips=trips, in_flight=in_flight, executions=3)
    assert wrong(loop, pipelined(loop)[0]) == []


# -- refused ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refusal:
    """`old` becomes `new` in a loop that is then refused with `code`; the error says `words`."""

    code: str
    old: str
    new: str
    words: str
    loop: TensorLoop = LOADS


OUTER = replace(LOADS, executions=2)
ANOTHER = """%line = memref.alloc() : memref<64xf32, WG>
scf.for %again = %i0 to %i4 step %i1 {
  %copied = memref.load %out[%again, %t] : memref<?x64xf32>
  memref.store %copied, %line[%t] : memref<64xf32, WG>
  gpu.barrier
  %seen = memref.load %line[%t] : memref<64xf32, WG>
  memref.store %seen, %out[%again, %t] : memref<?x64xf32>
  gpu.barrier
} {async_pipe.num_stages = 2 : i64, async_pipe.independent}"""
REFUSALS = [
    Refusal("roles-unsupported", "arith.cmpi eq, %t, %i0", "arith.cmpi eq, %t, %i1", "thread 0"),
    Refusal(
        "roles-unsupported",
        "%full = nvgpu",
        "memref.store %zero, %out[%i0, %t] : memref<?x64xf32>\n%full = nvgpu",
        "before the barrier",
    ),
    Refusal("roles-unsupported", "return", f"{ANOTHER}\nreturn", "another loop"),
    Refusal(
        "roles-values",
        "%col0 = arith.muli %tile, %i32",
        "%lane = arith.muli %t, %i0 : index\n%near = arith.addi %lane, %tile : index\n"
        "%col0 = arith.muli %near, %i32",
        "depends on the thread",
    ),
    Refusal(
        "roles-values",
        "%first = arith.muli %e, %i4 : index",
        "%first_ = memref.load %out[%e, %i0] : memref<?x64xf32>\n"
        "%first32 = arith.fptoui %first_ : f32 to i32\n"
        "%first = arith.index_cast %first32 : i32 to index",
        "'memref.load' gives",
        OUTER,
    ),
    Refusal("roles-block", "i32: 64, 1, 1", "i32: 60, 1, 1", "multiple of 32"),
    Refusal("roles-block", "i32: 64, 1, 1", "i32: 1024, 1, 1", "at most 992"),
    Refusal("roles-block", "i32: 128, 1, 1", "i32: 160, 1, 1", "multiple of 128", PRODUCTS),
    Refusal(
        "roles-block",
        "return",
        "%g = gpu.global_id x\n%g32 = arith.index_cast %g : index to i32\nreturn",
        "gpu.global_id",
    ),
    Refusal(
        "roles-block",
        "return",
        "%id = arith.index_cast %t : index to i32\n%all32 = arith.constant 64 : i32\n"
        "nvvm.barrier id = %id number_of_threads = %all32\nreturn",
        "barrier",
    ),
    Refusal("bad-annotation", '"specialised"', '"alone"', "together"),
]


@pytest.mark.parametrize("row", REFUSALS, ids=lambda row: f"{row.code}: {row.words}")
def test_what_is_refused_stays_as_it_was(row):
    text = row.loop.text()
    assert row.old in text
    module = parse(text.replace(row.old, row.new))
    kept = str(module)
    with pytest.raises(AsyncPipeError) as refused:
        pipeline(module, check="none")
    assert refused.value.code == row.code
    assert str(module) == kept
    diagnostic = refused.value.diagnostic
    said = " ".join([diagnostic.message, *(note.message for note in diagnostic.notes)])
    assert row.words in said
    assert diagnostic.place.line


CP_ASYNC = """
func.func @f(%from: memref<1024xf32>, %to: memref<1024xf32> {llvm.noalias})
    attributes {gpu.known_block_size = array<i32: 32, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c1024 = arith.constant 1024 : index
  %t = gpu.thread_id x
  %tile = memref.alloc() : memref<32xf32, WG>
  scf.for %i = %c0 to %c1024 step %c32 {
    %at = arith.addi %i, %t : index
    %v = memref.load %from[%at] : memref<1024xf32>
    memref.store %v, %tile[%t] : memref<32xf32, WG>
    gpu.barrier
    %w = memref.load %tile[%t] : memref<32xf32, WG>
    memref.store %w, %to[%at] : memref<1024xf32>
    gpu.barrier
  } {async_pipe.num_stages = 3 : i64ROLES}
  return
}
"""


@pytest.mark.parametrize("target", ["nvvm:sm_80", "nvvm:sm_90a", "rocdl:gfx950"])
def test_copies_without_mbarriers_have_no_roles(target):
    module = parse(CP_ASYNC.replace("ROLES", ', async_pipe.roles = "specialised"'))
    with pytest.raises(AsyncPipeError) as refused:
        pipeline(module, target)
    assert refused.value.code == "roles-unsupported"
    assert "mbarriers" in refused.value.diagnostic.message
    # The option is about loops of tensor copies only.
    assert pipeline(parse(CP_ASYNC.replace("ROLES", "")), target, roles="specialised").of("loops")


@pytest.mark.parametrize("loop", [LOADS, PRODUCTS, replace(PRODUCTS, executions=3, in_flight=2)])
def test_the_checker_proves_it(loop):
    report = pipeline(parse(loop.text()))
    (found,) = report.of("checks")
    assert (found.unsafe, found.unknown) == (0, 0)


def test_the_machine_finds_nothing_of_a_kernel_with_random_numbers_of_tiles():
    for trips in np.random.default_rng(0).integers(0, 12, 4):
        loop = replace(LOADS, trips=int(trips), executions=2, executed="odd", skip=3)
        assert wrong(loop, pipelined(loop)[0]) == []


def test_text_of_the_input_says_nothing_after_the_pass():
    assert not re.search(r"async_pipe\.", str(pipelined(LOADS)[0]))
