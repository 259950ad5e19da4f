"""The grid and the blocks that run a kernel: ids and sizes as forms, and which atoms tell blocks apart.

    %b = gpu.block_id x                         a symbol of block x
    for %i = %b to %n step %grid_dim_x          %i is another one in each block: *own* of x
    mul(block_id x, block_dim x) + tid x        one number for each thread of the grid

Along an axis whose size nothing says, a kernel that reads its block id runs as any number of
blocks; one that never reads it runs as one, or as those of one cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    constant_value,
    defining_op,
    is_block_argument,
    is_function,
    is_used,
)
from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, AtomRange, Form, Knowns, substitute
from mlir_async_pipe.checker.step_graph import Flow, Run
from mlir_async_pipe.checker.thread_grid import Threads, thread_facts
from mlir_async_pipe.facts.values.domains import typed
from mlir_async_pipe.facts.values.integer_ops import bits_of
from mlir_async_pipe.facts.values.uniformity import sources
from mlir_async_pipe.vocabulary import names_block
from mlir_async_pipe.vocabulary.launch_ids import (
    IDS,
    LAUNCH_SYMBOLS,
    Kind,
    Launches,
    LaunchId,
    Size,
    cluster_size,
    grid_size,
    id_of,
    launch_id,
    launched_along,
    thread_dimension,
)
from mlir_async_pipe.vocabulary.operator_table import OPERATORS, is_operator
from mlir_async_pipe.vocabulary.rows import Share

OWN = "own of block"
EVERYWHERE = "own of thread"


@dataclass(frozen=True)
class GridBlocks:
    """Blocks in x, y, z; None where a kernel may run as any number of them. `stated`: the kernel or
    its launch says so, else an axis that nobody reads is taken to have one, or those of one `cluster` (None: of
    unknown size)."""

    sizes: tuple[int | None, int | None, int | None] = (1, 1, 1)
    stated: bool = False
    cluster: Size | None = None

    @property
    def several(self) -> bool:
        return any(size != 1 for size in self.sizes)

    @property
    def in_clusters(self) -> bool:
        """Whether clusters of several blocks run it."""
        return self.cluster not in (None, (1, 1, 1))

    @property
    def open_axes(self) -> list[int]:
        """The axes along which there may be several."""
        return [axis for axis, size in enumerate(self.sizes) if size != 1]


def grid_of(
    kernel: Operation, flow: Flow, grids: Launches, clusters: Launches, *, several: bool
) -> GridBlocks:
    """The grid of a kernel, whose launches have these sizes; `several`: axes whose block id is never read may have blocks too."""
    known, cluster = grid_size(kernel, grids), cluster_size(kernel, clusters)
    if known is not None:
        return GridBlocks(known, stated=True, cluster=cluster)
    read = set(range(3)) if several else _axes_read(kernel, flow)
    x, y, z = (
        None if n in read else launched_along(kernel, n, size)
        for n, size in enumerate(cluster or (1, 1, 1))
    )
    return GridBlocks((x, y, z), cluster=cluster)


def _axes_read(kernel: Operation, flow: Flow) -> set[int]:
    found = set()
    for run in flow.runs():
        if names_block(run.op):
            return {0, 1, 2}
        if run.name in IDS and any(map(is_used, run.op.results)):
            known = id_of(run.op)
            if known is None:
                found.add(thread_dimension(run.op))
            elif known.kind in ("block", "cluster"):
                found.add(known.axis)
    if kernel.name == "gpu.launch":
        arguments = list(kernel.regions[0].blocks[0].arguments)[:3]
        found |= {n for n, a in enumerate(arguments) if is_used(a)}
    return found


def block_axis(atom: Atom) -> int | None:
    return _axis_of(atom, "block")


def grid_size_of(atom: Atom) -> Form | None:
    """The number that a block id is below: the size of the grid along its axis."""
    axis = block_axis(atom)
    return (
        None if axis is None else forms.of_atom(Atom("symbol", (LAUNCH_SYMBOLS["grid_size"], axis)))
    )


def distinct_axis(atom: Atom) -> int | None:
    """The axis along which blocks with equal values of the atom are the same one."""
    tag = atom.tag if atom.kind in ("symbol", "any") else None
    if isinstance(tag, tuple) and tag[0] in (OWN, EVERYWHERE):
        return int(tag[1])
    return block_axis(atom)


def thread_axis(atom: Atom) -> int | None:
    """The axis along which threads of the grid with equal values of the atom are the same one."""
    tag = atom.tag if atom.kind == "symbol" else None
    return int(tag[1]) if isinstance(tag, tuple) and tag[0] == EVERYWHERE else None


def is_own_of_block(atom: Atom) -> bool:
    """Whether the atom is a number that each block has for itself in a loop."""
    return distinct_axis(atom) is not None and block_axis(atom) is None


def is_of_launch(atom: Atom) -> bool:
    """Whether the atom is the size of the grid or of a block."""
    return _axis_of(atom, "grid_size", "block_size") is not None


def _axis_of(atom: Atom, *kinds: Kind) -> int | None:
    if atom.kind != "symbol" or not isinstance(atom.key, tuple) or len(atom.key) != 2:
        return None
    name, axis = atom.key
    if any(name == LAUNCH_SYMBOLS[kind] for kind in kinds):
        return int(axis)
    return None


def own_number(lower: Form, step: Form, own: tuple[str, object]) -> Form | None:
    """The variable of a loop from a block's own number on, in steps of as many as there are:

        lower = 4 * block_id x + 1, step = 4 * grid_dim x      4 * own + 1

    `own` names it: a kind of atom, and what tells it from others. None for other loops.
    """
    blocks = {a: axis for a in forms.atoms_of(lower) if (axis := block_axis(a)) is not None}
    sizes = {
        axis: a for a in forms.atoms_of(step) if (axis := _axis_of(a, "grid_size")) is not None
    }
    for block, axis in blocks.items():
        if axis not in sizes:
            continue
        mine = Form(0, frozenset(t for t in lower.terms if block in forms.atoms_under(t[0])))
        if substitute(mine, {block: forms.of_atom(sizes[axis])}, {}) != step:
            continue
        kind, key = own
        tag = (OWN, axis, key)
        atom = Atom(kind, (tag, forms.AtomRange(0, None)))
        return substitute(lower, {block: forms.of_atom(atom)}, {})
    return None


def with_thread_numbers(form: Form) -> Form:
    """The form with block * size + thread along an axis as one number of the thread."""
    terms = dict(form.terms)
    for atom, factor in form.terms:
        axis = _start_of_block(atom)
        if axis is None:
            continue
        thread = Atom("tid", "xyz"[axis])
        if terms.get(thread) == factor:
            del terms[thread], terms[atom]
            number = Atom("symbol", ((EVERYWHERE, axis, atom), None))
            terms[number] = terms.get(number, 0) + factor
    return Form(form.constant, frozenset(terms.items()))


def _start_of_block(atom: Atom) -> int | None:
    """The axis of block id * block size."""
    name, arguments = forms.operator_of(atom)
    inner = [form for form in arguments if len(form.terms) == 1]
    if name != "mul" or len(inner) != 2 or any(form.constant for form in inner):
        return None
    parts = [next(iter(form.terms)) for form in inner]
    axes = {distinct_axis(a) for a, c in parts if c == 1} - {None}
    sizes = {_axis_of(a, "block_size") for a, c in parts if c == 1} - {None}
    return axes.pop() if len(axes) == 1 and axes == sizes else None


# Ids and sizes as forms, which values differ between threads, and what is known of a launch.
#
#     gpu.thread_id x        the atom tid x, or 0 in a block of one row
#     gpu.block_id x         a symbol: the same in every thread of the block


def argument_form(value: Any, threads: Threads) -> Form | None:
    """The thread ids and block sizes that gpu.launch gives as block arguments."""
    known = launch_id(value)
    return None if known is None else _given(known, threads, LAUNCH_SYMBOLS.get(known.kind))


def id_form(op: Any, threads: Threads, grid: GridBlocks) -> Form | None:
    """The form of an op that says where in the launch a thread stands; None for other ops."""
    if op.name == "gpu.global_id":
        axis = thread_dimension(op)
        block = forms.of_atom(Atom("symbol", (LAUNCH_SYMBOLS["block"], axis)))
        size = forms.of_atom(Atom("symbol", (LAUNCH_SYMBOLS["block_size"], axis)))
        start = (
            forms.call("mul", block, size)
            if threads.size is None
            else forms.scale(block, threads.size[axis])
        )
        return forms.add(_id_of(threads, axis), start)
    known = id_of(op)
    if known is None:
        return None
    if known.kind in ("lane", "subgroup"):
        return forms.of_atom(Atom("tid", "lane" if known.kind == "lane" else "warp"))
    form = None if grid.cluster is None else _in_cluster(known, grid.cluster, launch_facts(grid))
    return form or _given(known, threads, LAUNCH_SYMBOLS.get(known.kind, op.name))


def _given(known: LaunchId, threads: Threads, name: str | None) -> Form | None:
    """What the launch gives: a number where it is known, else the symbol `name`."""
    if known.kind == "thread":
        return _id_of(threads, known.axis)
    if known.kind == "block_size" and threads.size is not None:
        return Form(threads.size[known.axis])
    return None if name is None else forms.of_atom(Atom("symbol", (name, known.axis)))


def _in_cluster(known: LaunchId, cluster: Size, facts: Knowns) -> Form | None:
    """An id that says where in its cluster, or in which one, a block is: clusters tile the grid (PTX ISA, %clusterid).

    gpu.cluster_block_id y, in clusters of two along y      block_id y mod 2
    """
    size = cluster[known.axis]

    def along(kind: Kind, axis: int) -> Form:
        return forms.of_atom(Atom("symbol", (LAUNCH_SYMBOLS[kind], axis)))

    def inside(axis: int) -> Form:
        return forms.modulo(along("block", axis), cluster[axis], facts)

    match known.kind:
        case "cluster_block":
            return inside(known.axis)
        case "cluster_rank":
            x, y, z = map(inside, range(3))
            height = forms.scale(forms.add(y, forms.scale(z, cluster[1])), cluster[0])
            return forms.add(x, height)
        case "cluster":
            return forms.floor_divide(along("block", known.axis), size, facts)
        case "cluster_count":
            return forms.floor_divide(along("grid_size", known.axis), size, facts)
        case "cluster_size":
            return Form(size)
        case "cluster_blocks":
            return Form(prod(cluster))
    return None


def firsts_of(shares: tuple[Share, ...], threads: Threads) -> list[Form]:
    """Where a thread's part of memory begins, in each dimension."""
    x, facts = _id_of(threads, 0), thread_facts(threads)
    firsts = []
    for share in shares:
        first = forms.ZERO
        for factor, divisor, modulus in share.digits:
            digit = forms.modulo(forms.floor_divide(x, divisor, facts), modulus, facts)
            first = forms.add(first, forms.scale(digit, factor))
        firsts.append(first)
    return firsts


