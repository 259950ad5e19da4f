"""Two groups of threads that take tiles in turn: who waits for whom, slots and phases after the other
group's tiles, thread ids, barriers, what is refused, and that each part of the result is needed.

Covers: pipeliner/plan/ping_pong_plan.py, pipeliner/expand/write/write_roles.py, pipeliner/expand/write/write_ring.py,
pipeliner/plan/role_block.py
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from helpers.machine_programs import parse
from helpers.role_orders import ORDERS, ops, pipelined, wrong
from helpers.tensor_loops import Box, TensorLoop
from mlir_async_pipe import check, pipeline
from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    before,
    constant,
    constant_value,
    create,
    is_block_argument,
    operations,
    source_op,
    terminator,
)
from mlir_async_pipe.session.diagnostics import AsyncPipeError

LOADS = TensorLoop((Box(2, 32),), roles="ping-pong", static=True, executions=4)
OPERANDS = (Box(64, 32, "swizzle_128b", types="tf32"), Box(16, 32, "swizzle_128b", types="tf32"))
PRODUCTS = TensorLoop(
    OPERANDS, reader="descriptors", roles="ping-pong", static=True, executions=3, trips=3
)
# -- the block -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("loop", "threads"), [(LOADS, 2 * 64 + 32), (PRODUCTS, 3 * 128)])
def test_the_block_gets_a_second_group_and_one_that_copies(loop, threads):
    module, report = pipelined(loop)
    assert f"known_block_size = array<i32: {threads}, 1, 1>" in str(module)
    said = [d.message for d in report.diagnostics if d.code == "roles-launch"]
    assert said and f"launched with {threads} threads" in said[0] and "2 groups" in said[0]


def test_registers_are_those_of_three_warpgroups():
    text = str(pipelined(PRODUCTS)[0])
    # 256 * 232 + 128 * 40 = 384 * 168.
    assert "nvvm.maxnreg = 168 : i32" in text
    assert "setmaxregister increase 232" in text and "setmaxregister decrease 40" in text


@pytest.mark.parametrize(("loop", "warps"), [(LOADS, 2), (PRODUCTS, 4)])
def test_a_slot_goes_back_by_the_warps_of_one_group(loop, warps):
    module, _ = pipelined(loop)
    empty, full = (op.results[0] for op in ops(module, "nvgpu.mbarrier.create"))
    counts = {
        (op.operands[0] == full, constant_value(op.operands[1]))
        for op in ops(module, "nvgpu.mbarrier.init")
    }
    assert counts == {(True, 1), (False, warps)}
    assert empty != full


def test_each_group_has_barriers_of_its_own():
    """Of the loop's barrier: 1 and 2; the order of the loops: 3 and 4, at which both count."""
    module, _ = pipelined(LOADS)
    both = [
        op for op in ops(module, "nvvm.barrier") if constant_value(op.operands[1]) == LOADS.threads
    ]
    assert len(both) == 1 and constant_value(both[0].operands[0]) is None
    (begin, yield_values) = ops(module, "nvvm.barrier.arrive")
    assert [constant_value(value) for value in begin.operands] == [3, 2 * LOADS.threads]
    assert constant_value(yield_values.operands[1]) == 2 * LOADS.threads


def test_the_pass_s_option_says_the_same():
    text = LOADS.text().replace(', async_pipe.roles = "ping-pong"', "")
    asked, _ = pipelined(LOADS, text, roles="ping-pong")
    assert str(asked) == str(pipelined(LOADS)[0])


# -- results ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("executions", [2, 3, 5])
@pytest.mark.parametrize("trips", [0, 1, 2, 3, 7])
def test_any_numbers_of_tiles_and_iterations_give_numpy_s(trips, executions):
    loop = replace(LOADS, stages=2, trips=trips, executions=executions, static=trips != 3)
    assert wrong(loop, pipelined(loop)[0], ORDERS[::2]) == []


