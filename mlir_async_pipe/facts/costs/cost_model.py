"""What things cost, in cycles: the one table of the timeline and of the schedulers.

A thread runs its ops one after the other, and each holds it for some cycles. A copy occupies its
queue for bytes / throughput cycles and arrives `latency` cycles later; groups of one queue
complete in order. This is a model to compare schedules by, not a simulator of a chip.

Costs are found under the name of an op, else under its *kind*: what it does to which memory
(`read.global`, `write.workgroup`, …), or its dialect (`math`). What stands on the op itself
(`async_pipe.latency`, `async_pipe.cycles`) comes before both.

A schedule over functional units asks for more: which unit an op holds, for how long, and how long
its value takes (`UnitCost`). Registers, memory and threads of a chip stand in `chips/table.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import ancestors, integer_attribute, is_function, walk
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.loops.annotations import CYCLES, LATENCY
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.session.diagnostics import UsageError
from mlir_async_pipe.vocabulary import Access, accesses, row_of
from mlir_async_pipe.vocabulary.memory_layout import element_bytes, registers_of_type
from mlir_async_pipe.vocabulary.products import (
    K_BYTES,
    WARPGROUP_MMA,
    held_sizes,
    is_assembled,
    product_form,
)
from mlir_async_pipe.vocabulary.tensor_memory import tensor_product

# `--cost` begins with the chip's own table where this stands in it.
CHIP = "chip"


@dataclass(frozen=True)
class CostModel:
    """What things cost, in cycles.

    `latency`: from the end of a copy's issue on its queue to its arrival, by queue name; queues
    that are not listed take `default_latency`. `bytes_per_cycle`: throughput of a queue for this
    thread's copies, none for unlimited. `ops`: cycles that an op holds the thread, by name or
    kind, fractions for several issued together; ops in neither cost nothing. `units`: the
    functional units that ops run on, by name or kind.
    """

    latency: Mapping[str, int] = field(default_factory=dict)
    bytes_per_cycle: Mapping[str, float] = field(default_factory=dict)
    ops: Mapping[str, float] = field(default_factory=dict)
    default_latency: int = 500
    barrier: int = 0
    units: Mapping[str, UnitCost] = field(default_factory=dict)

    @staticmethod
    def parse(text: str, target: Target | None = None) -> CostModel:
        """Read `latency=500,latency.QUEUE=400,throughput.QUEUE=8,barrier=20,OP=300,unit.OP=8`.

        `unit.OP` are the cycles of a functional unit for a piece of work, `latency.OP` those from
        then until the value may be used. Units keep the chip's figures where nothing is listed.
        Nothing else costs anything, unless `chip` is listed: then the table of
        the target's chip is the base. Empty text is that table alone.
        Raises UsageError (bad-cost) for what is none of these.
        """
        items = [item for item in text.split(",") if item]
        base = costs_of(target) if CHIP in items or not items else CostModel()
        latency = dict(base.latency)
        throughput = dict(base.bytes_per_cycle)
        ops = dict(base.ops)
        units = dict((base if base.units else costs_of(target)).units)
        general = {"latency": base.default_latency, "barrier": base.barrier}
        for item in items:
            if item == CHIP:
                continue
            key, number = _read_item(item)
            section, _, name = key.partition(".")
            if key in general:
                general[key] = int(number)
            elif name and section == "latency":
                latency[name] = int(number)
                if name in units:
                    units[name] = replace(units[name], latency=number)
            elif name and section == "unit":
                units[name] = replace(units.get(name, UnitCost(ARITHMETIC, 0, 0)), cycles=number)
            elif name and section == "throughput":
                throughput[name] = number
            else:
                ops[key] = number
        return CostModel(latency, throughput, ops, general["latency"], general["barrier"], units)

    def unit_of(self, name: str, kind: str) -> UnitCost:
        """The unit that an op runs on, by its name, else by its kind, else nothing but the issue."""
        found = self.units.get(name) or self.units.get(kind)
        return UnitCost(ISSUE, 0, 0) if found is None else found

    def uses(self, op: Any) -> dict[str, float]:
        """The cycles for which an op holds its unit, and slots of the issue unit; none of what is free."""
        name = WGMMA_MMA if is_assembled(op) or op.name == WARPGROUP_MMA else op.name
        cost, work = self.unit_of(name, kind_of_op(op)), work_of(op)
        if not cost.cycles:
            return {}
        return {
            cost.unit: cost.cycles * work,
            ISSUE: ISSUE_CYCLES * max(1, work if cost.unit != TENSOR else 1),
        }

    def held(self, name: str, kind: str, given: float | None) -> float:
        """Cycles that an op holds the thread; `given` is what stands on the op."""
        if given is not None:
            return given
        found = self.ops.get(name)
        return self.ops.get(kind, 0) if found is None else found

    def arrival(self, queue: str, given: float | None) -> float:
        """Cycles from the end of a copy's issue on its queue to its arrival."""
        return self.latency.get(queue, self.default_latency) if given is None else given

    def occupancy(self, queue: str, size: int) -> float:
        """Cycles for which a copy of `size` bytes occupies its queue."""
        rate = self.bytes_per_cycle.get(queue)
        return size / rate if rate else 0


