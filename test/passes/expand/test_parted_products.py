"""Products of tensor memory by a warp of their own, of a loop whose threads load and store tensor memory between them: what
is written is proven, right on the machine, and each part of it is needed; what cannot be parted stays as it was.

Covers: pipeliner/plan/product_role.py, pipeliner/expand/write/write_roles.py, pipeliner/plan/role_plan.py, vocabulary/tensor_memory.py
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
from mlir_async_pipe.pipeliner.expand.write.write_roles import PartedWriter
from mlir_async_pipe.session.diagnostics import AsyncPipeError

ONE = ChangedAttention(plain=True, roles="specialised")
OVERLAID = replace(ONE, overlaid=True)
MANY = replace(ONE, persistent=True, stages=2)
KERNELS = {
    "three slots": ONE,
    "two slots": replace(ONE, stages=2),
    "128 keys and features": replace(ONE, keys=128, features=128, stages=2),
    "P where the scores were": OVERLAID,
    "two tiles of queries": replace(ONE, groups=2, stages=2),
    "head after head": MANY,
}


@cache
def of_kernel(name: str) -> str:
    return expanded(KERNELS[name].module())


@pytest.mark.parametrize("name", KERNELS)
def test_it_is_proven_for_any_number_of_keys(name):
    text = of_kernel(name)
    assert "known_block_size = array<i32: 192, 1, 1>" in text
    assert found(text) == (set(), 0)


@pytest.mark.parametrize("mood", MOODS, ids="-".join)
@pytest.mark.parametrize("name", KERNELS)
def test_the_result_is_numpy_s(name, mood):
    assert run(of_kernel(name), KERNELS[name], mood) == (True, set())


def test_barriers_of_the_loop_are_arrivals_of_each_warp():
    text = of_kernel("three slots")
    loop = text[text.index("scf.for") :]
    assert "gpu.barrier" not in loop
    # Before the loop, and where P is stored; the barrier that kept the slot is nobody's.
    assert text.count("nvgpu.mbarrier.arrive %") == 2
    assert loop[: loop.index("scf.yield")].count("nvvm.barrier id") == 0


# -- each part is needed ---------------------------------------------------------------------------


def without(pattern: str, which: int = 0) -> Callable[[str], str]:
    """The text without one of the places that match."""

    def change(text: str) -> str:
        at = list(re.finditer(rf"\n[^\n]*{pattern}[^\n]*", text))[which]
        return text[: at.start()] + text[at.end() :]

    return change


WAIT, AFTER = r"try_wait\.parity", "tcgen05.fence <after>"
# In textual order: the threads' for Q, scores and O, the copies' for a slot, the products' for the threads, a tile, and P.
MUTANTS: dict[str, tuple[Callable[[str], str], set[str]]] = {
    "no wait for the scores": (without(WAIT, 1), {"read-in-flight", "missing-barrier", "deadlock"}),
    "no wait for O": (without(WAIT, 2), {"read-in-flight"}),
    "no wait for a free slot": (without(WAIT, 3), {"too-many-arrivals", "wrong-bytes"}),
    "no wait for what came before the loop": (without(WAIT, 4), {"read-in-flight"}),
    "no wait for the tile": (without(WAIT, 5), {"read-in-flight"}),
    "no wait for P": (without(WAIT, 6), {"missing-barrier", "uninitialised-read"}),
    "no commit of the scores": (without(r"tcgen05\.commit", 0), {"deadlock"}),
    "no commit of O": (without(r"tcgen05\.commit", 1), {"deadlock"}),
    "no arrival before the loop": (without(r"mbarrier\.arrive %", 0), {"deadlock"}),
    "no arrival for P": (without(r"mbarrier\.arrive %", 1), {"deadlock"}),
    "no fence after the scores": (without(AFTER, 1), {"missing-tensor-fence"}),
    "no fence after O": (without(AFTER, 3), {"missing-tensor-fence"}),
    "no fence after the threads' P": (without(AFTER, -1), {"missing-tensor-fence"}),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_part_that_is_left_out_is_named_and_fails(name):
    change, codes = MUTANTS[name]
    text = change(of_kernel("three slots"))
    assert found(text)[0] & codes, found(text)
    assert any(run(text, ONE, mood) != (True, set()) for mood in MOODS)


def test_products_wait_for_others_whose_cells_they_fill():
    """The thread that issues has waited for each commit in the input; the warp does where that orders products."""
    text = of_kernel("P where the scores were")
    products = text[text.rindex("scf.for") :]
    waits = re.findall(r"try_wait\.parity (%\d+)\[", products)
    assert len(waits) == 3
    assert len(re.findall(WAIT, of_kernel("three slots").rpartition("scf.for")[2])) == 2
    # That for O of the tile before, which comes before the scores; they are over when P is there.
    wrong = without(WAIT, -2)(text)
    assert "source-overwritten" in found(wrong)[0]
    assert any("source-overwritten" in run(wrong, OVERLAID, mood)[1] for mood in MOODS)


LATE = """nvvm.tcgen05.fence <after>
%late = nvvm.tcgen05.ld %s_at_1 {shape = #nvvm.tcgen05_ldst_shape<shape_32x32b>} : vector<32xi32>
nvvm.tcgen05.wait <load>
nvvm.tcgen05.fence <before>
gpu.barrier
nvvm.tcgen05.fence <after>
%flip ="""


def test_what_threads_do_at_the_end_of_an_iteration_is_known_to_the_next_products():
    made = ONE.module()
    assert made.count("gpu.barrier\n      %flip =") == 1
    text = expanded(made.replace("gpu.barrier\n      %flip =", LATE))
    assert found(text) == (set(), 0)
    assert all(run(text, ONE, mood) == (True, set()) for mood in MOODS)
    wrong = without(WAIT, -2)(text)
    assert found(wrong)[0] & {"missing-barrier", "source-overwritten", "too-many-arrivals"}
    assert any(run(wrong, ONE, mood) != (True, set()) for mood in MOODS)


def test_executions_without_iterations_count_for_nobody(monkeypatch):
    """Nothing would keep the threads from being two of them ahead of the warp of products."""
    assert found(of_kernel("head after head")) == (set(), 0)
    monkeypatch.setattr(PartedWriter, "_runs", lambda self, write: None)
    assert found(expanded(MANY.module())) != (set(), 0)


# -- refused ---------------------------------------------------------------------------------------

_STORED = "      gpu.barrier\n      nvvm.tcgen05.fence <after>\n      scf.if %first"
REFUSALS = {
    "neither a copy, a product, nor work": (
        "%shift =",
        "memref.store %i32, %place[%c0] : memref<1xi32, WG>\n%shift =",
    ),
    "'memref.load' is neither": (
        "%shift =",
        "%seen = memref.load %K_shared[%c0, %c0] : memref<64x64xf16, WG>\n%shift =",
    ),
    "touches tensor memory, too": (
        "%done:3 = ",
        "nvvm.tcgen05.shift %o_at : !llvm.ptr<6>\n%done:3 = ",
    ),
    "no barrier follows 'nvvm.tcgen05.st'": ("gpu.barrier\n", "\n"),
    "one branch of thread 0": (_STORED, _STORED.replace("%first", "%warp_0")),
    "stands beside the products": (
        "%at_16 =",
        "memref.store %i32, %place[%c0] : memref<1xi32, WG>\n%at_16 =",
    ),
}


@pytest.mark.parametrize("words", REFUSALS)
def test_what_is_refused_stays_as_it_was(words):
    old, new = REFUSALS[words]
    text = ONE.module()
    assert old in text
    head, loop = text.split("scf.for", 1)
    text = f"{head}scf.for{loop.replace(old, new)}" if old in loop else text.replace(old, new)
    module = parse(text)
    kept = str(module)
    with pytest.raises(AsyncPipeError) as refused:
        pipeline(module, check="none", target=TARGET)
    assert refused.value.code == "roles-unsupported"
    assert words in refused.value.diagnostic.message
    assert refused.value.diagnostic.place.line
    assert str(module) == kept


def doubled(text: str, pattern: str) -> str:
    """The lines that match, also for mbarriers of another name."""
    lines = []
    for line in text.split("\n"):
        lines.append(line)
        if re.search(pattern, line):
            lines.append(re.sub(r"%(summed|at_\w+|to_\w+)", r"%other_\1", line))
    return "\n".join(lines)


def test_a_branch_with_two_commits_is_refused():
    text = ONE.module()
    (to,) = re.findall(r"get %summed\[.*\n *(%to_\w+) =", text)
    text = doubled(text, rf"%summed|{to} |commit {to} ")
    assert text.count("tcgen05.commit") == 3
    with pytest.raises(AsyncPipeError, match="a branch has two commits") as refused:
        pipeline(parse(text), check="none", target=TARGET)
    assert refused.value.code == "roles-unsupported"
    # Without roles each commit is waited for.
    plain = expanded(text.replace(', async_pipe.roles = "specialised"', ""))
    assert found(plain) == (set(), 0)
