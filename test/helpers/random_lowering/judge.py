"""Pipelines, lowers and runs random kernels; many share one call of the back end.

A kernel is refused, with the reason's code, or it is lowered and has to be right under every
completion. Kernels that are refused as loops are lowered as they were written.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

import mlir_async_pipe
from helpers.ptx_machine import COMPLETIONS, Array, Module, Program, PtxFault, launch, memref, parse
from helpers.ptx_machine.syntax import Imm
from helpers.ptx_of import Ptx, lowered
from helpers.random_lowering.kernel_text import Kernel
from helpers.random_lowering.lines import module_text
from helpers.random_lowering.model import Case, make_case, source_columns
from helpers.random_lowering.spec import Spec, choose
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session.diagnostics import AsyncPipeError

TARGET = "nvvm:sm_80"
NO_WAIT = 1_000_000


@dataclass
class Subject:
    """One random kernel on its way: `code` is the pipelined gpu.module's inside."""

    spec: Spec
    text: str
    code: str = ""
    pipelined: bool = False
    refused: str = ""


@dataclass
class Table:
    """What became of all kernels."""

    kernels: int = 0
    pipelined: int = 0
    ran: int = 0
    speculative: int = 0
    features: Counter = field(default_factory=Counter)
    pipelined_features: Counter = field(default_factory=Counter)
    refused: Counter = field(default_factory=Counter)
    not_lowered: Counter = field(default_factory=Counter)
    unknown: Counter = field(default_factory=Counter)
    mutants: Counter = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    seconds: Counter = field(default_factory=Counter)

    def add(self, other: Table) -> None:
        for name, value in vars(other).items():
            mine = getattr(self, name)
            if isinstance(mine, Counter):
                mine.update(value)
            elif isinstance(mine, list):
                mine.extend(value)
            else:
                setattr(self, name, mine + value)


def judge(seeds: list[int], *, batch: int = 25, mutate: bool = False) -> Table:
    table = Table()
    for start in range(0, len(seeds), batch):
        made = []
        for seed in seeds[start : start + batch]:
            spec = choose(seed, f"k{seed}")
            made.append(Subject(spec, Kernel(spec).text()))
        began = time.perf_counter()
        for kernel in made:
            pipeline_subject(kernel, table)
        table.seconds["pipeline"] += time.perf_counter() - began
        _lower_and_run(made, table, mutate)
    return table


def pipeline_subject(kernel: Subject, table: Table) -> None:
    """Pipelined code, or as it was with the reason of the refusal."""
    table.kernels += 1
    table.features.update(kernel.spec.features())
    options = {"smem_limit": kernel.spec.smem_limit} if kernel.spec.smem_limit else {}
    with new_context():
        module = ir.Module.parse(module_text([kernel.text]))
        try:
            report = mlir_async_pipe.pipeline(module, target=TARGET, **options)
            kernel.pipelined = any(loop.stages > 1 for loop in report.of("loops"))
            if not kernel.pipelined:
                codes = {remark.code for remark in report.diagnostics} or {"nothing-to-do"}
                kernel.refused = "/".join(sorted(codes))
        except AsyncPipeError as error:
            kernel.refused = error.code
        except Exception as error:
            table.wrong.append(f"seed {kernel.spec.seed}: pipeline raised {error!r}"[:300])
            kernel.refused = "crash"
        kernel.code = _inside(str(module))
    if kernel.pipelined:
        table.pipelined += 1
        table.pipelined_features.update(kernel.spec.features())
    else:
        table.refused[kernel.refused] += 1


def _inside(text: str) -> str:
    """What stands in the gpu.module; aliases are spelled out."""
    aliases = dict(re.findall(r"^(#[\w.]+) = (.*)$", text, flags=re.M))
    start = text.index("{", text.index("gpu.module @")) + 1
    inner = text[start : text.rindex("}", 0, text.rindex("}"))]
    for name in sorted(aliases, key=len, reverse=True):
        inner = re.sub(re.escape(name) + r"(?![\w.])", lambda m, n=name: aliases[n], inner)
    return inner


