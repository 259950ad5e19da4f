"""Reads AMD's assembly text: instructions with operands, labels, and how a kernel starts.

Shares nothing with the package: it is a judge of what the package and LLVM emit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Instruction:
    """One instruction: its name without encoding suffix, operands, and `key:value` modifiers.

    `wait` is the number of the package's wait that it belongs to. `allowed` is for a wait that was
    made weaker: the copies that the package lets it leave in flight.
    """

    name: str
    operands: tuple[str, ...]
    modifiers: dict[str, str]
    line: int
    wait: int | None = None
    allowed: int | None = None
    dual: bool = False

    def offset(self) -> int:
        return int(self.modifiers.get("offset", "0"), 0)


@dataclass
class Program:
    """The instructions of one kernel; `labels` are positions, `directives` its .amdhsa_ lines."""

    chip: str
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    directives: dict[str, int] = field(default_factory=dict)

    @property
    def lanes(self) -> int:
        return 64 if self.chip.startswith("gfx9") else 32

    @property
    def user_registers(self) -> tuple[int, int]:
        """(first scalar register of the kernel arguments' address, number of user registers)."""
        sizes = (
            ("private_segment_buffer", 4),
            ("dispatch_ptr", 2),
            ("queue_ptr", 2),
            ("kernarg_segment_ptr", 2),
            ("dispatch_id", 2),
            ("flat_scratch_init", 2),
            ("private_segment_size", 1),
        )
        first, total = 0, 0
        for name, size in sizes:
            if self.directives.get(f"user_sgpr_{name}", 0):
                if name == "kernarg_segment_ptr":
                    first = total
                total += size
        return first, total


_SUFFIX = re.compile(r"_(e32|e64|dpp|sdwa)$")
_MODIFIER = re.compile(r"^(\w+):(\S+)$")
_FLAGS = frozenset("off nt nv sc0 sc1 glc slc scale_offset lds gds offen".split())


def parse(text: str) -> Program:
    """The first kernel of an assembly file."""
    found = re.search(r"amdgcn-amd-amdhsa-[\w-]*?(gfx\w+)", text)
    assert found is not None
    program = Program(found[1])
    wait, ended = None, False
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split("//")[0].strip()
        if mark := re.search(r"async_pipe\.wait (\d+)", line):
            wait = int(mark[1])
        line = line.split(";")[0].strip()
        if directive := re.match(r"\.amdhsa_(\w+) (\d+)$", line):
            program.directives[directive[1]] = int(directive[2])
        if label := re.match(r"^([\w.$]+):$", line):
            program.labels[label[1]] = len(program.instructions)
            continue
        ended = ended or line.startswith(".section")
        if ended or not line or line.startswith("."):
            continue
        first, together, second = line.partition(" :: ")
        made = _instruction(first, number, wait)
        program.instructions.append(replace(made, dual=bool(together)))
        if together:
            program.instructions.append(_instruction(second, number, wait))
        if first.startswith(("s_waitcnt", "s_wait_asynccnt", "s_wait_tensorcnt")):
            wait = None
    return program


def _instruction(text: str, line: int, wait: int | None) -> Instruction:
    name, _, rest = text.partition(" ")
    name = _SUFFIX.sub("", name.replace("v_dual_", "v_"))
    operands: list[str] = []
    modifiers: dict[str, str] = {}
    if name in ("s_waitcnt", "s_delay_alu", "s_clause", "s_setreg_imm32_b32"):
        return Instruction(name, (rest,), {}, line, wait)
    # Not between brackets: op_sel:[0,1].
    for piece in (p.strip() for p in re.split(r",(?![^\[]*\])", rest)):
        words = piece.split()
        for position, word in enumerate(words):
            if (found := _MODIFIER.match(word)) and not word.startswith(("v[", "s[")):
                modifiers[found[1]] = found[2]
            elif word in _FLAGS:
                modifiers[word] = "1"
                if word == "off" and position == 0:
                    operands.append("off")
            else:
                operands.append(word)
    return Instruction(name, tuple(operands), modifiers, line, wait)
