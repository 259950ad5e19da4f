"""What all hooks do with a module of kernels: raise its loops, choose some, pipeline them.

    blocks or scf.for --raise, fold, try each loop--> annotated scf.for --async-pipe--> pipelined

A loop that cannot be pipelined stays, and its remark says why; an error of the whole (a race that
the checker finds) leaves the kernel as its own stack has it.

    with hook: …          between install() and uninstall(), `mlir_optimization.optimize` is ours
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Self

from mlir_async_pipe import api
from mlir_async_pipe.bindings import ir, new_context, passmanager
from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Operation,
    Value,
    as_kind,
    attribute,
    before,
    create,
    enclosing,
    function_type,
    functions,
    is_function,
    is_kernel,
    operations,
    plain_values,
    symbol_name,
    walk,
    walk_named,
)
from mlir_async_pipe.bindings.structured_ops import address_of
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.loops.annotations import annotate
from mlir_async_pipe.facts.loops.statements import find_loops
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.facts.values.memory_roots import GIVEN, root_of, space_of_type, uses_of_memory
from mlir_async_pipe.lowering.rocdl.unrolled_shifts import unroll_shifts
from mlir_async_pipe.pipeliner.expand.write.versioned_buffers import slot_zero, versions_of
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import AsyncPipeError, Diagnostic, Note
from mlir_async_pipe.session.report import Report, Session
from mlir_async_pipe.vocabulary import accesses
from mlir_async_pipe.vocabulary.launch_ids import Size
from mlir_async_pipe.vocabulary.memory_layout import element_bytes, if_known
from mlir_async_pipe.vocabulary.memory_names import global_name, said_of

# For all kernels, by the names of kernels, or for a kernel's loops in the order of its text.
Stages = int | Sequence[int] | Mapping[str, int | Sequence[int]]

_FOLD = "int-range-optimizations,canonicalize,cse"


@dataclass(frozen=True)
class KernelReport:
    """What a hook made of one kernel, or found of it: one that checks pipelines no loop.

    `loops` were pipelined (0: its own stack compiled it as ever, and `diagnostics` say why).
    `before` is the module as its stack made it, `module` what was compiled instead."""

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
        seen: Counter[str] = Counter()
        for loop in loops:
            function = enclosing(loop, FUNCTION_OPS)
            assert function is not None
            kernel = self.named(symbol_name(function))
            asked = stages_of(self.num_stages, kernel)
            if not isinstance(asked, int):
                asked = dict(enumerate(asked)).get(seen[kernel], 0)
            seen[kernel] += 1
            found.append(asked)
        return found


def stages_of(num_stages: Stages, kernel: str) -> int | Sequence[int]:
    """What `num_stages` says about a kernel; 0 where it does not name it."""
    if isinstance(num_stages, Mapping):
        return num_stages.get(kernel, 0)
    return num_stages


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
    marked = []
    for argument in arguments:
        known = said_of(argument)
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
    """What hooks have in common: they replace names while they are installed, and report on what was compiled."""

    def __init__(self) -> None:
        self.reports: list[KernelReport] = []
        self._replaced: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> Self:
        self.install()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
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


# Versions ----------------------------------------------------------------------------------------
#
# Gives a kernel two versions: one for arrays that lie apart, and its own for arrays that overlap.
#
#     ^entry(%a, %b):
#       %apart = end of %a <= start of %b, or end of %b <= start of %a
#       cf.cond_br %apart, ^pipelined(%a, %b), ^plain(%a, %b)
#
# The test is part of the kernel: whatever a launch hands over later, it runs the version that is right for
# it. Only pairs are compared of which one array is written. An array reaches from its first element to its last;
# what a kernel touches outside of its arrays, nobody compares.


ARGUMENT_ATTRIBUTES = "arg_attrs"
# Pairs of a kernel's arguments, by number.
Pairs = list[tuple[int, int]]


def pairs_to_compare(module: Any) -> dict[str, Pairs]:
    """For each kernel the arrays that must lie apart: those of which one is written.

    A kernel is left out whose memory is not all in arrays that it is given with their sizes: a pointer, or a
    number that is an address, may lead into any of them."""
    for op in walk(module):
        roots = (root_of(access.memory) for access in accesses(op))
        if any(root.kind in GIVEN and root.kind != "argument" for root in roots):
            return {}
    found = {symbol_name(f): _pairs(f) for f in functions(module) if is_kernel(f)}
    return {name: pairs for name, pairs in found.items() if pairs}


def _pairs(kernel: Operation) -> Pairs:
    arguments = list(kernel.regions[0].blocks[0].arguments)
    arrays = [number for number, argument in enumerate(arguments) if _is_array(argument)]
    plain = (ir.IntegerType, ir.IndexType, ir.FloatType)
    if not all(n in arrays or isinstance(a.type, plain) for n, a in enumerate(arguments)):
        return []
    written = {number for number in arrays if not _is_only_read(arguments[number])}
    return [pair for pair in combinations(arrays, 2) if written.intersection(pair)]


def _is_only_read(array: Value) -> bool:
    """Whether nobody can write to an array through this argument."""
    return not any(
        named is None
        or any(a.writes and a.memory_operand == use.operand_number for a in accesses(use.owner))
        for use, named in uses_of_memory(array)
    )


def _is_array(argument: Value) -> bool:
    """Whether the extent of what an argument names can be computed."""
    if as_kind(ir.MemRefType, argument.type) is None or space_of_type(argument.type) != "global":
        return False
    return bool(if_known(element_bytes, argument.type))


def add_plain_versions(module: Any, plain: Any, pairs: dict[str, Pairs]) -> None:
    """Let the kernels of `module`, which take the arrays of `pairs` to lie apart, begin with the test, and go on as
    those of `plain` where they do not. `plain` is used up."""
    originals = {symbol_name(function): function for function in functions(plain)}
    for kernel in functions(module):
        name = symbol_name(kernel)
        if name in pairs:
            # Of the joined kernel nothing is known: what holds in one version does not hold in the other.
            original = originals[name]
            if ARGUMENT_ATTRIBUTES in original.attributes:
                kernel.attributes[ARGUMENT_ATTRIBUTES] = original.attributes[ARGUMENT_ATTRIBUTES]
            elif ARGUMENT_ATTRIBUTES in kernel.attributes:
                del kernel.attributes[ARGUMENT_ATTRIBUTES]
            _share_memory(kernel.parent, original)
            _add_missing(kernel.parent, original)
            _join(kernel, original, pairs[name])


def _share_memory(table: Any, original: Operation) -> None:
    """Let a kernel keep in the first slots of the pipelined one what it kept in globals of its own:
    only one of them runs."""
    declared = {symbol_name(op): op for op in operations(table.regions[0].blocks[0])}
    for op in walk_named(original, lambda name: name == "memref.get_global"):
        name = global_name(op) or ""
        slots = declared.get(versions_of(name))
        if name in declared or slots is None or slots.name != "memref.global":
            continue
        whole = ir.MemRefType(ir.TypeAttr(slots.attributes["type"]).value)
        kind = ir.MemRefType(op.results[0].type)
        if list(whole.shape[1:]) == list(kind.shape):
            ip = before(op)
            memory = address_of(versions_of(name), whole, ip, op.location)
            op.results[0].replace_all_uses_with(slot_zero(memory, kind, ip))
            op.erase()


def _add_missing(table: Any, kernel: Operation) -> None:
    """Copy the symbols that a kernel uses and the pipelined one does not."""
    block = table.regions[0].blocks[0]
    known = {symbol_name(op) for op in operations(block)}
    used = {global_name(op) for op in walk(kernel)}
    for op in operations(kernel.parent.regions[0].blocks[0]):
        name = symbol_name(op)
        if name and name not in known and (name in used or is_function(op)):
            op.clone(ip=ir.InsertionPoint.at_block_begin(block))


def _join(kernel: Operation, original: Operation, pairs: Pairs) -> None:
    region = kernel.regions[0]
    pipelined = region.blocks[0]
    moved = list(original.regions[0].blocks)
    for block in moved:
        block.append_to(region)
    kinds = [argument.type for argument in pipelined.arguments]
    location = kernel.location
    entry = ir.Block.create_at_start(region, kinds, [location] * len(kinds))
    ip = ir.InsertionPoint(entry)
    arguments = list(entry.arguments)
    for version in (pipelined, moved[0]):
        for argument, given in zip(arguments, list(version.arguments), strict=True):
            given.replace_all_uses_with(argument)
    write = IntegerWriter(ip, location)
    ends = {n: _extent(arguments[n], write) for n in sorted({n for pair in pairs for n in pair})}
    apart: Value | None = None
    for a, b in pairs:
        above = write.compare("ule", ends[a][1], ends[b][0])
        both = write.binary("arith.ori", above, write.compare("ule", ends[b][1], ends[a][0]))
        apart = both if apart is None else write.binary("arith.andi", apart, both)
    assert apart is not None
    segments = attribute(f"array<i32: 1, {len(kinds)}, {len(kinds)}>", kernel.context)
    create(
        "cf.cond_br",
        [apart, *arguments, *arguments],
        attributes={"operandSegmentSizes": segments},
        successors=[pipelined, moved[0]],
        ip=ip,
        loc=location,
    )


def _extent(array: Value, write: IntegerWriter) -> tuple[Value, Value]:
    """The addresses of the first byte of an array and of the byte after its last; strides may be negative."""
    offset, sizes, strides = write.layout(array)
    first = last = offset
    zero = write.constant(0)
    for size, stride in zip(sizes, strides, strict=True):
        reach = write.multiply(write.subtract(size, 1), stride)
        first = write.add(first, write.smallest(reach, zero))
        last = write.add(last, write.largest(reach, zero))
    base = write.cast("memref.extract_aligned_pointer_as_index", array, write.index)
    width = element_bytes(array.type)
    start = write.add(base, write.multiply(first, width))
    return start, write.add(base, write.multiply(write.add(last, 1), width))
