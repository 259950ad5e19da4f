"""Which threads come where a value decides that they hand each other is not free: no error is found there that no run has.

Covers: checker/thread_divergence.py, checker/conflicts.py, checker/kernel.py
"""

from __future__ import annotations

import pytest

from helpers.check_harness import check_text

KERNEL = """
gpu.module @m {{
  gpu.func @k(%x: memref<?xi32> {{llvm.noalias}}, %o: memref<?xf32> {{llvm.noalias}})
      workgroup(%n: memref<1xi32, #gpu.address_space<workgroup>>, %s: memref<8xf32, #gpu.address_space<workgroup>>)
      kernel attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %none = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %first = arith.cmpi eq, %t, %c0 : index
    scf.if %first {{ memref.store %zero, %n[%c0] : memref<1xi32, #gpu.address_space<workgroup>> }}
    gpu.barrier
    {value}
    %comes = arith.cmpi {is_it} : i32
    scf.if %comes {{ memref.store %none, %s[%c0] : memref<8xf32, #gpu.address_space<workgroup>> }}
    gpu.return
  }}
}}
"""
ADDED = "%v = memref.atomic_rmw addi %one, %n[%c0] : (i32, memref<1xi32, #gpu.address_space<workgroup>>) -> i32"
HANDED = {
    "an atomic sum": (ADDED, "eq, %v, %zero"),
    "an atomic sum that is not another number": (ADDED, "ne, %v, %one"),
    "what is made of one": (ADDED + "\n    %w = arith.andi %v, %one : i32", "eq, %w, %one"),
    "an exchange": (ADDED.replace("addi", "assign"), "eq, %v, %zero"),
    "a shuffle": (
        "%i = arith.index_cast %t : index to i32\n    %lanes = arith.constant 32 : i32\n"
        "    %w, %valid = gpu.shuffle xor %i, %one, %lanes : i32\n    %v = arith.subi %i, %w : i32",
        "eq, %v, %one",
    ),
    "memory that the kernel writes": (
        "%v = memref.load %n[%c0] : memref<1xi32, #gpu.address_space<workgroup>>",
        "ne, %v, %one",
    ),
}
FREE = {
    "memory that nobody writes": ("%v = memref.load %x[%t] : memref<?xi32>", "eq, %v, %one"),
    "ids of threads": ("%v = arith.index_cast %t : index to i32", "ne, %v, %one"),
}


@pytest.mark.parametrize("name", HANDED)
def test_no_error_is_where_threads_hand_on_who_comes(name: str) -> None:
    value, is_it = HANDED[name]
    checked = check_text(KERNEL.format(value=value, is_it=is_it))
    assert not checked.unsafe and checked.unknown


@pytest.mark.parametrize("name", FREE)
def test_two_threads_may_come_by_what_is_free(name: str) -> None:
    value, is_it = FREE[name]
    assert check_text(KERNEL.format(value=value, is_it=is_it)).unsafe
