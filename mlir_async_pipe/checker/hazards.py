"""From findings to what the user reads: a located sentence, two notes, a record.

    k.mlir:14:9: error: 'memref.load' reads what 'nvgpu.device_async_copy' may still be
                 writing [read-in-flight]
    k.mlir:11:7: note: this copy is in flight there, with 1 younger group on its queue
    k.mlir:12:7: note: this wait lets 1 group stay in flight; at most 0 would do

Codes are those of the async machine's race detector, so a static and a dynamic report of one bug carry one name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mlir_async_pipe.bindings.raw_ops import enclosing
from mlir_async_pipe.checker.conflicts import VALUE_ORDER, Finding
from mlir_async_pipe.checker.flag_orders import MEMORY_ORDER
from mlir_async_pipe.checker.owners import OTHER_BLOCKS
from mlir_async_pipe.checker.phase_faults import PHASE_SENTENCES
from mlir_async_pipe.checker.sites import Site
from mlir_async_pipe.checker.unfollowed import COPY_REASON
from mlir_async_pipe.session.diagnostics import HazardError, Place
from mlir_async_pipe.vocabulary import given_count, opaque_of
from mlir_async_pipe.vocabulary.control_flow import SCOPE

IN_SCOPE = "synchronisation-in-scope"


@dataclass(frozen=True)
class Hazard:
    """One pair of accesses that may race.

    `verdict` "unsafe": there is a path on which they do. "unknown": it could not be decided, for
    `reason`. `count` is the largest count of a wait that would do before `op` (None: a
    barrier is missing, not a wait). `function` is the kernel's symbol name.
    """

    verdict: Literal["unsafe", "unknown"]
    code: str
    reason: str
    function: str
    op: str
    place: Place
    other_op: str
    other_place: Place
    queue: str | None = None
    count: int | None = None
    wait_place: Place | None = None


@dataclass(frozen=True)
class CheckSummary:
    """The outcome for one kernel, counted in static accesses.

    `accesses` of memory in the kernel, of which `unsafe` and `unknown`; the rest are safe. Groups, waits and barriers
    inside an async scope count as unsafe, too. `reasons` counts the unknown ones by reason code. `states` is the number
    of abstract states followed.
    """

    function: str
    accesses: int
    unsafe: int
    unknown: int
    reasons: dict[str, int]
    states: int


def verdict(checks: Sequence[CheckSummary]) -> tuple[str, str]:
    """One line on kernels that were checked, and its state: "good" (proven), "bad" (it may race), "open".

    proven: 14 accesses in 1 kernel
    """
    if not checks:
        return "not checked", "open"
    accesses = sum(check.accesses for check in checks)
    unsafe = sum(check.unsafe for check in checks)
    unknown = sum(check.unknown for check in checks)
    kernels = f"in {len(checks)} kernel" + ("s" if len(checks) > 1 else "")
    if unsafe:
        return f"not safe: {unsafe} of {accesses} accesses {kernels} may race", "bad"
    if unknown:
        return f"not proven: {unknown} of {accesses} accesses {kernels} are unknown", "open"
    if not accesses:
        return f"nothing to prove: no access to memory {kernels}", "good"
    return f"proven: {accesses} access{'' if accesses == 1 else 'es'} {kernels}", "good"


# Causes of findings that are about one access: nobody knows of another one.
_ONE_ENDED = ("unfollowed", "budget", "async-proxy")


def code_of(finding: Finding, sites: list[Site]) -> str:
    later, earlier = sites[finding.later], sites[finding.earlier]
    if finding.cause in _ONE_ENDED:
        return "unknown-hazard"
    own = ("not-visible", "missing-barrier", "divergent-barrier")
    if finding.cause in own or finding.note:
        return finding.cause
    if finding.cause == "other-block":
        return "cross-block"
    if finding.cause == "same-op":
        return "overwrite-in-flight" if later.asynchronous else "missing-barrier"
    if not earlier.writes:
        return "source-overwritten"
    if later.atomic:
        return "atomic-in-flight"
    return "overwrite-in-flight" if later.writes else "read-in-flight"


def worst_of_each(findings: Iterable[Finding], sites: list[Site]) -> list[Finding]:
    """One finding for each later op, code and verdict: that which needs the smallest count."""
    worst: dict[tuple[int, str, bool], Finding] = {}
    for finding in findings:
        key = (finding.later, code_of(finding, sites), finding.certain)
        known = worst.get(key)
        if known is None or _urgency(finding) < _urgency(known):
            worst[key] = finding
    return list(worst.values())


def _urgency(finding: Finding) -> tuple[int, int]:
    """Smallest count first, then the earliest op at the other end, so that runs agree."""
    count = needed_count(finding)
    return (-1 if count is None else count), finding.earlier


_SENTENCES = {
    "unknown-hazard": "'{op}' races: control flow is not followed there",
    "read-in-flight": "'{op}' reads what '{other}' may still be writing",
    "overwrite-in-flight": "'{op}' writes where '{other}' may still be writing",
    "source-overwritten": "'{op}' writes what '{other}' may still be reading",
    "atomic-in-flight": "'{op}' is atomic on what '{other}' may still be writing",
    "not-visible": "'{op}' uses what '{other}' of another thread did, without a barrier after its wait",
    "missing-barrier": "'{op}' and '{other}' of another thread touch the same memory without a barrier between",
    "divergent-barrier": "'{op}' is not reached by all threads of the block",
    "cross-block": "'{op}' and '{other}' of another block touch the same memory",
    **PHASE_SENTENCES,
}


def record_of(finding: Finding, sites: list[Site], ops: list[Any], function: str) -> Hazard:
    later, earlier = sites[finding.later].op, sites[finding.earlier].op
    return Hazard(
        "unsafe" if finding.certain else "unknown",
        code_of(finding, sites),
        finding.reason,
        function,
        *(later.name, Place.of(later), earlier.name, Place.of(earlier)),
        sites[finding.earlier].queue,
        needed_count(finding),
        None if finding.wait is None else Place.of(ops[finding.wait]),
    )


def needed_count(finding: Finding) -> int | None:
    """The largest count that would do: at the wait in force, else before the access."""
    if finding.wait_age is not None and finding.wait_age >= 0:
        return finding.wait_age
    return finding.age


def sentence(finding: Finding, sites: list[Site]) -> str:
    """What is wrong, in one sentence."""
    later, earlier = sites[finding.later], sites[finding.earlier]
    if finding.cause == "same-op":
        return f"'{later.op.name}' of two threads writes to one place at once"
    if finding.reason == COPY_REASON:
        opaque = opaque_of(later.op)
        why = "" if opaque is None else f": {opaque.why}"
        return f"'{later.op.name}' races: what it copies, or who waits for it, is not followed{why}"
    if finding.cause == "budget":
        return f"'{later.op.name}' races: the kernel has too many paths to follow all of them"
    if finding.cause == "async-proxy" and later.access is None:
        return f"'{later.op.name}' waits for the right phase: those of mbarriers are not followed"
    if finding.cause == "async-proxy":
        return (
            f"'{later.op.name}' races: what tensor copies and products of warpgroups do to this "
            "memory is not followed"
        )
    return _SENTENCES[code_of(finding, sites)].format(op=later.op.name, other=earlier.op.name)


def notes(finding: Finding, sites: list[Site], ops: list[Any]) -> tuple[tuple[str, Any], ...]:
    """The op at the other end, and what is missing or too weak."""
    later, earlier = sites[finding.later], sites[finding.earlier]
    if finding.cause in _ONE_ENDED:
        return ()
    if finding.note:
        example = [(text, sites[place].op) for text, place in filter(None, [finding.example])]
        return ((finding.note, earlier.op), *example)
    if finding.cause == "divergent-barrier":
        return (("threads go different ways around it: move it out of the branch", later.op),)
    if finding.cause == "uncommitted":
        counter = f", or wait for {earlier.counter}" if earlier.by_wave else ""
        helps = f"commit its group before this access, and wait for it with count 0{counter}"
        return ("this copy is in no committed group there", earlier.op), (helps, later.op)
    if finding.cause == "same-op":
        return (
            ("another thread of the block runs it too, and nothing orders the two", later.op),
            ("let one thread write, or give each thread a place of its own", later.op),
        )
    if finding.cause == "other-block":
        helps = "blocks run in any order: let the block id decide the place, or use atomics"
        if not finding.certain and finding.reason == OTHER_BLOCKS:
            helps = (
                "the place depends on more than ids and iteration numbers: give each block a "
                "constant number of elements, or say `async_pipe.independent` on the kernel if no "
                "two blocks meet"
            )
        return ("the other access, in another block of the grid", earlier.op), (helps, later.op)
    if finding.cause == "missing-barrier":
        return (
            ("the other access, in the same barrier interval", earlier.op),
            ("a barrier is missing between the two, before this", later.op),
        )
    if finding.cause == "not-visible":
        assert finding.wait is not None
        first = ("this op is complete for its own thread only", earlier.op)
        if finding.barrier is None:
            return first, ("a barrier is missing after this wait", ops[finding.wait])
        misplaced = "the last barrier is this, before the wait; it belongs after it"
        return first, (misplaced, ops[finding.barrier])
    age = finding.age or 0
    young = f"{age} younger group{'s' if age != 1 else ''}"
    first = (f"this op is in flight there, with {young} on {_queue(earlier)}", earlier.op)
    return first, _wait_note(finding, later, earlier, ops)


_ADVICE = {
    VALUE_ORDER: "lanes of one warp: what is stored is made of what they read, so on hardware the reads are over; "
    "`nvvm.bar.warp.sync` between the two (NVIDIA), `rocdl.wave.barrier` between a release and an acquire `llvm.fence "
    'syncscope("wavefront")` (AMD), or a barrier where all threads come, orders them by the memory model, too',
    "unknown-bytes": "say which box the map has: `async_pipe.box = memref<128x64xf16>` on the copy, or by the number of the "
    "kernel's argument: assume-boxes=0=128x64xf16",
    "block-size": "say how many threads a block has: `.reqntid`, `known_block_size` on the kernel, or "
    "assume-block-size=128",
    "may-alias": "if they never share memory, say so: `llvm.noalias` on the argument",
    MEMORY_ORDER: "a release and an acquire may order the two; a barrier between them certainly does, "
    "in a block",
}


def advice(finding: Finding, sites: list[Site]) -> tuple[tuple[str, Any], ...]:
    """What the author can say about memory that the checker cannot tell apart."""
    text = _ADVICE.get(finding.reason)
    return () if text is None else ((text, sites[finding.later].op),)


def _wait_note(finding: Finding, later: Site, earlier: Site, ops: list[Any]) -> tuple[str, Any]:
    age = finding.age or 0
    if finding.wait is None or finding.wait_age is None:
        why = f"a wait is missing before this: count {age} would do, on {_queue(earlier)}"
        return why, later.op
    wait = ops[finding.wait]
    if finding.wait_age < 0:
        why = (
            f"this wait stands before the group is committed; after the commit count {age} would do"
        )
        return why, wait
    given = given_count(wait) or 0
    stays = f"this wait lets {given} group{'s' if given != 1 else ''} stay in flight"
    return f"{stays}; at most {finding.wait_age} would do", wait


def _queue(site: Site) -> str:
    """The queue as a reader knows it; abstract queues are called "queue 0" already."""
    name = site.queue or ""
    return name if name.startswith("queue") else f"queue {name}"


def record_in_scope(op: Any, function: str) -> Hazard:
    """The record of a group, wait or barrier that runs inside an async scope."""
    scope = _scope_of(op)
    ends = (op.name, Place.of(op), scope.name, Place.of(scope))
    return Hazard("unsafe", IN_SCOPE, "", function, *ends)


def error_in_scope(op: Any) -> HazardError:
    return HazardError(
        f"'{op.name}' runs inside an async scope, at any moment after the scope is issued",
        code=IN_SCOPE,
        at=op,
        notes=(("the scope, or what it calls", _scope_of(op)),),
        advice="move it out of the scope",
    )


def _scope_of(op: Any) -> Any:
    """The scope around an op; the op itself where the scope stands in a caller."""
    return enclosing(op, (SCOPE,)) or op


def error_of(finding: Finding, sites: list[Site], ops: list[Any]) -> HazardError:
    """An unsafe finding as an error with two notes."""
    return HazardError(
        sentence(finding, sites),
        code=code_of(finding, sites),
        at=sites[finding.later].op,
        notes=notes(finding, sites, ops),
    )
