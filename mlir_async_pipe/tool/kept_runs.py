"""Whole runs of the tool, kept: the same input with the same options is not computed again.

Kept is what a run without errors wrote and said. A run that looks on (dumps, timing, statistics),
runs code of others or of the machine, or compares diagnostics is not kept. A hit imports no bindings,
unless a report is asked for, whose records belong to passes.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe import cache
from mlir_async_pipe.session.diagnostics import Diagnostic
from mlir_async_pipe.session.report import Report
from mlir_async_pipe.tool.inputs import Source
from mlir_async_pipe.tool.options import Options

# Where results go, and how they are told, is no matter of theirs.
_NO_MATTER = ("input", "output", "report_file", "diagnostics", "cache", "isolate", "report")
# Any of them makes a run that has to run.
_HAS_TO_RUN = (
    "load", "run", "verify_diagnostics", "mlir_pass_pipeline_crash_reproducer", "mlir_timing",
    "mlir_print_ir_before", "mlir_print_ir_after", "mlir_print_ir_before_all",
    "mlir_print_ir_after_all", "mlir_print_ir_after_change", "mlir_print_ir_after_failure",
    "mlir_pass_statistics", "dump_pass_pipeline",
)  # fmt: skip


@dataclass(frozen=True)
class KeptRun:
    """What a run left: the content of each part, what it said, and its reports, pickled."""

    contents: tuple[bytes, ...]
    said: tuple[Diagnostic, ...]
    pickled: bytes

    def reports(self) -> list[Report]:
        """The reports; this imports the passes whose records they hold."""
        import pickle

        return list(pickle.loads(self.pickled))


def key_of(whole: Source, options: Options) -> str:
    """The key of a run, "" if it is none to be kept."""
    if not options.cache or any(getattr(options, name) for name in _HAS_TO_RUN):
        return ""
    if cache.folder() is None:
        return ""
    given = dataclasses.asdict(options)
    matter: dict[str, Any] = {name: given[name] for name in given if name not in _NO_MATTER}
    # Witnesses are found for any report.
    return cache.key_of("run", whole.name, whole.content, matter, bool(options.report))


def find(key: str) -> KeptRun | None:
    """What was kept under a key."""
    found = cache.get(key) if key else None
    return found if isinstance(found, KeptRun) else None


def keep(key: str, contents: list[bytes], said: list[Diagnostic], reports: list[Report]) -> None:
    if key and not any(entry.severity == "error" for entry in said):
        import pickle

        cache.put(key, KeptRun(tuple(contents), tuple(said), pickle.dumps(reports)))
