"""Gives every SSA value of a kernel its abstract value: a form, a view of memory, a token.

Values that nothing is known about become symbols: equal to themselves as long as the op that
made them does not run again, then they are "some earlier value" and cancel no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.buffers import Root, may_alias, root_of
from mlir_async_pipe.checker import arithmetic, forms, memory
from mlir_async_pipe.checker.forms import Atom, Form, Known
from mlir_async_pipe.checker.graph import Flow
from mlir_async_pipe.checker.memory import View
from mlir_async_pipe.checker.state import State, Value
from mlir_async_pipe.checker.thread_grid import Threads, has_numbers, thread_facts
from mlir_async_pipe.integer_ops import thread_dimension
from mlir_async_pipe.ir_helpers import constant_value, is_block_argument, is_function
from mlir_async_pipe.uniformity import sources
from mlir_async_pipe.vocabulary import ALLOCATION_OPS, VIEW_OPS
from mlir_async_pipe.vocabulary.extents import bits_of_scalar, element_bits


@dataclass
class Roots:
    """All pieces of memory of a kernel, by number."""

    assume_noalias_arguments: bool = False
    roots: list[Root] = field(default_factory=list)
    _numbers: dict[tuple[Any, ...], int] = field(default_factory=dict)
    _aliases: dict[tuple[int, int], bool] = field(default_factory=dict)

    def number(self, root: Root, frame: int) -> int:
        """The number of a root; allocations of a callee are its frame's own."""
        own = frame if root.kind in ("allocation", "unknown", "argument") else 0
        key = (root.kind, root.key, own)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.roots)
            self.roots.append(root)
        return found

    def may_alias(self, a: int, b: int) -> bool:
        """Whether two roots may share memory."""
        if a == b:
            return True
        key = (min(a, b), max(a, b))
        found = self._aliases.get(key)
        if found is None:
            one, other = self.roots[key[0]], self.roots[key[1]]
            same = (one.kind, one.key) == (other.kind, other.key)
            found = self._aliases[key] = (
                one.kind == "unknown"
                if same
                else may_alias(one, other, assume_noalias_arguments=self.assume_noalias_arguments)
            )
        return found


