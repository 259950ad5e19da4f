"""What all hooks do with a module of kernels: raise its loops, choose some, pipeline them.

    blocks or scf.for --raise, fold, try each loop--> annotated scf.for --async-pipe--> pipelined

A loop that cannot be pipelined stays, and its remark says why; an error of the whole (a race that
the checker finds) leaves the kernel as its own stack has it.

    with hook: …          between install() and uninstall(), `mlir_optimization.optimize` is ours
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

from mlir_async_pipe import api
from mlir_async_pipe.bindings import ir, new_context, passmanager
from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Operation,
    enclosing,
    function_type,
    functions,
    plain_values,
    symbol_name,
)
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.loops.annotations import annotate
from mlir_async_pipe.facts.loops.copy_statements import find_loops
from mlir_async_pipe.hooks.overlap_versions import (
    ARGUMENT_ATTRIBUTES,
    add_plain_versions,
    pairs_to_compare,
)
from mlir_async_pipe.lowering.rocdl.unrolled_shifts import unroll_shifts
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import AsyncPipeError, Diagnostic, Note
from mlir_async_pipe.session.report import Report, Session
from mlir_async_pipe.vocabulary.launch_ids import Size

# For all kernels, by the names of kernels, or for a kernel's loops in the order of its text.
Stages = int | Sequence[int] | Mapping[str, int | Sequence[int]]

_FOLD = "int-range-optimizations,canonicalize,cse"


@dataclass(frozen=True)
class KernelReport:
    """What a hook made of one kernel, or found of it: one that checks pipelines no loop.

    `loops` were pipelined (0: its own stack compiled it as ever, and `diagnostics` say why).
    `before` is the module as its stack made it, `module` what was compiled instead.
    """

    kernel: str
    loops: int
    diagnostics: tuple[Diagnostic, ...]
    report: Report | None = None
    before: str = ""
    module: str = ""


@dataclass(frozen=True)
class Wish:
    """What is asked of the loops of a module: numbers of stages, by kernels as they are `named`
    for a symbol; the sizes of block and grid if they are known, whether buffers never overlap, bytes of
    workgroup memory (0: what the chip has), and whether values that are loaded ahead stay in their
    registers: the loads are issued once theirs is free, and loops unrolled until it comes round."""

    num_stages: Stages
    target: Target
    named: Callable[[str], str]
    threads: Size | None = None
    grid: Size | None = None
    noalias: bool = False
    smem_limit: int = 0
    keep_registers: bool = False

    def stages(self, loops: Sequence[Operation]) -> list[int]:
        found = []
        seen: dict[str, int] = {}
        for loop in loops:
            kernel = self.named(symbol_name(kernel_of(loop)))
            number = seen[kernel] = seen.get(kernel, -1) + 1
            asked = stages_of(self.num_stages, kernel)
            if isinstance(asked, int):
                found.append(asked)
            else:
                found.append(asked[number] if number < len(asked) else 0)
        return found


def stages_of(num_stages: Stages, kernel: str) -> int | Sequence[int]:
    """What `num_stages` says about a kernel; 0 where it does not name it."""
    if isinstance(num_stages, Mapping):
        return num_stages.get(kernel, 0)
    return num_stages


def kernel_of(loop: Operation) -> Operation:
    found = enclosing(loop, FUNCTION_OPS)
    assert found is not None
    return found


def size_of(size: int | Sequence[int] | None) -> Size | None:
    """The size of a block or a grid with all three extents."""
    if size is None:
        return None
    x, y, z = (*((size,) if isinstance(size, int) else size), 1, 1)[:3]
    return int(x), int(y), int(z)


def advised(report: KernelReport, advice: Mapping[str, str]) -> KernelReport:
    """The report with a note for each reason code that an option of the hook helps with."""

    def with_notes(found: Diagnostic) -> Diagnostic:
        notes = tuple(
            Note(text, found.place)
            for code, text in advice.items()
            if f"[{code}]" in f"{found.message} [{found.code}]" or f"({code})" in found.message
        )
        return replace(found, notes=found.notes + notes)

    return replace(report, diagnostics=tuple(map(with_notes, report.diagnostics)))


def about_arrays(noalias: bool) -> dict[str, str]:
    """What helps where two arrays of a kernel may be one memory."""
    if noalias:
        return {}
    text = "if no two arrays of the kernel overlap, say so: noalias=True of the hook"
    return dict.fromkeys(("may-alias", "unproven-independence", "budget"), text)


def pipelined(
    name: str, before: str, wish: Wish, prepare: Callable[[Operation], None] = lambda function: None
) -> KernelReport:
    """Pipeline the kernels of a module's text; `prepare` may say more about its functions
    before loops are tried."""
    session = Session(target=wish.target)
    with plain_values(), new_context() as context, ir.Location.unknown(context):
        module = ir.Module.parse(before)
        for function in functions(module):
            _state(function, wish)
        try:
            fold = passmanager.PassManager.parse(f"any({_FOLD})")
            # The sizes of a launch say which sign a step has, and so how its iterations are counted.
            fold.run(module.operation)
            passes.run_one("async-pipe-raise-loops", module, session)
            fold.run(module.operation)
            # Folding undoes casts, so they come after it.
            for function in functions(module):
                prepare(function)
            plain = module.operation.get_asm(enable_debug_info=True)
            pairs = {} if wish.noalias else pairs_to_compare(module)
            for function in functions(module):
                if symbol_name(function) in pairs:
                    _mark_noalias(function)
            if not _choose(module, wish, session):
                return KernelReport(name, 0, session.report().diagnostics, before=before)
            report = api.pipeline(module, wish.target, smem_limit=wish.smem_limit)
            if wish.keep_registers:
                unroll_shifts(module.operation)
        except AsyncPipeError as error:
            said = (*session.report().diagnostics, error.diagnostic)
            return KernelReport(name, 0, said, before=before)
        changed = {entry.function for entry in report.of("loops")}
        pairs = {symbol: found for symbol, found in pairs.items() if symbol in changed}
        for function in functions(module):
            if symbol_name(function) in pairs:
                session.diagnostics.remark(
                    f"'{wish.named(symbol_name(function))}' is pipelined for arrays that do not "
                    "overlap; it looks at its start, and where they do, its loops run as they were",
                    code="plain-version",
                    at=function,
                )
        add_plain_versions(module, ir.Module.parse(plain), pairs)
        said = (*session.report().diagnostics, *report.diagnostics)
        text = module.operation.get_asm(enable_debug_info=True)
        return KernelReport(name, len(report.of("loops")), said, report, before, text)


def _state(function: Operation, wish: Wish) -> None:
    """Write what is known about a kernel where analyses look for it."""
    if function.name != "gpu.func":
        return
    for name, size in (("known_block_size", wish.threads), ("known_grid_size", wish.grid)):
        if size is not None:
            function.attributes[name] = ir.DenseI32ArrayAttr.get(list(size))
    if wish.noalias:
        _mark_noalias(function)


def _mark_noalias(function: Operation) -> None:
    """Say of each memref and pointer that a kernel is given that no other one overlaps it."""
    # Workgroup attributions stand behind them.
    arguments = list(function.regions[0].blocks[0].arguments)[: len(function_type(function).inputs)]
    given: list[Any] = [{} for _ in arguments]
    if ARGUMENT_ATTRIBUTES in function.attributes:
        given = [
            ir.DictAttr(entry) for entry in ir.ArrayAttr(function.attributes[ARGUMENT_ATTRIBUTES])
        ]
    marked = []
    for argument, known in zip(arguments, given, strict=True):
        # Entries are names in some stacks and named attributes in others.
        names = [getattr(entry, "name", entry) for entry in known]
        entries = {name: known[name] for name in names}
        if str(argument.type).startswith(("memref<", "!llvm.ptr")):
            entries["llvm.noalias"] = ir.UnitAttr.get()
        marked.append(ir.DictAttr.get(entries))
    function.attributes[ARGUMENT_ATTRIBUTES] = ir.ArrayAttr.get(marked)


def _choose(module: Any, wish: Wish, session: Session) -> bool:
    """Annotate the loops for which stages are asked and that can have them."""
    wanted = wish.stages(find_loops(module, annotated=False))
    helped = {n: _helped(module, n, wish, session) for n in sorted(set(wanted)) if n}
    chosen = False
    for number, loop in enumerate(find_loops(module, annotated=False)):
        stages = wanted[number]
        form = helped[stages][number] if stages else ""
        if form == "loads" and wish.keep_registers:
            annotate(loop, num_stages=stages, issue="last")
        elif form:
            annotate(loop, num_stages=stages)
        chosen = chosen or bool(form)
    return chosen


def _helped(module: Any, stages: int, wish: Wish, session: Session) -> list[str]:
    """For each loop how this many stages can be written for it: by "copies", "loads" or not ("")."""
    trial = Session(target=wish.target)
    suggest = passes.find("async-pipe-suggest")
    options = suggest.options(stages, wish.target.chip.name, wish.smem_limit)
    suggest.run(module, options, trial)
    report = trial.report()
    session.diagnostics.items += [d for d in report.diagnostics if d.code == "no-suggestion"]
    return [entry.form for entry in report.of("suggestions")]


class Hook(ABC):
    """What hooks have in common: they replace names while they are installed."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> Self:
        self.install()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.uninstall()

    @abstractmethod
    def install(self) -> None:
        """Let everything that the stack compiles from now on go through this hook."""

    def uninstall(self) -> None:
        """Put everything back, last first."""
        while self._replaced:
            place, name, value = self._replaced.pop()
            setattr(place, name, value)

    def _replace(self, place: Any, name: str, value: Any) -> None:
        self._replaced.append((place, name, getattr(place, name)))
        setattr(place, name, value)
