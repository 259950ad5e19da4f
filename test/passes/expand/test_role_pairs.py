"""Loops of tensor copies one after the other whose copies the same warps of their own issue: on one ring,
whose slot and phase go on from loop to loop in each role, or each on a ring of its own.

Covers: pipeliner/plan/role_plan.py, pipeliner/plan/ring_plan.py,
pipeliner/expand/write/write_ring.py, pipeliner/expand/write/write_roles.py,
test/helpers/tensor_pairs.py
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from helpers.machine_programs import parse
from helpers.role_orders import ORDERS
from helpers.tensor_loops import Box, TensorLoop
from helpers.tensor_memory_kernels import BlackwellGemm
from helpers.tensor_pairs import TensorPair
from mlir_async_pipe import check, pipeline
from mlir_async_pipe.pipeliner.plan import ring_plan
from mlir_async_pipe.session.diagnostics import AsyncPipeError, MachineError

LOADS = TensorLoop((Box(2, 32),), stages=2, trips=5, executions=2, roles="specialised")
PRODUCTS = TensorLoop(
    (Box(64, 64, "swizzle_128b"),) * 2,
    stages=2,
    reader="products",
    trips=3,
    executions=2,
    roles="specialised",
)
AGAIN = replace(LOADS, executions=6)
OWN = TensorPair(replace(LOADS, stages=3), stages=2, apart=True, grouped=True)
# The slots of the rings; that of a pair on one is the largest of S and p + 1.
PAIRS = {
    "equal": (TensorPair(LOADS, stages=2), {2}),
    "the first copies further ahead": (TensorPair(replace(LOADS, stages=4), stages=2), {4}),
    "the second copies further ahead": (TensorPair(LOADS, stages=4), {4}),
    "tiles of their own": (TensorPair(LOADS, stages=3, apart=True, short=2), {3}),
    "the second runs not at all": (TensorPair(LOADS, short=6), {3}),
    "two mbarriers": (
        TensorPair(replace(LOADS, boxes=(Box(2, 32), Box(4, 16, transaction=1)))),
        {3},
    ),
    "columns are carried": (TensorPair(replace(LOADS, carried=True)), {3}),
    "products": (TensorPair(PRODUCTS, stages=2, in_flight=2), {3}),
    "products of the first": (
        TensorPair(replace(PRODUCTS, in_flight=2), stages=2, in_flight=0),
        {3},
    ),
    "rings of their own": (OWN, {2, 3}),
    "rings of their own, products": (
        TensorPair(PRODUCTS, stages=2, in_flight=2, apart=True, grouped=True),
        {2, 3},
    ),
}
AROUND = {
    "in a loop": (TensorPair(AGAIN, stages=2, short=1), {2}),
    "the second is in a branch": (TensorPair(AGAIN, stages=2, branch=True), {2}),
    "rings of their own in a loop": (
        TensorPair(replace(AGAIN, trips=4, static=True), 2, apart=True, grouped=True),
        {2},
    ),
}


def pipelined(pair: TensorPair, text: str = "", **options):
    module = parse(text or pair.text())
    return module, pipeline(module, **{"check": "none", **options})


def versions(report) -> set[int]:
    return {buffer.versions for loop in report.of("loops") for buffer in loop.buffers}


def wrong(pair: TensorPair, module, orders=ORDERS) -> list[str]:
    """What the machine says of it in some order."""
    found = []
    for completion, schedule in orders:
        try:
            found.append(pair.right(module, completion, schedule))
        except MachineError as error:
            found.append(str(error))
    return [why for why in found if why]


def proven(module) -> bool:
    return all(not one.unsafe and not one.unknown for one in check(module).of("checks"))


@pytest.mark.parametrize("name", [*PAIRS, *AROUND])
def test_one_warp_copies_for_both_loops(name):
    pair, slots = {**PAIRS, **AROUND}[name]
    assert not pair.right(pair.module(), "eager")
    module, report = pipelined(pair)
    assert versions(report) == slots
    text = str(module)
    # full and empty, of each ring one slot's for each.
    boxes = {box.transaction for box in pair.loop.boxes}
    rings = slots if pair.grouped and len(slots) > 1 else sorted(slots) * (1 + pair.grouped)
    assert text.count("mbarrier.init %") == sum(count * (len(boxes) + 1) for count in rings)
    assert text.count("known_block_size") == 1
    assert text.count("nvvm.elect.sync") == 2
    assert not wrong(pair, module)
    assert name in AROUND or proven(module)


@pytest.mark.slow
@pytest.mark.parametrize("name", AROUND)
def test_loops_around_both_are_proven(name):
    pair, _ = AROUND[name]
    assert proven(pipelined(pair)[0])


def test_a_launch_is_reported_once():
    report = pipelined(OWN)[1]
    assert sum(said.code == "roles-launch" for said in report.diagnostics) == 1


def test_registers_and_warps_are_those_that_one_of_the_loops_needs():
    """Loads in the one, products in the other: a warpgroup is added for both."""
    text = str(pipelined(PAIRS["products"][0])[0])
    assert "array<i32: 256, 1, 1>" in text
    assert (
        text.count("setmaxregister increase 232") == text.count("setmaxregister decrease 40") == 1
    )


def test_columns_that_go_on_from_the_first_loop_the_producer_carries_on():
    pair = TensorPair(replace(LOADS, carried=True, static=True), stages=2)
    text = pair.text()
    assert "%at = %first2" in text
    text = text.replace("%at = %first2", "%at = %r#0")
    module, _ = pipelined(pair, text)
    assert not wrong(pair, module)
    assert proven(module)


# -- each part is needed ---------------------------------------------------------------------------

Mutant = Callable[[str], str]
CONSUMER, PRODUCER = range(2)


def loops_of(text: str) -> list[int]:
    """Where the loops begin: of the consumers two, then two of the producer."""
    return [found.start() for found in re.finditer(r"scf\.for", text)]


def in_loop(number: int, pattern: str, new: str) -> Mutant:
    """A change of the first place that matches in a loop."""

    def change(text: str) -> str:
        start = loops_of(text)[number]
        changed, count = re.subn(pattern, new, text[start:], count=1)
        assert count
        return text[:start] + changed

    return change


def anew(role: int, value: int) -> Mutant:
    """The second loop of a role begins with the first slot, or the first phase, again."""

    def change(text: str) -> str:
        first, second = loops_of(text)[2 * role : 2 * role + 2]
        (old, new) = (
            re.findall(r"= (%[\w#]+)", text[text.index("iter_args", at) : text.index(")", at)])[
                value
            ]
            for at in (second, first)
        )
        assert old != new
        return text[:second] + text[second:].replace(f"= {old}", f"= {new}", 1)

    return change


def swapped(text: str) -> str:
    """The producer copies for the second loop first."""
    one, other = (text.rindex("\n", 0, at) for at in loops_of(text)[2:])
    end = text.index("}", text.index("scf.yield", other)) + 1
    return text[:one] + text[other:end] + text[one:other] + text[end:]


LINE = r"\n[^\n]*{}[^\n]*"
MUTANTS: dict[str, Mutant] = {
    "the second loop's consumers begin with the first slot": anew(CONSUMER, 0),
    "the second loop's consumers begin with the first phase": anew(CONSUMER, 1),
    "the second loop's copies begin with the first slot": anew(PRODUCER, 0),
    "the second loop's copies begin with the first phase": anew(PRODUCER, 1),
    "no wait for the tiles of the second loop": in_loop(1, LINE.format(r"try_wait\.parity"), ""),
    "the first loop gives nothing back": in_loop(0, LINE.format(r"mbarrier\.arrive %"), ""),
    "the second loop gives nothing back": in_loop(1, LINE.format(r"mbarrier\.arrive %"), ""),
    "no wait for slots of the first loop": in_loop(2, LINE.format(r"try_wait\.parity"), ""),
    "no wait for slots of the second loop": in_loop(3, LINE.format(r"try_wait\.parity"), ""),
    "the second loop announces nothing": in_loop(3, LINE.format(r"expect_tx"), ""),
    "the second loop announces less": in_loop(3, r"(expect_tx %\w+\[%\w+\], )%\w+", r"\1%c128"),
    "the second loop's phase never flips": in_loop(
        1, r"arith\.xori (%\w+), %\w+ : i1", r"arith.ori \1, \1 : i1"
    ),
    "the copies' phase never flips": in_loop(
        3, r"arith\.xori (%\w+), %\w+ : i1", r"arith.ori \1, \1 : i1"
    ),
}
OF_A_RING_ALONE: dict[str, Mutant] = {
    **{name: made for name, made in MUTANTS.items() if "begin" not in name},
    "copies of the second loop come first": swapped,
    "the second loop waits for the first one's mbarriers": lambda text: in_loop(
        1, r"try_wait\.parity %\w+", re.search(r"try_wait\.parity %\w+", text)[0]
    )(text),
    "the second loop's tiles are given back as the first one's": lambda text: in_loop(
        1, r"mbarrier\.arrive %\w+", re.search(r"mbarrier\.arrive %\w+", text)[0]
    )(text),
}
# Five tiles on three slots: the next one is the third slot's, in its second phase.
ONE_RING = TensorPair(replace(LOADS, static=True), stages=3)
OWN_RINGS = replace(OWN, loop=replace(LOADS, static=True))


def test_what_the_first_loop_counts_may_decide_what_is_copied_in_the_second():
    pair = TensorPair(LOADS, stages=2)
    module, _ = pipelined(
        pair, changed(pair, (r"%first2 = [^\n]*", "%first2 = arith.addi %r#0, %i0 : index"))
    )
    assert not wrong(pair, module)
    assert proven(module)


@pytest.mark.parametrize(
    ("pair", "name", "mutant"),
    [
        *((ONE_RING, *row) for row in MUTANTS.items()),
        *((OWN_RINGS, *row) for row in OF_A_RING_ALONE.items()),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_change_of_one_part_is_named_and_fails(pair, name, mutant):
    text = mutant(str(pipelined(pair)[0]))
    assert wrong(pair, parse(text))
    assert any(one.unsafe for one in check(parse(text)).of("checks"))


def test_slots_for_one_of_the_loops_alone_are_too_few(monkeypatch):
    pair = TensorPair(PRODUCTS, stages=2, in_flight=2)
    monkeypatch.setattr(ring_plan, "_slots", lambda before, after: 2)
    module, report = pipelined(pair)
    assert versions(report) == {2}
    assert wrong(pair, module)
    assert any(one.unsafe for one in check(module).of("checks"))


# -- refused ---------------------------------------------------------------------------------------


def tensor_memory() -> str:
    """Two loops of products in tensor memory, the second one's sums in the same columns."""
    text = BlackwellGemm(tile_n=32, roles="specialised").module()
    start = text.index("%total = scf.for")
    end = text.index("\n", text.index("async_pipe.num_stages")) + 1
    again = text[start:end].replace("%total", "%total2").replace("= %false)", "= %total)")
    return text[:end] + again + text[end:]


