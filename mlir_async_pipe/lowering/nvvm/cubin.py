"""Reads back from a cubin which waits and barriers the machine code has, loop by loop.

    DEPBAR.LE SB0, 0x1      cp.async.wait_group 1: at most one group in flight
    BAR.SYNC                a barrier of the block
    LDGSTS                  a copy from global to shared memory
    WARPGROUP.DEPBAR.LE gsb0, 0x1      wgmma.wait_group 1
    SYNCS.PHASECHK, SYNCS.ARRIVE.TRANS64, UTMALDG    try_wait, arrive.expect_tx, a tensor copy
    UTCHMMA, UTCBAR         tcgen05.mma, tcgen05.commit

nvdisasm names the targets of branches, so a loop is what stands between a label and a later
branch back to it, if nothing comes to that branch but through the label (waits ask again in code that
stands after the last exit, and goes back into the middle of a loop): an exact check of the final code
without a GPU.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from mlir_async_pipe.facts.flow.algorithms import walked
from mlir_async_pipe.lowering.nvvm.ptxas import require_tool
from mlir_async_pipe.session.diagnostics import LoweringError


@dataclass(frozen=True)
class MachineLoop:
    """One loop of the machine code, without the loops inside it.

    `waits` are the counts of its DEPBARs (groups) in order, `product_waits` those of products of
    warpgroups; `barriers`, `copies` (LDGSTS) and `multiplications` (tensor core instructions) are
    numbers of instructions, of all `instructions` that the loop has, and so are `tensor_copies`,
    the `expects` that announce their bytes, and the `phase_waits` for them or for products of tensor
    memory, which `commits` complete; `arrivals` bring no bytes, `remote_arrivals` go to any block of a
    cluster; `multicasts` are those of the tensor copies that do.
    """

    waits: tuple[int, ...]
    barriers: int
    copies: int
    multiplications: int
    instructions: int
    product_waits: tuple[int, ...] = ()
    tensor_copies: int = 0
    expects: int = 0
    phase_waits: int = 0
    commits: int = 0
    arrivals: int = 0
    remote_arrivals: int = 0
    multicasts: int = 0


@dataclass(frozen=True)
class MachineKernel:
    """One kernel of a cubin: all its waits in order of address, and its loops."""

    name: str
    waits: tuple[int, ...]
    barriers: int
    loops: tuple[MachineLoop, ...]
    product_waits: tuple[int, ...] = ()

    @property
    def pipelined_loops(self) -> tuple[MachineLoop, ...]:
        """The loops that copy asynchronously."""
        return tuple(loop for loop in self.loops if loop.copies or loop.tensor_copies)


_SECTION = re.compile(r"^\.text\.([\w$.]+):$")
_LABEL = re.compile(r"^(\.L_\w+):$")
_INSTRUCTION = re.compile(r"^/\*[0-9a-f]+\*/\s+(?P<text>[^;]+);")
_BRANCH = re.compile(r"\bBRA\b.*`\((?P<label>\.L_\w+)\)")
# A branch on a uniform predicate has it as an operand.
_CONDITION = re.compile(r"\bBRA\S* !?UP\d")
_END = re.compile(r"\b(?:EXIT|RET)\b")
_WAIT = re.compile(r"\bDEPBAR\.LE SB0, 0x(?P<count>[0-9a-f]+)")
_PRODUCT_WAIT = re.compile(r"\bDEPBAR\.LE gsb0, 0x(?P<count>[0-9a-f]+)")
_TENSOR = re.compile(r"\b[A-Z]*(?:MMA|GMMA)\b")


def read_cubin(cubin: bytes) -> tuple[MachineKernel, ...]:
    """What the machine code of a cubin waits for and copies. Raises as `disassemble` does."""
    return parse_assembly(disassemble(cubin))


def disassemble(cubin: bytes) -> str:
    """The text of `nvdisasm -c`. Raises UsageError (tool-missing) and LoweringError
    (disassembler-failed)."""
    nvdisasm = require_tool("nvdisasm")
    with tempfile.TemporaryDirectory(prefix="async-pipe-") as name:
        file = Path(name) / "kernel.cubin"
        file.write_bytes(cubin)
        done = subprocess.run(
            [nvdisasm, "-c", str(file)], capture_output=True, text=True, check=False
        )
    if done.returncode != 0:
        raise LoweringError(
            f"nvdisasm cannot read the cubin: {done.stderr.strip()}", code="disassembler-failed"
        )
    return done.stdout


def parse_assembly(text: str) -> tuple[MachineKernel, ...]:
    """Read the output of `nvdisasm -c`."""
    return tuple(_kernel(name, *_code(lines)) for name, lines in _sections(text).items())


def loop_bodies(text: str) -> dict[str, tuple[tuple[str, ...], ...]]:
    """The instructions of each loop of each kernel in `nvdisasm -c`, without the loops inside."""
    return {name: _bodies(*_code(lines)) for name, lines in _sections(text).items()}


def _sections(text: str) -> dict[str, list[str]]:
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        section = _SECTION.match(line)
        if section:
            lines = sections.setdefault(section.group(1), [])
        else:
            lines.append(line.strip())
    return sections


def _code(lines: list[str]) -> tuple[list[str], list[tuple[int, int]]]:
    """The instructions of a kernel, and the first and last one of each of its loops."""
    instructions: list[str] = []
    labels: dict[str, int] = {}
    for line in lines:
        label, instruction = _LABEL.match(line), _INSTRUCTION.match(line)
        if label:
            labels[label.group(1)] = len(instructions)
        elif instruction:
            instructions.append(instruction["text"])
    return instructions, _loop_spans(instructions, labels)


def _loop_spans(instructions: list[str], labels: dict[str, int]) -> list[tuple[int, int]]:
    """First and last instruction of each loop, in order of address."""
    ends: dict[int, int] = {}
    for number, text in enumerate(instructions):
        branch = _BRANCH.search(text)
        first = labels.get(branch["label"]) if branch else None
        # A branch to itself is the padding after the last exit.
        if first is not None and first < number and _leads_to(first, number, instructions, labels):
            ends[first] = max(number, ends.get(first, number))
    return sorted(ends.items())


def _leads_to(first: int, last: int, instructions: list[str], labels: dict[str, int]) -> bool:
    """Whether every path from the entry to an instruction goes through `first`."""

    def after(number: int) -> list[int]:
        following = _following(number, instructions[number], labels)
        return [n for n in following if n != first and n < len(instructions)]

    return last not in walked([0] if first else [], after)


def _following(number: int, text: str, labels: dict[str, int]) -> list[int]:
    """The instructions that may run after one."""
    branch = _BRANCH.search(text)
    ends = _END.search(text) if branch is None else not _CONDITION.search(text)
    target = labels.get(branch["label"]) if branch else None
    goes_on = text.startswith("@") or not ends
    return ([] if target is None else [target]) + ([number + 1] if goes_on else [])


def _bodies(instructions: list[str], spans: list[tuple[int, int]]) -> tuple[tuple[str, ...], ...]:
    """The instructions of each loop, without those of the loops inside."""
    bodies = []
    for first, last in spans:
        inner = [s for s in spans if s != (first, last) and first <= s[0] and s[1] <= last]
        own = (n for n in range(first, last + 1) if not any(a <= n <= b for a, b in inner))
        bodies.append(tuple(instructions[n] for n in own))
    return tuple(bodies)


def _kernel(name: str, instructions: list[str], spans: list[tuple[int, int]]) -> MachineKernel:
    whole = _loop(tuple(instructions))
    loops = tuple(map(_loop, _bodies(instructions, spans)))
    return MachineKernel(name, whole.waits, whole.barriers, loops, whole.product_waits)


# Parts of the instructions that are counted.
_COUNTED = {
    "barriers": "BAR.SYNC",
    "copies": "LDGSTS",
    "tensor_copies": "UTMALDG",
    # .A1T0: one arrival and no bytes.
    "expects": "SYNCS.ARRIVE.TRANS64 ",
    "phase_waits": "PHASECHK.TRANS64.TRYWAIT",
    "commits": "UTCBAR",
    "arrivals": "SYNCS.ARRIVE.TRANS64.A1T0",
    "remote_arrivals": "SYNCS.ARRIVE.TRANS64.RED.A1T0",
    "multicasts": ".MULTICAST",
}


def _loop(body: tuple[str, ...]) -> MachineLoop:
    def counts(pattern: re.Pattern[str]) -> tuple[int, ...]:
        return tuple(int(match["count"], 16) for text in body if (match := pattern.search(text)))

    return MachineLoop(
        waits=counts(_WAIT),
        multiplications=sum(bool(_TENSOR.search(text)) for text in body),
        instructions=len(body),
        product_waits=counts(_PRODUCT_WAIT),
        **{name: sum(part in text for text in body) for name, part in _COUNTED.items()},
    )
