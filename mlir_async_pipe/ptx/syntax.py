"""Reads PTX: kernels, their registers and variables, and instructions with places.

    .visible .entry add(.param .u64 .ptr .global x, .param .u32 n)      Kernel("add", parameters, …)
    .reqntid 128, 1, 1
    {
      .reg .b32 %r<9>;                                                  registers: %r -> b32
      @!%p1 ld.global.v2.f32 {%f1, %f2}, [%rd4+16];                     Instruction: guard, opcode,
    }                                                                   operands, line and column

Braces inside a body open a scope whose registers and labels are its own, as those of inline assembly are.
What a kernel does is not read here. Source of the syntax: PTX ISA, chapters 4 and 5.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from mlir_async_pipe.session.diagnostics import InputError, Place

BYTES = {"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4,
         "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16}  # fmt: skip
"""The bytes of each type of PTX (PTX ISA, fundamental types)."""


@dataclass(frozen=True)
class Register:
    """A register, or a special one as %tid.x."""

    name: str
    negated: bool = False


@dataclass(frozen=True)
class Number:
    """A number as it is written: 16, -1, 0f3F800000."""

    text: str


@dataclass(frozen=True)
class Symbol:
    """The name of a variable, a parameter, a label or a function, and bytes after it."""

    name: str
    offset: int = 0


@dataclass(frozen=True)
class Vector:
    """{a, b, c, d}"""

    elements: tuple[Operand, ...]


@dataclass(frozen=True)
class Pair:
    """a|b: two results."""

    first: Operand
    second: Operand


@dataclass(frozen=True)
class Address:
    """[base + offset], and coordinates of a tensor: [base, {x, y}]."""

    base: Register | Symbol | Number
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()


Operand: TypeAlias = "Register | Number | Symbol | Vector | Pair | Address"


@dataclass(frozen=True)
class Instruction:
    """One instruction; `guard` is the predicate under which it runs."""

    opcode: str
    operands: tuple[Operand, ...]
    guard: Register | None
    text: str
    place: Place

    @property
    def parts(self) -> tuple[str, ...]:
        """ld.shared::cta.v2.f32 as ("ld", "shared::cta", "v2", "f32")."""
        return tuple(self.opcode.split("."))


@dataclass(frozen=True)
class Label:
    """A place to branch to."""

    name: str


@dataclass(frozen=True)
class Variable:
    """A variable of a memory space; `size` is in bytes, 0 for one that the launch makes as large as it is."""

    name: str
    space: str
    size: int
    alignment: int


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel or of a function, or its result; `pointer` is the space it points into, "generic" or ""
    for no pointer."""

    name: str
    kind: str
    size: int
    alignment: int
    pointer: str
    in_register: bool = False


@dataclass
class PtxEntry:
    """An entry, or a function that others call, with what it declares."""

    name: str
    parameters: tuple[Parameter, ...]
    place: Place
    results: tuple[Parameter, ...] = ()
    block: tuple[int, ...] = ()
    most_threads: tuple[int, ...] = ()
    cluster: tuple[int, ...] = ()
    registers: dict[str, str] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    branch_targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    body: list[Instruction | Label] = field(default_factory=list)


def instructions_of(kernel: PtxEntry) -> list[Instruction]:
    return [item for item in kernel.body if isinstance(item, Instruction)]


@dataclass
class PtxFile:
    """A PTX file: its variables, its kernels, and the functions with a body, by name."""

    variables: list[Variable]
    kernels: list[PtxEntry]
    functions: dict[str, PtxEntry] = field(default_factory=dict)


def no_ptx(why: str, at: Place | None) -> InputError:
    """The error that a text is no PTX, or no PTX that is read."""
    return InputError(why, code="parse-error", at=at)


@dataclass(frozen=True)
class _Token:
    text: str
    line: int
    column: int
    begin: int


