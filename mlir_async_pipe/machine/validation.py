"""`validate`: what a module computes is what another one did, for all data (translation validation).

    before   c[0, 0] = 0.0 + dot(a[0, 0:16], b[0:16, 0])         the input
    after    c[0, 0] = 0.0 + dot(a[0, 0:16], b[0:16, 0])         what passes made of it: the same term

The machine runs both on data without values (`terms`), for one launch. Every element of the arguments, every result and
every global that both have in common is then a term over the inputs. Equal terms are equal numbers, bit for bit, whatever
the data are. The machine also looks for races: where there are none, and no address and no branch depends on data, when copies complete
changes nothing, so that one completion speaks for all. Different terms are not always different numbers:
a difference is one only if a run on numbers shows it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from typing import Any, Literal

import numpy as np

from mlir_async_pipe.bindings import new_context
from mlir_async_pipe.bindings.raw_ops import plain_values, raw
from mlir_async_pipe.machine.decode import Decoder, Execute, Site, block_types
from mlir_async_pipe.machine.detector import Race
from mlir_async_pipe.machine.dialects.tma import TENSOR_MAP, box_and_swizzle
from mlir_async_pipe.machine.induction import Induction, TooFewIterations
from mlir_async_pipe.machine.kinds import POISON_BYTE, Kind, kind_of, stored_kind
from mlir_async_pipe.machine.lane_values import TensorMap
from mlir_async_pipe.machine.launch import RunOptions
from mlir_async_pipe.machine.long_arrays import LongArray, LongArrays, Moving
from mlir_async_pipe.machine.memory import SMALLEST_BYTES, Memory, memref_shape
from mlir_async_pipe.machine.normal_terms import NormalForms, reassociated
from mlir_async_pipe.machine.run_kernel import (
    Decoded,
    Handed,
    RunResult,
    decoded,
    function_name,
    run_in,
)
from mlir_async_pipe.machine.term_table import MEMORY_LIMIT_BYTES, TermTable, divergence, printed
from mlir_async_pipe.machine.terms import (
    as_array,
    identities,
    inputs,
    is_symbolic,
    lift,
    memory_cells,
)
from mlir_async_pipe.ptx.raise_ptx import raise_ptx
from mlir_async_pipe.session.called_from import called_by_users, takes
from mlir_async_pipe.session.diagnostics import Diagnostic, MachineError, Note, Place, UsageError

Verdict = Literal["equal", "different", "unknown"]
# Findings that say no more than that a copy or a product of the program before is not waited for, or not fenced: what it
# means is what it computes when they are complete at once.
IN_FLIGHT = frozenset(
    "read-in-flight overwrite-in-flight source-overwritten uncommitted-copy unwaited-copy missing-fence "
    "missing-register-fence missing-tensor-fence".split()
)
# Data are drawn so often before a difference is called unknown.
_DRAWS = 4


@dataclass(frozen=True)
class Data:
    """An argument that may hold anything: its shape, and, where it is behind a pointer, the type of
    its elements in memory. A size may be a range: `validate` asks about each number of it."""

    shape: tuple[int | range, ...]
    dtype: Any = None


@dataclass(frozen=True)
class From:
    """A number, or a size, that may be `first` or any larger one in steps of `step`: a question about all trip counts."""

    first: int = 0
    step: int = 1


@dataclass(frozen=True)
class Execution:
    """An op that computed a term: its name, its place, and how often its thread had executed it before."""

    op: str
    place: Place
    number: int


@dataclass(frozen=True)
class Difference:
    """An element that is not what it was: which one (`where`, as "argument 2[0, 3]"), both terms, what computed each, and the
    values that the programs give it (before, after) on `data`."""

    where: str
    before: str
    after: str
    computed_before: Execution
    computed_after: Execution
    values: tuple[Any, Any]
    data: tuple[Any, ...]


@dataclass(frozen=True)
class Validation:
    """The answer of `validate`.

    `verdict`: "equal" is proven for all data, for this launch and these shapes; "different" has a `difference` that was seen
    in a run, or a `race` of the program after; "unknown" has a reason `code` and a `message`.
    `elements` were compared, as `terms` terms. Where the question was about all trip counts, `up_to` is the largest of the numbers of the first
    `From` for which it is proven, and `not_for_all` the code of why that is only a few.
    """

    verdict: Verdict
    code: str = ""
    message: str = ""
    place: Place = field(default_factory=Place)
    difference: Difference | None = None
    race: Race | None = None
    elements: int = 0
    terms: int = 0
    seconds: float = 0.0
    up_to: int | None = None
    not_for_all: str = ""

    @property
    def is_equal(self) -> bool:
        return self.verdict == "equal"

    def diagnostic(self) -> Diagnostic:
        """The answer as the command line says it."""
        if self.race is not None:
            return self.race.diagnostic()
        found = self.difference
        if found is None:
            is_whole = self.is_equal and not self.not_for_all
            code = self.not_for_all or self.code
            return Diagnostic("remark" if is_whole else "warning", self.message, code, self.place)
        was, now = found.computed_before, found.computed_after
        return Diagnostic(
            "error",
            f"{found.where} is {found.after}, and was {found.before}",
            self.code,
            now.place,
            (
                Note(f"computed by execution {now.number} of '{now.op}'", now.place),
                Note(f"before by execution {was.number} of '{was.op}'", was.place),
                Note(
                    f"on random data it is {found.values[1]}, and was {found.values[0]}", now.place
                ),
            ),
        )


@called_by_users
@plain_values()
@takes(RunOptions)
def validate(
    before: Any,
    after: Any,
    function: str | None = None,
    arguments: Sequence[Any] = (),
    *,
    memory_limit: int = MEMORY_LIMIT_BYTES,
    reassociate: bool = False,
    **options: Any,
) -> Validation:
    """Whether `function` of the module `after` computes, for all data, what it does in `before`.

    `after` may be PTX, too: what `lowering.lower` gives with emit="ptx".

    `arguments`: for each argument `Data(shape)` or None (data that may be anything; None where the type says the shape), an
    array (these numbers) or a number. Where all are None, none have to be given; integers, on which
    addresses and branches depend, need a number, or a range of numbers, each of which is asked about, or `From(0, 32)`: all
    numbers, by induction, or the first ones, if that fails.
    `memory_limit`: bytes that terms may take. `options`: the fields of `machine.RunOptions`; `completion` is "late".

    Floating-point numbers are computed in the order that the program has, but for sums where `reassociate` says that any order
    will do, also of the products of matrices; `math.exp` and such are not looked into.
    What is proven, and under which assumptions: docs/validation.md. Raises UsageError for wrong arguments (bad-argument,
    no-function) and for functions with other results (bad-signature); what the machine cannot run is the verdict "unknown", with the code of its error.
    """
    started = time.perf_counter()
    name = function_name(before, function)
    launch = RunOptions(**{"completion": "late", **options})
    events = Events()
    programs = (
        Program(before, name, launch, events.around(0)),
        replace(_after_of(after, before, name, launch), around=events.around(1)),
    )

    def question() -> _Question:
        table = events.table = TermTable(memory_limit)
        events.log.clear()
        return _Question(name, *programs, launch, events, table, reassociate)

    proof = _by_induction(question, arguments) if _numbers_of(arguments, From) else None
    asked = arguments if proof is None else _each(arguments, From, proof.first_numbers)
    answers: list[Validation] = []
    for named, given in _launches(asked):
        one = question()
        found = one.answer(given)
        answers.append(replace(found, terms=one.table.count))
        if not found.is_equal:
            message = f"with {named}: {found.message}" if named else found.message
            return replace(found, message=message, seconds=time.perf_counter() - started)
    found = _together(answers, asked, time.perf_counter() - started)
    return found if proof is None else proof.together(found, arguments)


def _together(answers: list[Validation], arguments: Sequence[Any], seconds: float) -> Validation:
    """One answer for launches that are all equal."""
    elements, terms = (sum(getattr(a, name) for a in answers) for name in ("elements", "terms"))
    found = replace(answers[-1], elements=elements, terms=terms, seconds=seconds)
    ranges = [f"{name} = {_numbers(numbers)}" for name, numbers in _numbers_of(arguments, range)]
    if not ranges:
        return found
    message = (
        f"{found.message}; so it is for all of {len(answers)} launches, with {', '.join(ranges)}"
    )
    return replace(found, message=message)


def _numbers(numbers: range) -> str:
    step = f" in steps of {numbers.step}" if numbers.step != 1 else ""
    return f"{numbers[0]} to {numbers[-1]}{step}"


def _numbers_of(arguments: Sequence[Any], kind: Any) -> list[tuple[str, Any]]:
    """The numbers and sizes of a kind, a range or From, and of what they are one."""
    found = []
    for number, argument in enumerate(arguments):
        sizes = argument.shape if isinstance(argument, Data) else [argument]
        for axis, size in enumerate(sizes):
            if isinstance(size, kind):
                of = f"size {axis} of " if isinstance(argument, Data) else ""
                found.append((f"{of}argument {number}", size))
    return found


def _each(arguments: Sequence[Any], kind: Any, function: Callable[[Any], Any]) -> list[Any]:
    """The arguments with a function of each number and size of a kind in its place."""

    def one(value: Any) -> Any:
        return function(value) if isinstance(value, kind) else value

    return [
        replace(argument, shape=tuple(map(one, argument.shape)))
        if isinstance(argument, Data)
        else one(argument)
        for argument in arguments
    ]


def _launches(arguments: Sequence[Any]) -> Iterator[tuple[str, list[Any]]]:
    """The arguments of each launch, with the values that ranges have in it as text.

    Ranges go together: their first numbers are one launch. Raises UsageError (bad-argument)."""
    lengths = {len(numbers) for _, numbers in _numbers_of(arguments, range)}
    if len(lengths) > 1 or 0 in lengths:
        raise UsageError(
            f"ranges of {sorted(lengths)} numbers: those of one question have equally many, one at least",
            code="bad-argument",
        )
    for step in range(lengths.pop() if lengths else 1):
        chosen = _each(arguments, range, itemgetter(step))
        named = [
            f"argument {number} of shape {now.shape}"
            if isinstance(now, Data)
            else f"argument {number} = {now}"
            for number, (now, was) in enumerate(zip(chosen, arguments, strict=True))
            if now is not was and now != was
        ]
        yield " and ".join(named), chosen


# All trip counts --------------------------------------------------------------------------

# So many numbers are asked about where induction fails.
_FEW = 8
# Numbers in a period: slots of a ring come again, and pieces of a tile make a whole one.
_PERIODS = (1, 2, 3, 4, 5, 6, 8, 12)
# Iterations that run before the first state, at most.
_PEELED = 2
# What another period may mend.
_OTHER_PERIOD = frozenset(
    "data-dependent iteration-dependent uneven-loop too-few-iterations".split()
)
# Fewer periods than this are not all trip counts: a counter wraps.
_ENOUGH = 1 << 20


@dataclass(frozen=True)
class _Proof:
    """By induction both programs are the same for all numbers from number `start` on, up to `last`; or that failed."""

    start: int
    last: int = 0
    refused: Diagnostic | None = None

    def first_numbers(self, every: From) -> range:
        """Those that are asked about one by one."""
        return range(every.first, every.first + self.start * every.step, every.step)

    def together(self, found: Validation, arguments: Sequence[Any]) -> Validation:
        """The answer, from that for the first numbers."""
        named = _numbers_of(arguments, From)
        if self.refused is not None:
            message = f"{found.message}; not proven for all: {self.refused.message}"
            reason = self.refused
            return replace(found, message=message, place=reason.place, not_for_all=reason.code)
        lasts = [every.first + self.last * every.step for _, every in named]
        numbers = ", ".join(
            f"{name} = {_numbers(range(every.first, last + every.step, every.step))}"
            for (name, every), last in zip(named, lasts, strict=True)
        )
        message = f"{found.message}; and by induction for {numbers}"
        return replace(found, message=message, up_to=lasts[0])


def _by_induction(question: Callable[[], _Question], arguments: Sequence[Any]) -> _Proof:
    """Look for a period, and a first state, with which both programs are followed to all trip counts."""
    found: Diagnostic | None = None
    begin, left = 1, [(0, period) for period in _PERIODS]
    while left:
        peeled, period = left.pop(0)
        start = begin
        while start <= 2 * (_FEW + period):
            horizon = 1 << 62
            try:
                for first in range(start, start + period):
                    asked = question()
                    inductions = [Induction(asked.table, peeled, is_watched=n == 0) for n in (0, 1)]
                    asked.follow(_moving(arguments, first, period), inductions)
                    horizon = min(horizon, asked.table.horizon)
            except TooFewIterations as error:
                found = error.diagnostic
                start += -(-error.missing * period // error.iterations)
                continue
            except MachineError as error:
                found = error.diagnostic
                if found.code == "data-dependent" and not inductions[0].is_reached and begin < _FEW:
                    # What the program asks before the loop is not decided for so few iterations.
                    begin = start = start + 1
                    continue
                if found.code in ("not-periodic", "terms-differ"):
                    # The first iterations may be others than those that follow.
                    left = [(peeled + 1, period)] if peeled < _PEELED else []
                elif found.code not in _OTHER_PERIOD:
                    left = []
                break
            if horizon < _ENOUGH:
                message = f"an integer wraps after {horizon} periods"
                found = Diagnostic("error", message, "integer-wraps")
                break
            return _Proof(start, start + period * horizon)
    if found is not None and found.code == "data-dependent":
        # On data alone it does not: the first launches, where iterations have numbers, would say so.
        message = found.message.replace("depends on data", "depends on the iteration")
        found = replace(found, code="iteration-dependent", message=message)
    return _Proof(_FEW, refused=found)


def _moving(arguments: Sequence[Any], first: int, period: int) -> list[Any]:
    """The arguments of all launches that are any number of periods after the launch with number `first`."""

    def one(every: From) -> Moving:
        return Moving(every.first + first * every.step, period * every.step)

    return _each(arguments, From, one)


# Elements of an argument that is first asked about as one that takes no memory.
_LARGE = 1 << 21


@dataclass(frozen=True)
class _Question:
    """Two programs, the function that both have, and how it is launched."""

    name: str
    before: Program
    after: Program
    launch: RunOptions
    events: Events
    table: TermTable
    reassociate: bool = False

    def answer(self, arguments: Sequence[Any], large: int | None = _LARGE) -> Validation:
        """Run both, and compare what is visible outside. Arguments of so many elements, if they are only read, take no memory."""
        runs: list[RunResult] = []
        whose = "the arguments"
        try:
            given = _arguments(self.table, self.before.module, self.name, arguments, large)
            long = {one.number: one for one in given.values if isinstance(one, LongArray)}
            self.table.long_arrays = LongArrays(self.table, None, long) if long else None
            for number in (0, 1):
                whose = ("the program before", "the program after")[number]
                run = self._run(number, given, self.launch.completion if number else "eager")
                for race in run.races:
                    if number and self.table.has_branches:
                        message = f"both sides of a branch on data were run, and with them there is a race: {race}"
                        return Validation("unknown", "data-dependent", message, race.place)
                    if number or race.code not in IN_FLIGHT:
                        return _racy(race, is_after=number == 1)
                runs.append(run)
        except MachineError as error:
            if self.table.long_arrays is not None:
                return self.answer(arguments, None)
            found = error.diagnostic
            message = f"{whose} cannot be followed: {found.message}"
            return Validation("unknown", found.code, message, found.place)
        compared = self._compared(*runs)
        elements = sum(one.size for _, one, _ in compared)
        try:
            apart = _first_difference(self.table, compared, self.reassociate)
        except MachineError as error:
            found = error.diagnostic
            return Validation("unknown", found.code, found.message, found.place)
        if apart is None:
            whose = "" if self.after.handed is None else "the PTX of "
            message = f"{whose}'{self.name}' computes what it did: {elements} elements are the same terms of its input"
            message += " with sums in any order" if self.reassociate else ""
            if runs[0].races:
                message += f", if copies before were complete when they were issued [{runs[0].races[0].code}]"
            return Validation("equal", code="equal", message=message, elements=elements)
        return replace(self._difference(given, *apart), elements=elements)

    def follow(self, arguments: Sequence[Any], inductions: Sequence[Induction]) -> None:
        """Follow both to all trip counts, and compare. Raises MachineError where that fails."""
        given = _arguments(self.table, self.before.module, self.name, arguments)
        long = {one.number: one for one in given.values if isinstance(one, LongArray)}
        stored = 0
        ends: list[tuple[RunResult, Induction, list[Any]]] = []
        # What pipelines fail at is found first.
        for number, induction in zip((1, 0), inductions, strict=True):
            induction.stored = stored
            arrays = self.table.long_arrays = LongArrays(self.table, induction, long)
            # Where nothing races, all completions are one; of copies at once nothing but memory is left.
            run = self._run(number, given, "eager")
            for race in run.races:
                if number or race.code not in IN_FLIGHT:
                    raise MachineError(str(race), code=race.code, at=race.place)
            ends.append((run, induction, [induction.before, induction.period, arrays.taken()]))
            stored = 0 if induction.before is None else len(induction.before)
        (after, one, ones), (before, other, others) = ends
        apart = _first_difference(self.table, self._compared(before, after))
        if apart is not None:
            raise MachineError(f"{apart[0]} is another term", code="terms-differ")
        shared = one.new.keys() & other.new.keys()
        if any(one.new[variable] != other.new[variable] for variable in shared):
            message = "what loops carry is another term after a period"
            raise MachineError(message, code="terms-differ")
        if not all(map(np.array_equal, ones, others)):
            message = "what is stored is another term, or in another order"
            raise MachineError(message, code="terms-differ")

    def _run(self, number: int, given: _Given, completion: str) -> RunResult:
        """Run the program before (0), or after, in a memory of its own."""
        memory = Memory(memory_cells(self.table, SMALLEST_BYTES, POISON_BYTE))
        return (self.before, self.after)[number].run(memory, given.values, completion)

    def _compared(self, before: RunResult, after: RunResult) -> list[tuple[str, Any, Any]]:
        """What is visible outside. Raises UsageError (bad-signature)."""
        was, now = (len(run.results) for run in (before, after))
        if was != now:
            raise UsageError(
                f"'{self.name}' gives {now} results, and gave {was}",
                code="bad-signature",
                at=Decoder(raw(self.after.module)).entry(self.name),
            )
        return _compared(before, after)

    def _difference(
        self, given: _Given, where: str, index: tuple[int, ...], pair: tuple[int, int]
    ) -> Validation:
        """What is told of an element whose terms are not the same."""
        table = self.table
        # Sums in another order part where nothing is wrong.
        inner = pair if self.reassociate else divergence(table, *pair, self.events.of_second)
        one, other = (printed(table, term, given.shapes) for term in inner)
        place = f"{where}[{', '.join(map(str, index))}]" if index else where
        was, now = (self.events.where(int(table.origin[term])) for term in inner)
        shown = self._shown(given, where, index)
        if shown is None:
            message = (
                f"{place} is {other}, and was {one}; {_DRAWS} runs on random data gave the same"
            )
            return Validation("unknown", code="terms-differ", message=message, place=now.place)
        difference = Difference(place, one, other, was, now, *shown)
        found = Validation("different", code="different-value", difference=difference)
        return replace(found, message=f"{place} is not what it was", place=now.place)

    def _shown(
        self, given: _Given, where: str, index: tuple[int, ...]
    ) -> tuple[tuple[Any, Any], tuple[Any, ...]] | None:
        """Values that the element has in the two programs on some data, and the data; None if none that
        were drawn show a difference."""
        programs = [replace(one, around=None) for one in (self.before, self.after)]
        for seed in range(_DRAWS):
            random = np.random.default_rng(seed)
            data = tuple(
                value
                if kind is None
                else _drawn(random, kind, given.shapes[f"arg{number}"], self.reassociate)
                for number, (value, kind) in enumerate(zip(given.values, given.kinds, strict=True))
            )
            completions = ("eager", self.launch.completion)
            runs = map(lambda one, how: one.run(Memory(), data, how), programs, completions)
            _, *both = next(pair for pair in _compared(*runs) if pair[0] == where)
            was, now = (one[index] for one in both)
            apart = as_array(was).tobytes() != as_array(now).tobytes()
            if apart and not (self.reassociate and _rounded_alike(was, now)):
                return (was, now), data
        return None


def _racy(race: Race, *, is_after: bool) -> Validation:
    if is_after:
        return Validation("different", race.code, str(race), race.place, race=race)
    message = f"the program before has a race: {race}"
    return Validation("unknown", code="input-race", message=message, place=race.place)


# Programs ---------------------------------------------------------------------------------
#
#     gpu.func @gemm(%A: memref<?x64xf16>, …)        lowering.lower(module, target, "ptx")
#     .entry gemm(.param .u64 …_0, .param .u64 …_1, …)   -->   llvm.func @gemm(%p0: !llvm.ptr<1>, …)      ptx.raise_ptx
#
# A launch hands the same arguments over to both, to machine code in pieces: a memref as its descriptor. A pointer to a tensor map
# is cast to the map's type in the module; PTX has no types, so that the box and the swizzle are told beside it.


@dataclass(frozen=True)
class Program:
    """A function of a module, and of machine code how it is `handed` arguments, which of them point to which tensor maps
    (box and swizzle), and its bytes of dynamic workgroup memory. `around` is the decoder's."""

    module: Any
    name: str
    launch: RunOptions
    around: Any = None
    handed: Handed | None = None
    maps: tuple[tuple[int, tuple[int, ...], str], ...] = ()
    shared_bytes: int | None = None

    @cached_property
    def decoded(self) -> Decoded:
        """It as the machine runs it. Raises MachineError."""
        launch = self.launch
        if launch.dynamic_shared_bytes is None:
            launch = replace(launch, dynamic_shared_bytes=self.shared_bytes)
        return decoded(self.module, self.name, launch, self.around)

    def run(self, memory: Memory, arguments: Sequence[Any], completion: str) -> RunResult:
        """Run it in a memory that is empty yet."""
        given = list(arguments)
        for number, box, swizzle in self.maps:
            given[number] = TensorMap(given[number], box, swizzle)
        program = self.decoded
        options = replace(program.options, completion=completion)
        return run_in(memory, replace(program, options=options), given, self.handed)