def _lower_and_run(made: list[Subject], table: Table, mutate: bool) -> None:
    """Lower all in one module; what is refused there is lowered alone."""
    alone: list[Subject] = []
    while made:
        began = time.perf_counter()
        try:
            codes = sharing([kernel.code for kernel in made])
            with new_context():
                ptx = lowered(ir.Module.parse(module_text(codes)), TARGET)
        except AsyncPipeError as error:
            if len(made) == 1:
                _note_refusal(made[0], error, table)
                break
            refused = made.pop(place_of(error, codes))
            alone.append(refused)
            continue
        finally:
            table.seconds["lower"] += time.perf_counter() - began
        _run_all(made, ptx, table, mutate)
        break
    for kernel in alone:
        _lower_and_run([kernel], table, mutate)


def place_of(error: AsyncPipeError, codes: list[str]) -> int:
    """Which kernel's code an error lies in: by its line, else by the name in its text."""
    # Two lines of the module are before the first kernel.
    last, line = 2, error.diagnostic.place.line
    for number, code in enumerate(codes):
        last += code.count("\n") + 1
        if 0 < line <= last:
            return number
    named = [n for n, code in enumerate(codes) for k in re.findall(r"@(k\d+)\(", code) if k in str(error)]  # fmt: skip
    return named[0] if named else 0


def _note_refusal(kernel: Subject, error: AsyncPipeError, table: Table) -> None:
    if error.code == "codegen-failed":
        table.wrong.append(f"seed {kernel.spec.seed}: the back end: {error}"[:300])
        return
    message = re.sub(r"'k\d+'|-:\d+:\d+: ", "", str(error))
    table.not_lowered[f"{error.code}: {message}"[:100]] += 1


def _run_all(made: list[Subject], ptx: Ptx, table: Table, mutate: bool) -> None:
    began = time.perf_counter()
    module = parse(ptx.text)
    for kernel in made:
        _run(kernel, ptx, module, table)
    table.seconds["run"] += time.perf_counter() - began
    if mutate:
        began = time.perf_counter()
        for kernel in made:
            if kernel.pipelined:
                _mutate(kernel, ptx, module, table)
        table.seconds["mutants"] += time.perf_counter() - began


def sharing(codes: list[str]) -> list[str]:
    """The kernels' code with each global once: kernels that name the same one share it."""
    seen: set[str] = set()
    found = []
    for code in codes:
        lines = code.splitlines()
        kept = [line for line in lines if "memref.global" not in line or line not in seen]
        seen |= {line for line in lines if "memref.global" in line}
        found.append("\n".join(kept))
    return found


def _run(kernel: Subject, ptx: Ptx, module: Module, table: Table) -> None:
    spec = kernel.spec
    program = Program(module, spec.name)
    case = make_case(spec)
    table.ran += 1
    if ptx.dynamic_bytes[spec.name]:
        table.features["above 48 KiB"] += 1
        table.pipelined_features["above 48 KiB"] += kernel.pipelined
    for completion in COMPLETIONS if kernel.pipelined else ("late",):
        try:
            wrong, _ = run_kernel(spec, case, ptx, program, completion)
        except PtxFault as fault:
            if fault.kind == "unknown-instruction":
                table.unknown[fault.message[:80]] += 1
            wrong = str(fault)
            if fault.kind == "uninitialised" and _nothing_depends_on_it(kernel, case, ptx, program):
                table.speculative += 1
                return
        if wrong:
            how = "pipelined" if kernel.pipelined else "as written"
            table.wrong.append(f"seed {spec.seed} {how}, {completion}: {wrong}"[:300])
            return


def _nothing_depends_on_it(kernel: Subject, case: Case, ptx: Ptx, program: Program) -> bool:
    """Whether the results are right whatever stands in shared memory that nobody wrote. LLVM moves a load
    in front of the branch that decides whether what it finds is used (GVN's partial redundancies)."""
    runs = product(COMPLETIONS, (0x00, 0x3C, 0xC5, 0xFF))
    try:
        return not any(
            run_kernel(kernel.spec, case, ptx, program, completion, unwritten)[0]
            for completion, unwritten in runs
        )
    except PtxFault:
        return False


