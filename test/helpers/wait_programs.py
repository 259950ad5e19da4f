"""Random programs with commit groups, and their counts by enumerating paths.

Nothing here uses the package: programs are small trees that print themselves as MLIR and that
`enumerate_counts` executes with every choice of branches and of 0..4 loop trips. A state maps
token names to their age (groups committed to their queue since their own) and conditions to
truth values; the count of a wait is the least age that any path brings to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

TOKEN = "!nvgpu.device.async.token"
LONGEST_TRIP = 4
MOST_STATES = 1500
MOST_WORK = 40000
# Ages saturate here, which makes the states of a graph finite.
OLDEST = 30
CROSSING = -1000


class TooLarge(Exception):
    """The program has more states than are worth enumerating."""


# -- programs ------------------------------------------------------------------------------


@dataclass
class Commit:
    name: str
    queue: int


@dataclass
class Unknown:
    """A token from an op that nobody knows, committed no later than here."""

    name: str


@dataclass
class Wait:
    names: list[str]
    queue: int
    number: int


@dataclass
class Truth:
    """A new i1 whose value nobody knows."""

    name: str


@dataclass
class Not:
    name: str
    of: str


@dataclass
class Select:
    name: str
    condition: str
    yes: str
    no: str


@dataclass
class If:
    condition: str
    then: list
    otherwise: list
    results: list[tuple[str, str, str]]


@dataclass
class Switch:
    arms: list[list]
    results: list[tuple[str, list[str]]]


@dataclass
class For:
    """`carried` are (argument, start, yielded, result); `trips` None is dynamic."""

    trips: int | None
    carried: list[tuple[str, str, str, str]]
    body: list
    variable: str
    affine: bool = False


@dataclass
class While:
    """`carried` are (before argument, start, passed on, after argument, yielded, result)."""

    condition: str
    before: list
    after: list
    carried: list[tuple[str, str, str, str, str, str]]


@dataclass
class Once:
    body: list
    results: list[tuple[str, str]]


@dataclass
class Forall:
    body: list
    variable: str


@dataclass
class Call:
    function: str
    arguments: list[str]
    results: list[str]
    truths: list[str]


@dataclass
class Block:
    """`targets` are (block number, passed tokens); two of them need `condition`."""

    arguments: list[str]
    body: list
    condition: str | None
    targets: list[tuple[int, list[str]]]


@dataclass
class Graph:
    """An execute_region with several blocks; a block without targets yields `passed`."""

    blocks: list[Block]
    passed: dict[int, list[str]]
    results: list[str]


@dataclass
class Function:
    name: str
    tokens: list[str]
    conditions: list[str]
    body: list
    returned: list[str]
    recursive: bool = False


@dataclass
class Program:
    functions: list[Function]
    function_scope: bool
    waits: int = 0
    features: set[str] = field(default_factory=set)


# -- MLIR ----------------------------------------------------------------------------------


def print_program(program: Program) -> str:
    """The program as MLIR text."""
    unknown = f"func.func private @unknown(index) -> {TOKEN}"
    return "\n".join([unknown, *map(_print_function, program.functions)])


def _typed(names: list[str]) -> str:
    return ", ".join(names)


def _types(count: int) -> str:
    return ", ".join([TOKEN] * count)


def _print_function(function: Function) -> str:
    arguments = [f"{name}: {TOKEN}" for name in function.tokens]
    arguments += [f"{name}: i1" for name in function.conditions]
    lines = [
        f"func.func @{function.name}({', '.join([*arguments, '%dynamic: index'])})"
        f" -> ({_types(len(function.returned))}) {{",
        "%zero = arith.constant 0 : index",
        "%one = arith.constant 1 : index",
        "%true = arith.constant true",
        *(f"%trips{n} = arith.constant {n} : index" for n in range(LONGEST_TRIP + 1)),
    ]
    lines += _print_body(function.body, function)
    ending = f" : {_types(len(function.returned))}" if function.returned else ""
    return "\n".join([*lines, f"return {_typed(function.returned)}{ending}", "}"])


def _print_body(body: list, function: Function) -> list[str]:
    return [line for op in body for line in _print_op(op, function)]


def _yield(names: list[str], op: str = "scf.yield") -> str:
    return f"{op} {_typed(names)} : {_types(len(names))}" if names else op


def _results(names: list[str]) -> str:
    return f"{_typed(names)} = " if names else ""


def _print_op(op: object, function: Function) -> Iterator[str]:
    match op:
        case Commit(name, queue):
            yield f'{name} = "async_pipe.commit_queue"() {{queue = {queue} : i64}} : () -> {TOKEN}'
        case Unknown(name):
            yield f'{name} = "test.unknown"() : () -> {TOKEN}'
        case Wait(names, queue, _):
            types = _types(len(names))
            yield f'"async_pipe.wait_queue"({_typed(names)}) {{queue = {queue} : i64}} : ({types}) -> ()'
        case Truth(name):
            yield f'{name} = "test.truth"() : () -> i1'
        case Not(name, of):
            yield f"{name} = arith.xori {of}, %true : i1"
        case Select(name, condition, yes, no):
            yield f"{name} = arith.select {condition}, {yes}, {no} : {TOKEN}"
        case If(condition, then, otherwise, results):
            names = [name for name, _, _ in results]
            head = f" -> ({_types(len(names))})" if names else ""
            yield f"{_results(names)}scf.if {condition}{head} {{"
            yield from _print_body(then, function)
            yield _yield([value for _, value, _ in results])
            yield "} else {"
            yield from _print_body(otherwise, function)
            yield _yield([value for _, _, value in results])
            yield "}"
        case Switch(arms, results):
            names = [name for name, _ in results]
            head = f" -> {_types(len(names))}" if names else ""
            yield f"{_results(names)}scf.index_switch %dynamic{head}"
            for number, arm in enumerate(arms):
                yield "default {" if number == len(arms) - 1 else f"case {number} {{"
                yield from _print_body(arm, function)
                yield _yield([values[number] for _, values in results])
                yield "}"
        case For():
            yield from _print_for(op, function)
        case While():
            yield from _print_while(op, function)
        case Once(body, results):
            names = [name for name, _ in results]
            head = f" -> ({_types(len(names))})" if names else ""
            yield f"{_results(names)}scf.execute_region{head} {{"
            yield from _print_body(body, function)
            yield _yield([value for _, value in results])
            yield "}"
        case Forall(body, variable):
            yield f"scf.forall ({variable}) in (%dynamic) {{"
            yield from _print_body(body, function)
            yield "}"
        case Call(callee, arguments, results, truths):
            for name in truths:
                yield f'{name} = "test.truth"() : () -> i1'
            kinds = ", ".join([TOKEN] * len(arguments) + ["i1"] * len(truths) + ["index"])
            passed = ", ".join([*arguments, *truths, "%dynamic"])
            yield f"{_results(results)}func.call @{callee}({passed}) : ({kinds}) -> ({_types(len(results))})"
        case Graph():
            yield from _print_graph(op, function)


def _print_for(op: For, function: Function) -> Iterator[str]:
    names = [result for _, _, _, result in op.carried]
    pairs = ", ".join(f"{argument} = {start}" for argument, start, _, _ in op.carried)
    head = f" iter_args({pairs}) -> ({_types(len(names))})" if names else ""
    variable = op.variable
    if op.affine:
        upper = "%dynamic" if op.trips is None else str(op.trips)
        yield f"{_results(names)}affine.for {variable} = 0 to {upper}{head} {{"
    else:
        upper = "%dynamic" if op.trips is None else f"%trips{op.trips}"
        yield f"{_results(names)}scf.for {variable} = %zero to {upper} step %one{head} {{"
    yield from _print_body(op.body, function)
    yield _yield(
        [value for _, _, value, _ in op.carried], "affine.yield" if op.affine else "scf.yield"
    )
    yield "}"


def _print_while(op: While, function: Function) -> Iterator[str]:
    names = [entry[5] for entry in op.carried]
    pairs = ", ".join(f"{entry[0]} = {entry[1]}" for entry in op.carried)
    types = _types(len(names))
    yield f"{_results(names)}scf.while ({pairs}) : ({types}) -> ({types}) {{"
    yield from _print_body(op.before, function)
    passed = [entry[2] for entry in op.carried]
    ending = f" {_typed(passed)} : {types}" if passed else ""
    yield f"scf.condition({op.condition}){ending}"
    yield "} do {"
    arguments = ", ".join(f"{entry[3]}: {TOKEN}" for entry in op.carried)
    yield f"^bb0({arguments}):" if arguments else "^bb0:"
    yield from _print_body(op.after, function)
    yield _yield([entry[4] for entry in op.carried])
    yield "}"


def _print_graph(op: Graph, function: Function) -> Iterator[str]:
    head = f" -> ({_types(len(op.results))})" if op.results else ""
    yield f"{_results(op.results)}scf.execute_region{head} {{"
    for number, block in enumerate(op.blocks):
        if number:
            arguments = ", ".join(f"{name}: {TOKEN}" for name in block.arguments)
            yield f"^b{number}({arguments}):" if arguments else f"^b{number}:"
        yield from _print_body(block.body, function)
        successors = []
        for target, passed in block.targets:
            given = f"({_typed(passed)} : {_types(len(passed))})" if passed else ""
            successors.append(f"^b{target}{given}")
        if not successors:
            yield _yield(op.passed[number])
        elif len(successors) == 1:
            yield f"cf.br {successors[0]}"
        else:
            yield f"cf.cond_br {block.condition}, {', '.join(successors)}"
    yield "}"


# -- enumeration ---------------------------------------------------------------------------

State = tuple[tuple[tuple[str, int], ...], tuple[tuple[str, bool], ...]]
"""Token ages and truth values, sorted by name. The queue of a token is part of its name's
entry in `Enumerator.queues`."""


class Enumerator:
    """Executes one function with every choice; counts are recorded for its own waits."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.functions = {function.name: function for function in program.functions}
        self.least: dict[int, int] = {}
        self.recording = True
        self.active: list[str] = []
        self.work = 0

    def run(self) -> dict[int, int]:
        """The least age at each wait that some path reaches."""
        for function in self.program.functions:
            self.recording = True
            self.active = [function.name]
            self._function(function, {name: (0, self._foreign) for name in function.tokens})
        return self.least

    @property
    def _foreign(self) -> int:
        return -1 if self.program.function_scope else 0

    def _queue(self, queue: int) -> int:
        return 0 if self.program.function_scope else queue

    def _function(self, function: Function, tokens: dict) -> set:
        return self._body(function.body, {_freeze(tokens, {})})

    def _body(self, body: list, states: set) -> set:
        for op in body:
            states = self._leave(op, states, self._op(op, states))
            self.work += len(states) + 1
            if len(states) > MOST_STATES or self.work > MOST_WORK:
                raise TooLarge
        return states

    def _leave(self, op: object, before: set, after: set) -> set:
        """Forget what was defined inside an op that has been left."""
        if not before or isinstance(op, (Commit, Unknown, Select, Wait, Truth, Not, Call)):
            return after
        names = {name for name, _ in next(iter(before))[0]} | set(results_of(op))
        inner = set(truths_in(op))
        return {
            (
                tuple(entry for entry in tokens if entry[0] in names),
                tuple(entry for entry in truths if entry[0] not in inner),
            )
            for tokens, truths in after
        }

    def _each(self, states: set, change: Callable) -> set:
        found = set()
        for state in states:
            tokens, truths = dict(state[0]), dict(state[1])
            outcome = change(tokens, truths)
            found.add(_freeze(tokens, truths) if outcome is None else outcome)
        return found

    def _decide(self, states: set, condition: str) -> tuple[set, set]:
        """The states in which a condition is true, and in which it is false."""
        positive, name = self._literal(condition, states)
        yes, no = set(), set()
        for tokens, truths in states:
            known = dict(truths)
            for value in [known[name]] if name in known else [True, False]:
                decided = _freeze(dict(tokens), {**known, name: value})
                (yes if value == positive else no).add(decided)
        return yes, no

    def _literal(self, condition: str, states: set) -> tuple[bool, str]:
        positive = True
        while condition.startswith("%not_"):
            condition = "%" + condition.removeprefix("%not_")
            positive = not positive
        return positive, condition

    def _op(self, op: object, states: set) -> set:
        if not states:
            return states
        match op:
            case Commit(name, queue):
                return self._each(states, lambda t, c: self._commit(t, name, self._queue(queue)))
            case Unknown(name):
                return self._each(states, lambda t, c: t.update({name: (0, self._foreign)}))
            case Wait(names, queue, number):
                self._wait(names, self._queue(queue), number, states)
                return states
            case Truth(name):
                return {(t, tuple(known for known in c if known[0] != name)) for t, c in states}
            case Not():
                return states
            case Select(name, condition, yes, no):
                true, false = self._decide(states, condition)
                return self._assign(true, [name], [yes]) | self._assign(false, [name], [no])
            case If(condition, then, otherwise, results):
                true, false = self._decide(states, condition)
                names = [entry[0] for entry in results]
                return self._assign(
                    self._body(then, true), names, [entry[1] for entry in results]
                ) | self._assign(
                    self._body(otherwise, false), names, [entry[2] for entry in results]
                )
            case Switch(arms, results):
                found = set()
                for number, arm in enumerate(arms):
                    found |= self._assign(
                        self._body(arm, states),
                        [name for name, _ in results],
                        [values[number] for _, values in results],
                    )
                return found
            case For():
                return self._for(op, states)
            case While():
                return self._while(op, states)
            case Once(body, results):
                return self._assign(
                    self._body(body, states), [r[0] for r in results], [r[1] for r in results]
                )
            case Forall(body, _):
                crossing = {
                    _freeze(
                        {name: (queue, CROSSING) for name, (queue, _) in dict(t).items()}, dict(c)
                    )
                    for t, c in states
                }
                self._body(body, crossing)
                return states
            case Call():
                return self._call(op, states)
            case Graph():
                return self._graph(op, states)
        raise AssertionError(op)

    def _commit(self, tokens: dict, name: str, queue: int) -> None:
        for other, (theirs, age) in tokens.items():
            if theirs == queue:
                tokens[other] = (theirs, min(OLDEST, age + 1))
        tokens[name] = (queue, 0)

    def _wait(self, names: list[str], queue: int, number: int, states: set) -> None:
        if not self.recording:
            return
        for tokens, _ in states:
            known = dict(tokens)
            for name in names:
                age = known[name][1]
                self.least[number] = min(self.least.get(number, 1 << 30), age)

    def _assign(self, states: set, names: list[str], values: list[str]) -> set:
        def assign(tokens: dict, truths: dict) -> None:
            tokens.update(dict(zip(names, [tokens[value] for value in values], strict=True)))

        return self._each(states, assign) if names else states

    def _for(self, op: For, states: set) -> set:
        arguments = [entry[0] for entry in op.carried]
        states = self._assign(states, arguments, [entry[1] for entry in op.carried])
        trips = LONGEST_TRIP if op.trips is None else op.trips
        done = set(states) if op.trips in (None, 0) else set()
        for turn in range(1, trips + 1):
            states = self._body(op.body, states)
            states = self._assign(states, arguments, [entry[2] for entry in op.carried])
            if op.trips is None or turn == trips:
                done |= states
            if len(done) > MOST_STATES:
                raise TooLarge
        return self._assign(done, [entry[3] for entry in op.carried], arguments)

    def _while(self, op: While, states: set) -> set:
        first = [entry[0] for entry in op.carried]
        second = [entry[3] for entry in op.carried]
        passed = [entry[2] for entry in op.carried]
        states = self._assign(states, first, [entry[1] for entry in op.carried])
        done: set = set()
        for _ in range(LONGEST_TRIP + 1):
            states = self._body(op.before, states)
            again, over = self._decide(states, op.condition)
            done |= self._assign(over, [entry[5] for entry in op.carried], passed)
            states = self._body(op.after, self._assign(again, second, passed))
            states = self._assign(states, first, [entry[4] for entry in op.carried])
        return done

    def _call(self, op: Call, states: set) -> set:
        function = self.functions.get(op.function)
        if function is None or function.name in self.active:
            return self._each(
                states, lambda t, c: t.update({name: (0, self._foreign) for name in op.results})
            )
        found = set()
        recording, self.recording = self.recording, False
        self.active.append(function.name)
        for tokens, truths in states:
            outer = dict(tokens)
            # The callee's names are its own; the caller's tokens travel along to grow older.
            inner = {f"{name}'{len(self.active)}": entry for name, entry in outer.items()}
            if self.program.function_scope:
                inner = {}
            for parameter, argument in zip(function.tokens, op.arguments, strict=True):
                queue, age = outer[argument]
                inner[parameter] = (queue, -500 if self.program.function_scope else age)
            for after, _ in self._function(function, inner):
                ages = dict(after)
                if self.program.function_scope:
                    new = dict(outer)
                    for result, value in zip(op.results, function.returned, strict=True):
                        new[result] = self._returned(value, ages, function, op, outer)
                else:
                    new = {name: ages[f"{name}'{len(self.active)}"] for name in outer}
                    for result, value in zip(op.results, function.returned, strict=True):
                        new[result] = ages[value]
                found.add(_freeze(new, dict(truths)))
        self.active.pop()
        self.recording = recording
        return found

    def _returned(
        self, value: str, ages: dict, function: Function, op: Call, outer: dict
    ) -> tuple[int, int]:
        """With function scope a callee's own group is foreign here, an argument stays itself."""
        if ages[value][1] > -100:
            return (0, -1)
        for parameter, argument in zip(function.tokens, op.arguments, strict=True):
            if value == parameter:
                return outer[argument]
        raise TooLarge

    def _graph(self, op: Graph, states: set) -> set:
        done: set = set()
        seen: set = set()
        work = [(0, state) for state in states]
        while work:
            number, state = work.pop()
            if (number, state) in seen:
                continue
            seen.add((number, state))
            if len(seen) > MOST_STATES:
                raise TooLarge
            block = op.blocks[number]
            for after in self._body(block.body, {state}):
                if not block.targets:
                    done |= self._assign({after}, op.results, op.passed[number])
                    continue
                sides = [{after}]
                if len(block.targets) == 2:
                    assert block.condition is not None
                    sides = list(self._decide({after}, block.condition))
                for (target, passed), side in zip(block.targets, sides, strict=True):
                    arguments = op.blocks[target].arguments
                    for reached in self._assign(side, arguments, passed):
                        work.append((target, reached))
        return done


