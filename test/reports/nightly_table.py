"""One table, in Markdown, of what a nightly run found.

    python test/reports/nightly_table.py build/nightly SEED

Reads the JSON that the reports left in the folder; a report that left none has a row that says so.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Rows = Iterator[tuple[str, str]]


def share(part: int, whole: int) -> str:
    """`part` with what it is of `whole`, in percent."""
    return f"{part} ({100 * part / max(whole, 1):.2f} %)"


def listed(counts: dict[str, int]) -> str:
    """Names with numbers, most first."""
    return ", ".join(f"`{name}` {n}" for name, n in Counter(counts).most_common()) or "none"


def pipelines(found: dict[str, Any]) -> Rows:
    """Random programs through the one-shot pass."""
    rows = found["rows"]
    programs = sum(row["programs"] for row in rows)
    refused: Counter[str] = Counter()
    for row in rows:
        refused.update(row["refused"])
    yield "random programs", str(programs)
    yield "pipelined", share(sum(row["pipelined"] for row in rows), programs)
    for row in rows:
        yield f"  {row['feature']}", f"{row['pipelined']} of {row['programs']}"
    yield "refused, by reason", listed(refused)
    unknown = sum(row["unknown"] for row in rows)
    yield "accesses unknown in the result", share(unknown, sum(row["accesses"] for row in rows))
    not_judged: Counter[str] = Counter()
    for row in rows:
        not_judged.update(row["not_judged"])
    yield "runs of both machines", str(sum(row["compared"] for row in rows))
    yield "of these the two disagree on", str(sum(row["disagreed"] for row in rows))
    yield "runs that the second machine cannot judge", listed(not_judged)
    yield "wrong, or called unsafe", str(sum(len(row["failures"]) for row in rows))


def flags(found: dict[str, Any]) -> Rows:
    """Random kernels with flags, semaphores and several blocks, and their twins without."""
    rows = found["rows"]
    loops = sum(row["loops"] for row in rows)
    yield "kernels with flags", str(sum(row["programs"] for row in rows))
    yield "loops pipelined", share(sum(row["pipelined"] for row in rows), loops)
    for row in rows:
        yield f"  {row['kind']}", f"{row['pipelined']} of {row['loops']}"
    reasons: Counter[str] = Counter()
    for row in rows:
        reasons.update(row["reasons"])
    yield "left, by reason", listed(reasons)
    yield "runs of both machines", str(sum(row["runs"] for row in rows))
    yield "wrong", str(sum(len(row["failures"]) for row in rows))


def mutants(found: dict[str, Any]) -> Rows:
    """Right kernels broken in one place."""
    total = sum(found["mutants"].values())
    yield "mutants", str(total)
    yield "a machine makes them fail", str(sum(found["fails"].values()))
    yield "the checker says unsafe", str(sum(found["unsafe"].values()))
    yield "the checker says unknown", str(sum(found["unknown"].values()))
    yield "missed", str(len(found["missed"]))
    yield "barriers that only some threads reach", str(found["diverge"])
    slow = found["slow"]
    failing = sum(bool(result["fails"]) for result in slow)
    yield "the checker ran out of time", f"{len(slow)}, of which fail {failing}"
    yield "the checker died", str(len(found["died"]))
    yield "neither fail nor are judged by both machines", listed(found["not_judged"])
    yield "right kernels that are called unsafe", str(len(found["unsafe_kernels"]))
    if found["stopped"]:
        yield "stopped before all were judged", found["stopped"]
    yield (
        "unknown on right kernels, accesses",
        share(found["unknown_accesses"], found["accesses"]) + f" of {found['accesses']}",
    )


def ptx(found: dict[str, Any]) -> Rows:
    """PTX of random kernels, interpreted."""
    yield "kernels as PTX", str(found["kernels"])
    yield "pipelined", share(found["pipelined"], found["kernels"])
    yield "refused as loops, lowered as written", listed(found["refused"])
    not_lowered: Counter[str] = Counter()
    for error, count in found["not_lowered"].items():
        not_lowered[error.partition(":")[0]] += count
    yield "not lowered, by reason", listed(not_lowered)
    yield "wrong", str(len(found["wrong"]))
    yield "waits raised by one", listed(found["mutants"])
    yield "of these missed", str(len(found["missed"]))


def amd(found: dict[str, Any]) -> Rows:
    """AMD assembly of random kernels, interpreted."""
    yield "kernels as AMD assembly", str(found["kernels"])
    yield "pipelined", share(found["pipelined"], found["kernels"])
    yield "refused", listed(found["refused"])
    yield "instructions that are not known", listed(found["unsupported"])
    yield "wrong", str(len(found["wrong"]))
    yield "waits raised by one", f"{found['mutants']}, of which {found['caught']} fail"
    yield "of these missed", str(len(found["missed"]))


def tensors(found: list[dict[str, Any]]) -> Rows:
    """Random loops of tensor copies, pipelined and run."""
    for row in found:
        yield row["kind"], f"{row['loops']}, of which {row['wrong']} wrong"


def phases(found: dict[str, Any]) -> Rows:
    """Tensor copies in hand-written forms, and mutants of them, for checker and machine."""
    yield from ((name, str(number)) for name, number in found["figures"].items())


def validation(found: dict[str, Any]) -> Rows:
    """Pipelines, and mutants of their values, compared with their input for all data."""
    yield "pipelines, by verdict", listed(found["right"])
    yield "longer than ten seconds", str(len(found["slow"]))
    every: Counter[str] = Counter()
    for verdicts in found["mutants"].values():
        every.update(verdicts)
    yield "mutants", str(sum(every.values()))
    yield "by verdict", listed(every)
    yield "told apart by a run and called equal", str(len(found["missed"]))


def validated(found: dict[str, Any]) -> Rows:
    """PTX of random kernels, and mutants of it, compared with the kernel for all data."""
    yield "kernels, by verdict", listed(found["kernels"])
    yield "longer than ten seconds", str(found["slow"])
    yield "mutants, by verdict", listed(found["mutants"])
    yield "right and called different, or wrong in a run and called equal", str(len(found["wrong"]))


REPORTS: dict[str, Callable[[Any], Rows]] = {
    "pipelines": pipelines,
    "flags": flags,
    "mutants": mutants,
    "ptx": ptx,
    "tensors": tensors,
    "phases": phases,
    "amd": amd,
    "validation": validation,
    "validated": validated,
}


def table(folder: Path, seed: str) -> str:
    """The whole table."""
    lines = [f"| seed {seed} | |", "|---|---|"]
    for name, rows in REPORTS.items():
        file = folder / f"{name}.json"
        if not file.exists():
            lines.append(f"| **{name}** | no result: see `{name}.txt` |")
            continue
        lines.append(f"| **{rows.__doc__}** | |")
        lines += [f"| {what} | {value} |" for what, value in rows(json.loads(file.read_text()))]
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(Path(sys.argv[1]), sys.argv[2]))
