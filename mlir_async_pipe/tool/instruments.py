"""Prints IR, and looks on while steps run: dumps, times and statistics, as MLIR has them."""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import parent, symbol_name, walk
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.tool.command_line import Options
from mlir_async_pipe.tool.pass_steps import Instrument, OurStep, Step, selected

RULE = "===" + "-" * 73 + "==="


def print_ir(root: Any, options: Options) -> str:
    """The text of `root` in the form that the flags ask for, with a newline at its end. IR that does not verify is
    printed in generic form, as MLIR does it."""
    op = root.operation
    # Older stacks do not have this option.
    prefixes = {}
    if options.mlir_print_unique_ssa_ids:
        op, prefixes = _uniquely_named(op), {"use_name_loc_as_prefix": True}
    elif options.mlir_use_nameloc_as_prefix:
        prefixes = {"use_name_loc_as_prefix": True}
    text = op.get_asm(
        large_elements_limit=options.mlir_elide_elementsattrs_if_larger,
        enable_debug_info=options.mlir_print_debuginfo or options.mlir_pretty_debuginfo,
        pretty_debug_info=options.mlir_pretty_debuginfo,
        print_generic_op_form=options.mlir_print_op_generic,
        use_local_scope=options.mlir_print_local_scope,
        **prefixes,
    )
    return str(text).rstrip("\n") + "\n"


def _uniquely_named(op: Any) -> Any:
    """A copy whose values have numbers of their own, as the names of their locations."""
    copy = op.clone(ip=False).operation
    number = itertools.count()
    for inner in walk(copy):
        inner.location = _numbered(next(number), inner.location)
        for block in (block for region in inner.regions for block in region.blocks):
            for argument in block.arguments:
                argument.set_location(_numbered(next(number), argument.location))
    return copy


def _numbered(number: int, location: Any) -> Any:
    return ir.Location.name(f"v{number}", location, context=location.context)


class DumpIr(Instrument):
    """Dumps IR to stderr around the steps that the flags name. Steps must be single passes. `after_change` keeps
    the text before a step, which costs one print more, and dumps only what differs."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._earlier = ""

    def before(self, step: Step, root: Any) -> None:
        options = self._options
        if options.mlir_print_ir_before_all or step.name in options.mlir_print_ir_before:
            self._dump("Before", step, root)
        if options.mlir_print_ir_after_change:
            self._earlier = print_ir(root, options)

    def after(self, step: Step, root: Any) -> None:
        options = self._options
        if not self._is_selected(step) or options.mlir_print_ir_after_failure:
            return
        if options.mlir_print_ir_after_change and self._earlier == print_ir(root, options):
            return
        self._dump("After", step, root)

    def failed(self, step: Step, root: Any) -> None:
        if self._is_selected(step):
            self._dump("After", step, root, " Failed")

    def _is_selected(self, step: Step) -> bool:
        """Whether a dump after this step may be wanted; without names, all steps are."""
        options = self._options
        if options.mlir_print_ir_after_all or step.name in options.mlir_print_ir_after:
            return True
        only_outcome = options.mlir_print_ir_after_change or options.mlir_print_ir_after_failure
        return only_outcome and not options.mlir_print_ir_after

    def _dump(self, when: str, step: Step, root: Any, outcome: str = "") -> None:
        whole = self._options.mlir_print_ir_module_scope
        for op in selected(root, step.anchors):
            what = ""
            if parent(op) is not None:
                name = symbol_name(op)
                what = f" ('{op.name}' operation{': @' + name if name else ''})"
            text = print_ir(root if whole else op, self._options)
            head = f"// -----// IR Dump {when} {step.name}{outcome}{what} //----- //"
            sys.stderr.write(f"{head}\n{text}\n")
        sys.stderr.flush()


class Timing(Instrument):
    """Times phases (`with timing.phase("Parser")`) and, as an instrument, the steps of a run."""

    def __init__(self, started: float) -> None:
        """`started` is time.perf_counter() when the process began."""
        self._started = started
        self._rows: list[tuple[str, float]] = []
        self._parts: dict[int, list[tuple[str, float]]] = {}
        self._step_began = 0.0

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time the block as one row."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - began)

    def add(self, name: str, seconds: float) -> None:
        self._rows.append((name, seconds))

    def add_parts(self, seconds: dict[str, float]) -> None:
        """What the last row was spent on; of steps that ran beside others the sum may be more."""
        self._parts[len(self._rows) - 1] = list(seconds.items())

    def before(self, step: Step, root: Any) -> None:
        self._step_began = time.perf_counter()

    def after(self, step: Step, root: Any) -> None:
        nest = "".join(f"'{anchor}' " for anchor in step.anchors[1:])
        self.add(f"{nest}{step.name}", time.perf_counter() - self._step_began)

    failed = after

    def write(self) -> None:
        """Write the report to stderr; "Rest" is what no row covers."""
        total = time.perf_counter() - self._started
        rest = total - sum(seconds for _, seconds in self._rows)
        lines = [
            RULE,
            "... Execution time report ...".center(len(RULE)).rstrip(),
            RULE,
            f"  Total Execution Time: {total:.4f} seconds",
            "",
            "  ----Wall Time----  ----Name----",
        ]
        for number, (name, seconds) in enumerate([*self._rows, ("Rest", rest), ("Total", total)]):
            # The parts of a row stand under it, those of a thousandth of a second or more.
            parts = [(f"  {part}", took) for part, took in self._parts.get(number, ())]
            for row, took in [(name, seconds), *(part for part in parts if part[1] >= 0.001)]:
                lines.append(f"  {took:8.4f} ({100 * took / total:5.1f}%)  {row}")
        sys.stderr.write("\n".join(lines) + "\n")


class Statistics(Instrument):
    """Counts, as an instrument, what each step adds to the session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._earlier: Counter[str] = Counter()
        self._lines: list[str] = []

    def before(self, step: Step, root: Any) -> None:
        self._earlier = self._counts()

    def after(self, step: Step, root: Any) -> None:
        """Note what a pass of ours added; passes of MLIR print their own."""
        if not isinstance(step, OurStep):
            return
        self._lines.append(step.name)
        for kind, count in self._counts().items():
            if added := count - self._earlier[kind]:
                self._lines.append(f"  (S) {added} {kind}")

    # A failed step counts as any other.
    failed = after

    def write(self) -> None:
        """Write the statistics to stderr, if a pass of ours ran."""
        if self._lines:
            title = "... Pass statistics report ...".center(len(RULE)).rstrip()
            sys.stderr.write("\n".join([RULE, title, RULE, *self._lines]) + "\n")

    def _counts(self) -> Counter[str]:
        counts = Counter({kind: len(found) for kind, found in self._session.records.items()})
        counts.update(f"{said.severity}s" for said in self._session.diagnostics.items)
        return counts
