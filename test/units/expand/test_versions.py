"""The sync rule and the async rule for versions, against a timeline that is simply played.

The oracle lays out every instance of every access for some iterations, with one value in each
slot: a read must find what the last write before it in its own iteration left there, and
whoever writes must find every async access of another iteration over. It knows no formula.

Covers: pipeliner/plan/version_rules.py, pipeliner/plan/buffer_plan.py, pipeliner/plan/choose_versions.py, pipeliner/plan/make_plan.py
"""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from mlir_async_pipe import bindings
from mlir_async_pipe.pipeliner.plan.version_rules import (
    BufferUse,
    Contents,
    GroupWait,
    asynchronous_versions,
    synchronous_versions,
)
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.session.report import Session

ir = bindings.ir
LARGEST = 14
ITERATIONS = 18
LAST_STAGE = 3


def issue(use: BufferUse, iteration: int) -> tuple[float, float]:
    """T(j, k)."""
    return (iteration + use.stage, use.order)


def over(use: BufferUse, iteration: int, waits: list[GroupWait], last: int) -> tuple[float, float]:
    """When the waits guarantee that an async access has completed, in a loop whose last
    iteration is `last`: the first that retires a group committed no earlier on its queue."""
    assert use.group is not None
    commit = (iteration + use.stage, use.group)
    moments = [
        (k + wait.distance + wait.stage, wait.order)
        for wait in waits
        for k in range(last - wait.distance + 1)
        if wait.queue == use.queue and (k + wait.group_stage, wait.group) >= commit
    ]
    return min(moments, default=(float("inf"), 0))


def maker(read: BufferUse, uses: list[BufferUse]) -> BufferUse | None:
    """The access whose value a read of the same iteration sees: the last write before it."""
    return max(
        (use for use in uses if use.writes and use.access < read.access),
        key=lambda use: use.access,
        default=None,
    )


def values_survive(versions: int, uses: list[BufferUse]) -> bool:
    """Play all accesses in the order of their times; each read finds its own value."""
    slots: dict[int, tuple[int, int]] = {}
    instances = itertools.product(range(ITERATIONS), uses)
    for k, use in sorted(instances, key=lambda instance: issue(instance[1], instance[0])):
        slot = k % versions
        if use.writes:
            slots[slot] = (k, use.access)
        else:
            made_by = maker(use, uses)
            if made_by is not None and slots.get(slot) != (k, made_by.access):
                return False
    return True


def accesses_are_over(versions: int, uses: list[BufferUse], waits: list[GroupWait]) -> bool:
    """Whether every async access is over when another iteration writes its slot."""
    pairs = itertools.product(range(ITERATIONS), repeat=2)
    shared = [(k, m) for k, m in pairs if k != m and (k - m) % versions == 0]
    return all(
        # A wait of the writing statement itself stands before the write. The loop may
        # end with the later of both iterations, so waits after it are none to rely on.
        over(x, k, waits, max(k, m)) <= issue(w, m)
        for x, w in itertools.product(uses, (u for u in uses if u.writes))
        if x.group is not None
        for k, m in shared
        if issue(x, k) < issue(w, m)
    )


def smallest(uses: list[BufferUse], waits: list[GroupWait] | None) -> int | None:
    """The smallest number of versions that works by playing it."""
    return next(
        (
            v
            for v in range(1, LARGEST)
            if values_survive(v, uses) and (waits is None or accesses_are_over(v, uses, waits))
        ),
        None,
    )


def contents(uses: list[BufferUse]) -> Contents:
    """All accesses touch the one element of the buffer."""
    return Contents(sees=lambda read, write: maker(read, uses) == write)


def is_legal(uses: list[BufferUse]) -> bool:
    """Conflicting accesses of one iteration run in the order of the input."""
    return all(
        issue(a, 0) < issue(b, 0)
        for a, b in itertools.combinations(uses, 2)
        if a.writes or b.writes
    )


def random_uses(choice: random.Random, writers: int) -> list[BufferUse]:
    """2 to 4 accesses of a legal schedule, the first of them and `writers - 1` more writing."""
    while True:
        count = choice.randint(max(2, writers), 4)
        writing = {0, *choice.sample(range(1, count), writers - 1)}
        uses = []
        for number, order in enumerate(choice.sample(range(6), count)):
            asynchronous = choice.random() < 0.5
            stage = choice.randint(0, LAST_STAGE)
            uses.append(
                BufferUse(
                    stage,
                    order,
                    number in writing,
                    order if asynchronous else None,
                    f"queue {stage % 2}" if asynchronous else None,
                    number,
                )
            )
        if is_legal(uses):
            return uses


def random_waits(choice: random.Random, uses: list[BufferUse]) -> list[GroupWait]:
    """Waits of some statements for groups that have been committed by then."""
    waits = []
    for x, c in itertools.product(uses, uses):
        if x.group is None or choice.random() < 0.5:
            continue
        distance = choice.randint(0, 1)
        if issue(x, 0) < issue(c, distance):
            assert x.queue is not None
            waits.append(GroupWait(c.stage, c.order, x.group, x.stage, x.queue, distance))
    return waits


