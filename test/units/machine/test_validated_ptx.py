"""`validate` on PTX: what LLVM makes of a pipeline computes what the kernel did, for all data; what is changed in it does not.

Covers: machine/validation.py, machine/terms.py, lowering/nvvm/opaque_assembly.py
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import mlir_async_pipe
from helpers.gemm_kernels import EXAMPLES
from helpers.hopper_gemms import HopperGemm
from helpers.machine_programs import parse
from helpers.tensor_memory_kernels import BlackwellGemm
from mlir_async_pipe import Target, validate
from mlir_async_pipe.lowering.lower import Lowered, lower
from mlir_async_pipe.machine.term_table import CAST, TermTable
from mlir_async_pipe.machine.terms import Terms, inputs, moved_bytes
from mlir_async_pipe.machine.validation import Data, Validation
from mlir_async_pipe.session.diagnostics import UsageError

sys.path.insert(0, str(EXAMPLES))
from generate_attention import Attention
from generate_gemm import TYPES, Gemm

TILE = (EXAMPLES / "attention_tile.mlir").read_text()
OF_TILE = [Data((32, 16)), Data((32, 16)), Data((32, 32)), Data((32, 32))]
GEMM = Gemm(chip="sm_80", tile_m=32, tile_n=32, warps=(1, 1))
OF_GEMM = [Data((32, 64)), Data((32, 64)), Data((32, 32))]


@cache
def lowered(text: str, target: str) -> Lowered:
    module = parse(text)
    mlir_async_pipe.pipeline(module, target=target, check="none")
    return lower(module, target=Target.parse(target), emit="ptx")


def validated(
    text: str, target: str, arguments: list[Any], *edit: str, **launch: Any
) -> Validation:
    """The kernel and its PTX, in which the text `edit[0]` becomes `edit[1]`."""
    code = lowered(text, target)
    if edit:
        changed = code.text.replace(*edit)
        assert changed != code.text
        code = replace(code, text=changed)
    return validate(parse(text), code, None, arguments, target=target, **launch)


# Kernels ------------------------------------------------------------------------------------


def test_ptx_of_attention_computes_the_tile() -> None:
    found = validated(TILE, "nvvm:sm_80", OF_TILE)
    assert found.is_equal
    assert found.message.startswith("the PTX of 'attention_tile' computes what it did: 3072 ")


@pytest.mark.parametrize(
    "change",
    [
        *({"types": TYPES[name]} for name in ("f16", "bf16", "tf32", "s8")),
        *({"edges": True}, {"nested": True}, {"staging": "registers"}, {"persistent": True}),
    ],
    ids=["f16", "bf16", "tf32", "s8", "edges", "nested", "registers", "persistent"],
)
def test_ptx_of_products_of_fragments(change: dict[str, Any]) -> None:
    gemm = replace(GEMM, **change)
    found = validated(gemm.module(), "nvvm:sm_80", OF_GEMM, threads=gemm.threads)
    assert found.is_equal, found.diagnostic()


BITS = """
gpu.module @k {
  gpu.func @f(%from: memref<64xi4> {llvm.noalias}, %to: memref<64xi4> {llvm.noalias})
      workgroup(%tile: memref<32xi4, #gpu.address_space<workgroup>>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    %c64 = arith.constant 64 : index
    %c31 = arith.constant 31 : index
    %five = arith.constant 5 : i4
    %t = gpu.thread_id x
    %other = arith.subi %c31, %t : index
    scf.for %i = %c0 to %c64 step %c32 {
      %at = arith.addi %i, %t : index
      %x = memref.load %from[%at] : memref<64xi4>
      memref.store %x, %tile[%t] : memref<32xi4, #gpu.address_space<workgroup>>
      gpu.barrier
      %y = memref.load %tile[%other] : memref<32xi4, #gpu.address_space<workgroup>>
      %z = arith.addi %y, %five : i4
      memref.store %z, %to[%at] : memref<64xi4>
      gpu.barrier
    } {async_pipe.num_stages = 2 : i64}
    gpu.return
  }
}
"""


def test_integers_of_four_bits_are_bytes_in_memory() -> None:
    """LLVM stores the lower four bits of a register, and zeros above them."""
    found = validated(BITS, "nvvm:sm_80", [])
    assert found.is_equal, found.diagnostic()
    ptx = lowered(BITS, "nvvm:sm_80").text
    assert ", 15;" in ptx and "st.global.b8" in ptx


@pytest.mark.parametrize("edit", [(", 15;", ", 7;"), (", 15;", ", 31;"), (", 5;", ", 6;")])
def test_what_is_changed_in_integers_of_four_bits_is_different(edit: tuple[str, str]) -> None:
    assert validated(BITS, "nvvm:sm_80", [], *edit).verdict == "different"


HOPPER = HopperGemm(tile_m=64, tile_n=64)


@pytest.mark.slow
@pytest.mark.parametrize(
    "gemm",
    [HOPPER, replace(HOPPER, roles="specialised"), replace(HOPPER, types="s8", tile_k=128)],
    ids=["together", "roles", "s8"],
)
def test_ptx_of_products_of_warpgroups(gemm: HopperGemm) -> None:
    stored, sums = ("int8", "int32") if gemm.types == "s8" else ("float16", "float32")
    operands = [Data((64, 200), stored), Data((64, 200), stored), Data((64, 64), sums)]
    found = validated(gemm.module(), "nvvm:sm_90a", [*operands, 200])
    assert found.is_equal, found.diagnostic()


BLACKWELL = BlackwellGemm(tile_n=64).module()
OF_BLACKWELL = [Data((128, 200), "float16"), Data((64, 200), "float16"), Data((128, 64), "float32"), 200]  # fmt: skip


@pytest.mark.slow
def test_ptx_of_products_in_tensor_memory() -> None:
    found = validated(BLACKWELL, "nvvm:sm_100a", OF_BLACKWELL)
    assert found.is_equal, found.diagnostic()


@pytest.mark.slow
def test_registers_that_are_read_before_the_wait_of_their_load_are_found() -> None:
    """LLVM packed pairs above the wait, before the lowering held them behind it."""
    wait = "\ttcgen05.wait::ld.sync.aligned;\n"
    code = lowered(BLACKWELL, "nvvm:sm_100a").text
    after = code[code.index(wait) + len(wait) :]
    packed = after[after.index("\tmov.b64") :].split("\n", 1)[0] + "\n"
    found = validated(BLACKWELL, "nvvm:sm_100a", OF_BLACKWELL, wait, packed + wait)
    assert (found.verdict, found.code) == ("different", "read-in-flight")


@pytest.mark.slow
def test_ptx_of_flash_attention() -> None:
    """Of 256 positions LLVM exchanges operands of maxima."""
    found = validated(Attention().module(), "nvvm:sm_80", [Data((1, 256, 64))] * 4, threads=128)
    assert found.is_equal, found.diagnostic()


@pytest.mark.parametrize(
    ("edit", "verdict"),
    [
        (("max.f32 \t%r3, %r1, %r2;", "max.f32 \t%r3, %r2, %r1;"), "equal"),
        (("max.f32 \t%r3, %r1, %r2;", "max.NaN.f32 \t%r3, %r1, %r2;"), "unknown"),
        (("max.f32 \t%r3, %r1, %r2;", "min.f32 \t%r3, %r1, %r2;"), "different"),
        (("max.f32 \t%r3, %r1, %r2;", "max.f32 \t%r3, %r1, %r1;"), "different"),
    ],
)
def test_operands_of_a_maximum_may_be_exchanged(edit: tuple[str, str], verdict: str) -> None:
    text = """gpu.module @m { gpu.func @f(%a: memref<8xf32>, %b: memref<8xf32>) kernel {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %x = memref.load %a[%c0] : memref<8xf32>
      %y = memref.load %a[%c1] : memref<8xf32>
      %z = arith.maxnumf %x, %y : f32
      memref.store %z, %b[%c0] : memref<8xf32>
      gpu.return
    } }"""
    assert validated(text, "nvvm:sm_80", [], *edit).verdict == verdict


CHANGES = [
    ("bar.sync \t0;", "", "not-visible"),
    ("cp.async.commit_group;", "", "read-in-flight"),
    ("cp.async.wait_group \t0;", "cp.async.wait_group \t1;", "read-in-flight"),
    ("cp.async.wait_group \t1;", "cp.async.wait_group \t2;", "read-in-flight"),
    ("mul.rn.f32", "add.rn.f32", "different-value"),
    ("0f00000000", "0f3F800000", "different-value"),
]


@pytest.mark.parametrize(("was", "now", "code"), CHANGES)
def test_what_is_changed_in_the_ptx_is_found(was: str, now: str, code: str) -> None:
    found = validated(TILE, "nvvm:sm_80", OF_TILE, was, now)
    assert (found.verdict, found.code) == ("different", code), found.message
    assert found.place.file == "attention_tile.ptx"


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"),
    ],
)  # fmt: skip
def test_what_is_changed_in_the_ptx_of_products_is_found(was: str, now: str) -> None:
    found = validated(GEMM.module(), "nvvm:sm_80", OF_GEMM, was, now, threads=GEMM.threads)
    assert (found.verdict, found.code) == ("different", "different-value")


# What is refused ------------------------------------------------------------------------------


def refused(code: Any, function: str | None = None) -> str:
    with pytest.raises(UsageError) as error:
        validate(parse(TILE), code, function, OF_TILE, target="nvvm:sm_80")
    return str(error.value)


def test_other_code_than_ptx_is_refused() -> None:
    code = replace(lowered(TILE, "nvvm:sm_80"), emit="isa")
    assert "PTX, not isa" in refused(code)


def test_a_kernel_that_the_ptx_lacks_is_refused() -> None:
    code = replace(lowered(TILE, "nvvm:sm_80"), kernels=())
    assert "no kernel 'attention_tile' in the PTX" in refused(code)


def test_parameters_that_are_not_those_of_the_launch_are_refused() -> None:
    code = lowered(TILE, "nvvm:sm_80")
    fewer = {name: parameters[1:] for name, parameters in code.parameters.items()}
    message = refused(replace(code, parameters=fewer))
    assert "'attention_tile' has 28 parameters in machine code, and is handed 27" in message


# Bytes that are moved -------------------------------------------------------------------------

U16, U32, I16, I32 = (np.dtype(name) for name in ("u2", "u4", "i2", "i4"))


def terms(table: TermTable, dtype: np.dtype) -> Terms:
    made = inputs(table, "arg0", (4,), dtype)
    assert isinstance(made, Terms)
    return made


def test_two_halves_in_a_register_are_their_bytes() -> None:
    table = TermTable()
    low, high = (inputs(table, name, (4,), U16) for name in ("arg0", "arg1"))
    packed = low.astype(I32) | (high.astype(I32) << 16)
    halves = np.stack([low, high], axis=1).view(I32)[:, 0]
    assert packed.inner.tolist() == halves.inner.tolist()
    assert packed.astype(U16).inner.tolist() == low.inner.tolist()
    assert (packed.view(U32) >> 16).astype(U16).inner.tolist() == high.inner.tolist()


def test_masks_of_whole_bytes_leave_bytes() -> None:
    table = TermTable()
    word = terms(table, U32)
    low, high = word & U32.type(0x00FFFF), word & U32.type(0xFFFF0000)
    assert (low | high).inner.tolist() == word.inner.tolist()
    assert low.astype(U16).inner.tolist() == word.astype(U16).inner.tolist()
    assert (low ^ high).inner.tolist() == word.inner.tolist()


@pytest.mark.parametrize(
    ("name", "dtype", "types", "other"),
    [
        ("left_shift", U32, (U32, U32), 4),
        ("left_shift", U32, (U32, U32), 32),
        ("right_shift", I32, (I32, I32), 8),
        ("bitwise_and", U32, (U32, U32), 0x0F00),
        ("bitwise_or", U32, (U32, U32), 1),
        ("add", U32, (U32, U32), 0),
        (CAST, I32, (I16,), None),
        (CAST, np.dtype("f4"), (U32,), None),
    ],
    ids=["bits up", "all bits", "signs", "bits", "a bit", "a sum", "a sign", "to a float"],
)
def test_what_does_not_move_whole_bytes_is_left(
    name: str, dtype: np.dtype, types: tuple[np.dtype, ...], other: int | None
) -> None:
    table = TermTable()
    columns = [terms(table, types[0]).inner]
    if other is not None:
        columns.append(table.constants(np.full(4, other, types[1])))
    _, known = moved_bytes(table, name, dtype, types, columns)
    assert not known.any()
