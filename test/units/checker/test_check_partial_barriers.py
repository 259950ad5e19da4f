"""Every barrier of the vocabulary: it orders the threads of a block if all of them meet there,
else nothing may count on it.

Covers: vocabulary/barriers.py, vocabulary/async_ops.py, vocabulary/pure_ops.py, checker/effects.py
"""

from __future__ import annotations

import pytest

from helpers.check_harness import check_text
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session.diagnostics import MachineError
from mlir_async_pipe.vocabulary import ROWS

KERNEL = """
gpu.module @m {{
  gpu.func @k(%some: i32) workgroup(%s: memref<64xf32, #gpu.address_space<workgroup>>)
      kernel attributes {{{size}}} {{
    %t = gpu.thread_id x
    %c1 = arith.constant 1 : i32
    %c32 = arith.constant 32 : i32
    %c64 = arith.constant 64 : i32
    %true = arith.constant true
    %c63 = arith.constant 63 : index
    %zero = arith.constant 0.0 : f32
    %o = arith.subi %c63, %t : index
    memref.store %zero, %s[%t] : memref<64xf32, #gpu.address_space<workgroup>>
    {barrier}
    %v = memref.load %s[%o] : memref<64xf32, #gpu.address_space<workgroup>>
    gpu.return
  }}
}}
"""
SIZE = "known_block_size = array<i32: 64, 1, 1>"
WHOLE = {
    "gpu.barrier": ["gpu.barrier", "gpu.barrier memfence [#gpu.address_space<workgroup>]"],
    "nvvm.barrier0": ['"nvvm.barrier0"() : () -> ()'],
    "nvvm.barrier": [
        "nvvm.barrier",
        "nvvm.barrier id = %c1",
        "nvvm.barrier id = %c1 number_of_threads = %c64",
    ],
    "rocdl.barrier": ["rocdl.barrier"],
    "amdgpu.lds_barrier": ["amdgpu.lds_barrier"],
}
PARTIAL = {
    "nvvm.barrier": [
        "nvvm.barrier id = %c1 number_of_threads = %c32",
        "nvvm.barrier id = %c1 number_of_threads = %some",
        "nvvm.barrier id = %some",
        # Two barriers that half of the lanes of each warp name: warps come to barriers, not lanes.
        "%i = arith.index_cast %t : index to i32\n%odd = arith.andi %i, %c1 : i32\n"
        "nvvm.barrier id = %odd number_of_threads = %c32",
        "%i = arith.index_cast %t : index to i32\n%four = arith.constant 4 : i32\n"
        "%half = arith.shrui %i, %four : i32\n%odd = arith.andi %half, %c1 : i32\n"
        "nvvm.barrier id = %odd number_of_threads = %c32",
    ],
    "nvvm.barrier.arrive": ["nvvm.barrier.arrive id = %c1 number_of_threads = %c64"],
    "nvvm.bar.warp.sync": ["nvvm.bar.warp.sync %c32 : i32"],
    "rocdl.wave.barrier": ["rocdl.wave.barrier"],
    "nvvm.cluster.arrive": ["nvvm.cluster.arrive {aligned}\nnvvm.cluster.wait {aligned}"],
    "nvvm.cluster.arrive.relaxed": ["nvvm.cluster.arrive.relaxed\nnvvm.cluster.wait"],
    "nvvm.cluster.wait": ["nvvm.cluster.wait"],
}
# As intrinsics, and the operands that each family is given.
INTRINSICS = {
    "barrier0": "",
    "barrier0.and barrier0.or barrier0.popc": "%some",
    "barrier.n bar.sync barrier.sync barrier.cta.sync.all barrier.cta.sync.aligned.all": "%c1",
    "barrier barrier.sync.cnt barrier.cta.sync barrier.cta.sync.count barrier.cta.sync.aligned "
    "barrier.cta.sync.aligned.count": "%c1, %c64",
    " ".join(
        f"barrier.cta.red.{kind}{aligned}.all"
        for kind in ("and", "or", "popc")
        for aligned in ("", ".aligned")
    ): "%c1, %true",
    " ".join(
        f"barrier.cta.red.{kind}{aligned}.count"
        for kind in ("and", "or", "popc")
        for aligned in ("", ".aligned")
    ): "%c1, %c64, %true",
}
PARTIAL_INTRINSICS = {
    "barrier.cta.arrive barrier.cta.arrive.aligned barrier.cta.arrive.count "
    "barrier.cta.arrive.aligned.count": "%c1, %c64",
    "bar.warp.sync": "%c32",
    "barrier.cluster.arrive barrier.cluster.arrive.aligned barrier.cluster.arrive.relaxed "
    "barrier.cluster.arrive.relaxed.aligned barrier.cluster.wait barrier.cluster.wait.aligned": "",
}


def spelled(table: dict[str, str]) -> dict[str, str]:
    """Each intrinsic as clang's import writes its call."""
    return {
        f"llvm.nvvm.{name}": f'llvm.call_intrinsic "llvm.nvvm.{name}"({given}) : '
        f"({', '.join('i1' if g == '%true' else 'i32' for g in given.split(', ') if g)}) -> "
        + ("i1" if ".and" in name or ".or" in name else "i32" if "popc" in name else "()")
        for names, given in table.items()
        for name in names.split()
    }


# They meet, but order no memory.
PLAIN = {
    "llvm.amdgcn.s.barrier": ['llvm.call_intrinsic "llvm.amdgcn.s.barrier"() : () -> ()'],
    "gpu.barrier": ["gpu.barrier memfence []", "gpu.barrier memfence [#gpu.address_space<global>]"],
    "rocdl.s.barrier": ["rocdl.s.barrier"],
}