def differs(value: Any, frame: int) -> bool:
    """Whether a value may differ between the threads of a block.

    The kernel's own arguments are the same for all; those of a callee need not be. What blocks
    and loops forward is followed by `divergence`, as far as it decides anything: here it differs.
    """
    seen = set()
    pending = [value]
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        if is_block_argument(current) and launch_id(current) is None:
            block = ir.BlockArgument(current).owner
            above = block.owner.operation
            if frame or not is_function(above) or block != above.regions[0].blocks[0]:
                return True
            continue
        reached, different = sources(current)
        if different is not None and (frame or not is_function(different)):
            return True
        pending.extend(reached)
    return False


def _id_of(threads: Threads, axis: int) -> Form:
    if threads.size is not None and threads.size[axis] == 1:
        return forms.ZERO
    return forms.of_atom(Atom("tid", "xyz"[axis]))


# What `overflow<nsw>` says of block ids: a kernel that always multiplies one has few blocks.
#
#     %b = arith.index_cast %block_id_x : index to i32
#     %s = arith.muli %b, %c4 overflow<nsw> : i32       block_id x <= (2^31 - 1) / 4
#     %h = arith.divui %b, %c2 : i32
#     %r = arith.muli %h, %c4 overflow<nsw> : i32       block_id x / 2 <= (2^31 - 1) / 4
#
# Only ops of the first block count, which every thread runs.


