"""Marks our waits, and reads AMDGCN assembly back: which waits it holds, where, and what a kernel needs.

    ; async_pipe.wait 0          our mark of wait 0
    s_waitcnt vmcnt(8)           what the back end made of it: at most 8 vector memory ops
    s_barrier                    in flight

`vmcnt` counts all vector memory ops of a wave, on gfx9 stores too, so the number may be larger
than the copies that the wait leaves in flight. `s_wait_asynccnt` and `s_wait_tensorcnt` (gfx12)
count only the async ones.

    rocdl.wait.asyncmark 2   -->   "; async_pipe.wait 0" and the wait
                                   "; async_pipe.wait 0", s_waitcnt vmcnt(8), in the assembly

The marker is a comment in an inline assembly op: it makes no instruction, and it goes along
where LLVM unrolls or copies a loop. The back end waits for instructions, not groups: N groups
are at least N times the fewest copies that any group holds, and vmcnt reaches 63, of which 63
means "do not wait". Fewer left in flight than that is stricter than the count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    before,
    functions,
    operations,
    symbol_name,
    walk,
)
from mlir_async_pipe.facts.flow.algorithms import natural_loops
from mlir_async_pipe.facts.values.llvm_builder import LlvmBuilder
from mlir_async_pipe.session.diagnostics import Place
from mlir_async_pipe.vocabulary import given_count, row_of
from mlir_async_pipe.vocabulary.rows import ASYNC_LDS, ASYNCCNT, TENSORCNT

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


Lines = list[tuple[int, str]]
"""The instructions of a function: (line number, text), labels and markers included."""


def read(assembly: str) -> tuple[IsaKernel, ...]:
    """All functions of an assembly text, in order."""
    metadata = _metadata(assembly)
    return tuple(_kernel(name, lines, metadata.get(name, {})) for name, lines in _functions(assembly))  # fmt: skip


def loop_bodies(assembly: str) -> dict[str, tuple[tuple[str, ...], ...]]:
    """The instructions of each loop of each function, without the loops inside it."""
    return {name: _bodies(lines) for name, lines in _functions(assembly)}


def _bodies(lines: Lines) -> tuple[tuple[str, ...], ...]:
    loops = _loops(lines)
    bodies: dict[int, list[str]] = {first: [] for first in sorted(set(loops.values()))}
    for number, text in lines:
        if number in loops and not text.startswith(";") and not _LABEL.match(text):
            bodies[loops[number]].append(text)
    return tuple(map(tuple, bodies.values()))


def _functions(assembly: str) -> list[tuple[str, Lines]]:
    found: list[tuple[str, Lines]] = []
    names = set(_FUNCTION.findall(assembly))
    inside = False
    for number, line in enumerate(assembly.splitlines(), 1):
        label, text = _LABEL.match(line), line.strip()
        if label and label[1] in names:
            found.append((label[1], []))
            inside = True
        elif line.startswith(".Lfunc_end"):
            inside = False
        elif inside and text and (not text.startswith((";", ".")) or label or MARKER in text):
            found[-1][1].append((number, text))
    return found


def _kernel(name: str, lines: Lines, needs: dict[str, int]) -> IsaKernel:
    loops = _loops(lines)
    waits, markers = _waits(lines, loops)
    copies = [number for number, text in lines if _COPY.match(text)]
    barriers = [n for n, text in lines if text.split()[0] in ("s_barrier", "s_barrier_wait")]
    return IsaKernel(
        name,
        waits,
        markers,
        len(copies),
        sum(number in loops for number in copies),
        sum(number in loops for number in barriers),
        *map(needs.get, _NEEDS),
    )


_NEEDS = (
    *("vgpr_count", "sgpr_count", "vgpr_spill_count", "sgpr_spill_count"),
    *("group_segment_fixed_size", "private_segment_fixed_size"),
)


def _loops(lines: Lines) -> dict[int, int]:
    """For each line in a loop, the line at which the innermost one around it begins.

    By where control goes: a block that was moved behind a loop jumps back without being in it.
    """
    blocks = _blocks(lines)
    labels = {m[1]: n for n, block in enumerate(blocks) if (m := _LABEL.match(block[0][1]))}

    def after(number: int) -> list[int]:
        last = blocks[number][-1][1]
        branch = _BRANCH.search(last)
        jumps = [labels[branch[1]]] if branch and branch[1] in labels else []
        goes_on = not last.startswith(("s_branch", "s_endpgm", "s_setpc"))
        return jumps + ([number + 1] if goes_on and number + 1 < len(blocks) else [])

    found: dict[int, int] = {}
    loops = natural_loops(0, after) if blocks else {}
    for header in sorted(loops, key=lambda header: -len(loops[header])):
        for number in loops[header]:
            found |= {line: blocks[header][0][0] for line, _ in blocks[number]}
    return found


def _blocks(lines: Lines) -> list[Lines]:
    """The lines, cut before labels and after branches."""
    blocks: list[Lines] = []
    ended = True
    for line in lines:
        if ended or _LABEL.match(line[1]):
            blocks.append([])
        blocks[-1].append(line)
        ended = line[1].startswith(("s_branch", "s_cbranch", "s_endpgm", "s_setpc"))
    return blocks


def _waits(lines: Lines, loops: dict[int, int]) -> tuple[tuple[IsaWait, ...], tuple[int, ...]]:
    """The waits, each with the marker right before it, and all markers met."""
    found: list[IsaWait] = []
    markers: list[int] = []
    pending: list[int] = []
    for position, (number, text) in enumerate(lines):
        if marked := _MARKER_LINE.search(text):
            markers.append(int(marked[1]))
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
    if old := _WAITCNT.match(text):
        return "vmcnt", int(old[1])
    new = _WAIT_GFX12.match(text)
    return (new[1], int(new[2], 0)) if new else None


def _needed_by(lines: Lines) -> str:
    """The op name of the first instruction after a wait that the wait can be for."""
    needs = (text.split()[0] for _, text in lines if not _passes_over(text))
    return next(needs, "")


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


_QUEUES = (ASYNC_LDS, ASYNCCNT, TENSORCNT)


@dataclass(frozen=True)
class MarkedWait:
    """One wait of the module: its count (groups, or copies for a counter), and the fewest
    copies of a group in its function, which is 1 where the count is in copies. `certain` of
    them are issued on every path, the others stand under conditions."""

    number: int
    function: str
    op: str
    count: int
    copies: int
    certain: int
    place: Place

    @property
    def expected(self) -> int:
        """Copies that the wait leaves in flight, as far as an instruction can say it."""
        limit = ASYNC_LDS.copies_in_flight
        assert limit is not None
        return min(self.count * self.copies, limit)


@dataclass(frozen=True)
class WaitReadback:
    """What one wait became: the numbers of its instructions in textual order (LLVM may have
    copied the loop), whether one is stricter than the count, and why."""

    wait: MarkedWait
    left: tuple[int, ...]
    left_in_loops: tuple[int, ...]
    verdict: Literal["kept", "stricter", "none"]
    reason: str


def mark(module: Any) -> tuple[MarkedWait, ...]:
    """Put a marker before every async wait of the module; returns the waits."""
    found: list[MarkedWait] = []
    for function in functions(module):
        fewest = _fewest_copies(function)
        for op in walk(function):
            row = row_of(op)
            if row.wait is None or row.queue not in _QUEUES:
                continue
            count, number = given_count(op) or 0, len(found)
            copies = fewest if row.queue == ASYNC_LDS else (1, 1)
            name = symbol_name(function)
            found.append(MarkedWait(number, name, op.name, count, *copies, Place.of(op)))
            build = LlvmBuilder(before(op), op.location)
            build.assembly(f"; {MARKER} {number}", "", [], [], has_effects=True)
    return tuple(found)


def _fewest_copies(function: Operation) -> tuple[int, int]:
    """The fewest copies in a group of the function, between two marks of one block: with those
    under conditions and in inner loops, and without."""
    found = [_copies_in_front(mark_op) for mark_op in walk(function) if _is_mark(mark_op)]
    all_, certain = zip(*found, strict=True) if found else ((0,), (0,))
    return min(all_), min(certain)


def _copies_in_front(mark_op: Operation) -> tuple[int, int]:
    """Copies between a mark and the one before it in its block: all, and the certain ones."""
    copies = certain = 0
    siblings = operations(mark_op.block)
    for op in reversed(siblings[: siblings.index(mark_op)]):
        inner = list(walk(op))
        if any(map(_is_mark, inner)):
            break
        copies += sum(map(_is_copy, inner))
        certain += _is_copy(op)
    return copies, certain


def _is_copy(op: Operation) -> bool:
    row = row_of(op)
    return row.queue == ASYNC_LDS and row.asynchronous(op)


def _is_mark(op: Operation) -> bool:
    row = row_of(op)
    return row.queue == ASYNC_LDS and row.commits == "group"


def explain(
    waits: tuple[MarkedWait, ...], kernels: tuple[IsaKernel, ...]
) -> tuple[WaitReadback, ...]:
    """What became of each wait."""
    by_name = {kernel.name: kernel for kernel in kernels}
    return tuple(
        _explain(wait, by_name[wait.function]) for wait in waits if wait.function in by_name
    )


def _explain(wait: MarkedWait, kernel: IsaKernel) -> WaitReadback:
    own = [entry for entry in kernel.waits if entry.marker == wait.number]
    left = tuple(entry.left for entry in own)
    in_loops = tuple(entry.left for entry in own if entry.loop)
    barrier = _barrier_wait(own, kernel)
    verdict: Literal["kept", "stricter", "none"] = "stricter"
    if barrier is not None:
        reason = (
            f"the barrier after it fences more than workgroup memory, so {barrier.counter} "
            f"waits until {barrier.left} ops are in flight (line {barrier.line})"
        )
    elif not own:
        verdict, reason = "none", "the back end found nothing in flight to wait for"
    elif min(left) >= wait.expected:
        reason = _limit(wait)
        verdict = "stricter" if reason else "kept"
    else:
        reason = _fewer(wait, min(left))
    return WaitReadback(wait, left, in_loops, verdict, reason)


def _fewer(wait: MarkedWait, left: int) -> str:
    held = f"{wait.count} groups hold {wait.count * wait.copies} copies"
    if wait.certain < wait.copies:
        return (
            f"{held}, {wait.count * wait.certain} of them outside conditions: the back end counts "
            f"those that are surely issued, and leaves {left} in flight"
        )
    return f"{held}, but on some path into this place {left} are in flight, as the back end sees it"


def _limit(wait: MarkedWait) -> str:
    wanted = wait.count * wait.copies
    if wanted == wait.expected:
        return ""
    return f"{wanted} copies may stay in flight, and the counter tells {wait.expected} apart"


def _barrier_wait(own: list[IsaWait], kernel: IsaKernel) -> IsaWait | None:
    """A wait that the back end itself put between one of ours and the barrier after it."""
    for wait in own:
        following = next((entry for entry in kernel.waits if entry.line > wait.line), None)
        if following is None or following.marker is not None:
            continue
        same = following.counter == wait.counter and following.left < wait.left
        if same and following.reason in _BARRIERS:
            return following
    return None