def _read_item(item: str) -> tuple[str, float]:
    key, equals, value = item.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = -1
    if not equals or number < 0:
        raise UsageError(
            f"bad cost '{item}'",
            code="bad-cost",
            advice="NAME=CYCLES, for instance latency=500,nvgpu.mma.sync=16",
        )
    return key, number


@dataclass(frozen=True)
class UnitCost:
    """What one op of a warp (a wave) costs: the functional unit and the cycles for which it holds
    that, per piece of `work_of`; the cycles from its begin until its value may be used beyond those;
    and, on a time line of one thread, those for which it holds the thread.

    Units are those of a quarter of a multiprocessor (a SIMD of a compute unit) with its share of
    what the quarters have in common, so one warp a quarter is taken to run.
    """

    unit: str
    cycles: float
    latency: float
    held: float = 0


ISSUE = "issue"
TENSOR, SPECIAL, ARITHMETIC, MEMORY, COPY, BANDWIDTH, CACHE = (
    "tensor",
    "special function",
    "arithmetic",
    "load/store",
    "tensor copy",
    "memory",
    "second-level cache",
)
WGMMA_MMA, TCGEN05_MMA = "nvvm.wgmma.mma_async", "nvvm.tcgen05.mma"
# The entries of what a tensor copy takes for 16 bytes, and of an arrival at an mbarrier and a wait for its phase.
TENSOR_COPY, ARRIVAL, WAIT = "tensor.copy", "mbarrier.arrive", "mbarrier.wait"
# The entry of what the memory of the chip takes for a piece of bytes that no cache has.
UNCACHED = "uncached"
# The entry of what the second-level cache takes for a piece.
CACHED = "cached"
# Every op takes one slot of the issue unit: a scheduler issues one instruction a cycle (NVIDIA A100
# whitepaper; AMD CDNA3 ISA: one a wave).
ISSUE_CYCLES = 1