def each(table: dict[str, list[str]]) -> list[str]:
    return [text for texts in table.values() for text in texts]


def text_of(barrier: str, size: str = SIZE) -> str:
    return KERNEL.format(barrier=barrier, size=size)


def verdict(text: str) -> str:
    checked = check_text(text)
    return "unsafe" if checked.unsafe else "unknown" if checked.unknown else "safe"


def test_every_barrier_of_the_vocabulary_is_in_a_table() -> None:
    barriers = {name for name, row in ROWS.items() if row.barrier is not None}
    intrinsics = {*spelled(INTRINSICS), *spelled(PARTIAL_INTRINSICS)}
    assert barriers == {*WHOLE, *PARTIAL, *PLAIN, *intrinsics}


@pytest.mark.parametrize(("name", "call"), spelled(INTRINSICS).items())
def test_an_intrinsic_is_a_barrier_as_its_op_is(name: str, call: str) -> None:
    assert verdict(text_of(call)) == "safe"
    of_some = call.replace("%c64", "%c32")
    assert verdict(text_of(of_some)) == ("safe" if of_some == call else "unknown")
    assert verdict(text_of(call.replace("%c1", "%some"))) != "unsafe"


@pytest.mark.parametrize(("name", "call"), spelled(PARTIAL_INTRINSICS).items())
def test_an_intrinsic_of_some_threads_is_never_counted_on(name: str, call: str) -> None:
    assert verdict(text_of(call)) == "unknown"


@pytest.mark.parametrize("name", ["llvm.nvvm.barrier0", "llvm.nvvm.barrier.cta.sync.aligned.all"])
def test_a_call_of_an_intrinsic_by_symbol_is_a_barrier_too(name: str) -> None:
    given, kinds = ("", "") if name.endswith("0") else ("%c1", "i32")
    call = f"llvm.call @{name}({given}) : ({kinds}) -> ()"
    declared = text_of(call).replace("gpu.func", f"llvm.func @{name}({kinds})\n  gpu.func", 1)
    assert verdict(declared) == "safe"
    assert verdict(declared.replace(call, "")) == "unsafe"
    with new_context():
        ran = machine.run(ir.Module.parse(declared), "k", [1], threads=64)
    assert ran.race_codes == frozenset()


@pytest.mark.parametrize(
    "call",
    [
        'llvm.call_intrinsic "llvm.amdgcn.s.barrier.wait"() : () -> ()',
        'llvm.call_intrinsic "llvm.my.barrier"() : () -> ()',
        'llvm.inline_asm has_side_effects "barrier.of.mine 0;", "" : () -> ()',
        "func.call @elsewhere() : () -> ()",
        "rocdl.s.barrier.wait id = -1",
        "gpu.all_reduce add %zero uniform {} : (f32) -> f32",
    ],
)
def test_what_may_be_a_barrier_leaves_no_certain_race_after_it(call: str) -> None:
    """Nobody knows what it does, so there is no execution that shows a race across it."""
    text = text_of(call).replace("gpu.func", "func.func private @elsewhere()\n  gpu.func", 1)
    assert verdict(text) == "unknown"
    # What races before it races, whatever it is.
    both = "%w = memref.load %s[%o] : memref<64xf32, #gpu.address_space<workgroup>>\n" + call
    assert verdict(text.replace(call, both)) == "unsafe"


@pytest.mark.parametrize("barrier", [text for text in each(WHOLE) if "barrier0" not in text])
def test_a_barrier_of_the_block_orders_its_threads(barrier: str) -> None:
    assert verdict(text_of(barrier)) == "safe"


@pytest.mark.parametrize("barrier", each(PARTIAL))
def test_a_barrier_of_some_threads_is_never_counted_on(barrier: str) -> None:
    assert verdict(text_of(barrier)) == "unknown"


@pytest.mark.parametrize(
    "barrier",
    [
        "nvvm.barrier id = %c64",
        "nvvm.barrier id = %c64 number_of_threads = %c64",
        "nvvm.barrier.arrive id = %c64 number_of_threads = %c64",
        'llvm.call_intrinsic "llvm.nvvm.barrier.cta.sync.aligned.all"(%c64) : (i32) -> ()',
    ],
)
def test_a_block_has_sixteen_barriers(barrier: str) -> None:
    found = check_text(text_of(barrier)).unsafe
    assert "out-of-bounds" in {code for code, _ in found}
    if "call_intrinsic" not in barrier:
        assert "out-of-bounds" in machine_codes(barrier)


@pytest.mark.parametrize("barrier", each(PLAIN))
def test_a_barrier_without_a_fence_orders_nothing(barrier: str) -> None:
    assert verdict(text_of(barrier)) == "unsafe"


def test_a_count_is_that_of_the_block_only_if_its_size_is_known() -> None:
    barrier = "nvvm.barrier id = %c1 number_of_threads = %c64"
    assert verdict(text_of(barrier, size="")) == "unknown"


def machine_codes(barrier: str) -> frozenset[str]:
    with new_context():
        return machine.run(ir.Module.parse(text_of(barrier)), "k", [1], threads=64).race_codes


def test_the_machine_runs_barriers_of_some_threads() -> None:
    """Of 32: each warp meets itself. Of a number that is 1 in this run: the block."""
    alone, too_few, together = PARTIAL["nvvm.barrier"][:3]
    # The first warp reads what the second has not written yet.
    assert machine_codes(alone) == {"missing-barrier", "uninitialised-read"}
    assert machine_codes(together) == frozenset()
    with pytest.raises(MachineError, match="more than 1 threads at barrier 1"):
        machine_codes(too_few)