def believed(flow: Flow, threads: Threads, grid: GridBlocks) -> Knowns:
    """The ranges of what a launch gives, of block ids those whose products with constants do not overflow."""
    facts = launch_facts(grid)
    for step in flow.blocks[0].steps:
        if not isinstance(step, Run) or not is_operator(step.name, "mul"):
            continue
        product, constants = typed(step.op), map(constant_value, step.op.operands)
        factor = next((number for number in constants if number is not None), None)
        if not product.nsw or product.bits < 32 or factor is None or factor < 1:
            continue
        quotient = ((1 << (product.bits - 1)) - 1) // factor
        for atom, divisor in _block_ids(step.op, threads, grid):
            most = quotient * divisor + divisor - 1
            known = facts[atom]
            if known.high is None or most < known.high:
                facts[atom] = AtomRange(0, most)
    return facts


def _block_ids(op: Operation, threads: Threads, grid: GridBlocks) -> Iterator[tuple[Atom, int]]:
    """The block ids that an op reads through casts and divisions by a constant, which is given."""
    for operand in op.operands:
        source: Value = operand
        above = defining_op(source)
        divisor = 1
        while above is not None and (found := _divided_by(above)) is not None:
            divisor *= found
            source = above.operands[0]
            above = defining_op(source)
        form = argument_form(source, threads) if above is None else id_form(above, threads, grid)
        if form is None or form.constant or len(form.terms) != 1 or divisor < 1:
            continue
        ((atom, _),) = form.terms
        if block_axis(atom) is not None:
            yield atom, divisor


