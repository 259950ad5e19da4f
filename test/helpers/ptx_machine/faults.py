"""What a program does wrong, as one exception with a kind that reports count."""

from __future__ import annotations


class PtxFault(Exception):
    """`kind` is one of: unknown-instruction, misaligned, out-of-bounds, read-only, in-flight,
    uninitialised, race, deadlock, diverged, static-limit, bad-program, step-limit."""

    def __init__(self, kind: str, message: str, line: int = 0):
        super().__init__(f"{kind}: {message}" + (f" (line {line})" if line else ""))
        self.kind = kind
        self.message = message
        self.line = line


def unknown(what: str) -> PtxFault:
    return PtxFault("unknown-instruction", what)
