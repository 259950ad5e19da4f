"""The grid that runs a kernel, and which atoms tell its blocks apart.

    %b = gpu.block_id x                         a symbol of block x
    for %i = %b to %n step %grid_dim_x          %i is another one in each block: *own* of x
    mul(block_id x, block_dim x) + tid x        one number for each thread of the grid

Along an axis whose size nothing says, a kernel that reads its block id runs as any number of
blocks; one that never reads it runs as one.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, is_function, is_used
from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Form, substitute
from mlir_async_pipe.checker.step_graph import Flow
from mlir_async_pipe.vocabulary.launch_ids import (
    IDS,
    LAUNCH_SYMBOLS,
    Kind,
    Launches,
    Size,
    constant_sizes,
    id_of,
    name_at_launch,
    thread_dimension,
)

OWN = "own of block"
EVERYWHERE = "own of thread"


@dataclass(frozen=True)
class GridBlocks:
    """Blocks in x, y, z; None where a kernel may run as any number of them. `stated`: the kernel or
    its launch says so, else an axis that nobody reads is taken to have one."""

    sizes: tuple[int | None, int | None, int | None] = (1, 1, 1)
    stated: bool = False

    @property
    def several(self) -> bool:
        """Whether two blocks may run."""
        return any(size != 1 for size in self.sizes)

    @property
    def open_axes(self) -> list[int]:
        """The axes along which there may be several."""
        return [axis for axis, size in enumerate(self.sizes) if size != 1]


def grid_of(kernel: Operation, flow: Flow, grids: Launches, *, several: bool) -> GridBlocks:
    """The grid of a kernel; `several`: axes whose block id is never read may have blocks too."""
    known = _known_size(kernel, grids)
    if known is not None:
        return GridBlocks(known, stated=True)
    read = set(range(3)) if several else _axes_read(kernel, flow)
    x, y, z = (None if axis in read else 1 for axis in range(3))
    return GridBlocks((x, y, z))


def _known_size(kernel: Operation, grids: Launches) -> Size | None:
    if kernel.name == "gpu.launch":
        return constant_sizes(kernel, "grid")
    for name in ("known_grid_size", "gpu.known_grid_size"):
        if name in kernel.attributes:
            x, y, z = [*map(int, ir.DenseI32ArrayAttr(kernel.attributes[name])), 1, 1, 1][:3]
            return x, y, z
    found = grids.get(name_at_launch(kernel), set()) if is_function(kernel) else set()
    return next(iter(found)) if len(found) == 1 else None


def _axes_read(kernel: Operation, flow: Flow) -> set[int]:
    found = set()
    for run in flow.runs():
        if run.name in IDS and any(map(is_used, run.op.results)):
            known = id_of(run.op)
            if known is None:
                found.add(thread_dimension(run.op))
            elif known.kind == "block":
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