@pytest.mark.parametrize("in_flight", [0, 1, 2])
@pytest.mark.parametrize("stages", [2, 3])
def test_products_give_numpy_s(stages, in_flight):
    loop = replace(PRODUCTS, stages=stages, in_flight=in_flight)
    assert wrong(loop, pipelined(loop)[0], ORDERS[::4]) == []


@pytest.mark.parametrize(
    "loop",
    [
        LOADS,
        replace(LOADS, trips=2, stages=2, executions=5),
        replace(LOADS, lower=3, step=2),
        PRODUCTS,
        replace(PRODUCTS, in_flight=2, trips=5),
        replace(PRODUCTS, in_flight=0, stages=4, executions=5),
    ],
)
def test_the_checker_proves_it(loop):
    report = pipeline(parse(loop.text()))
    (found,) = report.of("checks")
    assert (found.unsafe, found.unknown) == (0, 0)


@pytest.mark.parametrize(
    "loop",
    [
        PRODUCTS,
        replace(PRODUCTS, in_flight=0, stages=2, executions=4),
        replace(PRODUCTS, in_flight=2, stages=3, executions=2),
    ],
)
def test_the_checker_proves_it_for_any_number_of_iterations(loop):
    report = pipeline(parse(replace(loop, static=False).text()))
    (found,) = report.of("checks")
    assert (found.unsafe, found.unknown) == (0, 0)


def test_the_checker_proves_it_for_any_number_of_tiles():
    """Of the loop around nobody knows how often it runs."""
    loop = replace(LOADS, trips=2, stages=2, executions=4)
    text = loop.text().replace(
        "%end = scf.for %e = %i0 to %i4",
        "%all = memref.dim %out, %i0 : memref<?x64xf32>\n"
        "%many = arith.divui %all, %i2 : index\n%end = scf.for %e = %i0 to %many",
    )
    module = parse(text)
    report = pipeline(module)
    (found,) = report.of("checks")
    assert (found.unsafe, found.unknown) == (0, 0)
    assert wrong(loop, module, ORDERS[::2]) == []


def test_the_checker_proves_it_for_any_number_of_tiles_and_iterations():
    """With no iterations nothing holds the threads that copy: they go on in step even so."""
    text = replace(PRODUCTS, static=False, in_flight=0, stages=2, executions=4).text()
    of_tiles = "%end = scf.for %e = %i0 to %i4"
    assert of_tiles in text
    many = "%all = memref.dim %out, %i0 : memref<?x8xf32>\n%many = arith.divui %all, %i2 : index\n"
    report = pipeline(parse(text.replace(of_tiles, f"{many}{of_tiles[:-2]}many")))
    (found,) = report.of("checks")
    assert (found.unsafe, found.unknown) == (0, 0)


def test_a_barrier_after_all_tiles_is_one_of_each_group():
    text = LOADS.text().replace("return", "gpu.barrier\nreturn")
    module, _ = pipelined(LOADS, text)
    assert len(ops(module, "gpu.barrier")) == 1
    assert wrong(LOADS, module, ORDERS[::4]) == []


def test_what_the_loop_around_carries_by_arithmetic_both_groups_carry():
    text = LOADS.text().replace(
        "iter_args(%phase0 = %false) -> (i1)",
        "iter_args(%phase0 = %false, %start = %i0) -> (i1, index)",
    )
    text = text.replace("%end = scf.for", "%end:2 = scf.for")
    text = text.replace(
        "%first = arith.muli %e, %i4 : index", "%first = arith.addi %start, %i0 : index"
    )
    text = text.replace(
        "scf.yield %r#1 : i1",
        "%further = arith.addi %start, %i4 : index\nscf.yield %r#1, %further : i1, index",
    )
    module, _ = pipelined(LOADS, text)
    assert wrong(LOADS, module, ORDERS[::2]) == []