_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<word>"[^"]*"
      | [.%$_A-Za-z](?:[\w$.]|::)*
      | 0[fFdD][0-9a-fA-F]+ | 0[xX][0-9a-fA-F]+U? | \d+\.\d*(?:[eE][-+]?\d+)? | \d+U?
      | .)""",
    re.VERBOSE | re.DOTALL,
)


def _tokens(text: str) -> Iterator[_Token]:
    line, start = 1, 0
    for match in _TOKEN.finditer(text):
        if match["word"]:
            yield _Token(match["word"], line, match.start() - start + 1, match.start())
        lines = match[0].count("\n")
        if lines:
            line += lines
            start = match.start() + match[0].rindex("\n") + 1


def read(text: str, file: str = "-") -> PtxFile:
    """The kernels of a PTX file. Raises InputError (parse-error) at what is no PTX."""
    return _Reader(text, file).module()


def read_assembly(text: str, registers: dict[str, str], place: Place) -> PtxEntry:
    """The instructions of inline assembly, as a kernel without parameters; all are where the assembly is."""
    kernel = PtxEntry("", (), place, registers=dict(registers))
    _Reader(text, place.file, place).statements(kernel, end="")
    return kernel


class _Reader:
    """Goes through the tokens of one text once; what it reads is `all_at` one place, or each at its own."""

    def __init__(self, text: str, file: str, all_at: Place | None = None) -> None:
        self.text, self.file, self.all_at = text, file, all_at
        self.tokens = [*_tokens(text), _Token("", text.count("\n") + 1, 1, len(text))]
        self.at = 0
        self.scopes: list[dict[str, str]] = [{}]
        self.scope_count = 0
        self.registers: dict[str, str] = {}

    @property
    def next(self) -> str:
        return self.tokens[self.at].text

    def place(self) -> Place:
        token = self.tokens[self.at]
        return self.all_at or Place(self.file, token.line, token.column)

    def take(self, expected: str = "") -> str:
        found = self.next
        if (expected and found != expected) or not found:
            wanted = f"expected '{expected}', found" if expected else "unexpected"
            raise no_ptx(f"{wanted} {repr(found) if found else 'the end of the file'}", self.place())  # fmt: skip
        self.at += 1
        return found

    def taken(self, *texts: str) -> bool:
        """Whether the next token is one of these, which is taken then."""
        if self.next not in texts:
            return False
        self.at += 1
        return True

    def number(self) -> int:
        sign = -1 if self.taken("-") else 1
        at, text = self.place(), self.take()
        try:
            return sign * int(text.rstrip("U"), 0)
        except ValueError:
            raise no_ptx(f"expected a number, found '{text}'", at) from None

    def numbers(self) -> tuple[int, ...]:
        found = [self.number()]
        while self.taken(","):
            found.append(self.number())
        return tuple(found)

    def skip_to(self, end: str) -> None:
        while self.take() != end:
            pass

    def skip_braces(self) -> None:
        """What a pair of braces holds."""
        depth = 0
        while True:
            text = self.take()
            depth += (text == "{") - (text == "}")
            if text == "}" and not depth:
                return

    def module(self) -> PtxFile:
        source = PtxFile([], [])
        if self.next not in (".version", ""):
            raise no_ptx(f"PTX begins with '.version', not with '{self.next}'", self.place())
        while self.next:
            directive = self.take()
            if directive in (".version", ".target"):
                self.take()
                while self.taken(","):
                    self.take()
            elif directive == ".address_size":
                self.number()
            elif directive in _SPACES:
                source.variables.append(self.variable(directive[1:]))
            elif directive == ".entry":
                source.kernels.append(self.kernel())
            elif directive == ".func":
                self.function(source)
            elif directive == ".section":
                self.take()
                self.skip_braces()
            elif directive == ".file":
                self.number()
                self.take()
                if self.taken(","):
                    self.numbers()
            elif directive in _SKIPPED:
                self.skip_to(";")
            elif directive not in _LINKAGE:
                self.at -= 1
                raise no_ptx(
                    f"'{directive}' is no directive of a module that is known here", self.place()
                )
        return source

    def function(self, source: PtxFile) -> None:
        """.func (.param .b32 out) twice(.param .b32 in) { … }; of one without a body only its calls say what it is."""
        results = self.parameters()
        place, name = self.place(), self.take()
        function = PtxEntry(name, self.parameters(), place, results)
        while self.next not in (";", "{"):
            self.take()
        if not self.taken(";"):
            self.take("{")
            for one in (*results, *function.parameters):
                if one.in_register:
                    function.registers[one.name] = one.kind
            self.statements(function, end="}")
            source.functions[name] = function

    def variable(self, space: str) -> Variable:
        """.shared .align 16 .b8 tile[6144];"""
        alignment = self.number() if self.taken(".align") else 0
        while self.next in (".v2", ".v4", ".attribute"):
            if self.take() == ".attribute":
                self.skip_to(")")
        kind = self.take()[1:]
        name, size = self.take(), BYTES.get(kind, 0)
        while self.taken("["):
            size = 0 if self.next == "]" else size * self.number()
            self.take("]")
        self.skip_to(";")
        return Variable(name, space, size, alignment or BYTES.get(kind, 1))

    def kernel(self) -> PtxEntry:
        place, name = self.place(), self.take()
        kernel = PtxEntry(name, self.parameters(), place)
        while not self.taken("{"):
            directive = self.take()
            if directive in _SIZES:
                setattr(kernel, _SIZES[directive], self.numbers())
            elif directive in _LIMITS:
                self.numbers()
            elif directive == ".pragma":
                self.skip_to(";")
        self.statements(kernel, end="}")
        return kernel

    def parameters(self) -> tuple[Parameter, ...]:
        """(.param .u64 x, .param .u32 n)"""
        found: list[Parameter] = []
        if self.taken("("):
            while not self.taken(")"):
                found.append(self.parameter())
                self.taken(",")
        return tuple(found)

    def parameter(self) -> Parameter:
        """.param .u64 .ptr .global .align 16 x"""
        in_register = self.taken(".reg")
        if not in_register:
            self.take(".param")
        alignment, pointer, kind = 0, "", ""
        while self.next.startswith("."):
            word = self.take()[1:]
            if word == "align":
                alignment = self.number()
            elif word == "ptr":
                pointer = "generic"
            elif word in ("global", "shared", "const", "local"):
                pointer = word
            else:
                kind = word
        name, size = self.take(), BYTES.get(kind, 0)
        while self.taken("["):
            size *= self.number()
            self.take("]")
        return Parameter(name, kind, size, alignment, pointer, in_register)

    def statements(self, kernel: PtxEntry, end: str) -> None:
        """The statements up to the brace that closes the body."""
        self.registers = kernel.registers
        while self.next != end:
            if not self.next:
                self.take(end)
            if self.taken("{"):
                self.scope_count += 1
                self.scopes.append({})
                self.note_labels()
                self.statements(kernel, end="}")
                self.take("}")
                self.scopes.pop()
            elif self.next in (".reg", ".param", *_SPACES):
                self.declare(kernel, self.take())
            elif self.taken(".loc"):
                self.numbers_of_location()
            elif self.taken(".pragma", ".file"):
                self.skip_to(";")
            elif self.tokens[self.at + 1].text == ":":
                self.label(kernel)
            elif not self.taken(";"):
                kernel.body.append(self.instruction())
        if end and len(self.scopes) == 1:
            self.take(end)

    def note_labels(self) -> None:
        """Labels of a scope hide those around it, also before they come."""
        depth, at = 1, self.at
        while depth and self.tokens[at].text:
            text = self.tokens[at].text
            depth += (text == "{") - (text == "}")
            if depth == 1 and self.tokens[at + 1].text == ":" and text not in "{},":
                self.own(text)
            at += 1

    def own(self, name: str) -> str:
        """The name that something declared in this scope has in the whole kernel."""
        if len(self.scopes) == 1:
            return name
        return self.scopes[-1].setdefault(name, f"{name}#{self.scope_count}")

    def known(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def numbers_of_location(self) -> None:
        """.loc 2 69 9, function_name $L__info_string0, inlined_at 1 6 3"""
        for _ in range(3):
            self.number()
        while self.taken(","):
            if self.take() == "function_name":
                self.take()
                if self.taken("+"):
                    self.number()
            else:
                for _ in range(3):
                    self.number()

    def declare(self, kernel: PtxEntry, directive: str) -> None:
        if directive == ".param":
            # Each call has those of its own.
            variable = self.variable("param")
            kernel.variables.append(replace(variable, name=self.own(variable.name)))
            return
        if directive != ".reg":
            kernel.variables.append(self.variable(directive[1:]))
            return
        kind, more = self.take()[1:], True
        while more:
            name = self.take()
            names = [name]
            if self.taken("<"):
                names = [f"{name}{number}" for number in range(self.number())]
                self.take(">")
            kernel.registers |= {self.own(one): kind for one in names}
            more = self.taken(",")
        self.take(";")

    def label(self, kernel: PtxEntry) -> None:
        name = self.known(self.take())
        self.take(":")
        if self.taken(".branchtargets"):
            targets = [self.known(self.take())]
            while self.taken(","):
                targets.append(self.known(self.take()))
            self.take(";")
            kernel.branch_targets[name] = tuple(targets)
        elif self.taken(".callprototype", ".calltargets"):
            # A call by a register is not followed.
            self.skip_to(";")
        else:
            kernel.body.append(Label(name))

    def instruction(self) -> Instruction:
        place, begin = self.place(), self.tokens[self.at].begin
        guard = None
        if self.taken("@"):
            negated = self.taken("!")
            guard = Register(self.known(self.take()), negated)
        opcode = self.take()
        operands: list[Operand] = []
        while self.next != ";":
            operands.append(self.operand())
            if self.next != ";":
                self.take(",")
        end = self.tokens[self.at].begin
        self.take(";")
        text = " ".join(self.text[begin:end].split())
        return Instruction(opcode, tuple(operands), guard, text, place)

    def operand(self) -> Operand:
        first = self.single()
        return Pair(first, self.single()) if self.taken("|") else first

    def single(self) -> Operand:
        for begin, end in ("{}", "()"):
            if self.taken(begin):
                elements: list[Operand] = []
                while not self.taken(end):
                    elements.append(self.operand())
                    self.taken(",")
                return Vector(tuple(elements))
        if self.taken("["):
            return self.address()
        if self.taken("!"):
            return Register(self.known(self.take()), negated=True)
        if self.next == "-" or self.next[:1].isdigit():
            sign = "-" if self.taken("-") else ""
            return Number(sign + self.take())
        if self.taken("WARP_SZ"):
            # The predefined constant (PTX ISA, WARP_SZ).
            return Number("32")
        name = self.known(self.take())
        if name in self.registers or name.startswith("%") or name == "_":
            return Register(name)
        return Symbol(name, self.number() if self.taken("+") else 0)

    def address(self) -> Address:
        base = self.single()
        if not isinstance(base, Register | Symbol | Number):
            raise no_ptx("an address begins with a register or a name", self.place())  # fmt: skip
        offset = self.number() if self.taken("+") else -self.number() if self.taken("-") else 0
        if isinstance(base, Symbol):
            base, offset = Symbol(base.name), base.offset + offset
        coordinates: list[Operand] = []
        while self.taken(","):
            found = self.single()
            coordinates += found.elements if isinstance(found, Vector) else [found]
        self.take("]")
        return Address(base, offset, tuple(coordinates))


_SPACES = (".global", ".shared", ".const", ".local")
_SIZES = {".reqntid": "block", ".maxntid": "most_threads", ".reqnctapercluster": "cluster"}
_LIMITS = (".minnctapersm", ".maxnreg", ".maxclusterrank", ".maxnctapersm")
_SKIPPED = (".pragma", ".alias", ".callprototype", ".calltargets")
_LINKAGE = (".visible", ".extern", ".weak", ".common", ".noreturn")
