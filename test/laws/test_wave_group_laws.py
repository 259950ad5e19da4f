"""Two groups of waves in turn, in random programs: checker and machine agree.

    [stores, loads, copies, waits, barriers] late waves: barrier [the same, in a loop or not] early waves: barrier [the same]

Threads read what they, a lane beside them or one of the other wave wrote; groups store or load for themselves. Numbers of
iterations reach once around the ring. ASYNC_PIPE_NIGHTLY asks for more programs, ASYNC_PIPE_SEED says the first one.

Covers: checker/commit_groups.py, checker/conflicts.py, machine/warp_order.py
"""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

from helpers.check_harness import RACES, check_text
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context

pytestmark = pytest.mark.slow

PROGRAMS = 200 if os.environ.get("ASYNC_PIPE_NIGHTLY") else 25
SEED = int(os.environ.get("ASYNC_PIPE_SEED", "1000"))
TARGET, SLOTS, THREADS = "rocdl:gfx950", 3, 128
TILES = f"memref<{SLOTS}x{THREADS}xf32, #gpu.address_space<workgroup>>"
LOCAL = '{llvm.mmra = #llvm.mmra_tag<"amdgpu-synchronize-as":"local">}'
BARRIER = f"""llvm.fence syncscope("workgroup") release {LOCAL}
  rocdl.s.barrier
  llvm.fence syncscope("workgroup") acquire {LOCAL}
"""
KERNEL = f"""
gpu.module @m {{{{
  gpu.func @k(%A: memref<16x{THREADS}xf32> {{{{llvm.noalias}}}}, %n: index) workgroup(%s: {TILES})
      kernel attributes {{{{known_block_size = array<i32: {THREADS}, 1, 1>}}}} {{{{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %slots = arith.constant {SLOTS} : index
    %c64 = arith.constant 64 : index
    %last = arith.constant {THREADS - 1} : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %mirror = arith.subi %last, %t : index
    %beside = arith.xori %t, %c1 : index
    %late = arith.cmpi uge, %t, %c64 : index
    %early = arith.cmpi ult, %t, %c64 : index
    {{body}}
    gpu.return
  }}}}
}}}}
"""


class Writer:
    """Random ops of a program."""

    def __init__(self, seed: int) -> None:
        self.random, self.values = random.Random(seed), 0

    def program(self) -> str:
        before = self.ops(0, 4) + self.random.choice(["", BARRIER, f"{self.wait(0)}{BARRIER}"])
        inside = (
            self.ops(0, 2) + (self.loop() if self.random.random() < 0.7 else "") + self.ops(0, 3)
        )
        after = self.random.choice(["", f"{self.wait(0)}{BARRIER}"]) + self.ops(0, 3)
        alone = (f"scf.if %{group} {{ {BARRIER} }}\n" for group in ("late", "early"))
        return KERNEL.format(body=f"{before}{next(alone)}{inside}{next(alone)}{after}")

    def loop(self) -> str:
        end = BARRIER * self.random.randint(0, 2)
        return f"""scf.for %k = %c0 to %n step %c1 {{
          %slot = arith.remui %k, %slots : index
          %later = arith.addi %k, %c1 : index
          %next = arith.remui %later, %slots : index
          {self.ops(1, 5, "%slot", "%next")}{end} }}
        """

    def ops(self, least: int, most: int, *slots: str) -> str:
        return "".join(self.op(slots) for _ in range(self.random.randint(least, most)))

    def op(self, slots: tuple[str, ...]) -> str:
        kind = self.random.random()
        if kind < 0.42:
            return self.access(slots)
        if kind < 0.62:
            copy, group = self.name(), self.name()
            return f"""{copy} = nvgpu.device_async_copy %A[%c0, %t], {self.slot(slots)} %t], 1 : memref<16x{THREADS}xf32> to {TILES}
              {group} = nvgpu.device_async_create_group {copy}
            """
        if kind < 0.76:
            return self.wait(self.random.choice([0, 0, 1, 2]))
        if kind < 0.93:
            return BARRIER
        return f"scf.if %{self.random.choice(['late', 'early'])} {{ {self.access(slots)} }}\n"

    def access(self, slots: tuple[str, ...]) -> str:
        if self.random.random() < 0.4:
            return f"memref.store %zero, {self.slot(slots)} %t] : {TILES}\n"
        place = self.random.choice(["%t", "%t", "%mirror", "%beside"])
        return f"{self.name()} = memref.load {self.slot(slots)} {place}] : {TILES}\n"

    def slot(self, slots: tuple[str, ...]) -> str:
        fixed = not slots or self.random.random() < 0.2
        return f"%s[{self.random.choice(('%c0', '%c1', '%c2') if fixed else slots)},"

    def wait(self, left: int) -> str:
        return f"nvvm.cp.async.wait.group {left}\n"

    def name(self) -> str:
        self.values += 1
        return f"%v{self.values}"


def races(text: str) -> set[str]:
    """The places of all races, whenever copies complete and whichever wave runs first."""
    found = set()
    arguments = [np.ones((16, THREADS), np.float32), 0]
    with new_context():
        module = ir.Module.parse(text)
        for arguments[1] in (0, 1, 2, 3, 4, 6) if "scf.for" in text else (0,):
            for completion in ("late", "eager"):
                for schedule in ("forward", "backward"):
                    result = machine.run(
                        module,
                        "k",
                        arguments,
                        threads=(THREADS, 1, 1),
                        warp=64,
                        completion=completion,
                        schedule=schedule,
                    )
                    codes = RACES | {"divergent-barrier"}
                    found |= {str(race.place) for race in result.races if race.code in codes}
    return found


@pytest.mark.parametrize("number", range(PROGRAMS))
def test_what_is_proven_has_no_race_and_each_error_is_one(number: int) -> None:
    """Law: a program that is proven never races, and at each place of an error there is a race."""
    text = Writer(SEED + number).program()
    result, met = check_text(text, TARGET), races(text)
    if not (result.unsafe or result.unknown):
        assert not met
    assert {place for _, place in result.unsafe} <= met