@pytest.mark.parametrize("writers", [1, 2, 3])
@pytest.mark.parametrize("seed", range(20))
def test_sync_rule_is_the_smallest_that_works(seed, writers):
    choice = random.Random(seed)
    for _ in range(25):
        uses = random_uses(choice, writers)
        assert synchronous_versions(uses, contents(uses)) == smallest(uses, None), uses


@pytest.mark.slow
@pytest.mark.parametrize("writers", [1, 2, 3])
@pytest.mark.parametrize("seed", range(20))
def test_async_rule_is_the_smallest_that_works(seed, writers):
    choice = random.Random(seed)
    for _ in range(25):
        uses = random_uses(choice, writers)
        waits = random_waits(choice, uses)
        found = asynchronous_versions(uses, waits, contents(uses))
        assert found == smallest(uses, waits), (uses, waits)


def test_sync_rule_is_the_smallest_for_every_schedule_of_up_to_four_accesses():
    """Every kind (write or read), stage up to 2 and order of 2 to 4 accesses."""
    tally: Counter[str] = Counter()
    for count in (2, 3, 4):
        for kinds in itertools.product([True, False], repeat=count - 1):
            for stages in itertools.product(range(3), repeat=count):
                for orders in itertools.permutations(range(count)):
                    uses = [
                        BufferUse(stage, order, writes, access=number)
                        for number, (stage, order, writes) in enumerate(
                            zip(stages, orders, (True, *kinds), strict=True)
                        )
                    ]
                    if min(stages) == 0 and is_legal(uses):
                        assert synchronous_versions(uses, contents(uses)) == smallest(uses, None)
                        tally["several writers" if any(kinds) else "one writer"] += 1
    assert tally["one writer"] > 100
    assert tally["several writers"] > 100


def test_writers_that_take_turns_share_one_version():
    """The first value is dead before the second writer runs, three iterations behind."""
    uses = [
        BufferUse(stage, order, writes, access=order)
        for order, (stage, writes) in enumerate([(0, True), (0, False), (3, True), (3, False)])
    ]
    assert synchronous_versions(uses, contents(uses)) == 1


def test_what_remains_after_the_loop_is_written_last():
    """Iterations k - 1 and k - 2 run `early` after `late` of k, so they get other slots."""
    early, late = BufferUse(2, 1, True, access=0), BufferUse(0, 0, True, access=1)
    for remaining, versions in ((early, 1), (late, 3)):
        known = Contents(sees=lambda r, w: False, remains=lambda w, last=remaining: w == last)
        assert synchronous_versions([early, late], known) == versions


def test_copy_in_stage_0_and_reader_in_stage_2_after_it():
    copy, reader = BufferUse(0, 0, True, 0, "copies"), BufferUse(2, 1, False, access=1)
    assert synchronous_versions([copy, reader]) == 3
    assert asynchronous_versions([copy, reader], [GroupWait(2, 1, 0, 0, "copies", 0)]) == 3


def test_reader_before_the_copy_needs_one_version_less():
    copy, reader = BufferUse(0, 1, True, 1, "copies"), BufferUse(2, 0, False, access=1)
    assert synchronous_versions([copy, reader]) == 2
    assert asynchronous_versions([copy, reader], [GroupWait(2, 0, 1, 0, "copies", 0)]) == 2


def test_async_reader_that_nobody_waits_for_is_never_enough():
    writer, reader = BufferUse(0, 0, True), BufferUse(1, 1, False, 1, "queue 1", access=1)
    assert synchronous_versions([writer, reader]) == 2
    assert asynchronous_versions([writer, reader], []) is None


def test_wait_for_a_younger_group_of_the_queue_serves():
    writer, reader = BufferUse(0, 0, True), BufferUse(1, 1, False, 1, "queue 1", access=1)
    younger = GroupWait(2, 3, 2, 1, "queue 1", 0)
    assert asynchronous_versions([writer, reader], [younger]) == 3


# -- the three-stage example of RFC 0077: B[0] = A[i]; C[0] = B[0]; D[i] = C[0] ---------------

THREE_STAGES = """
func.func @f(%A : memref<16xf32> {{llvm.noalias}}, %D : memref<16xf32> {{llvm.noalias}}) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<1xf32, #gpu.address_space<workgroup>>
  %C = memref.alloca() : memref<1xf32, #gpu.address_space<workgroup>>
  scf.for %i = %c0 to %c16 step %c1 {{
    %a = memref.load %A[%i] : memref<16xf32>
    memref.store %a, %B[%c0] : memref<1xf32, #gpu.address_space<workgroup>>
    %b = memref.load %B[%c0] : memref<1xf32, #gpu.address_space<workgroup>>
    memref.store %b, %C[%c0] : memref<1xf32, #gpu.address_space<workgroup>>
    %c = memref.load %C[%c0] : memref<1xf32, #gpu.address_space<workgroup>>
    memref.store %c, %D[%i] : memref<16xf32>
  }} {{async_pipe.stage = [0, 0, 1, 1, 2, 2], async_pipe.order = {order},
       async_pipe.async_stages = [0, 1]}}
  return
}}
"""


