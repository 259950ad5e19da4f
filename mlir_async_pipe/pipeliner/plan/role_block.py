"""How a block grows by the threads of a producer, and what in the kernel and its launches says so.

known_block_size = 128                       256: threads 128 … 255 are the producer's
                                             384 with two groups: 128 … 255 are like the first
gpu.launch_func … threads in (%c128, …)      %c256
gpu.barrier                         -->      nvvm.barrier id = 1 number_of_threads = 128
gpu.block_dim x                              128
                                             nvvm.setmaxregister decrease 40, increase 232
"""

from __future__ import annotations

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    constant_value,
    is_function,
    outermost,
    walk,
)
from mlir_async_pipe.facts.loops.annotations import ROLES
from mlir_async_pipe.pipeliner.plan.ring_plan import WARP, RingPlan, RoleBlock, RoleRegisters
from mlir_async_pipe.session.diagnostics import Refusal
from mlir_async_pipe.vocabulary import ROWS, is_barrier, meets_cluster
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS
from mlir_async_pipe.vocabulary.launch_ids import (
    OF_THE_BLOCK,
    REGISTER_LIMITS,
    LaunchId,
    Size,
    constant_sizes,
    kernel_name,
    launch_id,
    launches_below,
    name_at_launch,
)

WARPGROUP, MOST_THREADS = 128, 1024
# Of warpgroups that take turns.
GROUPS = 2
NAMED_BARRIERS = 16
REGISTERS, UNIT = 1 << 16, 8
# What a producer keeps, and what a thread may have at most, of 255 that instructions can name.
PRODUCER_REGISTERS, MOST_REGISTERS = 40, 232
# Of large blocks little is left for each thread.
FEW_REGISTERS = 32

refuse = Refusal(
    "cannot let warps of their own copy:",
    code="roles-unsupported",
    advice=f"without '{ROLES}' all warps copy and compute",
)