# Pieces of work: 2048 multiply and adds of 16 bits (m16n8k16) of a product, 16 bytes a lane of
# memory, a value of 32 bits a lane of everything else.
#
# sm_80   1024 multiply and adds in f16 a cycle and multiprocessor, 256 a quarter: 2048 / 256 = 8.
#         (NVIDIA A100 whitepaper.) 25 cycles until the sums may be used (Sun et al., "Dissecting
#         Tensor Cores via Microbenchmarks", 2022), of which 8 hold the unit.
#         16 special functions and 64 sums in f32 a cycle and multiprocessor, for 32 lanes of a
#         quarter's warp: 32 / 4 = 8 and 32 / 16 = 2 (CUDA C++ Programming Guide, "Throughput of
#         Native Arithmetic Instructions"). 18 and 4 cycles of latency; 290 of global memory where
#         it hits nothing, 500 under load; 23 of shared memory (Abdelkhalik et al., "Demystifying the
#         NVIDIA Ampere Architecture through Microbenchmarking", 2022).
#         128 bytes a cycle of shared memory, 32 for a quarter: 512 / 32 = 16. A thread alone would
#         be held for 512 / 128 = 4.
# sm_90   2048 multiply and adds a cycle, 128 sums in f32 (the same guide; NVIDIA H100 whitepaper).
# sm_100  4096 multiply and adds a cycle (NVIDIA Blackwell architecture brief); the special functions
#         stay 16.
# gfx     One SIMD issues a 16x16x16 f16 mfma every 8 passes of 4 cycles on gfx90a (CDNA2 ISA,
#         "Dependency resolution: required independent instructions"), of 4096 multiply and adds:
#         16 a piece; gfx942 takes half of that and gfx950 a quarter (peaks of MI300X and MI355X:
#         1024 and 2048 multiply and adds a cycle and compute unit). 64 lanes on 16 make 4
#         cycles, and special functions run at a quarter of that. A copy to LDS comes from memory that is
#         about 350 ns away at 2.1 GHz. LDS gives 128 bytes a cycle, 32 for a SIMD: 1024 / 32; 64
#         cycles at most until it has answered (LLVM, SISchedule.td).
# Tensor copies write 128 bytes a cycle to shared memory: what the cache behind it gives is not in it. An mbarrier
#         lies there: an arrival is seen as late as a store, a wait takes a load at least.
# Memory  1555 GB/s of 108 multiprocessors at 1.41 GHz are 10.2 bytes a cycle, 2.55 a quarter: 512 / 2.55 (A100
#         of 40 GB, whitepaper); 3350 GB/s of 132 at 1.83 GHz (H100 SXM), 8000 GB/s of 148 at 1.96 GHz (B200);
#         3277 GB/s of 220 compute units at 1.7 GHz (MI250X), 5300 of 304 at 2.1 GHz (MI300X), 8000 of 256 at 2.4
#         GHz (MI355X; data sheets).
# Cache   5120 bytes a cycle (A100 whitepaper) of 108 multiprocessors are 11.9 a quarter: 512 / 11.9.
_NVIDIA_UNITS = {
    "read.global": UnitCost(MEMORY, 16, 500, 500),
    "write.global": UnitCost(MEMORY, 16, 0, 4),
    "read.workgroup": UnitCost(MEMORY, 16, 23, 4),
    "write.workgroup": UnitCost(MEMORY, 16, 19, 4),
    "nvgpu.mma.sync": UnitCost(TENSOR, 8, 17, 8),
    "math": UnitCost(SPECIAL, 8, 18, 8),
    "nvvm.ex2": UnitCost(SPECIAL, 8, 18),
    "math.fma": UnitCost(ARITHMETIC, 2, 4, 8),
    "arith": UnitCost(ARITHMETIC, 2, 4),
    "vector": UnitCost(ARITHMETIC, 0, 0),
    # A shuffle goes through the crossbar of shared memory, 32 lanes a cycle.
    "gpu.shuffle": UnitCost(MEMORY, 4, 23),
    UNCACHED: UnitCost(BANDWIDTH, 200, 0),
}
_HOPPER_UNITS = {
    **_NVIDIA_UNITS,
    "nvgpu.mma.sync": UnitCost(TENSOR, 4, 21, 8),
    "math.fma": UnitCost(ARITHMETIC, 1, 4, 8),
    "arith": UnitCost(ARITHMETIC, 1, 4),
    WGMMA_MMA: UnitCost(TENSOR, 4, 0),
    TENSOR_COPY: UnitCost(COPY, 16 / 128, 500),
    ARRIVAL: UnitCost(ISSUE, 1, 19),
    WAIT: UnitCost(ISSUE, 1, 23),
    UNCACHED: UnitCost(BANDWIDTH, 148, 0),
}
_BLACKWELL_UNITS = {
    **_HOPPER_UNITS,
    "nvgpu.mma.sync": UnitCost(TENSOR, 2, 23, 8),
    TCGEN05_MMA: UnitCost(TENSOR, 2, 0),
    UNCACHED: UnitCost(BANDWIDTH, 74, 0),
}
_AMD_UNITS = {
    "read.global": UnitCost(MEMORY, 32, 700, 700),
    "write.global": UnitCost(MEMORY, 32, 0, 4),
    "read.workgroup": UnitCost(MEMORY, 32, 64, 4),
    "write.workgroup": UnitCost(MEMORY, 32, 64, 4),
    "amdgpu.mfma": UnitCost(TENSOR, 16, 0, 32),
    "amdgpu.wmma": UnitCost(TENSOR, 8, 0, 16),
    "math": UnitCost(SPECIAL, 16, 0, 16),
    **{
        f"rocdl.{name}": UnitCost(SPECIAL, 16, 0, 16)
        for name in "cos exp exp2 log rcp rsq sin sqrt tanh".split()
    },
    "math.fma": UnitCost(ARITHMETIC, 4, 4, 16),
    "arith": UnitCost(ARITHMETIC, 4, 4),
    "vector": UnitCost(ARITHMETIC, 0, 0),
    "gpu.shuffle": UnitCost(MEMORY, 8, 64),
    UNCACHED: UnitCost(BANDWIDTH, 468, 0),
}


def _with(units: Mapping[str, UnitCost], arrival: int = 500) -> CostModel:
    held = {name: cost.held for name, cost in units.items() if cost.held}
    return CostModel(ops=held, default_latency=arrival, barrier=20, units=units)


_NVIDIA = _with(_NVIDIA_UNITS)
_AMD = _with(_AMD_UNITS, 700)
_BY_LOWERING = {"nvvm": _NVIDIA, "rocdl": _AMD}
_BY_CHIP = {
    "sm_80": _with({**_NVIDIA_UNITS, CACHED: UnitCost(CACHE, 43, 0)}),
    **{name: _with(_HOPPER_UNITS) for name in ("sm_90", "sm_90a")},
    **{name: _with(_BLACKWELL_UNITS) for name in ("sm_100", "sm_100a", "sm_103a")},
    **{
        name: _with(
            {
                **_AMD_UNITS,
                "amdgpu.mfma": UnitCost(TENSOR, cycles, 0, 32),
                UNCACHED: UnitCost(BANDWIDTH, uncached, 0),
            },
            700,
        )
        for name, cycles, uncached in (("gfx942", 8, 493), ("gfx950", 4, 315))
    },
}


