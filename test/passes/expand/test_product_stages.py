"""Products of a loop of tensor copies in two stages: attention from the plain loop is proven, right, and equal to it; a
wait that leaves one more, a slot that goes back too early, a fence less, and an iteration more or less are named.

Covers: pipeliner/plan/ring_stages.py, pipeliner/plan/ring_plan.py, pipeliner/plan/ping_pong_plan.py, pipeliner/expand/write/write_ring.py, pipeliner/expand/write/write_loop.py, pipeliner/expand/write/integers.py, pipeliner/expand/write/kernel_units.py, checker/phases/loop_iterations.py
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.hopper_attention import as_tensor, wrong_by
from helpers.paths import ROOT
from helpers.ptxas_remarks import remarks_on_products
from mlir_async_pipe import check, lower, machine, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import integer_attribute, operations, set_integer, walk
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool
from mlir_async_pipe.machine.validation import Data, validate
from mlir_async_pipe.session.diagnostics import PipelineError

sys.path.insert(0, str(ROOT / "examples"))

from generate_hopper_attention import HopperAttention
from generate_hopper_gemm import HopperGemm

TARGET = "nvvm:sm_90a"
WAIT, FENCE = "nvvm.wgmma.wait.group.sync.aligned", "nvvm.wgmma.fence.aligned"
COMMIT = "nvvm.wgmma.commit.group.sync.aligned"
# Copies of K and V; then a fence and four products of the scores, and of the output.
STAGES = (0, 0, *[2] * 5, *[3] * 5)
SCORES_FIRST = tuple(range(12))
OUTPUT_FIRST = (0, 1, *range(7, 12), *range(2, 7))
COPIES_LAST = (10, 11, *range(10))
ORDERS = {"scores first": SCORES_FIRST, "output first": OUTPUT_FIRST, "copies last": COPIES_LAST}
GROUPS = {"together": 1, "specialised": 1, "alternating": 2}


def plain(groups: int = 1) -> HopperAttention:
    return HopperAttention(warpgroups=groups, plain=True)


def annotated(text: str, stages: tuple[int, ...] = STAGES, order: tuple[int, ...] = ()) -> str:
    given = "async_pipe.num_stages = 3 : i64"
    assert text.count(given) == 1
    order = order or tuple(range(len(stages)))
    return text.replace(
        given, f"async_pipe.stage = {list(stages)}, async_pipe.order = {list(order)}"
    )


@cache
def pipelined(roles: str, order: str = "scores first", text: str = "") -> str:
    """The pipelined module, which the checker proves."""
    source = annotated(text or plain(GROUPS[roles]).module(), order=ORDERS[order])
    with new_context():
        module = ir.Module.parse(source)
        (checks,) = pipeline(module, target=TARGET, check="error", roles=roles).of("checks")
        assert (checks.unsafe, checks.unknown) == (0, 0)
        return str(module)


def ops_of(module: Any, name: str) -> list[Any]:
    return [op for op in walk(module.operation) if op.name == name]


def kernel_of(module: Any) -> Any:
    """The loop that multiplies."""
    loops = ops_of(module, "scf.for")
    return next(op for op in loops if any(inner.name == WAIT for inner in walk(op)))


def error_of(text: str, roles: str, tiles: int) -> tuple[float, set[str]]:
    made = plain(GROUPS[roles])
    added = 0 if roles == "together" else 128
    return wrong_by(made, ir.Module.parse(text), 64 * tiles, "late", added, heads=1)


@pytest.mark.parametrize("tiles", [2, 3, 6])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("roles", GROUPS)
def test_attention_in_two_stages_is_numpy_s(roles: str, order: str, tiles: int) -> None:
    with new_context():
        error, races = error_of(pipelined(roles, order), roles, tiles)
    assert error < 1e-3 and races == set()


@pytest.mark.parametrize("roles", ["together", "specialised"])
@pytest.mark.parametrize("tiles", [0, 1])
def test_so_is_one_tile_and_none_is_what_the_plain_loop_gives(roles: str, tiles: int) -> None:
    found = []
    with new_context():
        for text, added in ((plain().module(), 0), (pipelined(roles), 128 * (roles != "together"))):
            numbers = np.random.default_rng(1)
            q, k, v = (numbers.normal(size=(64, 64)).astype(np.float16) for _ in range(3))
            arguments = [q, k, v[None], np.full((1, 64, 64), 7, np.float32), 64 * tiles]
            result = machine.run(
                ir.Module.parse(text), None, arguments, threads=128 + added, completion="late"
            )
            assert not result.race_codes
            found.append(result.arrays[3])
    assert np.isnan(found[0]).all() == (not tiles)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("roles", GROUPS)
def test_it_computes_what_the_plain_loop_does_for_all_data(roles: str, order: str) -> None:
    keys, out = Data((192, 64), "float16"), Data((1, 192, 64), "float32")
    data = [keys, keys, Data((1, 192, 64), "float16"), out, 192]
    with new_context():
        before = ir.Module.parse(plain(GROUPS[roles]).module())
        after = ir.Module.parse(pipelined(roles, order))
        target = Target.parse(TARGET)
        assert validate(before, after, None, data, target=target, grid=(1, 1, 1)).is_equal


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("roles", GROUPS)
def test_each_part_leaves_what_it_has_in_flight(roles: str, order: str) -> None:
    """Prologue and epilogue have one group; in the kernel the first that is waited for leaves the other one, or half of it:
    that of the scores leaves nothing to be computed before it."""
    with new_context():
        module = ir.Module.parse(pipelined(roles, order))
        counts = [integer_attribute(op, "group") for op in ops_of(module, WAIT)]
        *body, _ = operations(kernel_of(module).regions[0].blocks[0])
        issued = [
            op.name for op in body if op.name in ("nvvm.wgmma.mma_async", "llvm.inline_asm", WAIT)
        ]
    products = ["nvvm.wgmma.mma_async"] * 4, ["llvm.inline_asm"] * 4
    assert counts == [0, 1, 0, 0]
    if order == "output first":
        assert issued == [*products[1], *products[0], WAIT, WAIT]
    else:
        assert issued == [*products[0], *products[1][:2], WAIT, *products[1][2:], WAIT]


@pytest.mark.parametrize("roles", GROUPS)
def test_the_second_half_comes_before_special_functions_and_after_all_else(roles: str) -> None:
    with new_context():
        module = ir.Module.parse(pipelined(roles))
        names = [op.name for op in operations(kernel_of(module).regions[0].blocks[0])]
    first, last = (n for n, name in enumerate(names) if name == WAIT)
    second = [n for n, name in enumerate(names) if name == "llvm.inline_asm" and first < n]
    assert (
        len(second) == 2 and names[first:last].count(COMMIT) == names[first:last].count(FENCE) == 1
    )
    largest = [n for n, name in enumerate(names) if name in ("arith.maxnumf", "gpu.shuffle")]
    weights = [n for n, name in enumerate(names) if name == "nvvm.ex2"]
    # 32 scores and 4 of other lanes; a weight each and a factor for each row.
    assert len(largest) == 36 + 4 and len(weights) == 34
    assert first < min(largest) < max(largest) < second[0] < second[1] < min(weights)
    assert max(weights) < last


def without_specials() -> str:
    """Weights that are sums."""
    text = plain().module()
    return re.sub(r"nvvm.ex2 (%\w+) {ftz = true}", r"arith.addf \1, \1", text)


def without_largest() -> str:
    """Weights of the scores as they are."""
    text = plain().module()
    return re.sub(r"arith.maxnumf (%\w+), %\S+", r"arith.negf \1", text)


@pytest.mark.parametrize("made", [without_specials])
def test_products_stay_together_where_nothing_is_gained(made: Callable[[], str]) -> None:
    with new_context():
        module = ir.Module.parse(annotated(made()))
        pipeline(module, target=TARGET, check="none")
        issued = [op.name for op in walk(kernel_of(module)) if op.name in ("llvm.inline_asm", WAIT)]
    assert issued == [*["llvm.inline_asm"] * 4, WAIT, WAIT]


def mutated(roles: str, change: Callable[[Any], None]) -> tuple[set[str], set[str], bool]:
    """What the checker says of a pipeline that is changed, the races that the machine has in 6 tiles, and whether what
    it computes is right."""
    with new_context():
        module = ir.Module.parse(pipelined(roles))
        change(module)
        hazards = check(module).of("hazards")
        found = {each.code for each in hazards if each.verdict == "unsafe"}
        error, races = error_of(str(module), roles, 6)
        return found, races, error < 1e-3


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("roles", ["together", "specialised"])
def test_a_wait_that_leaves_one_more_is_a_race(roles: str, number: int) -> None:
    def weaken(module: Any) -> None:
        wait = ops_of(module, WAIT)[number]
        set_integer(wait, "group", integer_attribute(wait, "group") + 1, 64)

    found, races, right = mutated(roles, weaken)
    assert "read-in-flight" in found
    # Sums that are read before they are there are no numbers.
    assert not right and races <= {"source-overwritten", "unwaited-copy"}


def test_a_slot_that_goes_back_before_the_wait_is_a_race() -> None:
    """V of the tile is still multiplied."""

    def hasten(module: Any) -> None:
        kernel = kernel_of(module)
        block = kernel.regions[0].blocks[0]
        arrival = next(op for op in operations(block) if op.name == "scf.if")
        wait = [op for op in operations(block) if op.name == WAIT][-1]
        arrival.move_before(wait)

    found, races, _ = mutated("specialised", hasten)
    assert found == races == {"missing-barrier"}


def test_a_slot_of_the_tile_whose_scores_are_new_is_a_race() -> None:
    """V of that tile is read one step later."""

    def confuse(module: Any) -> None:
        kernel = kernel_of(module)
        (arrive,) = [op for op in walk(kernel) if op.name == "nvgpu.mbarrier.arrive"]
        (phase,) = [op for op in walk(kernel) if op.name == "nvgpu.mbarrier.try_wait.parity"]
        arrive.operands[1] = phase.operands[3]

    found, races, _ = mutated("specialised", confuse)
    assert found == {"too-many-arrivals", "deadlock"} and races == {"deadlock"}


def test_a_kernel_without_its_barrier_is_a_race() -> None:
    def drop(module: Any) -> None:
        next(op for op in walk(kernel_of(module)) if op.name == "gpu.barrier").erase()

    found, _, _ = mutated("together", drop)
    assert found == {"missing-barrier"}


@pytest.mark.parametrize(("first", "code"), [(0, "deadlock"), (128, "unwaited-copy")])
def test_a_kernel_that_runs_a_step_more_or_less_is_named(first: int, code: str) -> None:
    """Beside the warps that copy, for any number of tiles: these copy all."""

    def shift(module: Any) -> None:
        kernel = kernel_of(module)
        i32 = ir.IntegerType.get_signless(32, kernel.context)
        place = ir.InsertionPoint(kernel)
        value = ir.Operation.create(
            "arith.constant",
            results=[i32],
            attributes={"value": ir.IntegerAttr.get(i32, first)},
            ip=place,
            loc=kernel.location,
        ).results[0]
        kernel.operands[0] = value

    found, races, right = mutated("specialised", shift)
    assert code in found and code in races and not right


@pytest.mark.parametrize(("number", "codes"), [(-2, {"missing-register-fence"}), (-1, set())])
def test_the_last_product_needs_a_fence_of_its_own(number: int, codes: set[str]) -> None:
    """Its sums were scaled after that of the kernel, and are carried to it. Its second half adds to those of the first."""

    def drop(module: Any) -> None:
        ops_of(module, FENCE)[number].erase()

    found, races, _ = mutated("together", drop)
    assert found == races == codes


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("roles", ["together", "specialised"])
def test_a_half_that_nobody_commits_is_a_race(roles: str, number: int) -> None:
    """Of the scores, which the next wait then takes for those that it leaves, and of each half of the output."""

    def drop(module: Any) -> None:
        [op for op in walk(kernel_of(module)) if op.name == COMMIT][number].erase()

    found, _, right = mutated(roles, drop)
    assert "read-in-flight" in found and not right


# Other loops -------------------------------------------------------------------------------------


def nested(groups: int) -> str:
    """Two heads one after the other, in a loop around."""
    text = plain(groups).module()
    around = (
        "    %heads = arith.constant 2 : index\n"
        "    %last = scf.for %head = %c0 to %heads step %c1 iter_args(%begin = %false) -> (i1) {\n"
        "    %odd = arith.cmpi eq, %head, %c1 : index\n"
    )
    text = text.replace("    %head = gpu.block_id y\n", around)
    text = text.replace("%phase = %false)", "%phase = %begin)")
    text = text.replace("%ready[%c0], %false,", "%ready[%c0], %odd,")
    return text.replace(
        "    gpu.return\n", "    gpu.barrier\n scf.yield %done#5 : i1\n }\n gpu.return\n"
    )


@pytest.mark.parametrize(
    ("roles", "tiles"),
    [(r, n) for r in GROUPS for n in (1, 2, 3, 5) if 64 * n >= plain(GROUPS[r]).rows],
)
def test_slots_and_phases_go_on_in_a_loop_around(roles: str, tiles: int) -> None:
    """For any number of tiles, but for groups in turn (`budget`)."""
    made, text = plain(GROUPS[roles]), nested(GROUPS[roles])
    if roles == "alternating":
        end, heads = f"    %end = arith.constant {64 * tiles} : i32\n", "    %heads ="
        assert text.count(heads) == text.count(" to %N step") == 1
        text = text.replace(heads, end + heads).replace(" to %N step", " to %end step")
    text = pipelined(roles, text=text)
    numbers = np.random.default_rng(tiles)
    q, k, v = (numbers.normal(size=(2, 64 * tiles, 64)).astype(np.float16) for _ in range(3))
    arguments = [
        as_tensor(made, each, panels) for each, panels in ((q, False), (k, False), (v, True))
    ]
    arguments += [np.full(q.shape, np.nan, np.float32), 64 * tiles]
    with new_context():
        threads = made.threads + 128 * (roles != "together")
        result = machine.run(
            ir.Module.parse(text), None, arguments, threads=threads, grid=(1, 1), completion="late"
        )
    scores = q[:, : made.rows].astype(float) @ k.astype(float).swapaxes(1, 2) / 8
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    wanted = weights / weights.sum(axis=2, keepdims=True) @ v.astype(float)
    assert np.abs(result.arrays[3][:, : made.rows] - wanted).max() < 1e-3
    assert not result.race_codes


def apart() -> str:
    """V arrives on an mbarrier of its own, which is waited for after the softmax."""
    text = plain().module()
    create, init, full = (
        next(line for line in text.splitlines(keepends=True) if start in line)
        for start in ("%full = nvgpu", "mbarrier.init %full", "arrive.expect_tx %full")
    )
    wait = next(line for line in text.splitlines(keepends=True) if "try_wait.parity %full" in line)
    copy = next(line for line in text.splitlines(keepends=True) if "async.load %V[" in line)
    half = full.replace("%c16384", "%c8192")

    def other(line: str) -> str:
        return line.replace("%full", "%brought")

    text = text.replace(create, create + other(create)).replace(init, init + other(init))
    text = text.replace(full, half + other(half)).replace(copy, other(copy))
    head, tail = text.rsplit(f"      {FENCE}\n", 1)
    return f"{head}{other(wait)}      {FENCE}\n{tail}"


@pytest.mark.parametrize("roles", ["together", "specialised"])
def test_a_tile_that_the_last_stage_reads_is_waited_for_there(roles: str) -> None:
    text = pipelined(roles, text=apart())
    with new_context():
        for tiles in (1, 5):
            error, races = error_of(text, roles, tiles)
            assert error < 1e-3 and races == set()
        module = ir.Module.parse(text)
        *body, _ = operations(kernel_of(module).regions[0].blocks[0])
        waits = [op for op in body if op.name == "nvgpu.mbarrier.try_wait.parity"]
        slots = {op.operands[3] for op in waits}
    assert len(waits) == 2 and len(slots) == 2


@pytest.mark.parametrize("known", ["lower", "trips"])
def test_bounds_that_are_known_or_not(known: str) -> None:
    """Where the first iteration is no constant the trip count says where the kernel ends."""
    text = plain().module()
    zero, bound = "%i32 = arith.constant 0 : i32", "%j32 = %i32 to %N"
    assert text.count(zero) == text.count(bound) == 1
    if known == "lower":
        text = text.replace(zero, "%i32 = arith.subi %N, %N : i32")
    else:
        text = text.replace(bound, "%j32 = %i32 to %end").replace(
            zero, f"{zero}\n    %end = arith.constant 320 : i32"
        )
    source = pipelined("together", text=text)
    assert ("scf.if" in source) == (known == "lower")
    with new_context():
        error, races = error_of(source, "together", 5)
    assert error < 1e-3 and races == set()


@pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")
@pytest.mark.parametrize("roles", GROUPS)
def test_ptxas_neither_spills_nor_serialises(roles: str, tmp_path: Path) -> None:
    with new_context():
        module = ir.Module.parse(pipelined(roles))
        made = lower(module, target=TARGET, emit="cubin")
        text = lower(module, target=TARGET, emit="ptx").text
    assert remarks_on_products(text, tmp_path) == []
    assert made.kernels[0].resources.spill_store_bytes == 0


# Refused -----------------------------------------------------------------------------------------

OUTPUT_EARLY = (0, 0, *[3] * 5, *[2] * 5)
# What the next iteration scales.
OUTPUT_LATER = (0, 0, *[2] * 5, *[4] * 5)
TEXT = plain().module()
GEMM = HopperGemm(tile_m=64, tile_n=64, stages=3).module()
END = f"      {WAIT} 0\n"


def beside() -> str:
    """A fence of proxies after the scores."""
    fence = (
        "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}"
    )
    return TEXT.replace(END, f"{END}      {fence}\n", 1)


def without_last_wait(text: str) -> str:
    head, tail = text.rsplit(END, 1)
    return head + tail


@pytest.mark.parametrize(
    ("text", "roles", "code", "why"),
    [
        (annotated(TEXT, OUTPUT_EARLY), "auto", "dependence-violated", "would run before"),
        (annotated(TEXT, OUTPUT_LATER), "auto", "dependence-violated", "would run before"),
        (annotated(TEXT, (0, 0, *[2] * 4, 3, *[3] * 5)), "auto", "transaction-stages", "several stages"),
        (annotated(TEXT, (0, 1, *STAGES[2:])), "auto", "transaction-stages", "the copies need one stage"),
        (annotated(TEXT), "ping-pong", "transaction-stages", "two groups take the tiles"),
        (annotated(GEMM, (0, 0, 2, 2, 2, 3, 3)), "auto", "transaction-stages", "stay in flight"),
        (
            annotated(TEXT.replace(END, "", 1)),
            "auto",
            "transaction-stages",
            "a wait is not for groups of products of one stage",
        ),
        (
            annotated(TEXT.replace(f"      {FENCE}\n", "", 1), (0, 0, *[2] * 4, *[3] * 5)),
            "auto",
            "transaction-stages",
            "no fence of its own",
        ),
        (
            annotated(without_last_wait(TEXT)),
            "auto",
            "transaction-stages",
            "no wait of the iteration follows a commit",
        ),
        (
            annotated(beside(), (*STAGES[:7], 2, *STAGES[7:])),
            "auto",
            "transaction-stages",
            "'nvvm.fence.proxy' stands beside products in several stages",
        ),
    ],
)  # fmt: skip
def test_what_cannot_have_stages_is_refused(text: str, roles: str, code: str, why: str) -> None:
    with new_context(), pytest.raises(PipelineError) as refusal:
        pipeline(ir.Module.parse(text), target=TARGET, roles=roles)
    assert refusal.value.code == code and why in str(refusal.value)
