"""How many threads a kernel is launched with: from the function, or from its launch."""

from __future__ import annotations

from math import prod
from typing import Literal

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.memo import remembered
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    ancestors,
    constant_value,
    is_function,
    outermost,
    parent,
    symbol_name,
    walk_named,
)

Size = tuple[int, int, int]

# What the vendors call a block size that is exact, not the largest.
_EXACT_SIZES = ("nvvm.reqntid", "rocdl.reqd_work_group_size")
# What a kernel says about the registers of its threads.
REGISTER_LIMITS = ("nvvm.maxnreg", "nvvm.minctasm")
BLOCK_SIZES = ("known_block_size", "gpu.known_block_size", *_EXACT_SIZES)

CLUSTER_SIZES = ("known_cluster_size", "gpu.known_cluster_size", "nvvm.cluster_dim")

Extent = Literal["grid", "block", "cluster"]
Launches = dict[str, set[Size | None]]

# The threads of the largest block that a GPU runs (CUDA, HIP).
LARGEST_BLOCK = 1024


def block_size(function: Operation, launches: Launches | None = None) -> Size | None:
    """Threads in x, y, z of the block that runs `function`, None where nothing says so.

    Sources, first one that answers: `known_block_size`, a gpu.launch around the code, the
    gpu.launch_func of the module that names the kernel (all of them must agree), which are
    `launches` where they have been collected already. A size that no GPU runs says nothing.
    """
    for name in BLOCK_SIZES:
        if name in function.attributes:
            sizes = [int(size) for size in ir.DenseI32ArrayAttr(function.attributes[name])]
            x, y, z = [*sizes, 1, 1, 1][:3]
            return _runnable((x, y, z))
    collected = launched_sizes(outermost(function)) if launches is None else launches
    found = collected.get(name_at_launch(function), set())
    return _runnable(next(iter(found))) if len(found) == 1 else None


def _runnable(size: Size | None) -> Size | None:
    return size if size is None or (min(size) > 0 and prod(size) <= LARGEST_BLOCK) else None


def cluster_size(function: Operation) -> Size | None:
    """Blocks in x, y, z of the clusters that run `function`: as it says, or as all launches of it
    in the module do; None where nothing says so."""
    for name in CLUSTER_SIZES:
        if name in function.attributes:
            sizes = [int(size) for size in ir.DenseI32ArrayAttr(function.attributes[name])]
            x, y, z = [*sizes, 1, 1, 1][:3]
            return x, y, z
    launches = sizes_of(launches_below(outermost(function)), "cluster")
    found = launches.get(name_at_launch(function), set())
    return next(iter(found)) if len(found) == 1 else None


def set_cluster_size(function: Operation, size: Size) -> None:
    """Let a function say how large the clusters are that run it."""
    own = {"gpu.func": CLUSTER_SIZES[0], "llvm.func": CLUSTER_SIZES[2]}
    name = own.get(function.name, CLUSTER_SIZES[1])
    function.attributes[name] = ir.DenseI32ArrayAttr.get(list(size), function.context)


def launched_sizes(root: Operation) -> Launches:
    """For each kernel that a gpu.launch_func below `root` names, the block sizes of all."""
    return sizes_of(launches_below(root), "block")


@remembered
def launches_below(root: Operation) -> list[Operation]:
    """All gpu.launch_func below `root`."""
    return walk_named(root, "gpu.launch_func".__eq__)


def sizes_of(launches: list[Operation], extent: Extent) -> Launches:
    """For each kernel that is launched, the sizes of its blocks, or of its grids, in all."""
    found: Launches = {}
    for op in launches:
        found.setdefault(kernel_name(op), set()).add(constant_sizes(op, extent))
    return found


def kernel_name(launch: Operation) -> str:
    """The kernel that a gpu.launch_func starts, as `name_at_launch` calls it."""
    return "::".join(part.strip('@"') for part in str(launch.attributes["kernel"]).split("::"))


def name_at_launch(kernel: Operation) -> str:
    """The name of a kernel, after that of its gpu.module: two of these may each have one called so."""
    holder = parent(kernel)
    if holder is None or holder.name != "gpu.module":
        return symbol_name(kernel)
    return f"{symbol_name(holder)}::{symbol_name(kernel)}"


def constant_sizes(launch: Operation, extent: Extent) -> Size | None:
    """Operands of a gpu.launch or gpu.launch_func: asynchronous tokens, grid x y z, block x y z,
    cluster x y z; None where they are not constant, or where it names no clusters."""
    if extent == "cluster" and not _segments(launch)[7]:
        return None
    first = first_size(launch, extent)
    sizes = [constant_value(launch.operands[first + axis]) for axis in range(3)]
    if any(size is None for size in sizes):
        return None
    x, y, z = (int(size) for size in sizes if size is not None)
    return x, y, z


def first_size(launch: Operation, extent: Extent) -> int:
    """The number of the operand of a launch that is its size along x."""
    return _segments(launch)[0] + {"grid": 0, "block": 3, "cluster": 6}[extent]


def _segments(launch: Operation) -> list[int]:
    return [int(n) for n in ir.DenseI32ArrayAttr(launch.attributes["operandSegmentSizes"])]


def enclosing_launch_size(op: Operation, launches: Launches | None = None) -> Size | None:
    """The block size of the gpu.launch or function around `op`, see `block_size`."""
    for above in ancestors(op):
        if above.name == "gpu.launch":
            return _runnable(constant_sizes(above, "block"))
        if is_function(above):
            return block_size(above, launches)
    return None


def usual_lanes(names: set[str]) -> int:
    """Lanes of a wave where no chip is given, by the names of a function's ops: 64 on gfx9,
    32 elsewhere."""
    return 64 if any(name.startswith(("amdgpu.", "rocdl.")) for name in names) else 32