def _divided_by(op: Operation) -> int | None:
    """1 for a cast that keeps the 31 bits of an id, the constant of a division, 0 for another
    divisor; None for other ops."""
    row = OPERATORS.get(op.name)
    if row is None or row.method not in ("cast", "div") or row.rounding == "up":
        return None
    if row.method == "div":
        return max(constant_value(op.operands[1]) or 0, 0)
    return 1 if bits_of(op.results[0].type) >= 32 else None


# What hardware allows of the sizes of a launch, and of a kernel's arguments of type index.
#
#     gpu.block_dim x         1 … 1024 threads a block
#     gpu.grid_dim x          1 … 2^31 - 1 blocks, gpu.block_id from 0; of 16 blocks 16, and 0 … 15
#     func.func @f(%n: index)     a size: 0 or more
#
# CUDA C++ Programming Guide, compute capabilities; HIP's limits are the same in x, smaller in y, z.

SIZE = AtomRange(0, None)

_LARGEST_GRID = (1 << 31) - 1


def launch_facts(grid: GridBlocks) -> Knowns:
    """By the symbols that stand for them; also what the size of a grid says where it is stated."""
    found: Knowns = {}
    for axis, size in enumerate(grid.sizes):
        least, most = (size, size) if size is not None and grid.stated else (1, _LARGEST_GRID)
        known: dict[Kind, AtomRange] = {
            "block": AtomRange(0, (size or most) - 1),
            "grid_size": AtomRange(least, most),
            "block_size": AtomRange(1, 1024),
        }
        found |= {Atom("symbol", (LAUNCH_SYMBOLS[of], axis)): one for of, one in known.items()}
    return found