@dataclass
class Values:
    """Evaluates the value ops of one kernel."""

    flow: Flow
    threads: Threads
    roots: Roots
    _fixed: dict[int, Value | None] = field(default_factory=dict)
    _symbols: dict[int, Atom] = field(default_factory=dict)

    def base_facts(self) -> Mapping[Atom, Known]:
        """What is known before the first op: the ranges of the thread ids."""
        return thread_facts(self.threads)

    def get(self, state: State, number: int) -> Value | None:
        """The abstract value; a symbol or root of its own where nothing was assigned."""
        value = state.env.get(number)
        if value is not None:
            return value
        if number in self._fixed:
            value = self._fixed[number]
        else:
            value = self._fixed[number] = self._unassigned(number)
        if isinstance(value, Form) and value.terms:
            self._note_size(state, number, value)
        return value

    def _note_size(self, state: State, number: int, value: Form) -> None:
        """Arguments of type index are sizes: not negative."""
        ssa = self.flow.values[number][1]
        if hasattr(ssa, "type") and str(ssa.type) == "index" and is_block_argument(ssa):
            for atom, _ in value.terms:
                state.facts.setdefault(atom, Known(0, None))

    def _unassigned(self, number: int) -> Value | None:
        """A function argument, or the result of an op that was not evaluated."""
        frame, ssa = self.flow.values[number]
        if not hasattr(ssa, "type"):
            return forms.of_atom(self.symbol(number))
        constant = constant_value(ssa)
        if constant is not None:
            return Form(constant & 1 if str(ssa.type) == "i1" else constant)
        if is_memory(ssa.type):
            return memory.root_view(self.roots.number(root_of(ssa), frame), ssa.type)
        if is_integer(ssa.type):
            return self._launch_id(ssa) or forms.of_atom(self.symbol(number))
        return None

    def _launch_id(self, ssa: Any) -> Form | None:
        """The thread ids and block sizes that gpu.launch gives as block arguments."""
        place = _launch_place(ssa)
        if place is None:
            return None
        if place in _LAUNCH_THREADS:
            return _id_of(self, _LAUNCH_THREADS.index(place))
        if place in _LAUNCH_SIZES and self.threads.size is not None:
            return Form(self.threads.size[_LAUNCH_SIZES.index(place)])
        return None

    def symbol(self, number: int) -> Atom:
        """The atom of an opaque value; what may differ between threads says so in its key.

        Bits are told apart, their truth counts along a path.
        """
        found = self._symbols.get(number)
        if found is None:
            frame, ssa = self.flow.values[number]
            key: Any = number
            if not hasattr(ssa, "type") or str(ssa.type) == "i1":
                key = ("bit", number)
            elif self.threads.several and differs(ssa, frame):
                key = ("thread", number)
            found = self._symbols[number] = Atom("symbol", key)
        return found

    def form(self, state: State, number: int) -> Form:
        """The form of an integer; a symbol if the value is no integer form."""
        value = self.get(state, number)
        if isinstance(value, Form):
            return value
        return forms.of_atom(self.symbol(number))

    def view(self, state: State, number: int) -> View | None:
        """The view of a memref or pointer, None if it is not one."""
        value = self.get(state, number)
        return value if isinstance(value, View) else None

    def prepare(self, op: Any, frame: int) -> Callable[[State], Value | None]:
        """Read a value op once; what it gives binds its results in a state.

        The answer is the value of result 0. Raises UndecidedError where a path splits.
        """
        results = [(self.flow.number(frame, r), r.type) for r in op.results]
        if not results or constant_value(op.results[0]) is not None:
            return lambda state: None
        parts = arithmetic.rules_of_parts(op)
        if parts is not None:
            return self._prepare_parts(op, frame, parts)
        evaluate = self._evaluation(op, frame)
        number = results[0][0]

        def run(state: State) -> Value | None:
            value = evaluate(state)
            if value is not None:
                state.env[number] = value
            for other, kind in results if value is None else results[1:]:
                self.forget(state, other, kind)
            return value

        return run

    def _prepare_parts(
        self, op: Any, frame: int, rules: list[arithmetic.Rule]
    ) -> Callable[[State], Value | None]:
        """An op with several integer results, each with a rule of its own."""
        whole = self.flow.number(frame, op.operands[0])
        bound = [
            (self.flow.number(frame, result), result.type, rule)
            for result, rule in zip(op.results, rules, strict=True)
        ]

        def run(state: State) -> Value | None:
            form = self.form(state, whole)
            for number, kind, rule in bound:
                value = rule(op, [form], state.facts)
                self.forget(state, number, kind)
                if value is not None:
                    state.env[number] = value
            return state.env.get(bound[0][0])

        return run

    def _evaluation(self, op: Any, frame: int) -> Callable[[State], Value | None]:
        kind = op.results[0].type
        if is_memory(kind):
            return lambda state: self._memory(state, op, frame)
        if op.name == "arith.select" and not is_integer(kind):
            return lambda state: self._chosen(state, op, frame)
        if not is_integer(kind) or len(op.results) != 1:
            return lambda state: None
        if op.name in _IDS:
            same = _IDS[op.name](self, op)
            return lambda state: same
        if op.name == "memref.dim":
            return lambda state: self._dimension(state, op, frame)
        if op.name in ("memref.extract_aligned_pointer_as_index", "llvm.ptrtoint"):
            return lambda state: self._address(state, op, frame)
        rule = arithmetic.rule_of(op.name)
        if rule is None or (op.name == "arith.select" and str(op.operands[0].type) != "i1"):
            return lambda state: None
        numbers = [self.flow.number(frame, operand) for operand in op.operands]
        return lambda state: rule(op, [self.form(state, n) for n in numbers], state.facts)

    def fix(self, op: Any, frame: int) -> bool:
        """Evaluate an op that only thread ids decide, once for all states; False if it is not."""
        if len(op.results) != 1 or not is_integer(op.results[0].type):
            return False
        number = self.flow.number(frame, op.results[0])
        if constant_value(op.results[0]) is not None or op.name == "arith.select":
            return False
        rule = arithmetic.rule_of(op.name)
        value: Value | None = None
        if op.name in _IDS:
            value = _IDS[op.name](self, op)
        elif rule is not None:
            operands = [self._thread_form(frame, operand) for operand in op.operands]
            known = [form for form in operands if form is not None]
            if len(known) == len(operands):
                value = rule(op, known, self.base_facts())
        if not isinstance(value, Form) or not has_numbers(value):
            return False
        self._fixed[number] = value
        return True

    def _thread_form(self, frame: int, operand: Any) -> Form | None:
        """The form of an operand that is a constant or was fixed."""
        constant = constant_value(operand)
        number = self.flow.number(frame, operand)
        value = self._unassigned(number) if constant is not None else self._fixed.get(number)
        return value if isinstance(value, Form) and has_numbers(value) else None

    def forget(self, state: State, number: int, kind: Any) -> None:
        """Bind a new opaque value: what depends on the value before it is of an earlier time."""
        state.env.pop(number, None)
        if is_integer(kind):
            stale(state, self.symbol(number))

    def _operand(self, state: State, frame: int, value: Any) -> Form:
        return self.form(state, self.flow.number(frame, value))

    def _dimension(self, state: State, op: Any, frame: int) -> Form | None:
        view = self.view(state, self.flow.number(frame, op.operands[0]))
        index = self._operand(state, frame, op.operands[1])
        if view is None or not index.is_constant or index.constant >= len(view.sizes):
            return None
        size = view.sizes[index.constant]
        if size is not None:
            return Form(size)
        atom = Atom("symbol", ("dim", view.root, index.constant))
        state.facts.setdefault(atom, Known(0, None))
        return forms.of_atom(atom) if view.frame.shape == view.sizes else None

    def _address(self, state: State, op: Any, frame: int) -> Form | None:
        """The address of a buffer as an integer: a symbol of its root plus bytes."""
        view = self.view(state, self.flow.number(frame, op.operands[0]))
        if view is None:
            return None
        # The aligned pointer of a memref is that of its whole allocation.
        aligned = op.name == "memref.extract_aligned_pointer_as_index"
        start = view.frame.base if aligned else memory.start_bytes(view)
        if start is None:
            return None
        return forms.add(forms.of_atom(Atom("symbol", ("address", view.root))), start)

    def _chosen(self, state: State, op: Any, frame: int) -> Value | None:
        condition = self._operand(state, frame, op.operands[0])
        value = arithmetic.exact(arithmetic.settle(condition, state.facts), state.facts)
        if value is None:
            raise arithmetic.UndecidedError(condition)
        return self.get(state, self.flow.number(frame, op.operands[1 if value else 2]))

    def _memory(self, state: State, op: Any, frame: int) -> Value | None:
        name = op.name
        if name in ALLOCATION_OPS or not len(op.operands) or name == "memref.get_global":
            return None
        if name == "arith.select":
            return self._chosen(state, op, frame)
        source = self.view(state, self.flow.number(frame, op.operands[0]))
        if name in ("llvm.inttoptr", "llvm.getelementptr", "llvm.addrspacecast"):
            return self._pointer(state, op, frame, source)
        if source is None or (name not in VIEW_OPS and "cast" not in name):
            return None

        def operand(value: Any) -> Form:
            return self._operand(state, frame, value)

        memref = ir.MemRefType(op.results[0].type)
        if name == "memref.subview":
            return memory.subview(source, op, operand)
        if name == "memref.view":
            return memory.reframed(source, op, operand(op.operands[1]))
        if name == "memref.reinterpret_cast":
            return self._reinterpreted(source, op, operand)
        if name in ("memref.collapse_shape", "memref.expand_shape", "memref.transpose"):
            return memory.byte_view(source, op, forms.ZERO, absolute=False)
        if len(list(memref.shape)) == len(source.sizes):
            return source
        return memory.unknown_view(source, memref)

    def _reinterpreted(self, source: View, op: Any, operand: Any) -> View:
        offset = memory.mixed(op, "static_offsets", 1, operand)[0]
        unit = element_bits(ir.MemRefType(op.results[0].type)) // 8
        return memory.byte_view(source, op, forms.scale(offset, unit), absolute=True)

    def _pointer(self, state: State, op: Any, frame: int, source: View | None) -> View | None:
        if op.name == "llvm.addrspacecast":
            return source
        if op.name == "llvm.inttoptr":
            address = self._operand(state, frame, op.operands[0])
            for atom, coefficient in address.terms:
                if atom.kind == "symbol" and isinstance(atom.key, tuple) and coefficient == 1:
                    tag, *rest = atom.key
                    if tag == "address":
                        start = forms.subtract(address, forms.of_atom(atom))
                        return View(rest[0], memory.BYTES, (start,), (), ())
            return None
        if source is None or source.start is None:
            return None
        begin = memory.start_bytes(source)
        indices = list(ir.DenseI32ArrayAttr(op.attributes["rawConstantIndices"]))
        if begin is not None and not any(indices):
            return View(source.root, memory.BYTES, (begin,), (), ())
        unit = _element_bytes(op)
        if begin is None or unit is None or len(indices) != 1:
            return View(source.root, memory.BYTES, None, (), ())
        dynamic = len(op.operands) > 1
        index = self._operand(state, frame, op.operands[1]) if dynamic else Form(int(indices[0]))
        start = forms.add(begin, forms.scale(index, unit))
        return View(source.root, memory.BYTES, (start,), (), ())