def _after_of(after: Any, before: Any, name: str, launch: RunOptions) -> Program:
    """The program to compare with: a module, or `lowering.Lowered` of the module before.

    Raises UsageError (bad-argument, no-function), InputError (parse-error).
    """
    emit = getattr(after, "emit", None)
    if emit is None:
        return Program(after, name, launch)
    if emit != "ptx":
        raise UsageError(
            f"what is compared with a module is PTX, not {emit}",
            code="bad-argument",
            advice='lower with emit="ptx"',
        )
    kernels = {kernel.name: kernel for kernel in after.kernels}
    function = Decoder(raw(before)).entry(name)
    if function is None or name not in kernels:
        where = "the module before" if function is None else "the PTX"
        raise UsageError(f"no kernel '{name}' in {where}", code="no-function")
    types, count = block_types(function)
    maps = tuple(
        (number, *box_and_swizzle(text))
        for number, text in enumerate(map(_map_type, function.regions[0].blocks[0].arguments))
        if text
    )
    module = raise_ptx(after.text, new_context(), f"{name}.ptx")
    handed = Handed(tuple(types[:count]), after.parameters[name])
    shared_bytes = kernels[name].dynamic_shared_bytes
    return Program(module, name, launch, None, handed, maps, shared_bytes)


def _map_type(argument: Any) -> str:
    """The type of the tensor map that an argument points to, "" if it points to none."""
    for use in argument.uses:
        for result in use.owner.results:
            if str(result.type).startswith(TENSOR_MAP):
                return str(result.type)
    return ""


