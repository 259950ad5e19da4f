"""Makes random programs of `wait_programs`: structured, as graphs of blocks, and with calls."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from helpers.wait_programs import (
    Block,
    Call,
    Commit,
    For,
    Forall,
    Function,
    Graph,
    If,
    Not,
    Once,
    Program,
    Select,
    Switch,
    Truth,
    Unknown,
    Wait,
    While,
    waits_in,
)


@dataclass
class Scope:
    """The names that can be used: tokens of each queue, and conditions."""

    tokens: dict[int, list[str]] = field(default_factory=lambda: {0: [], 1: []})
    conditions: list[str] = field(default_factory=list)

    def copy(self) -> Scope:
        return Scope({q: list(names) for q, names in self.tokens.items()}, list(self.conditions))


class Maker:
    """Makes one program; `budget` bounds the number of ops."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = 0
        self.program = Program([], self.random.random() < 0.1)
        self.budget = self.random.randint(10, 30)
        self.graphs = self.random.random() < 0.35
        self.calls = self.random.random() < 0.3

    def make(self) -> Program:
        """A program of one to three functions; later ones may call earlier ones."""
        count = self.random.randint(2, 3) if self.calls else 1
        for number in range(count):
            self.budget = max(self.budget, 8)
            self._function(f"f{number}")
        waits = [wait for f in self.program.functions for wait in waits_in(f.body)]
        for number, wait in enumerate(waits):
            wait.number = number
        self.program.waits = len(waits)
        return self.program

    def _name(self, prefix: str = "t") -> str:
        self.names += 1
        return f"%{prefix}{self.names}"

    def _function(self, name: str) -> None:
        parameters = [
            self._name("p") for _ in range(self.random.randint(0, 1) if self.calls else 0)
        ]
        conditions = [self._name("c") for _ in range(self.random.randint(0, 2))]
        scope = Scope({0: list(parameters), 1: []}, list(conditions))
        for condition in conditions:
            if self.random.random() < 0.5:
                scope.conditions.append("%not_" + condition[1:])
        body: list = [
            Not(name, "%" + name.removeprefix("%not_"))
            for name in scope.conditions
            if name.startswith("%not_")
        ]
        for _ in range(self.random.randint(1, 3)):
            self._commit(body, scope, 0)
        function = Function(name, parameters, conditions, body, [])
        body += self._body(scope, 0, self.random.randint(5, 9))
        if self.calls and self.random.random() < 0.6:
            function.returned = [self.random.choice(scope.tokens[0])]
        if self.calls and self.random.random() < 0.2:
            self._call_itself(function, scope)
        self.program.functions.append(function)

    def _call_itself(self, function: Function, scope: Scope) -> None:
        """A call of the function by itself, and a wait after it."""
        arguments = [self.random.choice(scope.tokens[0]) for _ in function.tokens]
        results = [self._name() for _ in function.returned]
        truths = [self._name("k") for _ in function.conditions]
        function.body.append(Call(function.name, arguments, results, truths))
        scope.tokens[0] += results
        self._commit(function.body, scope, 0)
        self._wait(function.body, scope, 0)
        self.program.features.add("recursion")

    def _body(self, scope: Scope, depth: int, length: int) -> list:
        body: list = []
        for _ in range(length):
            if self.budget <= 0:
                break
            self.budget -= 1
            self._op(body, scope, depth)
        return body

    def _op(self, body: list, scope: Scope, depth: int) -> None:
        makers = [
            (self._commit_any, 8),
            (self._wait, 5),
            (self._truth, 1),
            (self._select, 1),
            (self._unknown, 0.2),
        ]
        if depth < 3:
            makers += [
                (self._if, 2),
                (self._for, 4),
                (self._while, 1),
                (self._switch, 0.6),
                (self._once, 0.4),
                (self._forall, 0.2),
            ]
            if self.graphs:
                makers.append((self._graph, 4))
        if self.calls:
            makers.append((self._call, 3))
        makers_only, weights = zip(*makers, strict=True)
        self.random.choices(makers_only, weights)[0](body, scope, depth)

    # -- leaves ------------------------------------------------------------------------

    def _commit_any(self, body: list, scope: Scope, depth: int) -> None:
        self._commit(body, scope, 0 if self.random.random() < 0.85 else 1)

    def _commit(self, body: list, scope: Scope, queue: int) -> None:
        name = self._name()
        body.append(Commit(name, queue))
        scope.tokens[queue].append(name)

    def _wait(self, body: list, scope: Scope, depth: int) -> None:
        queue = 1 if scope.tokens[1] and self.random.random() < 0.2 else 0
        names = scope.tokens[queue]
        # Older tokens have the more interesting counts.
        chosen = [names[int(len(names) * self.random.random() ** 1.6)]]
        if self.random.random() < 0.15:
            chosen.append(self.random.choice(names))
        body.append(Wait(chosen, queue, 0))

    def _truth(self, body: list, scope: Scope, depth: int) -> None:
        name = self._name("k")
        body.append(Truth(name))
        scope.conditions.append(name)
        if self.random.random() < 0.4:
            body.append(Not("%not_" + name[1:], name))
            scope.conditions.append("%not_" + name[1:])

    def _condition(self, body: list, scope: Scope) -> str:
        if not scope.conditions or self.random.random() < 0.2:
            self._truth(body, scope, 0)
        return self.random.choice(scope.conditions)

    def _select(self, body: list, scope: Scope, depth: int) -> None:
        condition = self._condition(body, scope)
        name = self._name()
        yes, no = (self.random.choice(scope.tokens[0]) for _ in range(2))
        body.append(Select(name, condition, yes, no))
        scope.tokens[0].append(name)

    def _unknown(self, body: list, scope: Scope, depth: int) -> None:
        name = self._name()
        body.append(Unknown(name))
        scope.tokens[0].append(name)

    def _call(self, body: list, scope: Scope, depth: int) -> None:
        if self.random.random() < 0.15 or not self.program.functions:
            name = self._name()
            body.append(Call("unknown", [], [name], []))
            scope.tokens[0].append(name)
            return
        function = self.random.choice(self.program.functions)
        arguments = [self.random.choice(scope.tokens[0]) for _ in function.tokens]
        results = [self._name() for _ in function.returned]
        truths = [self._name("k") for _ in function.conditions]
        body.append(Call(function.name, arguments, results, truths))
        scope.tokens[0] += results
        self.program.features.add("call")

    # -- ops with bodies ---------------------------------------------------------------

    def _inner(self, scope: Scope, depth: int, more: list[str] | None = None) -> tuple[list, Scope]:
        inner = scope.copy()
        inner.tokens[0] += more or []
        return self._body(inner, depth + 1, self.random.randint(1, 4)), inner

    def _if(self, body: list, scope: Scope, depth: int) -> None:
        condition = self._condition(body, scope)
        then, then_scope = self._inner(scope, depth)
        otherwise, otherwise_scope = self._inner(scope, depth)
        if self.random.random() < 0.4:
            otherwise, otherwise_scope = [], scope
        results = [
            (self._name(), self._latest(then_scope), self._latest(otherwise_scope))
            for _ in range(self.random.randint(0, 1))
        ]
        body.append(If(condition, then, otherwise, results))
        scope.tokens[0] += [name for name, _, _ in results]

    def _latest(self, scope: Scope) -> str:
        names = scope.tokens[0]
        return names[-1 - int(len(names) * self.random.random() ** 2)]

    def _switch(self, body: list, scope: Scope, depth: int) -> None:
        arms = [self._inner(scope, depth) for _ in range(self.random.randint(2, 3))]
        results = [
            (self._name(), [self._latest(inner) for _, inner in arms])
            for _ in range(self.random.randint(0, 1))
        ]
        body.append(Switch([arm for arm, _ in arms], results))
        scope.tokens[0] += [name for name, _ in results]

    def _for(self, body: list, scope: Scope, depth: int) -> None:
        width = self.random.choice([0, 1, 2, 2, 3, 3])
        arguments = [self._name("a") for _ in range(width)]
        inner_body, inner = self._inner(scope, depth, arguments)
        yielded = self._carried(arguments, inner)
        starts = [self.random.choice(scope.tokens[0]) for _ in arguments]
        results = [self._name() for _ in arguments]
        trips = self.random.choice([None, None, None, None, 0, 1, 2, 2, 3, 3, 4])
        carried = list(zip(arguments, starts, yielded, results, strict=True))
        affine = self.random.random() < 0.15
        body.append(For(trips, carried, inner_body, self._name("i"), affine))
        scope.tokens[0] += results

    def _carried(self, arguments: list[str], inner: Scope) -> list[str]:
        """What a body yields: shifted, permuted, or anything."""
        style = self.random.random()
        if len(arguments) >= 2 and style < 0.6:
            self.program.features.add("shifted")
            return [*arguments[1:], self._latest(inner)]
        if len(arguments) >= 2 and style < 0.8:
            self.program.features.add("shifted")
            return self.random.sample(arguments, len(arguments))
        return [self._latest(inner) for _ in arguments]

    def _while(self, body: list, scope: Scope, depth: int) -> None:
        width = self.random.randint(0, 2)
        first = [self._name("a") for _ in range(width)]
        before, before_scope = self._inner(scope, depth, first)
        condition = self._condition(before, before_scope)
        passed = [self._latest(before_scope) for _ in first]
        second = [self._name("b") for _ in first]
        after, after_scope = self._inner(scope, depth, second)
        yielded = self._carried(second, after_scope)
        starts = [self.random.choice(scope.tokens[0]) for _ in first]
        results = [self._name() for _ in first]
        carried = list(zip(first, starts, passed, second, yielded, results, strict=True))
        body.append(While(condition, before, after, carried))
        scope.tokens[0] += results

    def _once(self, body: list, scope: Scope, depth: int) -> None:
        inner_body, inner = self._inner(scope, depth)
        results = [(self._name(), self._latest(inner))]
        body.append(Once(inner_body, results))
        scope.tokens[0] += [name for name, _ in results]

    def _forall(self, body: list, scope: Scope, depth: int) -> None:
        body.append(Forall(self._inner(scope, depth)[0], self._name("i")))

    def _graph(self, body: list, scope: Scope, depth: int) -> None:
        """Blocks with any edges, cycles and irreducible ones included. Block 0 dominates, so
        what it defines is seen everywhere; the last block leaves."""
        self.program.features.add("graph")
        self.graphs = False
        count = self.random.randint(2, 5)
        entry, shared = self._inner(scope, depth)
        blocks = [Block([], entry, None, [])]
        scopes = [shared]
        for _ in range(count - 1):
            arguments = [self._name("x") for _ in range(self.random.randint(0, 2))]
            inner = shared.copy()
            inner.tokens[0] += arguments
            blocks.append(
                Block(arguments, self._body(inner, 3, self.random.randint(1, 4)), None, [])
            )
            scopes.append(inner)
        for number in range(count - 1):
            targets = [self.random.randrange(1, count) for _ in range(self.random.randint(1, 2))]
            if all(target <= number for target in targets):
                targets[0] = self.random.randrange(number + 1, count)
            if len(targets) == 2:
                blocks[number].condition = self._condition(blocks[number].body, scopes[number])
            blocks[number].targets = [
                (target, [self._latest(scopes[number]) for _ in blocks[target].arguments])
                for target in targets
            ]
        result = self._name()
        passed = {count - 1: [self._latest(scopes[count - 1])]}
        body.append(Graph(blocks, passed, [result]))
        scope.tokens[0].append(result)