def _element_bytes(op: Any) -> int | None:
    kind = ir.TypeAttr(op.attributes["elem_type"]).value
    try:
        return bits_of_scalar(kind) // 8 or None
    except ValueError:
        return None


def stale(state: State, atom: Atom) -> None:
    """The symbol's op runs again: what the state says about its last value is of the past."""
    past = forms.of_atom(Atom("any", (("past", atom.key), forms.ANYTHING)))
    state.facts.pop(atom, None)
    if any(_mentions(event.region, atom) for event in state.events()) or any(
        isinstance(value, Form) and atom in forms.atoms_of(value) for value in state.env.values()
    ):
        state.rewrite({atom: past})


def _mentions(region: memory.Region, atom: Atom) -> bool:
    return any(p is not None and atom in forms.atoms_of(p.start) for p in region.pieces)


def differs(value: Any, frame: int) -> bool:
    """Whether a value may differ between the threads of a block.

    The kernel's own arguments are the same for all; those of a callee need not be.
    """
    seen = set()
    pending = [value]
    while pending:
        current = pending.pop()
        place = _launch_place(current)
        if current in seen or (place is not None and place not in _LAUNCH_THREADS):
            continue
        seen.add(current)
        reached, different = sources(current)
        if different is not None and (frame or not is_function(different)):
            return True
        pending.extend(reached)
    return False