# Arguments --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Given:
    """Arguments as data and numbers; `kinds` of those that are data, None for others; `shapes` by the names of inputs."""

    values: list[Any]
    kinds: list[Kind | None]
    shapes: dict[str, tuple[int, ...]]


def _arguments(
    table: TermTable, module: Any, name: str, given: Sequence[Any], large: int | None = None
) -> _Given:
    function = Decoder(raw(module)).entry(name)
    if function is None:
        raise UsageError(f"no function '{name}' in the module before", code="no-function")
    types, count = block_types(function)
    types = types[:count]
    if given and len(given) != len(types):
        raise UsageError(
            f"'{name}' takes {len(types)} arguments, {len(given)} given", code="bad-argument"
        )
    made = [
        _argument(table, number, mlir_type, given[number] if given else None, large)
        for number, mlir_type in enumerate(types)
    ]
    shapes = {f"arg{n}": shape for n, (_, kind, shape) in enumerate(made) if kind is not None}
    return _Given([value for value, _, _ in made], [kind for _, kind, _ in made], shapes)


def _argument(
    table: TermTable, number: int, mlir_type: Any, value: Any, large: int | None
) -> tuple[Any, Kind | None, tuple[int, ...]]:
    """The value of an argument, and if it is data its kind and shape."""
    if isinstance(value, Moving):
        return value.number(table, kind_of(mlir_type).dtype), None, ()
    if not (value is None or isinstance(value, Data)):
        return value, None, ()
    label = f"arg{number}"
    kind, shape = _data(label, mlir_type, value)
    if any(isinstance(size, Moving) for size in shape):
        sizes = (n.number(table, np.int64) if isinstance(n, Moving) else n for n in shape)
        return LongArray(label, number + 1, tuple(sizes), kind.stored), None, ()
    is_memory = str(mlir_type).startswith("memref<") and not kind.shape
    if is_memory and large is not None and math.prod(shape) >= large:
        return LongArray(label, number + 1, shape, kind.stored), kind, shape
    # A byte of memory that holds an i1 is 0 or 1, and one that holds an i4 is 0 to 15.
    of = kind.dtype if kind.name == "i1" else kind.stored
    held = inputs(table, label, shape, of).view(kind.stored)
    return held & np.uint8(15) if kind.name == "i4" else held, kind, shape