def changed(pair: TensorPair, *changes: tuple[str, str]) -> str:
    text = pair.text()
    for old, new in changes:
        text, count = re.subn(old, new, text, flags=re.DOTALL)
        assert count
    return text


BOTH = TensorPair(LOADS, stages=2)
REFUSALS = {
    "not theirs": (
        "roles-unsupported",
        changed(BOTH, (r'(%r2:3.*), async_pipe.roles = "specialised"', r"\1")),
    ),
    "two groups take the tiles": (
        "roles-unsupported",
        TensorPair(replace(AGAIN, roles="ping-pong"), stages=2).text(),
    ),
    "copies for other blocks of a cluster": (
        "roles-unsupported",
        changed(
            BOTH,
            (r"array<i32: 64, 1, 1>", r"\g<0>, gpu.known_cluster_size = array<i32: 2, 1, 1>"),
            (r"%t = gpu.thread_id x", r"\g<0>\n%mask = arith.constant 3 : i16"),
            (r"to %b0, predicate", "to %b0 multicast_mask = %mask, predicate"),
            (r"256 : index", "512 : index"),
        ),
    ),
    "commits give the slots": ("roles-unsupported", tensor_memory()),
    "what 'memref.load' gives": (
        "roles-values",
        changed(
            BOTH,
            (
                r"%first2 = [^\n]*",
                r"%seen = memref.load %out[%i0, %t] : memref<?x64xf32>\n"
                r"%seen32 = arith.fptoui %seen : f32 to i32\n"
                r"%first2 = arith.index_cast %seen32 : i32 to index",
            ),
        ),
    ),
    "may write what a tensor copy": (
        "unproven-independence",
        changed(BOTH, (r" \{llvm.noalias\}", "")),
    ),
}