def three_stages(order: list[int], smem_limit: int = 0) -> tuple[dict[str, int], list[int]]:
    """The versions of B and C, and the counts of the kernel's waits in textual order."""
    module = ir.Module.parse(THREE_STAGES.format(order=order), bindings.new_context())
    session = Session()
    for name, options in (
        ("async-pipe-normalise", {}),
        ("async-pipe-schedule", {}),
        ("async-pipe-expand", {"smem_limit": smem_limit}),
        ("async-pipe-count-waits", {}),
    ):
        found = passes.find(name)
        found.run(module.operation, found.options(**options), session)
    (record,) = session.records["loops"]
    b, c = record.buffers
    (function,) = module.body.operations
    (kernel,) = (op for op in function.regions[0].blocks[0].operations if op.name == "scf.for")
    counts = [
        ir.IntegerAttr(op.attributes["count"]).value
        for op in kernel.regions[0].blocks[0].operations
        if op.operation.name == "async_pipe.wait_queue"
    ]
    return {"B": b.versions, "C": c.versions}, counts


def test_three_stages_in_textual_order_need_three_and_two_versions():
    versions, counts = three_stages([0, 1, 2, 3, 4, 5])
    assert versions == {"B": 3, "C": 2}
    assert counts == [1, 1]


def test_three_stages_with_the_last_first_need_two_and_one():
    """The consumer of stage 2 stands first: one wait for the group of stage 1 just made, none
    of whose successors is in flight, and one for stage 0 with one in flight."""
    versions, counts = three_stages([2, 3, 4, 5, 0, 1])
    assert versions == {"B": 2, "C": 1}
    assert sorted(counts) == [0, 1]


def test_two_versions_of_b_cost_a_wait_that_leaves_nothing_in_flight():
    versions, counts = three_stages([0, 1, 2, 3, 4, 5], smem_limit=16)
    assert versions == {"B": 2, "C": 2}
    # The extra wait retires what the reader of C needs too, so that one has no wait of its own.
    assert counts == [0, 1]


def four_stages(smem_limit: int) -> list[tuple[int, bool]]:
    """Versions of B, C and D, and whether a wait was tightened, in a chain of four stages whose
    first three are asynchronous: loosest 3, 3, 2 versions, at least 2, 2, 2; 4 bytes a slot."""
    near = "memref<1xf32, #gpu.address_space<workgroup>>"
    names = "ABCDE"
    lines = [
        "func.func @f(%A : memref<16xf32> {llvm.noalias}, %E : memref<16xf32> {llvm.noalias}) {",
        *(f"%c{n} = arith.constant {n} : index" for n in (0, 1, 16)),
        *(f"%{name} = memref.alloca() : {near}" for name in "BCD"),
        "scf.for %i = %c0 to %c16 step %c1 {",
    ]
    for n in range(4):
        source = "%A[%i] : memref<16xf32>" if n == 0 else f"%{names[n]}[%c0] : {near}"
        target = "%E[%i] : memref<16xf32>" if n == 3 else f"%{names[n + 1]}[%c0] : {near}"
        lines += [f"%v{n} = memref.load {source}", f"memref.store %v{n}, {target}"]
    lines += [
        "} {async_pipe.stage = [0, 0, 1, 1, 2, 2, 3, 3], async_pipe.async_stages = [0, 1, 2]}",
        "return",
        "}",
    ]
    module = ir.Module.parse("\n".join(lines), bindings.new_context())
    session = Session()
    for name, options in (
        ("async-pipe-normalise", {}),
        ("async-pipe-schedule", {}),
        ("async-pipe-expand", {"smem_limit": smem_limit}),
    ):
        found = passes.find(name)
        found.run(module.operation, found.options(**options), session)
    (record,) = session.records["loops"]
    return [(b.versions, b.extra_wait) for b in record.buffers]


@pytest.mark.parametrize("limit", [32, 40, 0])
def test_where_everything_fits_no_wait_is_tightened(limit):
    assert four_stages(limit) == [(3, False), (3, False), (2, False)]


@pytest.mark.parametrize("limit", [28, 31])
def test_under_a_limit_only_as_many_waits_are_tightened_as_it_takes(limit):
    assert sorted(four_stages(limit)) == [(2, False), (2, True), (3, False)]


@pytest.mark.parametrize("limit", [24, 27])
def test_under_a_tight_limit_every_saving_is_taken(limit):
    assert four_stages(limit) == [(2, True), (2, True), (2, False)]


def test_below_the_sync_rule_the_loop_is_refused():
    with pytest.raises(PipelineError) as refusal:
        four_stages(23)
    assert refusal.value.code == "smem-limit"
