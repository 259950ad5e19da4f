"""What PTX text consists of: modules, functions, variables, instructions and their operands."""

from __future__ import annotations

from dataclasses import dataclass, field

BITS = {"pred": 1, "b128": 128}
for _kind in "usb":
    BITS |= {f"{_kind}{bits}": bits for bits in (8, 16, 32, 64)}
BITS |= {"f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32, "f32": 32, "tf32": 32, "f64": 64}


@dataclass(frozen=True)
class Reg:
    name: str


@dataclass(frozen=True)
class Imm:
    """A literal; a float literal is the number of its bits."""

    value: int


@dataclass(frozen=True)
class Symbol:
    name: str


@dataclass(frozen=True)
class Address:
    base: Reg | Symbol | Imm
    offset: int


@dataclass(frozen=True)
class Vector:
    items: tuple


@dataclass(frozen=True)
class Pair:
    """Two destinations, `%p|%q`."""

    first: Reg
    second: Reg


@dataclass(frozen=True)
class Instruction:
    parts: tuple[str, ...]
    operands: tuple
    guard: Reg | None
    negated: bool
    line: int
    text: str


@dataclass(frozen=True)
class Variable:
    """`size` bytes in a state space; `data` initialises it, None leaves it as it is."""

    name: str
    space: str
    size: int
    align: int
    data: bytes | None = None
    external: bool = False


@dataclass
class Function:
    name: str
    kernel: bool
    parameters: list[Variable]
    results: list[Variable]
    registers: dict[str, int] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    body: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    block_threads: tuple[int, ...] = ()


@dataclass
class Module:
    functions: dict[str, Function]
    variables: dict[str, Variable]
