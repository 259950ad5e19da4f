"""Groups of threads that share what the threads of the input do in tensor memory between products: what is written is proven,
right on the machine, and each part of it is needed; what is one part, or of an unclear owner, is refused.

Covers: pipeliner/plan/thread_groups.py, pipeliner/plan/product_order.py, pipeliner/expand/write/write_roles.py, pipeliner/plan/product_role.py, pipeliner/plan/role_block.py
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from helpers.machine_programs import parse
from helpers.parted_attention import MOODS, TARGET, expanded, found, run
from helpers.tensor_attention import ChangedAttention
from mlir_async_pipe import pipeline
from mlir_async_pipe.session.diagnostics import AsyncPipeError

TWO = ChangedAttention(plain=True, roles="grouped", groups=2, stages=2)
OVERLAID = replace(TWO, overlaid=True)
MANY = replace(TWO, persistent=True)
KERNELS = {
    "two slots": TWO,
    "three slots": replace(TWO, stages=3),
    "P where the scores were": OVERLAID,
    "of FlashAttention-4": replace(OVERLAID, keys=128, features=128),
    "three tiles of queries": replace(OVERLAID, groups=3),
    "head after head": MANY,
    "head after head, P where the scores were": replace(OVERLAID, persistent=True),
}


@cache
def of_kernel(name: str) -> str:
    return expanded(KERNELS[name].module())


@pytest.mark.parametrize("name", KERNELS)
def test_it_is_proven_for_any_number_of_keys(name):
    text = of_kernel(name)
    # The groups, and a warpgroup of which two warps copy and multiply.
    assert f"array<i32: {128 * (KERNELS[name].groups + 1)}, 1, 1>" in text
    assert found(text) == (set(), 0)


@pytest.mark.parametrize("mood", MOODS, ids="-".join)
@pytest.mark.parametrize("name", KERNELS)
def test_the_result_is_numpy_s(name, mood):
    assert run(of_kernel(name), KERNELS[name], mood, 512) == (True, set())


def test_each_group_has_the_loop_of_its_tile():
    text = of_kernel("two slots")
    first, second, _ = re.split(r"nvvm\.setmaxregister", text)[1:]
    for part in (first, second):
        loop = part[part.index("scf.for") :]
        loop = loop[: loop.index("scf.yield")]
        assert [loop.count(f"tcgen05.{op}") for op in ("ld", "st")] == [4, 4]
        assert loop.count("try_wait") == 2 and loop.count("mbarrier.arrive") == 1
        assert loop.count("tcgen05.fence") == 3
        assert part.count("vector.store") == 2
    # What is done once is the first group's.
    assert [part.count("tma.async.load") for part in (first, second)] == [2, 0]
    assert [part.count("tcgen05.dealloc") for part in (first, second)] == [1, 0]
    assert [part.count("number_of_threads = %c256") for part in (first, second)] == [2, 2]


# -- each part is needed ---------------------------------------------------------------------------


def without(*places: tuple[str, int]) -> Callable[[str], str]:
    """The text without some of the lines, each the one of that number that matches."""

    def change(text: str) -> str:
        gone = [
            [number for number, line in enumerate(text.split("\n")) if re.search(pattern, line)][n]
            for pattern, n in places
        ]
        return "\n".join(line for n, line in enumerate(text.split("\n")) if n not in gone)

    return change


WAIT, ARRIVE, COMMIT = r"try_wait\.parity", r"mbarrier\.arrive %", r"tcgen05\.commit"
AFTER, BEFORE, MEET = "tcgen05.fence <after>", "tcgen05.fence <before>", r"nvvm\.barrier id"
# In textual order: of each group for Q, scores and O; of the copies for a slot; of the products for the groups, a tile, P and P.
MUTANTS: dict[str, tuple[Callable[[str], str], set[str]]] = {
    "nobody waits for Q": (without((WAIT, 0), (WAIT, 3)), {"read-in-flight"}),
    "no wait for the first scores": (without((WAIT, 1)), {"missing-barrier"}),
    "no wait for the first O": (without((WAIT, 2)), {"read-in-flight"}),
    "no wait for the second scores": (without((WAIT, 4)), {"missing-barrier"}),
    "no wait for the second O": (without((WAIT, 5)), {"read-in-flight"}),
    "no wait for a free slot": (without((WAIT, 6)), {"too-many-arrivals", "wrong-bytes"}),
    "no wait for what came before the loop": (without((WAIT, 7)), {"read-in-flight"}),
    "no wait for the tile": (without((WAIT, 8)), {"read-in-flight"}),
    "no wait for the first P": (without((WAIT, 9)), {"missing-barrier", "source-overwritten"}),
    "no wait for the second P": (without((WAIT, 10)), {"missing-barrier"}),
    **{f"no arrival {n}": (without((ARRIVE, n)), {"deadlock"}) for n in range(4)},
    **{f"no commit {n}": (without((COMMIT, n)), {"deadlock"}) for n in range(4)},
    **{f"group {n} does not meet at first": (without((MEET, 2 * n)), {"deadlock"}) for n in (0, 1)},
    **{
        f"group {n} does not meet at last": (without((MEET, 2 * n + 1)), {"deadlock"})
        for n in (0, 1)
    },
    **{
        f"no fence after what group {n} waits for: {which}": (
            without((AFTER, 4 * n + which)),
            {"missing-tensor-fence"},
        )
        for n in (0, 1)
        for which in (1, 2)
    },
    **{
        f"no fence before group {n} arrives": (
            without((BEFORE, 4 * n + 2)),
            {"missing-tensor-fence"},
        )
        for n in (0, 1)
    },
    "no fence after the first P": (without((AFTER, -2)), {"missing-tensor-fence"}),
    "no fence after the second P": (without((AFTER, -1)), {"missing-tensor-fence"}),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_part_that_is_left_out_is_named_and_fails(name):
    change, codes = MUTANTS[name]
    _is_wrong(change(of_kernel("two slots")), TWO, codes)


def _is_wrong(text: str, made: ChangedAttention, codes: set[str]) -> None:
    assert found(text)[0] & codes, found(text)
    assert any(run(text, made, mood, 512) != (True, set()) for mood in MOODS)


# The warp waits for O before it issues the next scores over P, and these tell the threads.
RELIED: dict[str, tuple[int, set[str]]] = {
    "no wait for the first scores": (1, {"read-in-flight"}),
    "no wait for the last O of the first tile": (2, {"read-in-flight"}),
    "no wait for the second scores": (4, {"read-in-flight"}),
    "no wait for the last O of the second tile": (5, {"read-in-flight"}),
    "the warp does not wait for the first O": (9, {"source-overwritten"}),
    "the warp does not wait for the second O": (10, {"source-overwritten"}),
}


def test_the_next_scores_say_that_o_is_over_where_the_warp_has_waited_for_it():
    loops = re.findall(r"scf\.for(?:.|\n)*?scf\.yield", of_kernel("P where the scores were"))
    assert [loop.count("try_wait") for loop in loops] == [1, 1, 1, 5]
    assert [loop.count("tcgen05.fence") for loop in loops[:2]] == [2, 2]


@pytest.mark.parametrize("name", RELIED)
def test_what_says_that_o_is_over_is_needed(name):
    number, codes = RELIED[name]
    _is_wrong(without((WAIT, number))(of_kernel("P where the scores were")), OVERLAID, codes)


# -- what belongs together --------------------------------------------------------------------------

ONE_TILE = replace(TWO, groups=1)
_FINAL = "nvvm.tcgen05.fence <before>\n    gpu.barrier\n    nvvm.tcgen05.fence <after>\n    scf.if %warp_0"
REFUSALS: dict[str, tuple[ChangedAttention, str, str, str]] = {
    # One tile of queries.
    "is one part": (ONE_TILE, "", "", "roles-unsupported"),
    # A factor that both tiles take from one of them.
    "needs what 'nvvm.tcgen05.ld' gives": (
        TWO,
        "%m_3, %l_63, %l_127,",
        "%m_1, %l_63, %l_127,",
        "roles-unsupported",
    ),
    # O of the second tile begins in O of the first one.
    "may touch the cells": (
        OVERLAID,
        "arith.constant 224 : i32",
        "arith.constant 96 : i32",
        "roles-unsupported",
    ),
    "no barrier stands between 'nvvm.tcgen05.ld' and 'nvvm.tcgen05.dealloc'": (
        TWO,
        _FINAL,
        "scf.if %warp_0",
        "roles-unsupported",
    ),
    # Rows of O that overlap.
    "no barrier stands between 'vector.store' and 'vector.store'": (
        TWO,
        "%o_row = arith.addi %own_row, %c128",
        "%o_row = arith.addi %own_row, %c64",
        "roles-unsupported",
    ),
    # The copies of the next head come as soon as one group is through.
    "no barrier stands between 'nvgpu.mbarrier.try_wait.parity' and": (
        MANY,
        "      nvvm.tcgen05.fence <before>\n      gpu.barrier\n      nvvm.tcgen05.fence <after>\n      %flip",
        "      %flip",
        "roles-unsupported",
    ),
    "it orders memory": (TWO, "%own_row = ", "llvm.fence acq_rel\n    %own_row = ", "memory-order"),
    # Another thread may have stored what comes after it.
    "'llvm.load' stands where groups would share the work, and it orders memory": (
        TWO,
        "%own_row = ",
        "%flag = llvm.load %Q_map atomic acquire {alignment = 4 : i64} : !llvm.ptr -> i32\n    %own_row = ",
        "memory-order",
    ),
    "we do not know which group runs what it holds": (
        TWO,
        "%own_row = ",
        "%either = scf.if %first -> (i1) { scf.yield %true : i1 } else { scf.yield %false : i1 }\n    %own_row = ",
        "roles-unsupported",
    ),
}


@pytest.mark.parametrize("words", REFUSALS)
def test_what_groups_cannot_share_is_refused_and_stays_as_it_was(words):
    made, old, new, code = REFUSALS[words]
    text = made.module()
    assert old in text
    module = parse(text.replace(old, new) if old else text)
    kept = str(module)
    with pytest.raises(AsyncPipeError) as refused:
        pipeline(module, check="none", target=TARGET)
    assert refused.value.code == code
    assert words in refused.value.diagnostic.message
    assert refused.value.diagnostic.place.line
    assert str(module) == kept


def test_a_block_of_more_threads_than_lanes_is_refused():
    text = TWO.module().replace("array<i32: 128, 1, 1>", "array<i32: 256, 1, 1>")
    with pytest.raises(AsyncPipeError) as refused:
        pipeline(parse(text), check="none", target=TARGET)
    assert refused.value.code == "roles-block"


def test_each_group_reads_what_nobody_writes():
    text = TWO.module().replace("%N : i32)", "%N : i32, %S : memref<1xf32>)")
    _, scale = CONSTANT.search(text).group(0), "%scale = memref.load %S[%c0] : memref<1xf32>"
    text = expanded(CONSTANT.sub(scale, text))
    assert text.count("memref.load %arg5") == 2
    assert found(text) == (set(), 0)


CONSTANT = re.compile(r"%scale = arith.constant .* : f32")


def test_what_others_write_one_group_reads():
    scale = "%scale = memref.load %O[%c0, %c0, %c0] : memref<?x?x64xf32>"
    with pytest.raises(AsyncPipeError, match=r"needs what 'memref\.load' gives"):
        expanded(CONSTANT.sub(scale, TWO.module()))