# Block arguments of gpu.launch: block ids, thread ids, grid sizes, block sizes, three of each.
_LAUNCH_THREADS = range(3, 6)
_LAUNCH_SIZES = range(9, 12)


def _launch_place(value: Any) -> int | None:
    """The position of a block argument of gpu.launch."""
    if not is_block_argument(value):
        return None
    argument = ir.BlockArgument(value)
    owner = argument.owner.owner
    return int(argument.arg_number) if owner.name == "gpu.launch" else None


def is_memory(kind: Any) -> bool:
    """Whether a type is a memref or a pointer."""
    return str(kind).startswith(("memref<", "!llvm.ptr"))


def is_integer(kind: Any) -> bool:
    """Whether a type is index or an integer."""
    text = str(kind)
    return text == "index" or (text[0] == "i" and text[1:].isdigit())


def _thread_id(values: Values, op: Any) -> Form:
    return _id_of(values, thread_dimension(op))


def _id_of(values: Values, axis: int) -> Form:
    size = values.threads.size
    if size is not None and size[axis] == 1:
        return forms.ZERO
    return forms.of_atom(Atom("tid", "xyz"[axis]))


def _special_thread_id(axis: str) -> Any:
    def rule(values: Values, op: Any) -> Form:
        return forms.of_atom(Atom("tid", axis))

    return rule


def _block_size(values: Values, op: Any) -> Form:
    axis = thread_dimension(op)
    if values.threads.size is not None:
        return Form(values.threads.size[axis])
    return forms.of_atom(Atom("symbol", (op.name, axis)))


def _uniform_id(values: Values, op: Any) -> Form:
    return forms.of_atom(Atom("symbol", (op.name, thread_dimension(op))))


def _global_id(values: Values, op: Any) -> Form:
    return forms.add(_thread_id(values, op), _uniform_id(values, op))


_IDS: dict[str, Any] = {
    "gpu.thread_id": _thread_id,
    "gpu.lane_id": _special_thread_id("lane"),
    "gpu.subgroup_id": _special_thread_id("warp"),
    "gpu.block_dim": _block_size,
    "gpu.block_id": _uniform_id,
    "gpu.grid_dim": _uniform_id,
    "gpu.global_id": _global_id,
    **{f"nvvm.read.ptx.sreg.tid.{axis}": _special_thread_id(axis) for axis in "xyz"},
    **{f"rocdl.workitem.id.{axis}": _special_thread_id(axis) for axis in "xyz"},
    "nvvm.read.ptx.sreg.laneid": _special_thread_id("lane"),
}
