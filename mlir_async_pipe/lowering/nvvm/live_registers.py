"""How many registers of 32 bits the values of a PTX kernel need that live at once, in its order.

    add.s64 %rd3, %rd1, %rd2;    2 for %rd3 beside all that lives on; 6 if both operands do
    GEMM 128x128x32, f16         236 from block to block, 274 at once inside of one

The text is LLVM's, a statement is its results first and then its operands. To take an operand for one
that is none is safe, a result is not: the value that it has would end there. Predicates have registers
of their own. Linear in the text, once for each level of loops.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_WIDTHS = {"pred": 0, "b64": 2, "u64": 2, "s64": 2, "f64": 2, "b128": 4}
_DECLARED = re.compile(r"\.reg \.(\w+)\s+%(\w+?)<(\d+)>")
_COMMENT = re.compile(r"//[^\n]*")
_LABEL = re.compile(r"^\s*(\$[\w$]+):", re.MULTILINE)
_REGISTER = re.compile(r"%[a-z]+\d+\b")
_JUMP = re.compile(r"(@!?%p\d+\s+)?(?:bra(?:\.uni)?\s+([\w$]+)|ret|exit|trap)")
# The first operand of others is a result, unless it is an address: st … [%rd1], %r1.
_WITHOUT_RESULT = ("bar", "barrier", "nanosleep", "setmaxnreg", "brx")


Registers = list[str]


@dataclass
class _Block:
    """Statements as (results, operands), names of registers. `jumps` are labels of blocks that may
    follow, and so may the next one in the text if it `falls`."""

    statements: list[tuple[Registers, Registers]] = field(default_factory=list)
    jumps: list[str] = field(default_factory=list)
    falls: bool = True


@dataclass(frozen=True)
class LiveRegisters:
    """The most registers of values that live at once: from one block to the next, whatever the order
    of the statements in them, and anywhere, in the order of the text."""

    between_blocks: int
    anywhere: int


def declared_registers(kernel: str) -> int:
    """All registers that a kernel names: at least those that live at once."""
    return sum(_WIDTHS.get(kind, 1) * int(number) for kind, _, number in _DECLARED.findall(kernel))


def live_registers(kernel: str) -> LiveRegisters:
    """Those of a kernel's text. Raises KeyError for a jump to a label that is not there."""
    blocks, places = _blocks(kernel)
    following = [
        [*(places[label] for label in block.jumps), *([number + 1] if block.falls else [])]
        for number, block in enumerate(blocks)
    ]
    before = _live_before(blocks, following)
    widths = _Widths(kernel)
    between = most = max(sum(map(widths.__getitem__, live)) for live in before)
    for block, after in zip(blocks, following, strict=True):
        live = set().union(*(before[number] for number in after))
        needed = sum(map(widths.__getitem__, live))
        for results, operands in reversed(block.statements):
            for register in results:
                if register not in live:
                    needed += widths[register]
            most = max(most, needed)
            live.difference_update(results)
            needed -= sum(map(widths.__getitem__, results))
            for register in operands:
                if register not in live:
                    live.add(register)
                    needed += widths[register]
    return LiveRegisters(between, most)


def _live_before(blocks: list[_Block], following: list[list[int]]) -> list[set[str]]:
    """What lives before each block, and after the last one."""
    effects: list[tuple[set[str], set[str]]] = []
    for block in blocks:
        made: set[str] = set()
        used: set[str] = set()
        for results, operands in reversed(block.statements):
            made.update(results)
            used.difference_update(results)
            used.update(operands)
        effects.append((made, used))
    before: list[set[str]] = [set() for _ in range(len(blocks) + 1)]
    changed = True
    while changed:
        changed = False
        for number in reversed(range(len(blocks))):
            made, used = effects[number]
            live = set().union(*(before[after] for after in following[number])) - made | used
            changed = changed or live != before[number]
            before[number] = live
    return before


def _blocks(kernel: str) -> tuple[list[_Block], dict[str, int]]:
    """The blocks of a kernel in their order, and where the labels stand."""
    pieces = _LABEL.split(_COMMENT.sub("", kernel[kernel.index("{") :]))
    blocks: list[_Block] = []
    places: dict[str, int] = {}
    for label, piece in zip(["", *pieces[1::2]], pieces[::2], strict=True):
        places[label] = len(blocks)
        blocks.append(_Block())
        for statement in piece.split(";"):
            _read(statement.strip(), blocks)
    return blocks, places


def _read(statement: str, blocks: list[_Block]) -> None:
    """Append one statement to the last block; after a jump a new one begins."""
    if not statement or statement[0] in ".{}":
        return
    jump = _JUMP.fullmatch(statement)
    if jump:
        guard, label = jump.groups()
        blocks[-1].jumps += [label] if label else []
        blocks[-1].falls = guard is not None
        blocks.append(_Block())
        return
    op, rest = [*statement.split(None, 1), ""][:2]
    end = rest.find("}" if rest.startswith("{") else ",")
    if rest.startswith("[") or op.startswith("@") or op.partition(".")[0] in _WITHOUT_RESULT:
        end = 0
    elif end < 0:
        end = len(rest)
    operands = _REGISTER.findall(op) + _REGISTER.findall(rest, end)
    blocks[-1].statements.append((_REGISTER.findall(rest, 0, end), operands))


class _Widths(dict[str, int]):
    """How many registers of 32 bits each register of a kernel needs; special ones (%clock64) none."""

    def __init__(self, kernel: str) -> None:
        super().__init__()
        self._kinds = {name: _WIDTHS.get(kind, 1) for kind, name, _ in _DECLARED.findall(kernel)}

    def __missing__(self, register: str) -> int:
        found = self[register] = self._kinds.get(register.rstrip("0123456789")[1:], 0)
        return found
