"""Reads AMDGCN assembly back: which waits it holds, where, and what a kernel needs.

    ; async_pipe.wait 0          written by `isa_markers` before wait 0
    s_waitcnt vmcnt(8)           what the back end made of it: at most 8 vector memory ops
    s_barrier                    in flight

`vmcnt` counts all vector memory ops of a wave, on gfx9 stores too, so the number may be larger
than the copies that the wait leaves in flight. `s_wait_asynccnt` and `s_wait_tensorcnt` (gfx12)
count only the async ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from mlir_async_pipe.facts.flow.algorithms import natural_loops

MARKER = "async_pipe.wait"

_MARKER_LINE = re.compile(rf"; {re.escape(MARKER)} (\d+)")
_WAITCNT = re.compile(r"s_waitcnt\b.*\bvmcnt\((\d+)\)")
_WAIT_GFX12 = re.compile(r"s_wait_(asynccnt|tensorcnt) (0x[0-9a-f]+|\d+)")
_LABEL = re.compile(r"^(\.?[A-Za-z_][\w.$]*):")
_BRANCH = re.compile(r"s_c?branch\w*\s+(\.\w+)")
_FUNCTION = re.compile(r"\.type\s+(\S+),@function")
_BARRIERS = ("s_barrier", "s_barrier_signal", "s_barrier_wait")
# Loads that write to LDS: an op name with lds in it, or the lds modifier of older chips.
_COPY = re.compile(
    r"^(global|buffer|flat)_load_(lds|async_to_lds)|^(global|buffer)_load\w*\s.*\blds\b"
)


@dataclass(frozen=True)
class IsaWait:
    """One wait instruction.

    `counter` is vmcnt, asynccnt or tensorcnt, `left` how many ops it leaves in flight. `marker`
    is the number of our wait that it stands for, None where the back end put it there for
    itself; `reason` is then the instruction that needs it. `loop` is the line at which the
    innermost loop around it begins, 0 outside loops.
    """

    line: int
    counter: str
    left: int
    loop: int
    marker: int | None
    reason: str


@dataclass(frozen=True)
class IsaKernel:
    """One function of the assembly: its waits, copies and barriers, and what it needs.

    `copies_in_loops` and `barriers_in_loops` count instructions inside any loop. Registers are
    for one lane (vector) or one wave (scalar), memory in bytes; None where not stated.
    """

    name: str
    waits: tuple[IsaWait, ...]
    markers: tuple[int, ...]
    copies: int
    copies_in_loops: int
    barriers_in_loops: int
    vector_registers: int | None
    scalar_registers: int | None
    vector_spills: int | None
    scalar_spills: int | None
    workgroup_bytes: int | None
    scratch_bytes: int | None

    def loop_counts(self) -> dict[int, tuple[int, ...]]:
        """For every innermost loop with waits, by its line: what they leave in flight."""
        found: dict[int, tuple[int, ...]] = {}
        for wait in self.waits:
            if wait.loop:
                found[wait.loop] = (*found.get(wait.loop, ()), wait.left)
        return found


@dataclass
class _Lines:
    """The instructions of one function: (line number, text), labels and markers included."""

    name: str
    lines: list[tuple[int, str]] = field(default_factory=list)


def read(assembly: str) -> tuple[IsaKernel, ...]:
    """All functions of an assembly text, in order."""
    metadata = _metadata(assembly)
    return tuple(_kernel(part, metadata.get(part.name, {})) for part in _functions(assembly))


def loop_bodies(assembly: str) -> dict[str, tuple[tuple[str, ...], ...]]:
    """The instructions of each loop of each function, without the loops inside it."""
    return {part.name: _bodies(part.lines) for part in _functions(assembly)}


def _bodies(lines: list[tuple[int, str]]) -> tuple[tuple[str, ...], ...]:
    loops = _loops(lines)
    bodies: dict[int, list[str]] = {first: [] for first in sorted(set(loops.values()))}
    for number, text in lines:
        if number in loops and not text.startswith(";") and not _LABEL.match(text):
            bodies[loops[number]].append(text)
    return tuple(tuple(body) for body in bodies.values())


def _functions(assembly: str) -> list[_Lines]:
    found: list[_Lines] = []
    names: set[str] = set()
    inside = False
    for number, line in enumerate(assembly.splitlines(), 1):
        declared = _FUNCTION.search(line)
        if declared:
            names.add(declared.group(1))
        label = _LABEL.match(line)
        if label and label.group(1) in names:
            found.append(_Lines(label.group(1)))
            inside = True
        elif line.startswith(".Lfunc_end"):
            inside = False
        elif inside:
            text = line.strip()
            keep = text and (not text.startswith((";", ".")) or label or MARKER in text)
            if keep:
                found[-1].lines.append((number, text))
    return found


def _kernel(part: _Lines, needs: dict[str, int]) -> IsaKernel:
    loops = _loops(part.lines)
    waits, markers = _waits(part.lines, loops)
    copies = [number for number, text in part.lines if _COPY.match(text)]
    barriers = [n for n, text in part.lines if text.split()[0] in ("s_barrier", "s_barrier_wait")]
    return IsaKernel(
        part.name,
        waits,
        markers,
        len(copies),
        sum(1 for number in copies if loops.get(number, 0)),
        sum(1 for number in barriers if loops.get(number, 0)),
        needs.get("vgpr_count"),
        needs.get("sgpr_count"),
        needs.get("vgpr_spill_count"),
        needs.get("sgpr_spill_count"),
        needs.get("group_segment_fixed_size"),
        needs.get("private_segment_fixed_size"),
    )


def _loops(lines: list[tuple[int, str]]) -> dict[int, int]:
    """For each line in a loop, the line at which the innermost one around it begins.

    By where control goes: a block that was moved behind a loop jumps back without being in it.
    """
    blocks = _blocks(lines)
    labels = {m.group(1): n for n, block in enumerate(blocks) if (m := _LABEL.match(block[0][1]))}

    def after(number: int) -> list[int]:
        last = blocks[number][-1][1]
        branch = _BRANCH.search(last)
        jumps = [labels[branch.group(1)]] if branch and branch.group(1) in labels else []
        goes_on = not last.startswith(("s_branch", "s_endpgm", "s_setpc"))
        return jumps + ([number + 1] if goes_on and number + 1 < len(blocks) else [])

    found: dict[int, int] = {}
    loops = natural_loops(0, after) if blocks else {}
    for header in sorted(loops, key=lambda header: -len(loops[header])):
        for number in loops[header]:
            found |= {line: blocks[header][0][0] for line, _ in blocks[number]}
    return found


def _blocks(lines: list[tuple[int, str]]) -> list[list[tuple[int, str]]]:
    """The lines, cut before labels and after branches."""
    blocks: list[list[tuple[int, str]]] = []
    ended = True
    for line in lines:
        if ended or _LABEL.match(line[1]):
            blocks.append([])
        blocks[-1].append(line)
        ended = line[1].startswith(("s_branch", "s_cbranch", "s_endpgm", "s_setpc"))
    return blocks


def _waits(
    lines: list[tuple[int, str]], loops: dict[int, int]
) -> tuple[tuple[IsaWait, ...], tuple[int, ...]]:
    """The waits, each with the marker right before it, and all markers met."""
    found: list[IsaWait] = []
    markers: list[int] = []
    pending: list[int] = []
    for position, (number, text) in enumerate(lines):
        marked = _MARKER_LINE.search(text)
        if marked:
            markers.append(int(marked.group(1)))
            pending.append(markers[-1])
            continue
        wait = _wait(text)
        if wait is not None:
            reason = _needed_by(lines[position + 1 :])
            loop = loops.get(number, 0)
            # Waits that follow each other at once become one instruction.
            named: list[int | None] = [*pending] or [None]
            found += [IsaWait(number, *wait, loop, marker, reason) for marker in named]
            pending = []
        elif not _passes_over(text):
            pending = []
    return tuple(found), tuple(markers)


def _passes_over(text: str) -> bool:
    """Whether a line may stand between a wait and what it is for: other waits, arithmetic."""
    name = text.split()[0]
    if name.startswith(("s_wait", ";", ".")) and not name.endswith(":"):
        return True
    scalar_memory = name.startswith(("s_load", "s_store", "s_buffer"))
    acts = name.startswith(("s_barrier", "s_branch", "s_cbranch", "s_endpgm", "s_setpc"))
    return name.startswith(("s_", "v_")) and not (scalar_memory or acts)


def _wait(text: str) -> tuple[str, int] | None:
    old = _WAITCNT.match(text)
    if old:
        return "vmcnt", int(old.group(1))
    new = _WAIT_GFX12.match(text)
    if new:
        return new.group(1), int(new.group(2), 0)
    return None


def _needed_by(lines: list[tuple[int, str]]) -> str:
    """The op name of the first instruction after a wait that the wait can be for."""
    for _, text in lines:
        if not _passes_over(text):
            return text.split()[0]
    return ""


def is_barrier(instruction: str) -> bool:
    """Whether an op name is one of the barrier instructions."""
    return instruction in _BARRIERS


_METADATA_NUMBER = re.compile(r"^\s+(?:- )?\.(\w+):\s+(\d+)\s*$")
_METADATA_NAME = re.compile(r"^\s+(?:- )?\.name:\s+(\S+)\s*$")


def _metadata(assembly: str) -> dict[str, dict[str, int]]:
    """The numbers of the kernel descriptors in `.amdgpu_metadata`, by kernel name.

    A kernel's entry lists its arguments first (indented deeper), then its own keys.
    """
    _, _, text = assembly.partition(".amdgpu_metadata")
    text = text.partition(".end_amdgpu_metadata")[0]
    _, _, text = text.partition("amdhsa.kernels:")
    found: dict[str, dict[str, int]] = {}
    for entry in re.split(r"^  - ", text, flags=re.M)[1:]:
        own = [line for line in ("    " + entry).splitlines() if re.match(r"^    \S", line)]
        names = [m.group(1) for line in own if (m := _METADATA_NAME.match(line))]
        numbers = (m.groups() for line in own if (m := _METADATA_NUMBER.match(line)))
        if names:
            found[names[0]] = {key: int(value) for key, value in numbers}
    return found
