"""A kernel in which block 0 hands a row to block 1 through a flag, and its breakages.

block 0: stores the row; barrier; thread 0 stores the flag (release)
block 1: thread 0 reads the flag until it is set (acquire); barrier; reads the row backwards
"""

from __future__ import annotations

import numpy as np

THREADS = 4
_TEXT = """
func.func @k(%A: memref<4xf32>, %D: memref<4xf32>, %E: memref<4xf32>, %F: !llvm.ptr<1>,
             %C: memref<1xi32>) {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %none = arith.constant 0 : i32
  %all = arith.constant 4 : i32
  %zero = llvm.mlir.constant(0 : i32) : i32
  %one = llvm.mlir.constant(1 : i32) : i32
  %t = gpu.thread_id x
  %b = gpu.block_id x
  %o = arith.subi %c3, %t : index
  %first = arith.cmpi eq, %b, %c0 : index
  %t0 = arith.cmpi eq, %t, %c0 : index
  scf.if %first {
    %a = memref.load %A[%t] : memref<4xf32>
    memref.store %a, %D[%t] : memref<4xf32>
    SIGNAL
  } else {
    WAIT
    %a = memref.load %D[%o] : memref<4xf32>
    memref.store %a, %E[%t] : memref<4xf32>
  }
  return
}"""
SPIN = """scf.while : () -> () {
  %f = llvm.load %F {alignment = 4 : i64} : !llvm.ptr<1> -> i32
  %go = arith.cmpi eq, %f, %zero : i32
  scf.condition(%go)
} do {
  scf.yield
}"""
STORE = "llvm.store %one, %F {alignment = 4 : i64} : i32, !llvm.ptr<1>"


def spin(order: str = "atomic acquire") -> str:
    """Read the flag until it is set."""
    volatile = "volatile " if order == "volatile" else ""
    after = "" if volatile else f" {order}"
    return SPIN.replace("load %F", f"load {volatile}%F{after}")


def store(order: str = "atomic release", value: str = "%one") -> str:
    """Set the flag."""
    return STORE.replace("%F", f"%F {order}").replace("%one", value)


def by_first(text: str) -> str:
    """Thread 0 does it."""
    return f"scf.if %t0 {{\n{text}\n}}"


BARRIER = "gpu.barrier\n"
SIGNAL = BARRIER + by_first(store())
WAIT = by_first(spin()) + BARRIER
COUNT = "%n = memref.atomic_rmw addi %one, %C[%c0] : (i32, memref<1xi32>) -> i32"
COUNTED = """scf.while : () -> () {
  %n = memref.atomic_rmw addi %none, %C[%c0] : (i32, memref<1xi32>) -> i32
  %go = arith.cmpi slt, %n, %all : i32
  scf.condition(%go)
} do {
  scf.yield
}
"""
RIGHT = {
    "thread 0 releases, thread 0 acquires": (SIGNAL, WAIT),
    "every thread acquires": (SIGNAL, spin()),
    "every thread counts": (COUNT, COUNTED),
    "a fence before a relaxed store": (
        BARRIER + by_first("llvm.fence release\n" + store("atomic monotonic")),
        WAIT,
    ),
    "a fence after volatile reads": (
        BARRIER
        + by_first("nvvm.memory.barrier #nvvm.mem_scope<gpu>\n" + store("atomic monotonic")),
        by_first(spin("volatile") + "\nnvvm.memory.barrier #nvvm.mem_scope<gpu>") + BARRIER,
    ),
}
RACY = {
    "no barrier before the release": (by_first(store()), WAIT),
    "no barrier after the acquire": (SIGNAL, by_first(spin())),
    "a relaxed store": (BARRIER + by_first(store("atomic monotonic")), WAIT),
    "a release for the block": (
        BARRIER + by_first(store('atomic syncscope("block") release')),
        WAIT,
    ),
    "an acquire for the block": (
        SIGNAL,
        by_first(spin('atomic syncscope("block") acquire')) + BARRIER,
    ),
    "a fence for the block": (
        BARRIER + by_first('llvm.fence syncscope("block") release\n' + store("atomic monotonic")),
        WAIT,
    ),
    "a fence after the store": (
        BARRIER + by_first(store("atomic monotonic") + "\nllvm.fence release"),
        WAIT,
    ),
    "a barrier for workgroup memory": (
        SIGNAL.replace(BARRIER, "gpu.barrier memfence [#gpu.address_space<workgroup>]\n"),
        WAIT,
    ),
    "a plain store of the flag": (BARRIER + by_first(store("")), WAIT),
    "every thread releases the flag": (store(), WAIT),
    "no wait": (SIGNAL, BARRIER),
    "nobody looks at the count": (
        COUNT,
        "%n = memref.atomic_rmw addi %none, %C[%c0] : (i32, memref<1xi32>) -> i32\n",
    ),
}
STUCK = (BARRIER + by_first(store(value="%zero")), WAIT)


def text(signal: str, wait: str) -> str:
    """The kernel with its two ends."""
    return _TEXT.replace("SIGNAL", signal).replace("WAIT", wait)


def arguments() -> list[np.ndarray]:
    """The row, where it goes, what comes out, the flag and the counter."""
    rows = [np.arange(1, 5, dtype=np.float32), *(np.zeros(4, np.float32) for _ in range(2))]
    return [*rows, np.zeros(1, np.int32), np.zeros(1, np.int32)]


WANTED = np.array([4, 3, 2, 1], np.float32)
