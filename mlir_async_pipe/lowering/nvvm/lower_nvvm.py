"""Makes code for an NVIDIA chip and reads it back: PTX, ptxas, nvdisasm."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import Any

from mlir_async_pipe.bindings import back_end_process
from mlir_async_pipe.bindings.back_end_child import Request
from mlir_async_pipe.bindings.back_end_process import back_end
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    integer_attribute,
    operations,
    set_integer,
    symbol_name,
    walk_named,
)
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.lowering.nvvm import to_nvvm
from mlir_async_pipe.lowering.nvvm.cubin import MachineKernel, read_cubin
from mlir_async_pipe.lowering.nvvm.nvidia_ops import with_whole_lines
from mlir_async_pipe.lowering.nvvm.ptxas import (
    AnsweredLater,
    Assembled,
    Question,
    assemble,
    find_libdevice,
    find_tool,
    require_tool,
)
from mlir_async_pipe.lowering.nvvm.shared_memory import DYNAMIC_BYTES
from mlir_async_pipe.lowering.ordered_steps import one_gpu_module
from mlir_async_pipe.session.diagnostics import LoweringError
from mlir_async_pipe.session.report import Session

# At least one block a multiprocessor: ptxas may then use all 255 registers of a thread.
MINIMUM_BLOCKS = "nvvm.minctasm"


@dataclass(frozen=True)
class NvidiaKernel:
    """One kernel of the emitted code.

    `dynamic_shared_bytes` is what its launch must ask for. `ptx`, `resources` and `machine`
    are what was read from the PTX, from ptxas and from the cubin, None where that was not made. Of
    PTX ptxas may be asked for `resources` only when they are read.
    """

    name: str
    dynamic_shared_bytes: int = 0
    ptx: PtxKernel | None = None
    resources: AnsweredLater = AnsweredLater()  # noqa: RUF009, a descriptor
    machine: MachineKernel | None = None


@dataclass(frozen=True)
class NvidiaCode:
    """Emitted code: `text` or `binary` (the other is empty), and its kernels."""

    text: str
    binary: bytes
    kernels: tuple[NvidiaKernel, ...]


def generate(
    root: Any,
    session: Session,
    chip: Chip,
    emit: str,
    options: dict[str, Any],
    *,
    resources: bool | None = None,
    kept: bool = True,
) -> Generator[None, None, NvidiaCode]:
    """Lower a module, which is changed, with `options` of `async-pipe-to-nvvm`, and emit "llvm"
    (dialect), "ptx" or "cubin".

    About PTX ptxas is asked always, never, or with None for `resources` at once where its answer may
    matter (`needs_ptxas`) and else when it is read; without `kept` always anew. Yields while the back
    end works, not at all for "llvm".
    Raises LoweringError and UsageError, as the steps do.
    """
    to_nvvm.run(root, to_nvvm.ToNvvmOptions(chip.name, **options), session)
    sizes = {
        symbol_name(op): integer_attribute(op, DYNAMIC_BYTES) or 0
        for op in _functions(root)
        if "nvvm.kernel" in op.attributes
    }
    if emit == "llvm":
        return NvidiaCode(str(root), b"", tuple(NvidiaKernel(*each) for each in sizes.items()))
    ptx = yield from ptx_text(root, chip, session.seconds)
    needed: dict[str, Any] = {}
    machine: dict[str, MachineKernel] = {}
    binary = b""
    if _is_asked(ptx, chip, emit, resources, session):
        ptx, assembled = yield from _assembled(ptx, root, chip, session, kept)
        _report_products(assembled, root, session)
        _report_fault(ptx, root, session)
        needed = assembled.resources
        if emit == "cubin":
            binary = assembled.cubin
    elif resources is None and find_tool("ptxas") is not None:
        needed = {name: Question(name, ptx, chip, kept) for name in sizes}
    read = {kernel.name: kernel for kernel in read_ptx(ptx)}
    if binary and find_tool("nvdisasm") is not None:
        with session.measured("nvdisasm"):
            machine = {kernel.name: kernel for kernel in read_cubin(binary)}
    kernels = tuple(
        NvidiaKernel(name, size, read.get(name), needed.get(name), machine.get(name))
        for name, size in sizes.items()
    )
    return NvidiaCode("" if binary else ptx, binary, kernels)


def _is_asked(ptx: str, chip: Chip, emit: str, resources: bool | None, session: Session) -> bool:
    """Whether ptxas is asked now."""
    if emit == "cubin":
        return True
    if resources is False or find_tool("ptxas") is None:
        return False
    with session.measured("registers"):
        return resources is True or needs_ptxas(ptx, chip)


def _assembled(
    ptx: str, root: Any, chip: Chip, session: Session, kept: bool
) -> Generator[None, None, tuple[str, Assembled]]:
    """PTX and its cubin; made a second time if kernels spill."""
    with session.measured("ptxas"):
        assembled = assemble(ptx, chip, kept=kept)
    spilling = [name for name, found in assembled.resources.items() if found.spill_store_bytes]
    changed = [
        op
        for op in (_functions(root) if spilling else [])
        if symbol_name(op) in spilling and MINIMUM_BLOCKS not in op.attributes
    ]
    if not changed:
        return ptx, assembled
    for op in changed:
        set_integer(op, MINIMUM_BLOCKS, 1, 32)
    second_ptx = yield from ptx_text(root, chip, session.seconds)
    with session.measured("ptxas"):
        second = assemble(second_ptx, chip, kept=kept)
    better = _spilled(second) < _spilled(assembled)
    for op in changed:
        before, after = (made.resources[symbol_name(op)] for made in (assembled, second))
        outcome = f"{after.spill_store_bytes} with {MINIMUM_BLOCKS} = 1, which is used"
        session.diagnostics.remark(
            f"'{symbol_name(op)}' spills {before.spill_store_bytes} bytes a thread"
            + (f", and {outcome}" if better else f"; {MINIMUM_BLOCKS} = 1 does not help"),
            code="spills",
            at=op,
        )
    return (second_ptx, second) if better else (ptx, assembled)


def _report_products(assembled: Assembled, root: Any, session: Session) -> None:
    for said in assembled.on_products:
        named = (op for op in _functions(root) if f"'{symbol_name(op)}'" in said)
        text = f"ptxas says of products of warpgroups: {said}"
        session.diagnostics.remark(text, code="products-serialised", at=next(named, None))


def _report_fault(ptx: str, root: Any, session: Session) -> None:
    ptxas = require_tool("ptxas")
    fault = fault_in(ptx, ptxas)
    if fault:
        session.diagnostics.warning(
            f"ptxas {'.'.join(map(str, version(ptxas)))} {fault}: the machine code may be wrong; "
            "from 13.1 on it is right (pip install 'nvidia-cuda-nvcc>=13.1'), and so are sums of the "
            "lower 32 bits",
            code="ptxas-fault",
            at=next(iter(_functions(root)), None),
        )


def _functions(root: Any) -> list[Any]:
    return walk_named(root, "llvm.func".__eq__, inside=False)


def _spilled(assembled: Assembled) -> int:
    return sum(found.spill_store_bytes for found in assembled.resources.values())


# Code of LLVM --------------------------------------------------------------------------------


def ptx_text(module: Any, chip: Chip, seconds: dict[str, float]) -> Generator[None, None, str]:
    """The PTX of the module's kernels; yields while the back end works, whose steps' times are
    added to `seconds`.

    Raises LoweringError (no-kernels, several-gpu-modules, codegen-failed, unresolved-call),
    UsageError (back-end-missing).
    """
    # Alone, since ops of host code may not be parsed again (they need not even be registered).
    found = one_gpu_module(module.operation)
    # Code is made for each target, and the one that is asked for would come last.
    if "targets" in found.attributes:
        del found.attributes["targets"]
    stack = back_end("nvvm")
    text = back_end_process.handed_over(found, stack)
    # `async-pipe-to-nvvm` leaves no op of another dialect.
    request = Request(stack, text, (), _pipeline(found, chip), "object", checked=True)
    ptx = (yield from back_end_process.run(request, seconds)).decode().rstrip("\0")
    check_calls(ptx)
    return with_whole_lines(settle_predicates(ptx), found)


def _pipeline(gpu_module: Operation, chip: Chip) -> str:
    # CUDA's math functions, which MLIR's math ops become calls of.
    tops = operations(gpu_module.regions[0].blocks[0])
    calls_math = any(symbol_name(op).startswith("__nv_") for op in tops if op.name == "llvm.func")
    libdevice = find_libdevice() if calls_math else None
    link = f" l={libdevice}" if libdevice else ""
    return (
        f"builtin.module(nvvm-attach-target{{chip={chip.name} features={chip.features} O=3{link}}},"
        "gpu-module-to-binary{format=isa})"
    )


# Predicates that are known -------------------------------------------------------------------
#
# Settles instructions of inline assembly whose predicate the back end found to be constant.
#
#     @0 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], %r4;      -->  (nothing)
#     @-1 mbarrier.init.shared.b64 [%r1], %r5;                    -->  mbarrier.init.shared.b64 [%r1], %r5;
#
# MLIR writes `@$0 instruction` for its ops with a predicate, of a register or a constant: a copy that no
# iteration issues, since the loop has none. A predicate of PTX is a register, and ptxas refuses a number.

_KNOWN = re.compile(r"^([ \t]*)@(0|-?1)[ \t]+([^;]*;[^\n]*\n?)", re.M)


def settle_predicates(ptx: str) -> str:
    """The PTX without predicates that are numbers."""
    return _KNOWN.sub(lambda found: "" if found[2] == "0" else found[1] + found[3], ptx)


# When ptxas is asked -------------------------------------------------------------------------

_GIVEN = re.compile(r"// begin inline asm(?!\s*// end inline asm)")
_KNOWN_TO_PTXAS = (".func", "\tcall", "\tbrx", "\twgmma.")
_THREADS = re.compile(r"^\.(?:reqntid|maxntid) ([\d, ]+)$", re.MULTILINE)
_BLOCKS = re.compile(r"^\.minnctapersm (\d+)$", re.MULTILINE)
_LIMIT = re.compile(r"^\.maxnreg (\d+)$", re.MULTILINE)

# Of 64 registers (a block of 1024 threads) 60 that live through a loop are too many.
_RESERVE = 16


def needs_ptxas(ptx: str, chip: Chip) -> bool:
    """Whether what ptxas says of this PTX may change it, or is an error or a remark."""
    if _GIVEN.search(ptx) or any(words in ptx for words in _KNOWN_TO_PTXAS):
        return True
    return any(_may_spill(text, chip) for text in kernel_texts(ptx).values())


def _may_spill(kernel: str, chip: Chip) -> bool:
    """Whether the values of a kernel may need more registers than a thread may have."""
    head = kernel[: kernel.index("{")]
    threads, blocks, limit = (found.search(head) for found in (_THREADS, _BLOCKS, _LIMIT))
    at_once = prod(map(int, threads[1].split(","))) if threads else None
    if at_once is not None and blocks:
        at_once *= int(blocks[1])
    have = chip.registers_of_thread(at_once)
    if limit:
        have = min(have, int(limit[1]))
    if declared_registers(kernel) <= have - _RESERVE:
        return False
    live = live_registers(kernel)
    return live.between_blocks > have - _RESERVE or live.anywhere > have + have // 8


# What ptxas finds wrong ----------------------------------------------------------------------

_WIDE_SUM = re.compile(r"add\.s64\s+%\w+, %\w+, (-?\d{10,});")


# The first version that keeps the upper half of a wide number.
_MENDED = (13, 1)


def fault_in(ptx: str, ptxas: str) -> str:
    """What this ptxas may do wrong with this PTX, "" if nothing is known."""
    if "wgmma.mma_async" not in ptx:
        return ""
    wide = (int(found[1]) for found in _WIDE_SUM.finditer(ptx))
    number = next((number for number in wide if number >> 32 not in (0, -1)), None)
    if number is None or version(ptxas) >= _MENDED:
        return ""
    return f"may lose the upper half of {hex(number & (1 << 64) - 1)} in a sum of 64 bits"


@cache
def version(ptxas: str) -> tuple[int, ...]:
    """(13, 0, 88) of `ptxas --version`; what does not say it is taken to be the newest."""
    said = subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"\bV(\d+)\.(\d+)\.(\d+)", said)
    return tuple(map(int, found.groups())) if found else (1 << 16,)


# Reads back from PTX what a kernel copies, commits and waits for.
#
#     cp.async.wait_group 1;     the wait's count, in textual order
#
# The text is LLVM's: one `.entry` or `.func` after the other, an instruction a line.


@dataclass(frozen=True)
class PtxKernel:
    """One kernel of a PTX module.

    `waits` are the counts (groups that may stay in flight) of its cp.async.wait_group lines
    in textual order, `product_waits` those of wgmma.wait_group; `copies`, `commits` and `barriers`
    are numbers of instructions. `parameters` are the types of the entry's parameters ("u64", "f32",
    "b8[2]" for an f16), `threads` the block size that a launch must have, None where any will do.
    """

    name: str
    waits: tuple[int, ...]
    copies: int
    commits: int
    barriers: int
    parameters: tuple[str, ...] = ()
    threads: tuple[int, int, int] | None = None
    product_waits: tuple[int, ...] = ()


_KERNEL = re.compile(r"^\.visible \.entry ([\w$.]+)\(.*?^\}", re.DOTALL | re.MULTILINE)
# They begin with letters that must be there, which Python looks for ten times as fast.
_WAIT = re.compile(r"cp\.async\.wait_(?:group\s+(\d+)|(all)\b)")
_PRODUCT_WAIT = re.compile(r"wgmma\.wait_group\.sync\.aligned\s+(\d+)")
_COPY = re.compile(r"cp\.async\.c[ag]\b")
_COMMIT = re.compile(r"cp\.async\.commit_group\b")
_BARRIER = re.compile(r"bar(?:rier)?(?:\.cta)?\.sync\b")
_PARAMETER = re.compile(r"\.param (?:\.align \d+ )?\.(\w+)[^,\n[]*(\[\d+\])?")
_BLOCK = re.compile(r"\.reqntid (\d+)(?:, (\d+))?(?:, (\d+))?")
_EXTERN_FUNCTION = re.compile(r"^\.extern \.func\s+(?:\([^)]*\)\s*)?([\w$.]+)", re.MULTILINE)
# What the CUDA driver provides to every module (PTX Interoperability, system calls).
_SYSTEM_CALLS = frozenset(("vprintf", "malloc", "free", "__assertfail", "cudaLaunchDevice"))


def read_ptx(text: str) -> tuple[PtxKernel, ...]:
    """All kernels of a PTX module, in textual order."""
    return tuple(_kernel(name, body) for name, body in kernel_texts(text).items())


def kernel_texts(text: str) -> dict[str, str]:
    """The text of each kernel of a PTX module, by name."""
    return {match.group(1): match.group(0) for match in _KERNEL.finditer(text)}


def _kernel(name: str, body: str) -> PtxKernel:
    head = body[: body.index("{")]
    waits = tuple(0 if all_ else int(left) for left, all_ in _WAIT.findall(body))
    copies, commits, barriers = (len(found.findall(body)) for found in (_COPY, _COMMIT, _BARRIER))
    sizes = _BLOCK.search(head)
    threads = None if sizes is None else (int(sizes[1]), int(sizes[2] or 1), int(sizes[3] or 1))
    parameters = tuple("".join(found) for found in _PARAMETER.findall(head))
    products = tuple(map(int, _PRODUCT_WAIT.findall(body)))
    return PtxKernel(name, waits, copies, commits, barriers, parameters, threads, products)


def check_calls(text: str) -> None:
    """Refuse calls of functions that nobody defines, such as intrinsics that LLVM does not know.

    Raises LoweringError (unresolved-call).
    """
    for name in _EXTERN_FUNCTION.findall(text):
        if name not in _SYSTEM_CALLS:
            raise LoweringError(
                f"the kernel calls '{name}', which is defined nowhere", code="unresolved-call"
            )


# How many registers of 32 bits the values of a PTX kernel need that live at once, in its order.
#
#     add.s64 %rd3, %rd1, %rd2;    2 for %rd3 beside all that lives on; 6 if both operands do
#     GEMM 128x128x32, f16         236 from block to block, 274 at once inside of one
#
# The text is LLVM's, a statement is its results first and then its operands. To take an operand for one
# that is none is safe, a result is not: the value that it has would end there. Predicates have registers
# of their own. Linear in the text, once for each level of loops.

_WIDTHS = {"pred": 0, "b64": 2, "u64": 2, "s64": 2, "f64": 2, "b128": 4}
_DECLARED = re.compile(r"\.reg \.(\w+)\s+%(\w+?)<(\d+)>")
_COMMENT = re.compile(r"//[^\n]*")
_LABEL = re.compile(r"^\s*(\$[\w$]+):", re.MULTILINE)
_REGISTER = re.compile(r"%[a-z]+\d+\b")
_JUMP = re.compile(r"(@!?%p\d+\s+)?(?:bra(?:\.uni)?\s+([\w$]+)|ret|exit|trap)")
# The first operand of others is a result, unless it is an address: st … [%rd1], %r1.
_WITHOUT_RESULT = ("bar", "barrier", "nanosleep", "setmaxnreg", "brx")


Registers = list[str]


@dataclass
class _Block:
    """Statements as (results, operands), names of registers. `jumps` are labels of blocks that may
    follow, and so may the next one in the text if it `falls`."""

    statements: list[tuple[Registers, Registers]] = field(default_factory=list)
    jumps: list[str] = field(default_factory=list)
    falls: bool = True


@dataclass(frozen=True)
class LiveRegisters:
    """The most registers of values that live at once: from one block to the next, whatever the order
    of the statements in them, and anywhere, in the order of the text."""

    between_blocks: int
    anywhere: int


def declared_registers(kernel: str) -> int:
    """All registers that a kernel names: at least those that live at once."""
    return sum(_WIDTHS.get(kind, 1) * int(number) for kind, _, number in _DECLARED.findall(kernel))


def live_registers(kernel: str) -> LiveRegisters:
    """Those of a kernel's text. Raises KeyError for a jump to a label that is not there."""
    blocks, places = _blocks(kernel)
    following = [
        [*(places[label] for label in block.jumps), *([number + 1] if block.falls else [])]
        for number, block in enumerate(blocks)
    ]
    # What lives before each block, and after the last one.
    before: list[set[str]] = [set() for _ in range(len(blocks) + 1)]

    def live_after(number: int) -> set[str]:
        return set().union(*(before[after] for after in following[number]))

    changed = True
    while changed:
        changed = False
        for number, block in reversed(list(enumerate(blocks))):
            live = live_after(number)
            for results, operands in reversed(block.statements):
                live.difference_update(results)
                live.update(operands)
            changed = changed or live != before[number]
            before[number] = live
    width = _widths(kernel)
    between = most = max(sum(map(width, live)) for live in before)
    for number, block in enumerate(blocks):
        live = live_after(number)
        needed = sum(map(width, live))
        for results, operands in reversed(block.statements):
            most = max(most, needed + sum(width(each) for each in results if each not in live))
            needed -= sum(width(each) for each in set(results) & live)
            live.difference_update(results)
            needed += sum(width(each) for each in set(operands) - live)
            live.update(operands)
    return LiveRegisters(between, most)


