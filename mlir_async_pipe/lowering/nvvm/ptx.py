"""Reads back from PTX what a kernel copies, commits and waits for.

    cp.async.wait_group 1;     the wait's count, in textual order

The text is LLVM's: one `.entry` or `.func` after the other, an instruction a line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mlir_async_pipe.session.diagnostics import LoweringError


@dataclass(frozen=True)
class PtxKernel:
    """One kernel of a PTX module.

    `waits` are the counts (groups that may stay in flight) of its cp.async.wait_group lines
    in textual order; `copies`, `commits` and `barriers` are numbers of instructions.
    `parameters` are the types of the entry's parameters ("u64", "f32", "b8[2]" for an f16), `threads` the block size
    that a launch must have, None where any will do.
    """

    name: str
    waits: tuple[int, ...]
    copies: int
    commits: int
    barriers: int
    parameters: tuple[str, ...] = ()
    threads: tuple[int, int, int] | None = None


_KERNEL = re.compile(r"^\.visible \.entry ([\w$.]+)\(.*?^\}", re.DOTALL | re.MULTILINE)
# They begin with letters that must be there, which Python looks for ten times as fast.
_WAIT = re.compile(r"cp\.async\.wait_(?:group\s+(\d+)|(all)\b)")
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
    waits = tuple(0 if wait[1] else int(wait[0]) for wait in _WAIT.findall(body))
    copies, commits, barriers = (
        len(pattern.findall(body)) for pattern in (_COPY, _COMMIT, _BARRIER)
    )
    head = body[: body.index("{")]
    sizes = _BLOCK.search(head)
    threads = None if sizes is None else (int(sizes[1]), int(sizes[2] or 1), int(sizes[3] or 1))
    parameters = tuple("".join(found) for found in _PARAMETER.findall(head))
    return PtxKernel(name, waits, copies, commits, barriers, parameters, threads)


def check_calls(text: str) -> None:
    """Refuse calls of functions that nobody defines, such as intrinsics that LLVM does not know.

    Raises LoweringError (unresolved-call).
    """
    for name in _EXTERN_FUNCTION.findall(text):
        if name not in _SYSTEM_CALLS:
            raise LoweringError(
                f"the kernel calls '{name}', which is defined nowhere", code="unresolved-call"
            )
