"""Memory that tensor copies and products of warpgroups touch: nothing is claimed of it.

    nvgpu.tma.async.load … to %tile      every access to what %tile names is unknown
    nvgpu.warpgroup.generate.descriptor %tile, …      likewise
    nvvm.wgmma.mma_async %a, %b                        all of workgroup memory

When such a copy has landed is a matter of mbarriers and their phases (docs/phases.md), and when a
product has read its operands one of the wait for its group; which threads issue them, one of their
predicates. The paths follow none of these, so what they find with such an op at one end is no
error, and what they do not find is not safe. Two generic accesses that race still do.
"""

from __future__ import annotations

from mlir_async_pipe.checker.conflicts import Judge, Site
from mlir_async_pipe.checker.sites import Sites
from mlir_async_pipe.checker.step_graph import Flow, Run
from mlir_async_pipe.values.memory_roots import root_of
from mlir_async_pipe.vocabulary import operand_groups, row_of
from mlir_async_pipe.vocabulary.queues import WGMMA

REASON = "async-proxy"


def judge_async_proxy(judge: Judge, sites: Sites, flow: Flow) -> None:
    """Replace what was found of such memory, by unknowns."""
    touched = _touched(sites, flow)
    proxies = {number for number, site in enumerate(sites.sites) if is_proxy(site)}
    if not touched and not proxies:
        return
    for key, finding in list(judge.findings.items()):
        if proxies & {finding.later, finding.earlier}:
            del judge.findings[key]
    unsafe = {finding.later for finding in judge.findings.values() if finding.certain}
    for number, site in enumerate(sites.sites):
        if site.access is None:
            continue
        root = sites.static_root(number)
        near = number in proxies or any(judge.roots.may_alias(root, other) for other in touched)
        if near and number not in unsafe:
            judge.unfollowed(number, REASON, "async-proxy")


def is_proxy(site: Site) -> bool:
    """Whether an access is that of a tensor copy, or of a copy that completes on an mbarrier."""
    row = row_of(site.op)
    return row is not None and (row.completion == "mbarrier" or bool(row.swizzled))


def _touched(sites: Sites, flow: Flow) -> set[int]:
    """The roots of workgroup memory that tensor copies and descriptors of products name."""
    found = set()
    for step in (step for block in flow.blocks for step in block.steps):
        if not isinstance(step, Run) or (row := row_of(step.op)) is None:
            continue
        if row.queue == WGMMA and row.asynchronous(step.op):
            # Its descriptors are numbers: they may name any workgroup memory.
            found |= {n for n, root in enumerate(sites.roots.roots) if root.space == "workgroup"}
        if row.swizzled:
            memory = step.op.operands[operand_groups(step.op, row)[row.swizzled][0]]
            found.add(sites.roots.number(root_of(memory), step.frame))
    for number, site in enumerate(sites.sites):
        if is_proxy(site) and site.writes and site.space == "workgroup":
            found.add(sites.static_root(number))
    return found