def _data(label: str, mlir_type: Any, data: Data | None) -> tuple[Kind, tuple[int, ...]]:
    """The kind of an argument that is data, and its shape."""
    text = str(mlir_type)
    shape: Any = None if data is None else tuple(data.shape)
    if text.startswith("memref<"):
        memory = memref_shape(mlir_type)
        static = tuple(size for size in memory.sizes if size is not None)
        if shape is None and len(static) != len(memory.sizes):
            raise UsageError(
                f"{label} has dynamic sizes, as {text}",
                code="bad-argument",
                advice="give its shape: Data((128, 64)), --arg=128x64xf16",
            )
        return memory.element, (*(static if shape is None else shape), *memory.element.shape)
    if text.startswith("!llvm.ptr"):
        if data is None or data.dtype is None:
            raise UsageError(
                f"{label} is a pointer, and nothing says what lies behind it",
                code="bad-argument",
                advice="give Data(shape, dtype), or an array of numbers",
            )
        return stored_kind(data.dtype), shape
    kind = kind_of(mlir_type)
    if not kind.is_float and not kind.shape:
        raise UsageError(
            f"{label} is {text}: give it a number, since addresses and branches depend on it",
            code="bad-argument",
        )
    return kind, kind.shape


# Runs -------------------------------------------------------------------------------------