def registers_of_roles(threads: int, added: int, blocks: int = 1) -> RoleRegisters:
    """As many for each consumer as there are where so many blocks share them, or as its instructions can
    name.

        128 threads compute, 128 copy     decrease 40, increase 232: 34816 of 64 K registers
        and two such blocks at once       decrease 40, increase 216: 32768 for each

    Registers are moved by warpgroups: a block begins with as many for each thread, and whoever wants
    more waits until others gave some away. E threads with r registers that take i, and P that keep d,
    need E i + P d <= (E + P) r, all multiples of 8, and (E + P) r <= 64 K (PTX ISA, setmaxnreg)."""
    producer = PRODUCER_REGISTERS if threads <= 2 * WARPGROUP else FEW_REGISTERS
    most = _multiple(REGISTERS // blocks // (threads + added))
    left = most * (threads + added) - producer * added
    consumer = min(_multiple(left // threads), MOST_REGISTERS)
    needed = consumer * threads + producer * added
    entry = -(-needed // ((threads + added) * UNIT)) * UNIT
    return RoleRegisters(entry, producer, consumer)


def _multiple(registers: int) -> int:
    return registers // UNIT * UNIT


def role_block(
    plans: list[RingPlan],
    moved: tuple[Operation, ...],
    dropped: tuple[Operation, ...],
    size: Size | None,
    groups: int,
) -> RoleBlock:
    """The block of all loops of a kernel, with so many groups. Raises PipelineError (roles-block)."""
    first, loop, kernel = plans[0], plans[0].loop, plans[0].kernel
    products = max((plan.products for plan in plans), key=lambda each: each.groups)
    # There are two barriers more, by which groups take turns.
    ordered = first.asked in ("ping-pong", "alternating")
    # Registers move between whole warpgroups.
    unit = WARPGROUP if products.groups or first.asked == "grouped" else WARP
    # One warp copies; of products in tensor memory another one issues them.
    copying = max(2 * WARP, unit) if products.completions else unit
    most = (MOST_THREADS - copying) // groups // unit * unit
    if size is None or size[1:] != (1, 1) or size[0] % unit or size[0] > most:
        more = f"{copying} threads" if groups == 1 else f"as many threads and {copying}"
        known = "unknown size" if size is None else " x ".join(map(str, size))
        why = f"a block of {known} cannot get {more} more"
        advice = (
            f"give the kernel a known_block_size along x, a multiple of {unit} of at most {most}"
        )
        refuse(why, kernel, loop, code="roles-block", advice=advice)
    threads = size[0]
    for op in walk(kernel):
        counts = op.name in OF_THE_BLOCK or meets_cluster(op)
        if op.name in CALL_OPS or (counts and op not in dropped):
            why = f"'{op.name}' may be about all threads of the block, which become more"
            refuse(why, op, loop, code="roles-block")
    inside = [op for top in moved for op in walk(top)]
    barriers = tuple(op for op in inside if is_barrier(op) and op not in dropped)
    # Groups that share one tile meet all at one barrier.
    met = 1 if first.asked == "grouped" else groups
    needed = met * bool(barriers or ordered) + 2 * ordered
    number = _free_number(inside, barriers, groups, needed, loop)
    # A gpu.launch hands no attributes on to the kernel that it becomes.
    said = any(name in kernel.attributes for name in REGISTER_LIMITS) or not is_function(kernel)
    registers = None
    if unit == WARPGROUP and not said:
        registers = registers_of_roles(threads * groups, unit)
    sizes, launches = _sizes(kernel), _launches(kernel, threads, loop)
    return RoleBlock(kernel, threads, groups, copying, registers, barriers, number, sizes, launches)


def _free_number(
    inside: list[Operation],
    barriers: tuple[Operation, ...],
    groups: int,
    needed: int,
    loop: Operation,
) -> int:
    """The first of so many named barriers that nobody uses."""
    taken = set[int]()
    for op in inside:
        if op in barriers and len(op.results):
            why = "this barrier reduces over all threads of the block"
            refuse(why, op, loop, code="roles-block")
        if op.name in ROWS and ROWS[op.name].whole is not None:
            if groups > 1 and ROWS[op.name].operands and len(op.operands):
                why = "threads of another group would meet at this barrier too"
                advice = "a barrier without a number becomes one of each group"
                refuse(why, op, loop, code="roles-block", advice=advice)
            numbers = [constant_value(value) for value in op.operands]
            if None in numbers and op not in barriers:
                refuse("which barrier this is is not known", op, loop, code="roles-block")
            taken |= {number for number in numbers if number is not None}
    rows = (range(first, first + needed) for first in range(1, NAMED_BARRIERS - needed + 1))
    free = [row.start for row in rows if taken.isdisjoint(row)]
    if needed and not free:
        refuse(f"no {needed} named barriers in a row are left", loop, loop, code="roles-block")
    return min(free, default=1)


def _sizes(kernel: Operation) -> tuple[tuple[Value, LaunchId], ...]:
    """The values that say how many threads there are."""
    values = [result for op in walk(kernel) for result in op.results]
    if not is_function(kernel):
        values += list(kernel.regions[0].blocks[0].arguments)
    known = ((value, launch_id(value)) for value in values)
    return tuple((value, of) for value, of in known if of is not None and of.kind == "block_size")


def _launches(kernel: Operation, threads: int, loop: Operation) -> tuple[Operation, ...]:
    """What launches the kernel in this module, with that many threads."""
    if not is_function(kernel):
        return (kernel,)
    name = name_at_launch(kernel)
    found = tuple(op for op in launches_below(outermost(kernel)) if kernel_name(op) == name)
    for launch in found:
        if constant_sizes(launch, "block") != (threads, 1, 1):
            why = f"this launch is not known to have {threads} threads"
            advice = "launch the kernel with constants for its block size"
            refuse(why, launch, loop, code="roles-block", advice=advice)
    return found
