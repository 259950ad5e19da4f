"""A report in one line: loops, stages, memory, the largest count, and whether it is proven."""

from __future__ import annotations

from dataclasses import dataclass

from mlir_async_pipe.reports.markup import count, size
from mlir_async_pipe.session.report import Report


@dataclass(frozen=True)
class Summary:
    """The line, and its state: "good" (proven), "bad" (refused, or it may race), "open"."""

    text: str
    state: str


def summary(report: Report) -> Summary:
    """1 loop pipelined in 3 stages · 48 KiB for versions · largest count 1 · proven: …"""
    loops, waits = report.of("loops"), report.of("waits")
    parts = []
    if loops:
        stages = sorted({loop.stages for loop in loops})
        told = " and ".join(map(str, stages)) + (" stage" if stages == [1] else " stages")
        parts.append(f"{count(len(loops), 'loop')} pipelined in {told}")
        total = sum(buffer.bytes for loop in loops for buffer in loop.buffers)
        parts.append(
            f"{size(total)} for versions of buffers" if total else "no buffer has versions"
        )
    elif report.of("suggestions"):
        helped = [s for s in report.of("suggestions") if s.form]
        parts.append(f"{count(len(helped), 'loop')} could be pipelined")
    else:
        parts.append("no loop was pipelined")
    if waits:
        parts.append(f"largest count {max(wait.count for wait in waits)}")
    proof, state = _proof(report)
    return Summary(" · ".join([*parts, proof]), state)


def _proof(report: Report) -> tuple[str, str]:
    errors = [entry for entry in report.diagnostics if entry.severity == "error"]
    checks = report.of("checks")
    accesses = sum(check.accesses for check in checks)
    unsafe = sum(check.unsafe for check in checks)
    unknown = sum(check.unknown for check in checks)
    if unsafe:
        return f"not safe: {unsafe} of {accesses} accesses may race", "bad"
    if errors:
        return f"stopped by {count(len(errors), 'error')}", "bad"
    if not checks:
        return "not checked", "open"
    if unknown:
        return f"not proven: {unknown} of {accesses} accesses unknown", "open"
    return f"proven: all {accesses} accesses are safe", "good"