def _freeze(tokens: dict, truths: dict) -> State:
    return tuple(sorted(tokens.items())), tuple(sorted(truths.items()))


def enumerate_counts(program: Program) -> list[int]:
    """The count of each wait in textual order: the least age, and 0 where it is below 0 or
    where no path reaches the wait."""
    least = Enumerator(program).run()
    return [max(0, least.get(number, 0)) for number in range(program.waits)]


def waits_in(body: list) -> Iterator[Wait]:
    """The waits of a body in textual order."""
    for op in body:
        if isinstance(op, Wait):
            yield op
        for inner in bodies_of(op):
            yield from waits_in(inner)


def bodies_of(op: object) -> list[list]:
    """The bodies inside an op."""
    match op:
        case If(_, then, otherwise, _):
            return [then, otherwise]
        case Switch(arms, _):
            # The default region is the first one in the IR, whatever the text says.
            return [arms[-1], *arms[:-1]]
        case For() | Once() | Forall():
            return [op.body]
        case While():
            return [op.before, op.after]
        case Graph():
            return [block.body for block in op.blocks]
    return []


def truths_in(op: object) -> Iterator[str]:
    """The conditions defined inside an op."""
    for body in bodies_of(op):
        for inner in body:
            if isinstance(inner, Truth):
                yield inner.name
            yield from truths_in(inner)


def results_of(op: object) -> list[str]:
    """The token results of an op."""
    match op:
        case If() | Switch() | Once():
            return [entry[0] for entry in op.results]
        case For():
            return [entry[3] for entry in op.carried]
        case While():
            return [entry[5] for entry in op.carried]
        case Graph():
            return op.results
    return []
