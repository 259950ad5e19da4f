"""What is known of an op by its name: which memory it shows, whether it touches any, and
whether the threads of a block agree on what it makes.

Covers: vocabulary/memory_names.py, vocabulary/pure_ops.py, vocabulary/control_flow.py
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mlir_async_pipe.vocabulary import ROWS, VIEW_OPS, is_pure, is_store, named_row
from mlir_async_pipe.vocabulary.control_flow import BRANCH_ROWS, REGION_ROWS, in_scope, runs_once
from mlir_async_pipe.vocabulary.memory_names import ADDRESS_OPS, POINTER_STEPS, names_memory
from mlir_async_pipe.vocabulary.operator_table import OPERATORS


class Named(SimpleNamespace):
    """An op of which the name is all that there is; as ops are, each is one of its own."""

    __hash__ = object.__hash__


def op(name: str) -> Named:
    return Named(name=name, attributes={}, operands=(), results=())


@pytest.mark.parametrize("name", [*VIEW_OPS, *POINTER_STEPS, *ADDRESS_OPS, *OPERATORS])
def test_what_makes_names_and_numbers_of_others_is_pure(name: str) -> None:
    # Intrinsics of LLVM are opaque until a row says otherwise.
    assert is_pure(op(name)) or name.startswith("llvm.intr.")
    assert not named_row(name).described


@pytest.mark.parametrize("name", sorted(ROWS))
def test_an_op_with_accesses_is_not_pure(name: str) -> None:
    assert not (ROWS[name].accesses and is_pure(op(name)))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("arith.addi", "operands"),
        ("rocdl.readfirstlane", "operands"),
        ("gpu.subgroup_size", "same"),
        ("nvvm.read.ptx.sreg.warpsize", "same"),
        ("memref.get_global", "same"),
        ("gpu.shuffle", "differs"),
        ("nvgpu.mma.sync", "differs"),
        ("nvvm.read.ptx.sreg.clock64", "differs"),
    ],
)
def test_threads_agree_on_what_an_op_makes(name: str, expected: str) -> None:
    assert named_row(name).agree == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("memref.store", True),
        ("vector.store", True),
        ("vector.transfer_write", True),
        ("memref.atomic_rmw", False),
        ("llvm.store", True),
        ("affine.store", False),
        ("memref.load", False),
        ("nvgpu.device_async_copy", False),
        ("arith.addi", False),
    ],
)
def test_stores_that_a_copy_can_do(name: str, expected: bool) -> None:
    assert is_store(op(name)) is expected


def test_names_of_memory() -> None:
    assert names_memory(op("memref.alloc")) and names_memory(op("gpu.dynamic_shared_memory"))
    assert not any(names_memory(op(name)) for name in (*VIEW_OPS, *POINTER_STEPS))


@pytest.mark.parametrize("name", ["cf.assert", "llvm.intr.assume", "memref.alloc"])
def test_harmless_ops(name: str) -> None:
    assert named_row(name).harmless


@pytest.mark.parametrize("name", ["memref.dealloc", "llvm.call", "gpu.barrier", "vector.gather"])
def test_ops_that_may_touch_memory_are_not_harmless(name: str) -> None:
    assert not named_row(name).harmless


def test_what_may_stand_around_copies() -> None:
    allowed = {name for name in (*REGION_ROWS, *BRANCH_ROWS) if in_scope(op(name))}
    assert allowed == {
        *("scf.for", "scf.if", "scf.index_switch", "scf.execute_region"),
        *("cf.br", "cf.cond_br", "cf.switch"),
    }
    assert not in_scope(op("test.unknown"))


def test_what_surely_runs_its_region_once() -> None:
    assert runs_once(op("scf.execute_region")) and runs_once(op("async_pipe.scope"))
    assert not any(runs_once(op(name)) for name in ("scf.if", "scf.for", "vector.mask", "x.y"))