def test_phases_of_the_input_that_are_computed_are_carried_by_nobody():
    text = LOADS.text().replace(
        "scf.yield %r#1 : i1",
        "%more = arith.xori %r#1, %true : i1\n%same = arith.xori %more, %true : i1\n"
        "scf.yield %same : i1",
    )
    module, _ = pipelined(LOADS, text)
    carried = [[str(result.type) for result in op.results] for op in ops(module, "scf.for")]
    # Slot and phase; of the loop around whether a tile is the group's, and its number.
    assert ["index", "i1", "i1", "index"] in carried and len(max(carried, key=len)) == 4
    assert wrong(LOADS, module, ORDERS[::2]) == []


# -- each part is needed ---------------------------------------------------------------------------


def _set(op, number: int, value: int) -> None:
    kind = op.operands[number].type
    op.operands[number] = constant(value, kind, before(op), op.location)


def _count(more: int) -> Callable:
    def change(module) -> None:
        empty = ops(module, "nvgpu.mbarrier.create")[0].results[0]
        for init in ops(module, "nvgpu.mbarrier.init"):
            if init.operands[0] == empty:
                _set(init, 1, (constant_value(init.operands[1]) or 0) + more)

    return change


def _without(name: str, which: int) -> Callable:
    """One of the ops of a name is missing; of an arrival at an mbarrier the whole branch is."""

    def change(module) -> None:
        found = ops(module, name)[which]
        (found.parent if name == "nvgpu.mbarrier.arrive" else found).erase()

    return change


def _initial(op, number: int):
    """The loop whose starting value an operand is, and the number of that operand."""
    value = op.operands[number]
    while is_block_argument(value):
        argument = ir.BlockArgument(value)
        loop, number = argument.owner.owner, argument.arg_number + 2
        value = loop.operands[number]
    return loop, number


def _parity(which: int) -> Callable:
    """The first phase that a role waits for is the other one."""

    def change(module) -> None:
        loop, number = _initial(ops(module, "nvgpu.mbarrier.try_wait.parity")[which], 1)
        _set(loop, number, 1 - abs(constant_value(loop.operands[number]) or 0))

    return change


def _order(module):
    """Where a group waits for its turn, where it waits in the end."""
    first = ops(module, "nvvm.barrier.arrive")[0]
    threads = constant_value(first.operands[1])
    return [op for op in ops(module, "nvvm.barrier") if constant_value(op.operands[1]) == threads]


def _no_order(module) -> None:
    for op in [*_order(module), *ops(module, "nvvm.barrier.arrive")]:
        op.erase()


def _to_itself(module) -> None:
    ops(module, "nvvm.barrier.arrive")[1].operands[0] = _order(module)[0].operands[0]


def _swapped(module) -> None:
    """Each group waits at the barrier of the other one, and hands on to itself."""
    yield_values, wait = ops(module, "nvvm.barrier.arrive")[1], _order(module)[0]
    mine, theirs = wait.operands[0], yield_values.operands[0]
    yield_values.operands[0], wait.operands[0] = mine, theirs