@pytest.mark.parametrize("words", REFUSALS)
def test_what_does_not_fit_is_refused_where_it_stands(words):
    code, text = REFUSALS[words]
    module = parse(text)
    kept = str(module)
    with pytest.raises(AsyncPipeError) as refused:
        pipeline(module, check="none")
    assert refused.value.code == code
    assert words in refused.value.diagnostic.message
    assert refused.value.diagnostic.place.line > 0
    assert str(module) == kept


# -- growth ----------------------------------------------------------------------------------------


def in_a_row(count: int, grouped: bool) -> str:
    """So many loops on the same mbarriers, or each on its own."""
    loop = replace(LOADS, executions=1)
    text = loop.text()
    start = text.index("%r:3 = scf.for")
    end = text.index("\n", text.index("async_pipe.num_stages")) + 1
    rows = []
    for number in range(count):
        one = text[start:end].replace("%r:3", f"%r{number}:3")
        if number and not grouped:
            one = one.replace("%phase = %false", f"%phase = %r{number - 1}#1")
        rows.append(_own(one, number) if grouped else one)
    head = text[:start].split("\n")
    made = [
        "\n".join(_own(line, number) for number in range(count))
        if grouped and re.search("%full|%b0 =", line)
        else line
        for line in head
    ]
    return "\n".join(made) + "".join(rows) + text[end:]


