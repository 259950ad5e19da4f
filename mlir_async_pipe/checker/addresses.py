"""Evaluates the ops that make memrefs, pointers and addresses: views of roots, in forms.

memref.subview, memref.view, casts, reshapes      a view of the same root
memref.dim                                        a size; a symbol of its root, of the whole of it
llvm.getelementptr, llvm.ptrtoint and back        bytes after the start of a root
"""

from __future__ import annotations

from typing import Any, Protocol

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import as_kind, defining_op
from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, AtomRange, Form
from mlir_async_pipe.checker.sites import Roots
from mlir_async_pipe.checker.state import State
from mlir_async_pipe.facts.values import views
from mlir_async_pipe.facts.values.alignment import value_alignment
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.memory_roots import root_of, viewed_memref
from mlir_async_pipe.facts.values.views import View
from mlir_async_pipe.vocabulary import VIEW_OPS
from mlir_async_pipe.vocabulary.memory_names import (
    ADDRESS_OF_MEMREF,
    POINTER_OF_ADDRESS,
    POINTER_STEPS,
    in_workgroup_memory,
    names_memory,
)


class Operands(Protocol):
    """Looks up operands of ops of one frame in a state."""

    def form(self, state: State, number: int) -> Form:
        """The form of an integer."""

    def view(self, state: State, number: int) -> View | None:
        """The view of a memref or pointer."""


# Addresses of shared memory are numbers of 32 bits with room to spare: a block has at most 228 KiB, and
# the window in which blocks of a cluster see each other's holds 16 of them (PTX ISA, state spaces).
HIGHEST_SHARED = 2**30

Numbers = tuple[int, ...]
"""The value numbers of an op's operands."""


def memory_value(values: Operands, state: State, op: Any, operands: Numbers) -> View | None:
    """The view that an op makes; None where it makes a root of its own, or it is not known."""
    name = op.name
    if not operands or names_memory(op):
        return None
    if name == POINTER_OF_ADDRESS:
        return _from_address(values.form(state, operands[0]))
    source = values.view(state, operands[0])
    if source is None or not (name in VIEW_OPS or name in POINTER_STEPS or "cast" in name):
        return None
    if name not in POINTER_STEPS and as_kind(ir.MemRefType, op.results[0].type) is None:
        # Without a rank: a cast before an op that takes any memref.
        return None
    return views.viewed(op, source, lambda position: values.form(state, operands[position]))


def unassigned(roots: Roots, memory: Any, frame: int, *, differs: bool) -> View:
    """The view of a memref or pointer that nothing was assigned: the start of its root, or some
    place in it, if an op makes it in a way that is not followed. What is loaded `differs` between
    threads."""
    root, op = root_of(memory), defining_op(memory)
    number = roots.number(root, frame)
    at_start = root.value == memory and not (op is not None and root.kind == "unknown" and differs)
    if at_start:
        return views.root_view(number, memory.type)
    if op is not None and VIEW_OPS.get(op.name) == "same" and root.value != memory:
        # A cast before the launch: all of what it casts.
        whole = unassigned(roots, op.operands[0], frame, differs=differs)
        return views.viewed(op, whole, lambda position: forms.ZERO)
    source = None if op is None else viewed_memref(op)
    while source is not None and source != root.value:
        # Views share the aligned pointer of their source, but for one of its bytes.
        viewed = defining_op(source)
        shares = viewed is not None and VIEW_OPS.get(viewed.name, "bytes") != "bytes"
        source = viewed.operands[0] if viewed is not None and shares else None
    if source is not None:
        return views.pointer_view(number, views.root_view(number, source.type).aligned)
    return views.somewhere(number, memory.type)


def dimension(values: Operands, state: State, operands: Numbers, *, whole: bool) -> Form | None:
    """The value of memref.dim; `whole`: of all of a root, whose sizes never change."""
    view = values.view(state, operands[0])
    index = values.form(state, operands[1])
    if view is None or not index.is_constant or index.constant >= len(view.sizes):
        return None
    size = view.sizes[index.constant]
    if size is not None:
        return Form(size)
    if not whole:
        return None
    atom = Atom("symbol", ("dim", view.root, index.constant))
    state.facts.setdefault(atom, AtomRange(0, None))
    return forms.of_atom(atom)


def is_whole_argument(roots: Roots, frame: int, memory: Any) -> bool:
    """Whether a memref is what the kernel is given, all of it: a view at its begin may be smaller,
    and what a loop allocates has another size each time."""
    while True:
        op = defining_op(memory)
        if op is None and (frame, memory) in roots.passed_in:
            frame, memory = roots.passed_in[frame, memory]
        elif op is not None and VIEW_OPS.get(op.name) == "same":
            memory = op.operands[0]
        else:
            return op is None and not frame and root_of(memory).kind == "argument"


def address(
    values: Operands, state: State, roots: Roots, op: Any, operands: Numbers
) -> Form | None:
    """The address of a buffer as an integer: a multiple of what its root is aligned to, plus bytes. What masks and
    shifts take of it is then what they take of the bytes: (1024 a + 136) & 384 is 128."""
    view = values.view(state, operands[0])
    if view is None:
        return None
    # The aligned pointer of a memref is that of its whole allocation.
    aligned = op.name == ADDRESS_OF_MEMREF
    start = view.aligned if aligned else views.start_bytes(view)
    if start is None:
        return None
    unit = value_alignment(roots.roots[view.root].value, Arithmetic())
    atom = Atom("symbol", ("address", view.root, unit))
    if in_workgroup_memory(op.operands[0].type):
        state.facts.setdefault(atom, AtomRange(0, HIGHEST_SHARED // unit))
    return forms.add(forms.scale(forms.of_atom(atom), unit), start)


def _from_address(number: Form) -> View | None:
    """The pointer that an integer made of a root's address stands for."""
    for atom, coefficient in number.terms:
        if atom.kind == "symbol" and isinstance(atom.key, tuple):
            tag, *rest = atom.key
            if tag == "address" and coefficient == rest[1]:
                base = forms.scale(forms.of_atom(atom), coefficient)
                return views.pointer_view(rest[0], forms.subtract(number, base))
    return None