class Events:
    """What ran when a term of `table` was made: for each instruction that was executed its program, op and thread."""

    def __init__(self) -> None:
        self.table = TermTable()
        self.log: list[tuple[int, int, int, int]] = []
        self._sites: dict[tuple[int, int], Site] = {}

    def around(self, program: int) -> Callable[[Site, Execute], Execute]:
        """Of each op of the program before (0), or after: note that it runs, and put its place into errors about data."""
        log = self.log

        def wrap(site: Site, execute: Execute) -> Execute:
            self._sites[program, site.number] = site
            number = site.number

            def run(unit: Any, *values: Any) -> Any:
                log.append((program, number, unit.launch.block_number, int(unit.threads[0])))
                self.table.now = len(log)
                try:
                    return execute(unit, *values)
                except MachineError as error:
                    raise error if error.diagnostic.place.line else _placed(error, site) from None
                except (AttributeError, TypeError, ValueError, IndexError) as error:
                    raise MachineError(
                        f"'{site.name}' has no meaning on data: {error}",
                        code="unsupported-on-data",
                        at=site.place,
                    ) from error

            return run

        return wrap

    def of_second(self, event: int) -> bool:
        return event > 0 and self.log[event - 1][0] == 1

    def where(self, event: int) -> Execution:
        if not event:
            return Execution("nothing", Place(), 0)
        key = self.log[event - 1]
        site = self._sites[key[:2]]
        return Execution(site.name, site.place, self.log[: event - 1].count(key))