def _blocks(kernel: str) -> tuple[list[_Block], dict[str, int]]:
    """The blocks of a kernel in their order, and where the labels stand."""
    pieces = _LABEL.split(_COMMENT.sub("", kernel[kernel.index("{") :]))
    blocks: list[_Block] = []
    places: dict[str, int] = {}
    for label, piece in zip(["", *pieces[1::2]], pieces[::2], strict=True):
        places[label] = len(blocks)
        blocks.append(_Block())
        for statement in piece.split(";"):
            _read(statement.strip(), blocks)
    return blocks, places


def _read(statement: str, blocks: list[_Block]) -> None:
    """Append one statement to the last block; after a jump a new one begins."""
    if not statement or statement[0] in ".{}":
        return
    jump = _JUMP.fullmatch(statement)
    if jump:
        guard, label = jump.groups()
        blocks[-1].jumps += [label] if label else []
        blocks[-1].falls = guard is not None
        blocks.append(_Block())
        return
    op, rest = [*statement.split(None, 1), ""][:2]
    end = rest.find("}" if rest.startswith("{") else ",")
    if rest.startswith("[") or op.startswith("@") or op.partition(".")[0] in _WITHOUT_RESULT:
        end = 0
    elif end < 0:
        end = len(rest)
    operands = _REGISTER.findall(op) + _REGISTER.findall(rest, end)
    blocks[-1].statements.append((_REGISTER.findall(rest, 0, end), operands))


def _widths(kernel: str) -> Callable[[str], int]:
    """How many registers of 32 bits each register of a kernel needs; special ones (%clock64) none."""
    kinds = {name: _WIDTHS.get(kind, 1) for kind, name, _ in _DECLARED.findall(kernel)}
    return cache(lambda register: kinds.get(register.rstrip("0123456789")[1:], 0))