def costs_of(target: Target | None) -> CostModel:
    """The table of a target; that of sm_80 without one, and for NVIDIA's chips that have none of their own."""
    if target is None:
        return _NVIDIA
    return _BY_CHIP.get(target.chip.name, _BY_LOWERING[target.lowering])


def work_of(op: Any) -> float:
    """How many pieces of work an op is to its unit, for one warp.

    nvgpu.mma.sync m16n8k16 in f16: 1;  math.exp2 : f32: 1;  arith.addf : vector<2x2xf32>: 4;
    nvgpu.ldmatrix of 4 tiles, nvgpu.device_async_copy of 16 bytes: 1
    """
    shape = _product_shape(op)
    if shape is not None:
        return prod(shape) / 2048
    found = accesses(op)
    registers = max((registers_of_type(value.type) for value in op.results), default=0)
    if not found:
        return registers or 1
    return max(4 * registers, *map(bytes_of_access, found), 1) / 16


def _product_shape(op: Any) -> tuple[int, ...] | None:
    """What is multiplied for the number of multiply and adds of a product."""
    if op.name == "nvgpu.mma.sync":
        shape = [int(ir.IntegerAttr(e).value) for e in ir.ArrayAttr(op.attributes["mmaShape"])]
        return tuple(shape)
    if op.name == WARPGROUP_MMA:
        # A of M x K, and M x N sums; of 16 bits, else the lowering takes another matrix.
        left, sums = (held_sizes(str(op.operands[number].type)) for number in (0, 2))
        return (left[0] // 4, sums[1], left[1]) if (len(left), len(sums)) == (2, 2) else (0,)
    if op.name == TCGEN05_MMA:
        tile = tensor_product(op).shape
        # The quarter of a multiprocessor's share, by 32 bytes of k as 16 numbers of 16 bits.
        return (0,) if tile is None else (tile.m // 4, tile.n, K_BYTES // 2)
    if (op.name == WGMMA_MMA or is_assembled(op)) and (form := product_form(op)) is not None:
        # A warp of the four that multiply together, by 32 bytes of k as 16 numbers of 16 bits.
        return form.m // 4, form.n, K_BYTES // 2
    if op.name == "amdgpu.mfma":
        return tuple(integer_attribute(op, name) or 1 for name in ("m", "n", "k", "blocks"))
    return None


def bytes_of_access(access: Access) -> int:
    """Bytes of one access of one thread; 0 where the op does not say."""
    if access.extent is None:
        return 0
    try:
        kind = ir.MemRefType(access.memory.type)
    except ValueError:
        return prod(access.extent)
    return prod(access.extent) * element_bytes(kind)


def is_special(op: Any) -> bool:
    """Whether an op runs on the special functions of any chip."""
    return costs_of(None).unit_of(op.name, op.name.partition(".")[0]).unit == SPECIAL


def kind_of_op(op: Any) -> str:
    """What an op does to which memory, `read.global` for instance; else its dialect."""
    found = accesses(op)
    if not found:
        return str(op.name).partition(".")[0]
    slowest = next((a for a in found if root_of(a.memory).space == "global"), found[0])
    verb = "write" if slowest.writes else "read"
    return f"{verb}.{root_of(slowest.memory).space}"


def given_cycles(op: Any) -> int | None:
    """The cycles that stand on the op itself."""
    for name in (LATENCY, CYCLES):
        found = integer_attribute(op, name)
        if found is not None:
            return found
    return None


def own_cycles(op: Any) -> int | None:
    """The cycles of one op where the input gives them; None: the model decides.

    Cycles on an op with regions stand for all of it: the ops inside are free, but copies take
    them as their latency, and then the op itself is free. Ops in a scope are part of the copy.
    """
    own = given_cycles(op)
    if own is not None:
        inside = walk(op) if len(op.regions) and not _is_async(op) else ()
        return 0 if any(map(_is_async, inside)) else own
    for above in ancestors(op):
        if is_function(above):
            return None
        given = given_cycles(above)
        if given is not None:
            return given if _is_async(op) else 0
        if _is_async(above):
            return 0
    return None


def _is_async(op: Any) -> bool:
    row = row_of(op)
    return row.queue is not None and row.asynchronous(op)


@dataclass
class QueueClock:
    """When the copies of one queue arrive.

    `free` is when the queue has served what was issued, `arrivals` has the moment at which
    everything up to each copy has arrived.
    """

    free: float = 0
    arrivals: list[float] = field(default_factory=list)

    def issue(self, now: float, occupancy: float, latency: float) -> float:
        """A copy is issued; returns when it and all before it have arrived."""
        self.free = max(now, self.free) + occupancy
        before = self.arrivals[-1] if self.arrivals else 0
        self.arrivals.append(max(before, self.free + latency))
        return self.arrivals[-1]
