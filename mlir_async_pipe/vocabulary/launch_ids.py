"""Which values say where in the launch a thread stands, and how many threads a kernel is launched with.

    %t = gpu.thread_id x                           LaunchId("thread", 0)
    gpu.launch blocks(…) threads(%tx, %ty, %tz)    %ty is LaunchId("thread", 1)

A `gpu.launch` gives as block arguments what ops give in an outlined kernel.
Sizes are those that the function names, or its launch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Literal

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    KERNEL_OPS,
    Operation,
    Value,
    ancestors,
    constant_value,
    defining_op,
    enclosing,
    integer_attribute,
    is_block_argument,
    is_function,
    is_used,
    outermost,
    parent,
    remembered,
    source_op,
    symbol_name,
    type_text,
    walk,
    walk_named,
)
from mlir_async_pipe.vocabulary.operator_table import is_operator

Kind = Literal["thread", "block", "block_size", "grid_size", "lane", "subgroup", "cluster", "cluster_count",
               "cluster_block", "cluster_size", "cluster_rank", "cluster_blocks"]  # fmt: skip


@dataclass(frozen=True, order=True)
class LaunchId:
    """`axis` is 0, 1, 2 for x, y, z, and 0 for what has none."""

    kind: Kind
    axis: int = 0

    @property
    def differs(self) -> bool:
        """Whether threads of one block have different values."""
        return self.kind in ("thread", "lane", "subgroup")


# Ops that name their axis in an attribute.
_WITH_DIMENSION: dict[str, Kind] = {
    "gpu.thread_id": "thread",
    "gpu.block_id": "block",
    "gpu.block_dim": "block_size",
    "gpu.grid_dim": "grid_size",
    "gpu.cluster_id": "cluster",
    "gpu.cluster_block_id": "cluster_block",
    "gpu.cluster_dim": "cluster_count",
    "gpu.cluster_dim_blocks": "cluster_size",
}
# Ops that name it in their own name.
_BY_AXIS: dict[str, Kind] = {
    "nvvm.read.ptx.sreg.tid": "thread",
    "nvvm.read.ptx.sreg.ctaid": "block",
    "nvvm.read.ptx.sreg.ntid": "block_size",
    "nvvm.read.ptx.sreg.nctaid": "grid_size",
    "nvvm.read.ptx.sreg.clusterid": "cluster",
    "nvvm.read.ptx.sreg.cluster.ctaid": "cluster_block",
    "nvvm.read.ptx.sreg.nclusterid": "cluster_count",
    "nvvm.read.ptx.sreg.cluster.nctaid": "cluster_size",
    "rocdl.workitem.id": "thread",
    "rocdl.workgroup.id": "block",
    "rocdl.workgroup.dim": "block_size",
    "rocdl.grid.dim": "grid_size",
}
_OPS: dict[str, LaunchId] = {
    **{
        f"{name}.{axis}": LaunchId(kind, number)
        for name, kind in _BY_AXIS.items()
        for number, axis in enumerate("xyz")
    },
    "gpu.lane_id": LaunchId("lane"),
    "gpu.subgroup_id": LaunchId("subgroup"),
    "nvvm.read.ptx.sreg.laneid": LaunchId("lane"),
    "nvvm.read.ptx.sreg.warpid": LaunchId("subgroup"),
    "nvvm.read.ptx.sreg.cluster.ctarank": LaunchId("cluster_rank"),
    "nvvm.read.ptx.sreg.cluster.nctarank": LaunchId("cluster_blocks"),
}
# Every op that gives one, and what it gives.
ID_OPS: dict[str, Kind] = _WITH_DIMENSION | {name: found.kind for name, found in _OPS.items()}
# Every op that says where in the launch a thread stands.
IDS = frozenset((*ID_OPS, "gpu.global_id"))


# The mask that names every lane of a warp (PTX ISA, bar.warp.sync).
ALL_LANES = 0xFFFFFFFF
# The number of a block in its cluster, x fastest.
CLUSTER_RANK = "nvvm.read.ptx.sreg.cluster.ctarank"
# Gives the address of a variable of workgroup memory in another block of the cluster.
MAPA = "nvvm.mapa"
# What all threads of a block do together, or count, beside barriers and the ids above.
OF_THE_BLOCK = ("gpu.all_reduce", "gpu.global_id", "gpu.num_subgroups")
# True in one active lane of each warp.
ELECT = "nvvm.elect.sync"
# The ops that stand for all others of their kind, as symbols of the checker.
LAUNCH_SYMBOLS: dict[Kind, str] = {"block": "gpu.block_id", "grid_size": "gpu.grid_dim", "block_size": "gpu.block_dim"}  # fmt: skip
# The block arguments of gpu.launch, three of each; attributions come after them.
_ARGUMENTS: tuple[Kind, ...] = ("block", "thread", "grid_size", "block_size")


def launch_id(value: Value) -> LaunchId | None:
    """What `value` says about the launch; None if it is computed, loaded or given otherwise."""
    if is_block_argument(value):
        argument = ir.BlockArgument(value)
        kind, axis = divmod(int(argument.arg_number), 3)
        if argument.owner.owner.name != "gpu.launch" or kind >= len(_ARGUMENTS):
            return None
        return LaunchId(_ARGUMENTS[kind], axis)
    op = defining_op(value)
    assert op is not None
    return id_of(op)


def thread_dimension(op: Any) -> int:
    """0, 1, 2 for the dimension x, y, z of a gpu id op."""
    # #gpu<dim x>, in younger stacks #gpu<dim<x>>.
    text = str(op.attributes["dimension"]).rstrip(">")
    return "xyz".index(text[-1])


def id_of(op: Operation) -> LaunchId | None:
    """What an op says about the launch; None if it says nothing."""
    kind = _WITH_DIMENSION.get(op.name)
    return LaunchId(kind, thread_dimension(op)) if kind is not None else _OPS.get(op.name)


def is_id_of_threads(name: str) -> bool:
    """Whether the ops called `name` tell threads of one block apart."""
    known = ID_OPS.get(name)
    return name == "gpu.global_id" or (known is not None and LaunchId(known).differs)


def axes_read(roots: Iterable[Operation]) -> frozenset[int]:
    """The axes along which code below `roots` asks where a thread stands, or how many there are."""
    found: set[int] = set()
    for root in roots:
        for op in walk(root):
            known = id_of(op)
            if op.name == "gpu.global_id":
                found.add(thread_dimension(op))
            elif known is not None and known.kind in ("thread", "block_size"):
                found.add(known.axis)
            elif op.name == "gpu.launch":
                arguments = op.regions[0].blocks[0].arguments
                found |= {n % 3 for n in (3, 4, 5, 9, 10, 11) if is_used(arguments[n])}
    return frozenset(found)


@remembered
def is_block_number(value: Value) -> bool:
    """Whether a value is the number of a thread in its block, x fastest: its id along x, plus the others times the sizes
    of the block, as far as it has several threads there."""
    products = _products(value)
    if products is None or (_THREAD_X,) not in products:
        return False
    if sorted(products) == sorted(_NUMBER):
        return True
    around = enclosing(source_op(value), KERNEL_OPS)
    size = (None if around is None else block_size(around)) or (None, None, None)
    left = sorted(found for found in map(partial(_without_ones, size), products) if found)
    whole = (_without_ones(size, one) for one in _NUMBER)
    return left == sorted(one for one in whole if one)


_THREAD_X = LaunchId("thread", 0)
_NUMBER = (
    (_THREAD_X,),
    (LaunchId("block_size", 0), LaunchId("thread", 1)),
    (LaunchId("block_size", 0), LaunchId("block_size", 1), LaunchId("thread", 2)),
)
Product = tuple[LaunchId, ...]
# Types that do not hold the number of a thread.
_TOO_FEW_BITS = ("i1", "i8")


def _products(value: Value) -> list[Product] | None:
    """The products of ids and sizes whose sum a value is; None if it is anything else."""
    known = launch_id(value)
    if known is not None:
        return [(known,)]
    made, narrow = defining_op(value), type_text(value.type) in _TOO_FEW_BITS
    if made is None or narrow or not any(is_operator(made.name, n) for n in ("cast", "add", "mul")):
        return None
    parts = [part for part in map(_products, made.operands) if part is not None]
    if len(parts) < len(made.operands):
        return None
    if not is_operator(made.name, "mul"):
        return [product for part in parts for product in part]
    if any(len(part) != 1 for part in parts):
        return None
    return [tuple(sorted(one for (product,) in parts for one in product))]


def _without_ones(size: tuple[int | None, ...], product: Product) -> Product:
    """A product without the sizes that are 1; none if it is 0, as it is with an id along an axis of one thread."""
    if any(one.kind == "thread" and one.axis and size[one.axis] == 1 for one in product):
        return ()
    return tuple(one for one in product if one.kind == "thread" or size[one.axis] != 1)


def axis_attribute(axis: str, context: Any) -> Any:
    """The attribute of `gpu.thread_id` and its like for an axis, in the words of this stack."""
    try:
        return ir.Attribute.parse(f"#gpu<dim {axis}>", context)
    except (ValueError, ir.MLIRError):
        return ir.Attribute.parse(f"#gpu<dim<{axis}>>", context)


Size = tuple[int, int, int]

# What the vendors call a block size that is exact, not the largest.
_EXACT_SIZES = ("nvvm.reqntid", "rocdl.reqd_work_group_size")
# What a kernel says about the registers of its threads.
REGISTER_LIMITS = ("nvvm.maxnreg", "nvvm.minctasm")
BLOCK_SIZES = ("known_block_size", "gpu.known_block_size", *_EXACT_SIZES)

GRID_SIZES = ("known_grid_size", "gpu.known_grid_size")
CLUSTER_SIZES = ("known_cluster_size", "gpu.known_cluster_size", "nvvm.cluster_dim")

Extent = Literal["grid", "block", "cluster"]
Launches = dict[str, set[Size | None]]

# The threads of the largest block that a GPU runs (CUDA, HIP).
LARGEST_BLOCK = 1024
# Blocks of a cluster, where a kernel asks for as many (CUDA, cudaFuncAttributeNonPortableClusterSizeAllowed).
LARGEST_CLUSTER = 16
# How a kernel says how many threads its blocks may have: their number, whatever its shape (PTX ISA, .maxntid).
LIMITS_OF_THREADS = ("nvvm.maxntid", "rocdl.max_flat_work_group_size", "rocdl.flat_work_group_size")


def threads_allowed(function: Operation, name: str) -> tuple[int, int]:
    """The least and the largest number of threads that one of `LIMITS_OF_THREADS` allows."""
    if name == "nvvm.maxntid":
        return 1, prod(stated_size(function, name))
    if name == "rocdl.max_flat_work_group_size":
        return 1, integer_attribute(function, name) or LARGEST_BLOCK
    first, _, last = str(ir.StringAttr(function.attributes[name]).value).partition(",")
    return int(first), int(last or first)


def largest_block(function: Operation) -> int:
    """The threads of the largest block that may run a function: of its limits the lowest, else of any GPU."""
    stated = [name for name in LIMITS_OF_THREADS if name in function.attributes]
    return min((threads_allowed(function, name)[1] for name in stated), default=LARGEST_BLOCK)


def block_size(function: Operation, launches: Launches | None = None) -> Size | None:
    """Threads in x, y, z of the block that runs `function`, None where nothing says so.

    Sources, first one that answers: `known_block_size`, a gpu.launch around the code, the
    gpu.launch_func of the module that names the kernel (all of them must agree), which are
    `launches` where they have been collected already, and the number of warps that Triton's modules name.
    A size that no GPU runs says nothing.
    """
    for name in BLOCK_SIZES:
        if name in function.attributes:
            return _runnable(stated_size(function, name))
    module = outermost(function)
    collected = launched_sizes(module) if launches is None else launches
    launched = name_at_launch(function) in collected
    return _runnable(_of_all(collected, function) if launched else _size_of_triton(module))


def stated_size(function: Operation, name: str) -> Size:
    """What an attribute of one to three numbers says of x, y and z."""
    x, y, z = [*map(int, ir.DenseI32ArrayAttr(function.attributes[name])), 1, 1, 1][:3]
    return x, y, z


def _size_of_triton(module: Operation) -> Size | None:
    """The block size that Triton launches its kernels with: warps, those of partitions too, times lanes."""
    counts = [integer_attribute(module, f"ttg.{name}") for name in ("total-num-warps", "num-warps")]
    warps = counts[0] or counts[1]
    lanes = lanes_of_triton(module)
    return (warps * lanes, 1, 1) if warps and lanes else None


def _runnable(size: Size | None) -> Size | None:
    return size if size is None or (min(size) > 0 and prod(size) <= LARGEST_BLOCK) else None


def cluster_size(kernel: Operation, clusters: Launches | None = None) -> Size | None:
    """Blocks in x, y, z of the clusters that run a kernel, or a gpu.launch: as it says, or as all launches of it
    in the module do, which are `clusters` where they have been collected already; None where nothing says so."""
    if kernel.name == "gpu.launch":
        return constant_sizes(kernel, "cluster")
    for name in CLUSTER_SIZES:
        if name in kernel.attributes:
            return stated_size(kernel, name)
    if clusters is None:
        clusters = sizes_of(launches_below(outermost(kernel)), "cluster")
    return _of_all(clusters, kernel)


def _of_all(launches: Launches, function: Operation) -> Size | None:
    """The size that all launches of a kernel have."""
    found = launches.get(name_at_launch(function), set())
    return next(iter(found)) if len(found) == 1 else None


def grid_size(kernel: Operation, grids: Launches | None = None) -> Size | None:
    """Blocks in x, y, z of a kernel, or of a gpu.launch, where it or all its launches, which are `grids` where they have been
    collected already, say how many they are."""
    if kernel.name == "gpu.launch":
        return constant_sizes(kernel, "grid")
    for name in GRID_SIZES:
        if name in kernel.attributes:
            return stated_size(kernel, name)
    if not is_function(kernel):
        return None
    return _of_all(
        sizes_of(launches_below(outermost(kernel)), "grid") if grids is None else grids, kernel
    )


def launched_along(kernel: Operation, axis: int, least: int) -> int | None:
    """Blocks along an axis, `least` where no launch says how many; None where launches differ."""
    launches = [kernel] if kernel.name == "gpu.launch" else []
    if is_function(kernel):
        launches = launches_by_kernel(outermost(kernel)).get(name_at_launch(kernel), [])
    given = {constant_value(op.operands[first_size(op, "grid") + axis]) for op in launches} - {None}
    return None if len(given) > 1 else next(iter(given), least)


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


@remembered
def launches_by_kernel(root: Operation) -> dict[str, list[Operation]]:
    """All gpu.launch_func below `root`, by the kernel that they start."""
    found: dict[str, list[Operation]] = {}
    for op in launches_below(root):
        found.setdefault(kernel_name(op), []).append(op)
    return found


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
    x, y, z = (constant_value(launch.operands[first + axis]) for axis in range(3))
    return None if x is None or y is None or z is None else (x, y, z)


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


# Ops of chips whose waves have 32 lanes: gfx11 and younger (AMD's matrix instructions guide; LLVM, AMDGPU usage).
_OF_SHORT_WAVES = (
    *("amdgpu.wmma", "amdgpu.scaled_wmma", "amdgpu.sparse_wmma", "rocdl.wmma.", "rocdl.swmmac."),
    *("amdgpu.ds_barrier_", "amdgpu.make_dma", "amdgpu.tensor_", "rocdl.tensor."),
    "rocdl.global.load.async.to.",
)


def usual_lanes(names: set[str]) -> int:
    """Lanes of a wave where no chip is given, by the names of a function's ops: 64 on gfx9, 32 elsewhere."""
    of_amd = [name for name in names if name.startswith(("amdgpu.", "rocdl."))]
    return 64 if of_amd and not any(name.startswith(_OF_SHORT_WAVES) for name in of_amd) else 32


def lanes_of_triton(function: Operation) -> int | None:
    """Lanes of a warp as Triton's modules name them."""
    return integer_attribute(outermost(function), "ttg.threads-per-warp")
