"""PTX text to instructions: `parse(text)` gives functions, their variables and the module's.

    @%p1 ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1+16];
      -->  Instruction(("ld", "shared", "v4", "b32"), (Vector(…), Address(Reg("%rd1"), 16)), guard)

Names that are declared in an inner scope, `{ .reg .b16 t; … }`, get the scope's number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from helpers.ptx_machine.faults import PtxFault
from helpers.ptx_machine.syntax import (
    BITS,
    Address,
    Function,
    Imm,
    Instruction,
    Module,
    Pair,
    Reg,
    Symbol,
    Variable,
    Vector,
)

_TOKEN = re.compile(
    r'"[^"]*"|0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|'
    r"-?\d+U?(?![\w$])|%?[\w$]+(?:::[\w$]+)?(?:\.[\w$:]+)*|\.[\w$:]+(?:\.[\w$:]+)*|\S"
)


@dataclass
class _Tokens:
    items: list[tuple[str, int]]
    at: int = 0

    def peek(self) -> str:
        return self.items[self.at][0] if self.at < len(self.items) else ""

    @property
    def line(self) -> int:
        return self.items[min(self.at, len(self.items) - 1)][1]

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token != expected):
            raise PtxFault("bad-program", f"expected '{expected}', found '{token}'", self.line)
        self.at += 1
        return token

    def skip(self, token: str) -> bool:
        found = self.peek() == token
        self.at += found
        return found

    def until(self, end: str) -> list[str]:
        taken = []
        while (token := self.take()) != end:
            taken.append(token)
        return taken


def parse(text: str) -> Module:
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), text, flags=re.S)
    items = [
        (token, number)
        for number, line in enumerate(text.splitlines(), 1)
        for token in _TOKEN.findall(line.split("//")[0])
    ]
    tokens, module = _Tokens(items), Module({}, {})
    while tokens.peek():
        if tokens.peek() in (".version", ".target", ".address_size", ".file"):
            _skip_directive(tokens)
        else:
            _top_level(tokens, module)
    return module


def _skip_directive(tokens: _Tokens) -> None:
    line = tokens.line
    while tokens.peek() and tokens.line == line:
        tokens.take()


def _top_level(tokens: _Tokens, module: Module) -> None:
    flags = set()
    while tokens.peek() in (".visible", ".extern", ".weak", ".common"):
        flags.add(tokens.take())
    if tokens.peek() in (".entry", ".func"):
        function = _function(tokens)
        if function is not None:
            module.functions[function.name] = function
        return
    variable = _variable(tokens, ".extern" in flags)
    tokens.take(";")
    module.variables[variable.name] = variable


def _variable(tokens: _Tokens, external: bool = False, name: str | None = None) -> Variable:
    """.shared .align 16 .b8 name[6144] = {1, 2}; parameters have no semicolon after them."""
    space = tokens.take().lstrip(".")
    align, kind = 0, ""
    while tokens.peek().startswith("."):
        part = tokens.take()
        if part == ".align":
            align = int(tokens.take())
        elif part.lstrip(".") in BITS:
            kind = part.lstrip(".")
        elif part not in (".ptr", ".global", ".shared", ".const", ".attribute", ".managed"):
            raise PtxFault("bad-program", f"'{part}' in a declaration", tokens.line)
    name = tokens.take()
    width, count, data = max(BITS[kind] // 8, 1), 1, None
    if tokens.skip("["):
        inside = tokens.until("]")
        count = int(inside[0]) if inside else 0
    if tokens.skip("="):
        values = tokens.until("}")[1:] if tokens.peek() == "{" else [tokens.take()]
        numbers = [_number(value).value for value in values if value != ","]
        mask = (1 << 8 * width) - 1
        data = b"".join((n & mask).to_bytes(width, "little") for n in numbers)
        data = data.ljust(width * count, b"\0")
    elif space in ("global", "const") and not external:
        data = bytes(width * count)
    return Variable(name, space, width * count, max(align, width), data, external)


def _function(tokens: _Tokens) -> Function | None:
    """A kernel or device function; None for a declaration."""
    kernel = tokens.take() == ".entry"
    results = _parameters(tokens) if tokens.peek() == "(" else []
    name = tokens.take()
    parameters = _parameters(tokens) if tokens.peek() == "(" else []
    function = Function(name, kernel, parameters, results)
    while tokens.peek().startswith("."):
        directive = tokens.take()
        values = []
        while tokens.peek() not in "{;" and not tokens.peek().startswith("."):
            values.append(tokens.take())
        if directive in (".maxntid", ".reqntid"):
            function.block_threads = tuple(int(value) for value in values if value != ",")
    if tokens.skip(";"):
        return None
    tokens.take("{")
    _Body(tokens, function).read()
    return function


def _parameters(tokens: _Tokens) -> list[Variable]:
    tokens.take("(")
    found = []
    while not tokens.skip(")"):
        align = tokens.peek()
        assert align
        found.append(_variable(tokens))
        tokens.skip(",")
    return found


class _Body:
    """Statements up to the closing brace; `scopes` maps inner names to unique ones."""

    def __init__(self, tokens: _Tokens, function: Function):
        self.tokens, self.function = tokens, function
        self.scopes: list[dict[str, str]] = []
        self.number = 0

    def read(self) -> None:
        tokens = self.tokens
        while True:
            token = tokens.peek()
            if token == "{":
                tokens.take()
                self.scopes.append({})
                self.number += 1
            elif token == "}":
                tokens.take()
                if not self.scopes:
                    return
                self.scopes.pop()
            elif token == ".reg":
                self._registers()
            elif token in (".shared", ".local", ".param", ".global", ".const"):
                self._declared(_variable(tokens))
                tokens.take(";")
            elif token in (".loc", ".pragma", ".noreturn"):
                _skip_directive(tokens)
            elif tokens.items[tokens.at + 1][0] == ":":
                self._label()
            else:
                self._instruction()

    def _registers(self) -> None:
        tokens = self.tokens
        tokens.take()
        bits = BITS[tokens.take().lstrip(".")]
        words = tokens.until(";")
        while words:
            name = words.pop(0)
            if words[:1] == ["<"]:
                count = int(words[1])
                words = words[3:]
                names = [f"{name}{n}" for n in range(count)]
            else:
                names = [name]
            for each in names:
                self.function.registers[self._own(each)] = bits
            words = words[1:] if words[:1] == [","] else words

    def _own(self, name: str) -> str:
        """The unique name of what is declared in this scope."""
        if not self.scopes:
            return name
        self.scopes[-1][name] = f"{name}#{self.number}"
        return self.scopes[-1][name]

    def _name(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def _declared(self, found: Variable) -> None:
        name = self._own(found.name)
        self.function.variables.append(
            Variable(name, found.space, found.size, found.align, found.data)
        )

    def _label(self) -> None:
        name = self.tokens.take()
        self.tokens.take(":")
        if self.tokens.peek().startswith(".branchtargets"):
            self.tokens.take()
            targets = tuple(t for t in self.tokens.until(";") if t != ",")
            self.function.tables[name] = targets
            return
        self.function.labels[name] = len(self.function.body)

    def _instruction(self) -> None:
        tokens, line = self.tokens, self.tokens.line
        guard, negated = None, False
        if tokens.skip("@"):
            negated = tokens.skip("!")
            guard = Reg(self._name(tokens.take()))
        opcode = tokens.take()
        words = tokens.until(";")
        operands, rest = [], words
        while rest:
            operand, rest = self._operand(rest)
            operands.append(operand)
            rest = rest[1:] if rest[:1] == [","] else rest
        text = f"{opcode} {' '.join(words)}"
        parts = tuple(part for part in re.split(r"\.|::", opcode) if part)
        self.function.body.append(Instruction(parts, tuple(operands), guard, negated, line, text))

    def _operand(self, words: list[str]) -> tuple:
        first, rest = words[0], words[1:]
        if first == "[":
            end = rest.index("]")
            return self._address(rest[:end]), rest[end + 1 :]
        if first in "{(":
            items, closing = [], "}" if first == "{" else ")"
            while rest[0] != closing:
                item, rest = self._operand(rest)
                items.append(item)
                rest = rest[1:] if rest[0] == "," else rest
            return Vector(tuple(items)), rest[1:]
        if first == "!":
            raise PtxFault("unknown-instruction", "a negated operand", self.tokens.line)
        atom = self._atom(first)
        if rest[:1] == ["|"]:
            second = self._atom(rest[1])
            return Pair(atom, second), rest[2:]
        if rest[:1] == ["+"]:
            return Address(atom, _number(rest[1]).value), rest[2:]
        return atom, rest

    def _address(self, words: list[str]) -> Address:
        base, offset = self._atom(words[0]), 0
        if len(words) > 1:
            # `+16`, `+-16` are two words and `-16` is one.
            offset = _number(words[-1]).value
            if words[1:-1] not in (["+"], []):
                raise PtxFault("bad-program", f"address {words}", self.tokens.line)
        return Address(base, offset)

    def _atom(self, word: str) -> Reg | Imm | Symbol:
        name = self._name(word)
        if name in self.function.registers or word.startswith("%") or word == "_":
            return Reg(name)
        if re.match(r"-?\d", word):
            return _number(word)
        return Symbol(name)


def _number(word: str) -> Imm:
    if word[:2] in ("0f", "0F", "0d", "0D"):
        return Imm(int(word[2:], 16))
    return Imm(int(word.rstrip("U"), 0))
