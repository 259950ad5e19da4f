"""Evaluates the ops that make memrefs, pointers and addresses: views of roots, in forms.

memref.subview, memref.view, casts, reshapes      a view of the same root
memref.dim                                        a size, or a symbol of its own
llvm.getelementptr, llvm.ptrtoint and back        bytes after the start of a root
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import defining_op
from mlir_async_pipe.bindings.type_classes import as_kind
from mlir_async_pipe.checker import forms, views
from mlir_async_pipe.checker.forms import Atom, Form, Known
from mlir_async_pipe.checker.roots import Roots
from mlir_async_pipe.checker.state import State
from mlir_async_pipe.checker.views import View
from mlir_async_pipe.values.memory_roots import memref_behind, root_of
from mlir_async_pipe.values.pointers import step_bytes
from mlir_async_pipe.vocabulary import VIEW_OPS
from mlir_async_pipe.vocabulary.memory_layout import UnknownLayoutError, element_bytes
from mlir_async_pipe.vocabulary.memory_names import (
    ADDRESS_OPS,
    POINTER_OF_ADDRESS,
    POINTER_STEPS,
    names_memory,
)


class Operands(Protocol):
    """Looks up operands of ops of one frame in a state."""

    def form(self, state: State, number: int) -> Form:
        """The form of an integer."""

    def view(self, state: State, number: int) -> View | None:
        """The view of a memref or pointer."""


Numbers = tuple[int, ...]
"""The value numbers of an op's operands."""


def memory_value(values: Operands, state: State, op: Any, operands: Numbers) -> View | None:
    """The view that an op makes; None where it makes a root of its own, or cannot be told."""
    name = op.name
    if not operands or names_memory(op):
        return None
    source = values.view(state, operands[0])
    if name in POINTER_STEPS or name == POINTER_OF_ADDRESS:
        return _pointer(values, state, op, operands, source)
    if source is None or (name not in VIEW_OPS and "cast" not in name):
        return None

    def operand(position: int) -> Form:
        return values.form(state, operands[position])

    memref = as_kind(ir.MemRefType, op.results[0].type)
    if memref is None:
        # Without a rank: a cast on the way to an op that takes any memref.
        return None
    if name == "memref.subview":
        return views.subview(source, op, operand)
    if name == "memref.view":
        return views.reframed(source, op, operand(1))
    if name == "memref.reinterpret_cast":
        return _reinterpreted(source, op, operand)
    if VIEW_OPS.get(name) in ("regrouped", "permuted"):
        return views.byte_view(source, op, forms.ZERO, absolute=False)
    if len(list(memref.shape)) == len(source.sizes):
        return source
    return views.unknown_view(source, memref)


def unassigned(roots: Roots, memory: Any, frame: int, *, differs: bool) -> View:
    """The view of a memref or pointer that nothing was assigned: the start of its root, or some
    place in it, if an op makes it in a way that is not followed. What is loaded `differs` between
    threads."""
    root, op = root_of(memory), defining_op(memory)
    number = roots.number(root, frame)
    at_start = root.value == memory and not (op is not None and root.kind == "unknown" and differs)
    if at_start or (op is not None and memref_behind(op) is not None):
        return views.root_view(number, memory.type)
    return views.somewhere(number, memory.type)


def dimension(values: Operands, state: State, operands: Numbers) -> Form | None:
    """The value of memref.dim."""
    view = values.view(state, operands[0])
    index = values.form(state, operands[1])
    if view is None or not index.is_constant or index.constant >= len(view.sizes):
        return None
    size = view.sizes[index.constant]
    if size is not None:
        return Form(size)
    atom = Atom("symbol", ("dim", view.root, index.constant))
    state.facts.setdefault(atom, Known(0, None))
    return forms.of_atom(atom) if view.frame.shape == view.sizes else None


def address(values: Operands, state: State, op: Any, operands: Numbers) -> Form | None:
    """The address of a buffer as an integer: a symbol of its root plus bytes."""
    view = values.view(state, operands[0])
    if view is None:
        return None
    # The aligned pointer of a memref is that of its whole allocation.
    aligned = ADDRESS_OPS[op.name] == "window"
    start = view.frame.base if aligned else views.start_bytes(view)
    if start is None:
        return None
    return forms.add(forms.of_atom(Atom("symbol", ("address", view.root))), start)


def _reinterpreted(source: View, op: Any, operand: Callable[[int], Form]) -> View:
    offset = views.mixed(op, "static_offsets", 1, operand)[0]
    try:
        unit = element_bytes(op.results[0].type)
    except UnknownLayoutError:
        return views.unknown_view(source, ir.MemRefType(op.results[0].type))
    return views.byte_view(source, op, forms.scale(offset, unit), absolute=True)


def _pointer(
    values: Operands, state: State, op: Any, operands: Numbers, source: View | None
) -> View | None:
    if POINTER_STEPS.get(op.name) == "same":
        return source
    if op.name == POINTER_OF_ADDRESS:
        return _from_address(values.form(state, operands[0]))
    if source is None or source.start is None:
        return None
    begin = views.start_bytes(source)
    numbers = {value: number for value, number in zip(op.operands, operands, strict=True)}
    step = step_bytes(op, lambda value: values.form(state, numbers[value]))
    start = None if begin is None or step is None else (forms.add(begin, step),)
    return View(source.root, views.BYTES, start, (), ())


def _from_address(number: Form) -> View | None:
    """The pointer that an integer made of a root's address stands for."""
    for atom, coefficient in number.terms:
        if atom.kind == "symbol" and isinstance(atom.key, tuple) and coefficient == 1:
            tag, *rest = atom.key
            if tag == "address":
                start = forms.subtract(number, forms.of_atom(atom))
                return View(rest[0], views.BYTES, (start,), (), ())
    return None
