"""Lets as many blocks with roles run at once as a multiprocessor's memory holds.

    increase 232, one block of 34816 registers at a time      tiles of 96 KiB: two fit 228 KiB
    increase 216, two of 32768                          -->   where 128 sums and 80 more are enough

A multiprocessor runs as many blocks at once as its memory and its 64 K registers hold. A consumer gets
fewer registers for that only if its sums, and what it computes beside them, fit. On an H100 the GEMM
128x128x64 in f16 on three slots is 1.2 times as fast (docs/gpu.md): one block stores while the other one
multiplies.
"""

from __future__ import annotations

from dataclasses import replace

from mlir_async_pipe.bindings.raw_ops import Operation
from mlir_async_pipe.chips.occupancy import resident_blocks
from mlir_async_pipe.chips.target import Chip
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.plan.memory_limit import registers_of, workgroup_bytes
from mlir_async_pipe.pipeliner.plan.ring_plan import RingPlan
from mlir_async_pipe.pipeliner.plan.ring_sharing import SharedRing
from mlir_async_pipe.pipeliner.plan.role_block import RoleBlock
from mlir_async_pipe.pipeliner.plan.role_registers import UNIT, Registers, registers_of_roles

# What a consumer computes with beside its sums: the GEMMs of docs/code.md take 26 registers.
BESIDE_SUMS = 80


def share_registers(
    rings: list[SharedRing], chip: Chip | None, around: Surroundings
) -> list[SharedRing]:
    """The rings, with the registers of their roles by how many blocks `chip` runs at once."""
    parted: dict[Operation, list[RingPlan]] = {}
    for plan in (plan for ring in rings for plan in ring):
        if plan.roles is not None and plan.roles.block.registers is not None:
            parted.setdefault(plan.roles.block.kernel, []).append(plan)
    if chip is None or not parted:
        return rings
    found = {kernel: _registers(plans, chip, around) for kernel, plans in parted.items()}
    return [tuple(_registered(plan, found) for plan in ring) for ring in rings]


def _registers(plans: list[RingPlan], chip: Chip, around: Surroundings) -> Registers:
    """Those of a block, for all loops of its kernel."""
    tiles = {buffer.root.identity: buffer for plan in plans for buffer in plan.buffers}
    memory = around.workgroup_bytes_beside(plans[0].loop, set(tiles))
    memory += workgroup_bytes(list(tiles.values()))
    block = _block(plans[0])
    fitting = resident_blocks(chip, block.grown, UNIT, memory) or 1
    # What a loop carries is what it adds up.
    sums = (registers_of((each.type for each in plan.loop.results), ()) for plan in plans)
    needed = BESIDE_SUMS + max(sums)
    ways = (
        registers_of_roles(block.computing, block.copying, blocks)
        for blocks in range(fitting, 1, -1)
    )
    return next(
        (way for way in ways if way.consumer >= needed),
        registers_of_roles(block.computing, block.copying),
    )


def _block(plan: RingPlan) -> RoleBlock:
    assert plan.roles is not None
    return plan.roles.block


def _registered(plan: RingPlan, found: dict[Operation, Registers]) -> RingPlan:
    if plan.roles is None or plan.roles.block.kernel not in found:
        return plan
    block = replace(plan.roles.block, registers=found[plan.roles.block.kernel])
    return replace(plan, roles=replace(plan.roles, block=block))