def run_kernel(
    spec: Spec,
    case: Case,
    ptx: Ptx,
    program: Program,
    completion: str,
    unwritten: int | None = None,
) -> tuple[str, dict[int, bool]]:
    """What is wrong with the results, "" if nothing is; and its waits. Raises PtxFault."""
    rows = spec.blocks * spec.outer * spec.trips
    arguments: list = []
    for data, source in zip(case.inputs, spec.sources, strict=True):
        array = Array(data.copy(), source.align, read_only=True)
        arguments += memref(
            array, (rows, source_columns(spec, source)), (source.stride, 1), source.offset
        )
    to = Array(case.output.copy(), max(case.output.itemsize, spec.width * case.output.itemsize))
    arguments += memref(to, (to.data.size,), (1,))
    if case.scratch is not None:
        end = Array(np.zeros_like(case.scratch), case.scratch.itemsize)
        arguments += memref(end, (end.data.size,), (1,))
    waits = launch(
        program.module, spec.name, [*arguments, spec.bound, spec.trips], block=spec.block,
        grid=(spec.blocks, 1, 1), dynamic_bytes=ptx.dynamic_bytes[spec.name],
        completion=completion, seed=spec.seed, program=program, unwritten=unwritten,
    )  # fmt: skip
    if not np.array_equal(to.data, case.expected):
        at = int(np.flatnonzero(to.data != case.expected)[0])
        return f"element {at} is {to.data[at]}, not {case.expected[at]}", waits
    if case.scratch is not None and not np.array_equal(end.data, case.scratch):
        return "the scratch buffer has changed", waits
    return "", waits


def _mutate(kernel: Subject, ptx: Ptx, module: Module, table: Table) -> None:
    """Raise each `wait_group` of a kernel by one: its results or its reads have to be wrong.

    Nothing can show where the wait did not run, or where it never retired a group that one
    more would have left in flight (its loop has fewer iterations than it could have).
    """
    spec, case = kernel.spec, make_case(kernel.spec)
    function = module.functions[spec.name]
    try:
        wrong, waits = run_kernel(spec, case, ptx, Program(module, spec.name), "late")
    except PtxFault:
        return
    if wrong:
        return
    for at, op in enumerate(function.body):
        if op.parts[:3] != ("cp", "async", "wait_group"):
            continue
        if not waits.get(op.line, False):
            table.mutants["nothing in flight" if op.line in waits else "not executed"] += 1
            continue
        count = op.operands[0].value
        if any(
            _fails_with(count + 1, at, case, ptx, module, each)
            for each, case in _with_other_trips(spec, case)
        ):
            table.mutants["caught"] += 1
        elif not _fails_with(NO_WAIT, at, case, ptx, module, spec):
            # Drains after a loop whose last copies were masked off: nobody reads those zeros.
            table.mutants["no wait needed"] += 1
        elif count == 0:
            # A drain before the next execution of a loop names the youngest group; here that
            # group's slot is written again only after another wait.
            table.mutants["drain stricter than needed"] += 1
        else:
            table.mutants["missed"] += 1
            table.missed.append(f"seed {spec.seed}, line {op.line}: {op.text}")


def _with_other_trips(spec: Spec, case: Case) -> Iterator[tuple[Spec, Case]]:
    """The kernel as it is; then, where its trip count is dynamic, for others: which slot the
    copies in flight after a loop belong to depends on it."""
    yield spec, case
    if spec.dynamic_trips:
        static = any(source.form == "static" for source in spec.sources)
        for trips in range(spec.trips if static else 9):
            other = replace(spec, trips=trips)
            yield other, make_case(other)


def _fails_with(count: int, at: int, case: Case, ptx: Ptx, module: Module, spec: Spec) -> bool:
    """Whether the kernel is wrong with another count at the wait of this number."""
    body, name = module.functions[spec.name].body, spec.name
    given = body[at]
    body[at] = replace(given, operands=(Imm(count),))
    try:
        wrong, _ = run_kernel(spec, case, ptx, Program(module, name), "late")
    except PtxFault:
        return True
    finally:
        body[at] = given
    return bool(wrong)
