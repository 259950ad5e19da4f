"""Memory that tensor copies and products of warpgroups touch: judged by phases, or not claimed.

    nvgpu.tma.async.load … to %tile                    every access to what %tile names
    nvgpu.warpgroup.generate.descriptor %tile, …      likewise
    nvvm.wgmma.mma_async %a, %b                        all of workgroup memory

When such a copy has landed is a matter of mbarriers and their phases (docs/phases.md), and when a
product has read its operands one of the wait for its group; which threads issue them, one of their
predicates. The checker's paths follow none of these; `phases` has paths that do. Where those were
not followed to their end either, what was found is no error, and what was not found is not safe.
Two generic accesses that race still do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from mlir_async_pipe.checker.conflicts import Cause, Finding, Judge
from mlir_async_pipe.checker.forms import Atom, AtomRange
from mlir_async_pipe.checker.phase_faults import FaultCode, FoundFault, causes
from mlir_async_pipe.checker.phases.cluster_blocks import is_of_cluster
from mlir_async_pipe.checker.phases.followed_kernel import Followed, follow
from mlir_async_pipe.checker.phases.global_memory import GlobalMemory, find_global_memory
from mlir_async_pipe.checker.sites import Site, Sites
from mlir_async_pipe.checker.step_graph import Flow, Run
from mlir_async_pipe.checker.thread_grid import ThreadRange, Threads
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.vocabulary import groups_of, row_of
from mlir_async_pipe.vocabulary.launch_ids import Size
from mlir_async_pipe.vocabulary.rows import WGMMA


def judge_async_proxy(
    judge: Judge,
    sites: Sites,
    flow: Flow,
    threads: Threads,
    cluster: Callable[[], Size | None],
    may_meet: Callable[[set[int], int, ThreadRange], bool],
    *,
    several_blocks: bool,
) -> Followed | None:
    """Replace what was found of such memory by what its phases say; None if there are none. `may_meet`
    tells whether accesses of some sites, to one root, may touch one place in two threads of a range;
    `several_blocks`: the grid may have more than one."""
    touched = _touched(sites, flow)
    proxies = {number for number, site in enumerate(sites.sites) if is_proxy(site)}
    remote = {
        number
        for number, site in enumerate(sites.sites)
        if site.access is not None and is_of_cluster(site.access.memory)
    }
    if not touched and not proxies and not remote and not _has_phases(flow):
        return None
    for key, finding in list(judge.findings.items()):
        if proxies & {finding.later, finding.earlier}:
            del judge.findings[key]
    size = threads.size if threads.several else (1, 1, 1)
    followed = follow(flow, sites, touched, size, cluster)
    for fault in followed.faults:
        _report(judge, sites, fault, followed.ops)
    reason = followed.reason
    if not reason:
        again = partial(follow, flow, sites, touched, size, cluster)
        _judge_global(judge, sites, flow, again, followed, several_blocks)
        if size is not None and size[1:] == (1, 1) and cluster() in (None, (1, 1, 1)):
            _judge_alternating(judge, sites, again, may_meet)
        return followed
    unsafe = {finding.later for finding in judge.findings.values() if finding.certain}
    for number, site in enumerate(sites.sites):
        if site.access is None:
            continue
        near = number in proxies | remote
        near = near or any(judge.roots.may_alias(site.root, other) for other in touched)
        if near and number not in unsafe:
            judge.unfollowed(number, reason, "async-proxy")
    for run in flow.runs():
        # Waits on mbarriers may hang or pass too early whatever memory they are for.
        if run.row.phase in ("wait", "test"):
            judge.unfollowed(sites.opaque(run.op, run.frame, "workgroup"), reason, "async-proxy")
    return followed


def _judge_global(
    judge: Judge,
    sites: Sites,
    flow: Flow,
    again: Callable[[GlobalMemory], Followed],
    near: Followed,
    several_blocks: bool,
) -> None:
    """What is wrong with global memory behind tensor maps, in a kernel that was followed to its end
    without it: it is followed `again`. What may follow from the faults of `near` is not reported."""
    in_global = find_global_memory(sites, flow)
    if in_global is None:
        return
    # Which places of global memory a block has is not followed.
    for one, other in in_global.pairs if several_blocks else ():
        ends = (_site(sites, one), _site(sites, other))
        reason = in_global.reason(one, other)
        reason = "other-blocks" if reason == "unknown-place" else reason
        judge.unknown(max(ends), min(ends), "other-block", reason)
    found = again(in_global)
    known = {cause for fault in near.faults for cause in causes(_ends(sites, fault, near.ops))}
    for fault in found.faults:
        if known.isdisjoint(causes(_ends(sites, fault, found.ops))):
            doubt = in_global.reason(found.ops[fault.later], found.ops[fault.earlier])
            _report(judge, sites, fault, found.ops, doubt)
    if not found.reason:
        return
    for run in flow.runs():
        if not run.makes_values and in_global.touched(run):
            judge.unfollowed(_site(sites, run), found.reason, "async-proxy")


def _judge_alternating(
    judge: Judge,
    sites: Sites,
    again: Callable[..., Followed],
    may_meet: Callable[[set[int], int, ThreadRange], bool],
) -> None:
    """Accesses to memory of which paths of single threads do not show that roles touch it one after the other: only
    threads that run them together may race there, and these not where they meet in between.

        group 0: store %c[%row, %t mod 64]; nvvm.barrier.arrive id = 1       threads 0 to 63
        group 1: nvvm.barrier id = 1; store %c[%row, %t mod 64]              threads 64 to 127
                 nvvm.barrier id = 2 number_of_threads = 64; load %c[%t mod 64, %row]
    """
    by_root: dict[int, list[tuple[int, int, Cause | FaultCode]]] = {}
    for key, finding in judge.findings.items():
        ends = [sites.sites[number] for number in key[:2]]
        roots = {site.root for site in ends if site.access}
        plain = not any(site.access is None or site.asynchronous for site in ends)
        in_block = plain and finding.cause in ("missing-barrier", "same-op")
        if in_block and not finding.certain and len(roots) == 1:
            by_root.setdefault(roots.pop(), []).append(key)
    if not by_root:
        return
    found = again(alternating=frozenset(by_root))
    if found.reason or found.faults:
        return
    numbers = {(run.op, run.frame): number for number, run in enumerate(found.ops)}

    def pair_of(key: tuple[int, int, Any]) -> frozenset[int | None]:
        return frozenset(numbers.get((sites.sites[n].op, sites.sites[n].frame)) for n in key[:2])

    met: dict[str, set[frozenset[int | None]]] = {"touches": set(), "overlaps": set()}
    masks: dict[int | None, set[int]] = {}
    for step, others in found.roles.items():
        if step.does in met:
            met[step.does].update(frozenset({step.op, op}) for op, _ in others)
            masks.setdefault(step.op, set()).add(step.mask)
    for root, keys in by_root.items():
        accesses = {number for key in keys for number in key[:2]}
        ops = frozenset[int | None]().union(*map(pair_of, keys))
        if not ops <= masks.keys():
            continue
        ranges = [_ids_of(mask) for mask in set().union(*(masks[op] for op in ops))]
        together = any(may_meet(accesses, root, threads) for threads in ranges)
        for key in keys:
            beside = len(pair_of(key)) == 1 or pair_of(key) in met["overlaps"]
            if pair_of(key) not in met["touches"] and not (beside and together):
                del judge.findings[key]


def _ids_of(mask: int) -> ThreadRange:
    """Where the threads of a mask are, in a block along x."""
    first = (mask & -mask).bit_length() - 1
    return ((Atom("tid", "x"), AtomRange(first, mask.bit_length() - 1)),)


def _report(
    judge: Judge,
    sites: Sites,
    fault: FoundFault,
    ops: tuple[Run, ...],
    doubt: str = "undecided-path",
) -> None:
    """A fault as a finding about the two ops; in `doubt` if it is not certain."""
    code, later, earlier = _ends(sites, fault, ops)
    key = (later, earlier, code)
    known = judge.findings.get(key)
    if known is None or (fault.certain and not known.certain):
        reason = "" if fault.certain else doubt
        example = None
        if fault.example is not None:
            text, loop = fault.example
            example = text, later if loop is None else sites.opaque(loop, 0)
        judge.findings[key] = Finding(*key, fault.certain, reason, note=fault.note, example=example)


def _ends(sites: Sites, fault: FoundFault, ops: tuple[Run, ...]) -> tuple[FaultCode, int, int]:
    """What a fault is about, by the numbers of sites."""
    return fault.code, _site(sites, ops[fault.later]), _site(sites, ops[fault.earlier])


def _site(sites: Sites, run: Run) -> int:
    """The site that stands for an op: an access of it, if it has one."""
    found = sites.of(run.op, run.frame)
    return found[-1] if found else sites.opaque(run.op, run.frame, "workgroup")


def is_proxy(site: Site) -> bool:
    """Whether an access is that of a tensor copy, or of a copy that completes on an mbarrier."""
    return row_of(site.op).by_proxy


def _has_phases(flow: Flow) -> bool:
    """Whether some op is of use to `phases` alone: mbarriers, barriers of some threads, products, tensor
    memory."""
    return any(
        row.phase is not None
        or row.tensor is not None
        or row.queue == WGMMA
        or (row.meeting is not None and row.meeting.of == "block")
        for row in (run.row for run in flow.runs())
    )


def _touched(sites: Sites, flow: Flow) -> set[int]:
    """The roots of workgroup memory that tensor copies and descriptors of products name."""
    found = set()
    for run in flow.runs():
        row = run.row
        if row.tensor is not None or (row.queue == WGMMA and row.asynchronous(run.op)):
            # Its descriptors are numbers: they may name any workgroup memory.
            found |= {n for n, root in enumerate(sites.roots.roots) if root.space == "workgroup"}
        if row.swizzled:
            memory = run.op.operands[groups_of(run.op)[row.swizzled][0]]
            found.add(sites.roots.number(root_of(memory), run.frame))
    found |= {s.root for s in sites.sites if is_proxy(s) and s.writes and s.space == "workgroup"}
    return found
