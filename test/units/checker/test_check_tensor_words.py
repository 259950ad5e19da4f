"""Descriptors of the tensor data mover in words, as kernels have them after lowering: judged as their ops are.

Covers: vocabulary/tensor_mover.py, vocabulary/barriers.py, machine/dialects/amd.py
"""

import functools

import numpy as np
import pytest

from helpers.check_harness import RACES, check_module
from helpers.tensor_mover_kernels import BARRIER, KERNELS, LOADED, READ, kernel, load, wait
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context, passmanager
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.session.diagnostics import MachineError

GFX1250 = Target.parse("rocdl:gfx1250")
# MLIR's own way to the instructions, which packs the bits.
LOWERING = (
    "builtin.module(gpu.module(convert-vector-to-scf,convert-scf-to-cf,expand-strided-metadata,lower-affine,"
    "convert-amdgpu-to-rocdl{chipset=gfx1250},convert-gpu-to-rocdl{chipset=gfx1250},canonicalize,cse,"
    "reconcile-unrealized-casts))"
)


@functools.cache
def lowered(text: str) -> str:
    module = ir.Module.parse(text, new_context())
    passmanager.PassManager.parse(LOWERING, module.context).run(module.operation)
    return str(module)


def check(text: str):
    module = ir.Module.parse(text, new_context())
    return check_module(module, "rocdl:gfx1250", assume_noalias_arguments=True)


def run(text: str, threads: int = 128, **options: object) -> machine.RunResult:
    source = (np.arange(256 * 64) % 97).astype(np.float16).reshape(256, 64)
    arguments: list[object] = []
    for array in (source, np.zeros_like(source), np.zeros_like(source)):
        arguments += [array, array, 0, 256, 64, 64, 1]
    module = ir.Module.parse(text, new_context())
    return machine.run(module, None, arguments, threads=threads, target=GFX1250, **options)


@pytest.mark.parametrize("name", KERNELS)
def test_a_lowered_kernel_has_the_races_that_it_had(name):
    body, threads, codes = KERNELS[name]
    checked = check(lowered(kernel(body, threads)))
    assert {code for code, _ in checked.unsafe} == codes
    assert not checked.unknown


@pytest.mark.parametrize("completion", ("late", "random:5"))
@pytest.mark.parametrize("name", KERNELS)
def test_the_machine_finds_the_same(name, completion):
    body, threads, codes = KERNELS[name]
    result = run(lowered(kernel(body, threads)), threads, completion=completion)
    assert result.race_codes & RACES == codes


SAFE = lowered(kernel(LOADED + READ))
COPY = next(line for line in SAFE.splitlines() if "rocdl.tensor.load.to.lds" in line)
FIRST, SECOND = (part.strip() for part in COPY.split("lds ")[1].split(",")[:2])


def with_word(group: str, place: int, word: str) -> str:
    """The lowered kernel, with one word of a descriptor replaced by a value."""
    count = 4 if group == FIRST else 8
    more = f"""
      %place = llvm.mlir.constant({place} : i32) : i32
      {word}
      %changed = llvm.insertelement %word, {group}[%place : i32] : vector<{count}xi32>
    """
    return SAFE.replace(COPY, more + COPY.replace(f" {group},", " %changed,"))


def constant(number: int) -> str:
    return f"%word = llvm.mlir.constant({number} : i32) : i32"