def _fewer_meet(module) -> None:
    for op in [*_order(module), *ops(module, "nvvm.barrier.arrive")]:
        _set(op, 1, (constant_value(op.operands[1]) or 0) // 2)


def _branch(module):
    """The branch on whose tile it is."""
    return next(op for op in ops(module, "scf.if") if len(op.results) == 2)


def _not_skipped(number: int) -> Callable:
    """Slot or phase after a tile of the other group is as before it."""

    def change(module) -> None:
        branch = _branch(module)
        around = source_op(branch.operands[0])
        end = terminator(branch.regions[1].blocks[0])
        end.operands[number] = list(around.regions[0].blocks[0].arguments)[1 + number]

    return change


def _second_begins(module) -> None:
    loop, number = _initial(_branch(module), 0)
    (other,) = [
        op
        for op in ops(module, "scf.if")
        if not op.results and "barrier.arrive" in str(op.regions[0].blocks[0])
    ][:1]
    loop.operands[number] = other.operands[0]


CONSUMER, PRODUCER = 0, 1
BEGIN, HAND_ON = 0, 1
MUTANTS: dict[str, Callable] = {
    "empty counts one arrival more": _count(1),
    "empty counts one arrival less": _count(-1),
    "empty counts both groups": _count(2),
    "no wait for full": _without("nvgpu.mbarrier.try_wait.parity", CONSUMER),
    "no wait for empty": _without("nvgpu.mbarrier.try_wait.parity", PRODUCER),
    "no arrival": _without("nvgpu.mbarrier.arrive", 0),
    "no expect_tx": _without("nvgpu.mbarrier.arrive.expect_tx", 0),
    "the consumers' first parity": _parity(CONSUMER),
    "the producer's first parity": _parity(PRODUCER),
    "nobody begins": _without("nvvm.barrier.arrive", BEGIN),
    "not handed on": _without("nvvm.barrier.arrive", HAND_ON),
    "handed on to itself": _to_itself,
    "barriers of the groups are swapped": _swapped,
    "one group meets alone": _fewer_meet,
    "no order": _no_order,
    "the second group begins": _second_begins,
    "the slot of others' tiles is not skipped": _not_skipped(0),
    "the phase of others' tiles is not skipped": _not_skipped(1),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_change_of_one_part_goes_wrong(mutant):
    loop = replace(LOADS, stages=2, trips=7)
    module, _ = pipelined(loop)
    with module.context:
        MUTANTS[mutant](module)
    assert module.operation.verify()
    assert any(wrong(loop, module, [order]) for order in ORDERS)
    (found,) = check(module).of("checks")
    assert found.unsafe


def _skipped(name: str, which: int, more: int) -> Callable:
    """A number in what finds slot and phase after a tile of the other group is another one."""

    def change(module) -> None:
        block = _branch(module).regions[1].blocks[0]
        op = [op for op in operations(block) if op.name == name][which]
        _set(op, 1, (constant_value(op.operands[1]) or 0) + more)

    return change


def _one_more(module) -> None:
    """The other group's tile is skipped as one of an iteration more."""
    block = _branch(module).regions[1].blocks[0]
    first = next(op for op in operations(block) if op.name == "arith.remui")
    one = constant(1, first.operands[0].type, before(first), first.location)
    more = create(
        "arith.addi", [first.operands[0], one], [one.type], ip=before(first), loc=first.location
    )
    first.operands[0] = more.results[0]


UNKNOWN = replace(PRODUCTS, static=False, stages=2, executions=3)
SKIPS: dict[str, Callable] = {
    "rounds are skipped modulo 1": _skipped("arith.remui", 0, -2),
    "slots are skipped modulo V + 1": _skipped("arith.remui", 1, 1),
    "a round too late": _skipped("arith.cmpi", 1, 1),
    "slots begin anew too early": _skipped("arith.cmpi", 2, -1),
    "one iteration more is skipped": _one_more,
}
AGAIN = [
    "no arrival",
    "nobody begins",
    "not handed on",
    "handed on to itself",
    "barriers of the groups are swapped",
    "one group meets alone",
    "no order",
    "the second group begins",
    "the slot of others' tiles is not skipped",
    "the phase of others' tiles is not skipped",
]


@pytest.mark.parametrize("mutant", [*SKIPS, *AGAIN])
def test_a_change_is_not_proven_for_any_number_of_iterations(mutant):
    module, _ = pipelined(UNKNOWN)
    with module.context:
        {**MUTANTS, **SKIPS}[mutant](module)
    assert module.operation.verify()
    (found,) = check(module).of("checks")
    assert found.unsafe


# -- refused ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refusal:
    """`old` becomes `new` in a loop that is then refused with `code`; the error says `words`."""

    code: str
    old: str
    new: str
    words: str
    loop: TensorLoop = LOADS


GROUP = "!nvgpu.mbarrier.group<memorySpace = WG>"
REFUSALS = [
    Refusal("roles-unsupported", "%flip", "%flip", "no loop", replace(LOADS, executions=1)),
    Refusal("roles-unsupported", "%flip", "%flip", "more than one", replace(LOADS, executed="odd")),
    Refusal(
        "roles-unsupported",
        "return",
        "memref.store %zero, %out[%i0, %t] : memref<?x64xf32>\nreturn",
        "both groups would run 'memref.store'",
    ),
    Refusal(
        "roles-unsupported",
        "scf.yield %r#1 : i1",
        "%line = memref.alloc() : memref<64xf32, WG>\n"
        "memref.store %zero, %line[%t] : memref<64xf32, WG>\nscf.yield %r#1 : i1",
        "it is made in the loop around",
    ),
    Refusal(
        "roles-unsupported",
        "scf.yield %r#1 : i1",
        f"%others = nvgpu.mbarrier.create -> {GROUP}\n"
        f"%token = nvgpu.mbarrier.arrive %others[%i0] : {GROUP} -> !nvgpu.mbarrier.token\n"
        "scf.yield %r#1 : i1",
        "'nvgpu.mbarrier.arrive' is about an mbarrier that both groups would use",
    ),
    Refusal(
        "roles-unsupported",
        "scf.yield %r#1 : i1",
        "%old = memref.load %out[%i0, %t] : memref<?x64xf32>\n"
        "memref.store %old, %out[%e, %t] : memref<?x64xf32>\nscf.yield %r#1 : i1",
        "may read what the tile of the other group writes",
    ),
    Refusal(
        "memory-order",
        "scf.yield %r#1 : i1",
        "llvm.fence release\nscf.yield %r#1 : i1",
        "'llvm.fence' orders memory for other threads",
    ),
    Refusal(
        "roles-values",
        "scf.yield %r#1 : i1",
        "%odd = arith.select %phase0, %i1, %i0 : index\n%line = arith.addi %r#0, %odd : index\n"
        "memref.store %zero, %out[%line, %t] : memref<?x64xf32>\nscf.yield %r#1 : i1",
        "in the tile of one",
    ),
    Refusal(
        "roles-values",
        "%first = arith.muli %e, %i4 : index",
        "%warp = gpu.subgroup_id : index\n%none = arith.muli %warp, %i0 : index\n"
        "%start = arith.muli %e, %i4 : index\n%first = arith.addi %start, %i0 : index\n"
        "memref.store %zero, %out[%none, %t] : memref<?x64xf32>",
        "the number of a warp",
    ),
    Refusal(
        "roles-values",
        "} {async_pipe.num_stages",
        "} {async_pipe.independent, async_pipe.num_stages",
        "'nvgpu.warpgroup.mma.store' asks for the number of a warp",
        TensorLoop(
            (Box(64, 64, "swizzle_128b"), Box(64, 64, "swizzle_128b")),
            reader="products",
            roles="ping-pong",
            executions=2,
        ),
    ),
    Refusal("roles-block", "i32: 64, 1, 1", "i32: 512, 1, 1", "as many threads and 32 more"),
    Refusal(
        "roles-block",
        "return",
        "%one32 = arith.constant 5 : i32\n%all32 = arith.constant 64 : i32\n"
        "nvvm.barrier id = %one32 number_of_threads = %all32\nreturn",
        "threads of another group",
    ),
    Refusal("unproven-independence", " {llvm.noalias}", "", "may write what a tensor copy"),
]


ADVICE = {
    "may read what the tile": (
        "scf.yield %r#1 : i1\n}",
        "scf.yield %r#1 : i1\n} {async_pipe.independent}",
    ),
    "threads of another group": (
        "nvvm.barrier id = %one32 number_of_threads = %all32",
        "gpu.barrier",
    ),
    "the number of a warp": ("gpu.subgroup_id : index", "arith.divui %t, %i32 : index"),
}


@pytest.mark.parametrize("words", ADVICE)
def test_the_advice_works(words):
    (row,) = [row for row in REFUSALS if row.words.startswith(words)]
    old, new = ADVICE[words]
    text = row.loop.text().replace(row.old, row.new)
    assert old in text
    pipeline(parse(text.replace(old, new)), check="none")


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
