"""Gives every SSA value of a kernel its abstract value: a form, a view of memory, a token.

Values that nothing is known about become symbols: equal to themselves as long as the op that
made them does not run again, then they are "some earlier value" and cancel no more.

Values that thread ids, constants and the kernel's arguments decide are *fixed*: they are
evaluated once, not in every state.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from math import gcd
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    as_kind,
    constant_value,
    defining_op,
    is_block_argument,
    is_function,
    type_text,
    users,
)
from mlir_async_pipe.checker import arithmetic, forms
from mlir_async_pipe.checker.arithmetic import exact, fitting, settle, wrapped
from mlir_async_pipe.checker.forms import Atom, AtomRange, Form, Knowns
from mlir_async_pipe.checker.grid_blocks import (
    SIZE,
    GridBlocks,
    argument_form,
    believed,
    differs,
    id_form,
)
from mlir_async_pipe.checker.paths import SplitSide, split
from mlir_async_pipe.checker.precision import OpenError
from mlir_async_pipe.checker.sites import Roots, Site
from mlir_async_pipe.checker.state import State, Value, stale, without_iterations
from mlir_async_pipe.checker.step_graph import Constant, Flow, Run, is_integer, is_memory
from mlir_async_pipe.checker.thread_divergence import Divergence, by_thread
from mlir_async_pipe.checker.thread_grid import Threads, has_numbers, thread_facts
from mlir_async_pipe.facts.values import views
from mlir_async_pipe.facts.values.alignment import value_alignment
from mlir_async_pipe.facts.values.domains import typed
from mlir_async_pipe.facts.values.integer_ops import bits_of, is_size
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.memory_roots import root_of, viewed_memref
from mlir_async_pipe.facts.values.views import BYTES, View
from mlir_async_pipe.vocabulary import VIEW_OPS
from mlir_async_pipe.vocabulary.control_flow import SELECT_OPS
from mlir_async_pipe.vocabulary.launch_ids import IDS
from mlir_async_pipe.vocabulary.memory_names import (
    ADDRESS_OF_MEMREF,
    ADDRESS_OPS,
    POINTER_OF_ADDRESS,
    POINTER_STEPS,
    SIZE_OPS,
    in_workgroup_memory,
    names_memory,
)
from mlir_async_pipe.vocabulary.operator_table import is_operator
from mlir_async_pipe.vocabulary.shuffles import SHUFFLES

Evaluation = Callable[[State], Value | None]


@dataclass
class PathValues:
    """Evaluates the value ops of one kernel, run by a `grid` of blocks.

    Unless `fold_iterations`, remainders of iteration numbers stay forms, also where the
    number is known: (k + 1) mod 3, not 1.
    """

    flow: Flow
    threads: Threads
    roots: Roots
    grid: GridBlocks
    loads_alike: Callable[[Operation, int], bool]
    fold_iterations: bool = True
    _unmade: dict[int, Value | None] = field(default_factory=dict)
    _ranges: dict[int, tuple[Atom, AtomRange]] = field(default_factory=dict)
    _symbols: dict[int, Atom] = field(default_factory=dict)
    limits: dict[Atom, Form | None] = field(default_factory=dict)
    _given_up: set[Atom] = field(default_factory=set)
    _fixed: dict[int, Form] = field(default_factory=dict)
    _folded: dict[Hashable, Form | None] = field(default_factory=dict)
    _variable: set[int] = field(default_factory=set)
    _chosen_from: dict[int, tuple[Form, int] | None] = field(default_factory=dict)

    @cached_property
    def divergence(self) -> Divergence:
        """Which values may differ between threads."""
        return by_thread(self.flow, self.loads_alike)

    @cached_property
    def base_facts(self) -> Mapping[Atom, AtomRange]:
        """What is known before the first op: the ranges of ids and sizes of the launch."""
        return {**believed(self.flow, self.threads, self.grid), **thread_facts(self.threads)}

    def is_fixed(self, number: int) -> bool:
        """Whether a value is the same in all states: a constant, a number of the thread, memory that the kernel is given."""
        if number in self._fixed:
            return True
        frame, ssa = self.flow.values[number]
        if not hasattr(ssa, "type"):
            return False
        if is_memory(ssa.type):
            root = root_of(ssa)
            return not frame and root.value == ssa and root.kind in ("argument", "global")
        return constant_value(ssa) is not None

    # Looking up ---------------------------------------------------------------------------

    def get(self, state: State, number: int) -> Value | None:
        """The abstract value; a symbol or root of its own where nothing was assigned."""
        value = state.env.get(number)
        if value is not None:
            return value
        fixed = self._fixed.get(number)
        if fixed is not None:
            return fixed
        if number not in self._unmade:
            self._unmade[number] = self._unassigned(number)
        value = self._unmade[number]
        if number in self._ranges:
            atom, known = self._ranges[number]
            state.facts[atom] = forms.narrowed(state.facts.get(atom), known)
        return value

    def _unassigned(self, number: int) -> Value | None:
        """A function argument, or the result of an op that was not evaluated."""
        frame, ssa = self.flow.values[number]
        if isinstance(ssa, Constant):
            return Form(ssa.value)
        if not hasattr(ssa, "type"):
            return forms.of_atom(self.symbol(number))
        constant = constant_value(ssa)
        if constant is not None:
            return arithmetic.of_constant(constant, ssa.type)
        if is_memory(ssa.type):
            return self._unassigned_memory(ssa, frame, differs=self._may_differ(number))
        if not is_integer(ssa.type):
            return None
        given = argument_form(ssa, self.threads)
        if given is not None:
            return given
        symbol = self.symbol(number)
        known = SIZE if is_size(ssa) else arithmetic.values_of(ssa.type)
        if known is not None:
            self._ranges[number] = (symbol, known)
        return forms.of_atom(symbol)

    def symbol(self, number: int) -> Atom:
        """The atom of an opaque value; what may differ between threads says so in its key.

        Bits are distinguished, their truth counts along a path.
        """
        found = self._symbols.get(number)
        if found is None:
            ssa = self.flow.values[number][1]
            is_bit = not hasattr(ssa, "type") or str(ssa.type) == "i1"
            key: Any = ("bit", number) if is_bit else number
            if self._may_differ(number):
                key = ("thread bit" if is_bit else "thread", number)
            found = self._symbols[number] = Atom("symbol", key)
            op = defining_op(ssa) if hasattr(ssa, "type") else None
            computed = op is not None and (arithmetic.has_rule(op.name) or op.name in SHUFFLES)
            if computed and not _takes_any_value(op):
                self._given_up.add(found)
        return found

    def _may_differ(self, number: int) -> bool:
        return self.threads.several and self.differs(number)

    def differs(self, number: int) -> bool:
        """Whether a value may differ between the threads of a block."""
        if number in self.divergence.differing:
            return True
        # A value that the graph leaves out: data, or what an op decides by its operands.
        frame, ssa = self.flow.values[number]
        return number not in self.divergence.known and hasattr(ssa, "type") and differs(ssa, frame)

    def form(self, state: State, number: int) -> Form:
        """The form of an integer; a symbol if the value is no integer form."""
        value = self.get(state, number)
        return value if isinstance(value, Form) else forms.of_atom(self.symbol(number))

    def forms(self, state: State, numbers: Iterable[int]) -> list[Form]:
        return [self.form(state, number) for number in numbers]

    def view(self, state: State, number: int) -> View | None:
        """The view of a memref or pointer, None if it is not one."""
        value = self.get(state, number)
        return value if isinstance(value, View) else None

    # Evaluating ---------------------------------------------------------------------------

    def prepare(self, run: Run) -> Evaluation:
        """Read a value op once; what it gives binds its results in a state.

        The answer is the value of result 0. Raises OpenError where a path splits.
        """
        op = run.op
        results = list(zip(run.results, (r.type for r in op.results), strict=True))
        if not results or constant_value(op.results[0]) is not None:
            return lambda state: None
        parts = arithmetic.rules_of_parts(op)
        if parts is not None:
            return partial(self._split, run.operands[0], list(zip(results, parts, strict=True)))
        evaluate = self._evaluation(run)
        number = run.results[0]

        def execute(state: State) -> Value | None:
            value = evaluate(state)
            if value is not None:
                state.env[number] = value
            for other, kind in results if value is None else results[1:]:
                self.forget(state, other, kind)
            return value

        return execute

    def _split(
        self, whole: int, parts: list[tuple[tuple[int, Any], arithmetic.Bound]], state: State
    ) -> Value | None:
        """An op with several integer results, each with a rule of its own."""
        form = self.form(state, whole)
        facts = state.facts if self.fold_iterations else without_iterations(state.facts)
        for (number, kind), rule in parts:
            value = rule([form], facts)
            self.forget(state, number, kind)
            if value is not None:
                state.env[number] = value
        return state.env.get(parts[0][0][0])

    def _evaluation(self, run: Run) -> Evaluation:
        op, numbers = run.op, run.operands
        kind = op.results[0].type
        if op.name in SELECT_OPS and not is_integer(kind):
            return lambda state: self._chosen(state, numbers)
        if is_memory(kind):
            return lambda state: self.memory_value(state, op, numbers)
        if not is_integer(kind) or len(run.results) != 1:
            return lambda state: None
        same = id_form(op, self.threads, self.grid)
        if same is not None:
            return lambda state: same
        if op.name in SIZE_OPS:
            whole = self._is_whole_argument(run.frame, op.operands[0])
            return lambda state: self._dimension(state, numbers, whole=whole)
        if op.name in ADDRESS_OPS:
            return lambda state: self._address(state, op, numbers)
        if is_operator(op.name, "select") and str(op.operands[0].type) != "i1":
            return lambda state: None
        rule = arithmetic.rule_of(op)
        if rule is None:
            return lambda state: None
        if self.fold_iterations:
            return lambda state: rule(self.forms(state, numbers), state.facts)
        return partial(self._unfolded, op, numbers, rule)

    def _unfolded(
        self, op: Any, numbers: tuple[int, ...], rule: arithmetic.Bound, state: State
    ) -> Form | None:
        """The value of an op whose remainders of iteration numbers stay remainders."""
        operands = self.forms(state, numbers)
        if arithmetic.folds_remainders(op.name):
            return fitting(rule(operands, without_iterations(state.facts)), state.facts)
        if is_operator(op.name, "select"):
            following = wrapped(operands, without_iterations(state.facts))
            if following is not None:
                return following
        return rule(operands, state.facts)

    def _chosen(self, state: State, operands: tuple[int, ...]) -> Value | None:
        condition = self.form(state, operands[0])
        value = exact(settle(condition, state.facts), state.facts)
        if value is None:
            raise OpenError(condition)
        return self.get(state, operands[1 if value else 2])

    def split(self, condition: Form, facts: Knowns) -> list[SplitSide]:
        """Both sides of an i1 form. What an op computes and no form holds (tid remsi -8) is not
        free to take any value: neither side need exist where the condition rests on it."""
        sides = split(condition, facts)
        if self._given_up.isdisjoint(forms.atoms_of(condition)):
            return sides
        return [side._replace(exact=False) for side in sides]

    def forget(self, state: State, number: int, kind: Any) -> None:
        """Bind a new opaque value: what depends on the value before it is of an earlier time."""
        state.env.pop(number, None)
        if is_integer(kind):
            stale(state, self.symbol(number))

    def loaded(self, state: State, site: Site, kind: Any) -> Form | None:
        """What is loaded from memory that nobody writes: a function of the place, the same whenever it is loaded."""
        view = self.view(state, site.memory)
        if view is None or view.start is None:
            return None
        if view.frame != BYTES and not self.is_fixed(site.memory):
            return None
        forms_of_place = (*view.start, *self.forms(state, site.indices))
        places = (settle(form, state.facts) for form in forms_of_place)
        return forms.call(f"{forms.LOADED}{site.root}", Form(bits_of(kind)), *places)

    def forget_chosen(self, state: State, block: int | None) -> None:
        """What threads chose apart has another number in each of them: what is chosen at the
        begin of a block, or everything (None)."""
        chosen = self.divergence.chosen
        if block is not None:
            chosen = self.divergence.chosen_at.get(block, set())
        for number in chosen.intersection(state.env):
            if isinstance(state.env[number], Form):
                self.forget(state, number, self.flow.values[number][1].type)
                alike = self._alike(number)
                if alike is not None:
                    state.env[number] = alike

    def _alike(self, number: int) -> Form | None:
        """What a value is in each thread, where all that threads choose from is counted from one number of theirs by
        multiples of a constant.

            %i = phi %tid, %next;  %next = %i + 256      tid + 256 * a number of the thread
        """
        if number not in self._chosen_from:
            self._chosen_from[number] = self._counted_from(number)
        found = self._chosen_from[number]
        if found is None:
            return None
        start, step = found
        return forms.add(start, forms.scale(forms.of_atom(self.symbol(number)), step))

    def _counted_from(self, number: int) -> tuple[Form, int] | None:
        """The start and the step."""
        start: Form | None = None
        step, counted = 0, {number: 0}
        pending = [number]
        while pending:
            current = pending.pop()
            for source, more, modulus in self._origins(current):
                by, step = counted[current] + more, gcd(step, modulus)
                fixed = self._fixed_form(source)
                if fixed is not None:
                    began = forms.add(fixed, Form(by))
                    start = began if start is None else start
                    apart = forms.subtract(began, start)
                    if not apart.is_constant:
                        return None
                    step = gcd(step, apart.constant)
                elif source in counted:
                    step = gcd(step, by - counted[source])
                elif self._origins(source):
                    counted[source] = by
                    pending.append(source)
                else:
                    return None
        return None if start is None or step < 2 else (start, step)

    def _origins(self, number: int) -> list[tuple[int, int, int]]:
        """What is assigned to a value, or what it is the sum of, with a constant; and modulo what, 0 where it cannot wrap."""
        if number in self._assigned:
            return [(source, 0, 0) for source in self._assigned[number]]
        frame, ssa = self.flow.values[number]
        op = defining_op(ssa) if hasattr(ssa, "type") else None
        if op is None or not is_operator(op.name, "add"):
            return []
        source, other = (self.flow.number(frame, operand) for operand in op.operands)
        more = self._fixed_form(other)
        exact = typed(op).nsw or type_text(ssa.type) == "index"
        modulus = 0 if exact else 1 << bits_of(ssa.type)
        return [(source, more.constant, modulus)] if more and more.is_constant else []

    @cached_property
    def _assigned(self) -> dict[int, set[int]]:
        """What is assigned to each value."""
        found: dict[int, set[int]] = {}
        for target, source in self.flow.assigns():
            found.setdefault(target, set()).add(source)
        return found

    # Views and addresses ------------------------------------------------------------------
    #
    # memref.subview, memref.view, casts, reshapes      a view of the same root
    # memref.dim                                        a size; a symbol of its root, of the whole of it
    # llvm.getelementptr, llvm.ptrtoint and back        bytes after the start of a root

    def memory_value(self, state: State, op: Any, operands: tuple[int, ...]) -> View | None:
        """The view that an op makes; None where it makes a root of its own, or it is not known."""
        name = op.name
        if not operands or names_memory(op):
            return None
        if name == POINTER_OF_ADDRESS:
            return _from_address(self.form(state, operands[0]))
        source = self.view(state, operands[0])
        if source is None or not (name in VIEW_OPS or name in POINTER_STEPS or "cast" in name):
            return None
        if name not in POINTER_STEPS and as_kind(ir.MemRefType, op.results[0].type) is None:
            # Without a rank: a cast before an op that takes any memref.
            return None
        return views.viewed(op, source, lambda position: self.form(state, operands[position]))

    def _unassigned_memory(self, memory: Any, frame: int, *, differs: bool) -> View:
        """The view of a memref or pointer that nothing was assigned: the start of its root, or some place in it, if an
        op makes it in a way that is not followed. What is loaded `differs` between threads."""
        root, op = root_of(memory), defining_op(memory)
        number = self.roots.number(root, frame)
        at_start = root.value == memory and not (
            op is not None and root.kind == "unknown" and differs
        )
        if at_start:
            return views.root_view(number, memory.type)
        if op is not None and VIEW_OPS.get(op.name) == "same" and root.value != memory:
            # A cast before the launch: all of what it casts.
            whole = self._unassigned_memory(op.operands[0], frame, differs=differs)
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

    def _dimension(self, state: State, operands: tuple[int, ...], *, whole: bool) -> Form | None:
        """The value of memref.dim; `whole`: of all of a root, whose sizes never change."""
        view = self.view(state, operands[0])
        index = self.form(state, operands[1])
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

    def _is_whole_argument(self, frame: int, memory: Any) -> bool:
        """Whether a memref is what the kernel is given, all of it: a view at its begin may be smaller,
        and what a loop allocates has another size each time."""
        while True:
            op = defining_op(memory)
            if op is None and (frame, memory) in self.roots.passed_in:
                frame, memory = self.roots.passed_in[frame, memory]
            elif op is not None and VIEW_OPS.get(op.name) == "same":
                memory = op.operands[0]
            else:
                return op is None and not frame and root_of(memory).kind == "argument"

    def _address(self, state: State, op: Any, operands: tuple[int, ...]) -> Form | None:
        """The address of a buffer as an integer: a multiple of what its root is aligned to, plus bytes. What masks and
        shifts take of it is then what they take of the bytes: (1024 a + 136) & 384 is 128."""
        view = self.view(state, operands[0])
        if view is None:
            return None
        # The aligned pointer of a memref is that of its whole allocation.
        aligned = op.name == ADDRESS_OF_MEMREF
        start = view.aligned if aligned else views.start_bytes(view)
        if start is None:
            return None
        unit = value_alignment(self.roots.roots[view.root].value, Arithmetic())
        atom = Atom("symbol", ("address", view.root, unit))
        if in_workgroup_memory(op.operands[0].type):
            state.facts.setdefault(atom, AtomRange(0, HIGHEST_SHARED // unit))
        return forms.add(forms.scale(forms.of_atom(atom), unit), start)

    # Fixed values -------------------------------------------------------------------------

    def fix(self, run: Run) -> bool:
        """Evaluate an op whose value no path changes, once for all states; False if it is not.

        Divisions, comparisons and the like fold by what a path knows of symbols: they are
        fixed only where thread ids are all they depend on.
        """
        op = run.op
        if len(run.results) != 1 or is_operator(op.name, "select"):
            return False
        value: Value | None = id_form(op, self.threads, self.grid)
        if value is None:
            given = run.operands if arithmetic.has_rule(op.name) else ()
            operands = [form for n in given if (form := self._fixed_form(n)) is not None]
            if not operands or len(operands) < len(given):
                return False
            # Unrolled copies of an op, and prologue, kernel and epilogue, ask for the same numbers.
            meaning, rule = arithmetic.meaning_of(op)
            key = (meaning, *operands)
            if key not in self._folded:
                with suppress(OpenError):
                    self._folded[key] = rule(operands, self.base_facts)
            value = self._folded.get(key)
        if not isinstance(value, Form) or not _is_timeless(value):
            return False
        self._fixed[run.results[0]] = value
        return True

    def _fixed_form(self, number: int) -> Form | None:
        """The form of an operand that is a constant or was fixed."""
        if number in self._fixed:
            return self._fixed[number]
        if number in self._variable:
            return None
        ssa = self.flow.values[number][1]
        constant = constant_value(ssa) if hasattr(ssa, "type") else None
        if constant is None:
            self._variable.add(number)
            return None
        form = self._fixed[number] = arithmetic.of_constant(constant, ssa.type)
        return form


# By more than that a size of 32 bits gives too few numbers of tiles for every path to exist.
LARGEST_TILE = 1 << 16


def _takes_any_value(op: Any) -> bool:
    """Whether an op gives a quotient of an argument that nobody else looks at, as the trip count that front ends
    make of a size is: (%n + 31) / 32, whatever its sign."""
    divisor = constant_value(op.operands[1]) if is_operator(op.name, "div") else None
    if divisor is None or not 0 < divisor <= LARGEST_TILE:
        return False
    value = op.operands[0]
    made = defining_op(value)
    if made is not None and is_operator(made.name, "add") and len(users(value)) == 1:
        given = [operand for operand in made.operands if constant_value(operand) is None]
        value = given[0] if len(given) == 1 else value
    return is_block_argument(value) and len(users(value)) == 1 and is_function(value.owner.owner)


@lru_cache(maxsize=1 << 14)
def _is_timeless(value: Form) -> bool:
    """Whether a form is a number of the thread, plus multiples of ids that are symbols."""
    return all(
        (atom.kind == "symbol" and atom.tag in IDS) or has_numbers(forms.of_atom(atom))
        for atom, _ in value.terms
    )


# Addresses of shared memory are numbers of 32 bits with room to spare: a block has at most 228 KiB, and
# the window in which blocks of a cluster see each other's holds 16 of them (PTX ISA, state spaces).
HIGHEST_SHARED = 2**30


def _from_address(number: Form) -> View | None:
    """The pointer that an integer made of a root's address stands for."""
    for atom, coefficient in number.terms:
        if atom.kind == "symbol" and isinstance(atom.key, tuple):
            tag, *rest = atom.key
            if tag == "address" and coefficient == rest[1]:
                base = forms.scale(forms.of_atom(atom), coefficient)
                return views.pointer_view(rest[0], forms.subtract(number, base))
    return None