# What bits ask for, and what is said of them; f16 is bit 16 of the second group's first word.
REFUSED = {
    "gather": (FIRST, 0, -(1 << 31) + 1, "it gathers rows, or scatters them"),
    "blocks": (SECOND, 0, (1 << 16) + 3, "it copies to several blocks of a cluster"),
    "barrier": (SECOND, 0, (1 << 16) + (1 << 18), "it arrives at a barrier in LDS when it is over"),
    "iterate": (SECOND, 0, (1 << 16) + (1 << 19), "it copies several tiles one after the other"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_bits_ask_for_and_is_not_followed_is_unknown_by_its_reason(name):
    group, place, number, why = REFUSED[name]
    text = with_word(group, place, constant(number))
    checked = check(text)
    assert not checked.unsafe
    assert {r for entry in checked.report.of("checks") for r in entry.reasons} == {
        "unfollowed-copy"
    }
    assert any(why in str(said) for said in checked.report.diagnostics)
    with pytest.raises(MachineError, match=why):
        run(text)


def test_a_count_that_is_not_known_copies_perhaps():
    """The wait counts it all the same; what it may have written is no certain race."""
    word = "%word = llvm.trunc %arg3 : i64 to i32"
    early = lowered(kernel(load() + BARRIER + READ + wait(0)))
    assert check(early).unsafe
    assert not check(with_word(FIRST, 0, word)).unsafe
    copy = next(line for line in early.splitlines() if "rocdl.tensor.load.to.lds" in line)
    group = copy.split("lds ")[1].split(",")[0].strip()
    changed = f"""
      %place = llvm.mlir.constant(0 : i32) : i32
      {word}
      %changed = llvm.insertelement %word, {group}[%place : i32] : vector<4xi32>
    """
    perhaps = check(early.replace(copy, changed + copy.replace(f" {group},", " %changed,")))
    assert not perhaps.unsafe
    assert perhaps.unknown


def test_sizes_of_the_tensor_may_be_dynamic():
    """The upper half of word 3 is the tile's, whatever the size of the tensor puts into the lower one."""
    word = """%some = llvm.trunc %arg3 : i64 to i32
      %sixteen = llvm.mlir.constant(16 : i32) : i32
      %low = llvm.lshr %some, %sixteen : i32
      %high = llvm.mlir.constant(4194304 : i32) : i32
      %word = llvm.or disjoint %low, %high : i32"""
    checked = check(with_word(SECOND, 3, word))
    assert not checked.unsafe
    assert not checked.unknown


def test_a_tile_whose_size_is_not_known_is_unknown_by_its_reason():
    checked = check(with_word(SECOND, 3, "%word = llvm.trunc %arg3 : i64 to i32"))
    assert not checked.unsafe
    assert {r for entry in checked.report.of("checks") for r in entry.reasons} == {
        "unfollowed-copy"
    }


def test_padding_in_bits_leaves_words_out():
    """Interval 32 words, amount 4: bits 20, 22 to 24 and 25 to 31 of the second group; 32 rows of 144 bytes reach
    beyond the tile of 4096."""
    text = with_word(SECOND, 0, constant((1 << 16) | (1 << 20) | (4 << 22) | (3 << 25)))
    assert "out-of-bounds" in run(text).race_codes


def intrinsic(text: str) -> str:
    """The same by calls of LLVM's intrinsics."""
    lines = []
    for line in text.splitlines():
        if "rocdl.tensor.load.to.lds" in line:
            groups = [
                part.strip() for part in line.split("lds ")[1].split(" cachepolicy")[0].split(",")
            ]
            types = [f"vector<{count}xi32>" for count in (4, 8, 4, 4, 8)]
            line = "%policy = llvm.mlir.constant(0 : i32) : i32\n" + (
                f'llvm.call_intrinsic "llvm.amdgcn.tensor.load.to.lds"({", ".join(groups)}, %policy)'
                f" : ({', '.join(types)}, i32) -> ()"
            )
        lines.append(line)
    return "\n".join(lines)


def test_calls_of_the_intrinsic_are_the_same():
    assert not check(intrinsic(SAFE)).unknown
    assert not check(intrinsic(SAFE)).unsafe
    early = intrinsic(lowered(kernel(load() + BARRIER + READ + wait(0))))
    assert {code for code, _ in check(early).unsafe} == {"read-in-flight"}
    assert run(intrinsic(SAFE), completion="late").races == ()
    assert run(early, completion="late").race_codes & RACES == {"read-in-flight"}


SIGNAL = next(line for line in SAFE.splitlines() if "s.barrier.signal" in line)


def test_the_halves_of_a_barrier_apart_are_no_barrier_of_the_block():
    """Between signal and wait a thread may be before the others or after them: not followed."""
    between = SAFE.replace(SIGNAL, f"{SIGNAL}\nrocdl.s.wait.tensorcnt 0")
    assert check(between).unknown
    with pytest.raises(MachineError, match="halves stand apart"):
        run(between)


def test_the_halves_of_another_barrier_are_none_of_the_block():
    assert check(SAFE.replace("id = -1", "id = 1")).unknown


def test_a_barrier_without_fences_orders_no_memory():
    bare = "\n".join(line for line in SAFE.splitlines() if "llvm.fence" not in line)
    assert {code for code, _ in check(bare).unsafe} == {"not-visible"}