def _own(text: str, number: int) -> str:
    return text.replace("%full", f"%full{number}").replace("%b0", f"%b0_{number}_")


@pytest.mark.parametrize("grouped", [False, True])
def test_twice_the_loops_take_twice_the_calls(grouped):
    """As in test/laws/test_growth.py: what does not depend on the size is taken off."""

    def calls(count: int) -> int:
        module = parse(in_a_row(count, grouped))
        counted = 0

        def seen(frame: object, event: str, argument: object) -> None:
            nonlocal counted
            counted += event in ("call", "c_call")

        sys.setprofile(seen)
        try:
            pipeline(module, check="none")
        finally:
            sys.setprofile(None)
        return counted

    calls(1)
    one, two, four = (calls(3 * times) for times in (1, 2, 4))
    assert (four - two) / (two - one) <= 2.15, (one, two, four)


# -- any pair --------------------------------------------------------------------------------------


def random_pair(seed: int) -> TensorPair:
    pick = random.Random(f"roles of pair {seed}")
    loads = pick.random() < 0.7
    executions = pick.choice([2, 2, 4, 6])
    grouped = executions == 2 and pick.random() < 0.5
    stages = [pick.randint(2, 4) for _ in range(2)]
    common = {
        "stages": stages[0],
        "trips": pick.randint(0, 9 if loads else 4),
        "lower": pick.choice([0, 3]),
        "step": pick.choice([1, 2]),
        "static": pick.random() < 0.4,
        "executions": executions,
        "carried": pick.random() < 0.3,
    }
    own = {
        "stages": stages[1],
        "grouped": grouped,
        "apart": grouped or pick.random() < 0.5,
        "branch": executions > 2 and pick.random() < 0.3,
    }
    if loads:
        boxes = tuple(
            Box(pick.choice([1, 2, 4]), 32, "swizzle_128b", n) for n in range(pick.randint(1, 2))
        )
        loop = replace(LOADS, boxes=boxes, skip=pick.choice([0, 0, 2]), **common)
        return TensorPair(loop, short=pick.choice([0, 1, 4, 10]), **own)
    left = [pick.choice([None, 0, 1, 2]) for _ in range(2)]
    return TensorPair(replace(PRODUCTS, in_flight=left[0], **common), in_flight=left[1], **own)


@pytest.mark.parametrize("seed", range(10))
def test_random_pairs_are_right(seed):
    pair = random_pair(seed)
    assert not pair.right(pair.module(), "eager")
    module, _ = pipelined(pair)
    assert not wrong(pair, module, ORDERS[1::3])