def _placed(error: MachineError, site: Site) -> MachineError:
    """The same error, at an op."""
    found = error.diagnostic
    notes = tuple(replace(note, place=site.place) for note in found.notes)
    message = f"'{site.name}': {found.message}"
    error.diagnostic = replace(found, message=message, place=site.place, notes=notes)
    error.args = (str(error.diagnostic),)
    return error


# Comparison -------------------------------------------------------------------------------


def _compared(before: RunResult, after: RunResult) -> list[tuple[str, Any, Any]]:
    """What is visible outside, by name: of the program before, and after. A global that only one of them touches is in
    the other as it was."""
    fresh = {k: (first, first) for run in (before, after) for k, (first, _) in run.globals.items()}
    ones, others = (
        {
            **{f"result {n}": value for n, value in enumerate(run.results)},
            **{f"argument {n}": array for n, array in enumerate(run.arrays)},
            **{name: now for name, (_, now) in {**fresh, **run.globals}.items()},
        }
        for run in (before, after)
    )
    return [
        (name, as_array(one), as_array(others[name]))
        for name, one in ones.items()
        if one is not None
    ]


def _first_difference(
    table: TermTable, compared: list[tuple[str, Any, Any]], reassociate: bool = False
) -> tuple[str, tuple[int, ...], tuple[int, int]] | None:
    """The first element that is not the same term, and both terms."""
    forms = NormalForms(table)
    for name, *both in compared:
        flat = [value.settled() if is_symbolic(value) else value for value in both]
        flat = [value.reshape(-1) for value in flat]
        apart = np.arange(flat[0].size)
        if not any(map(is_symbolic, flat)):
            # Large arrays of numbers, as matrices of integers, would be a term each.
            apart = np.flatnonzero(identities(flat[0]) != identities(flat[1]))
        first, second = (lift(table, value[apart], value.dtype) for value in flat)
        differ = np.flatnonzero(first != second)
        if len(differ):
            one, other = (forms.of(side[differ]) for side in (first, second))
            if reassociate:
                one, other = (reassociated(table, side) for side in (one, other))
            differ = differ[one != other]
        if len(differ):
            index = np.unravel_index(apart[differ[0]], both[0].shape)
            pair = int(first[differ[0]]), int(second[differ[0]])
            return name, tuple(map(int, index)), pair
    return None


def _rounded_alike(was: Any, now: Any) -> bool:
    """Whether two numbers may be sums of the same in another order: what is no farther apart than 64 roundings shows nothing."""
    one, other = as_array(was), as_array(now)
    if one.dtype.kind != "f":
        return False
    return bool(np.isclose(other, one, rtol=64 * np.finfo(one.dtype).eps, equal_nan=True))


def _drawn(random: Any, kind: Kind, shape: tuple[int, ...], are_whole: bool) -> Any:
    """Numbers of a kind in their memory form; small whole ones, whose sums are exact in any order, if asked for."""
    if kind.is_float:
        numbers = random.integers(-4, 5, shape) if are_whole else random.standard_normal(shape)
        return kind.encode(kind.settle(numbers.astype(np.float64))).reshape(shape)
    if kind.name in ("i1", "i4"):
        return random.integers(0, 2 if kind.name == "i1" else 16, shape).astype(kind.stored)
    ends = np.iinfo(kind.stored)
    return random.integers(ends.min, ends.max, shape, dtype=kind.stored, endpoint=True)
