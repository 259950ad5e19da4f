"""Faults of ptxas by which code that is right becomes wrong machine code, silently.

    add.s64 %rd20, %rd31, 4611686293305360384;     ptxas 12.8 to 13.0 may lose 0x40000040, the upper half

Found by running our kernels on an H100 and reading the machine code: of the sum of a product, an address and
a constant of 64 bits, such as a matrix descriptor, `UIMAD.WIDE` and `UIADD3` are left and no `UIADD3.X` with
the upper half of the constant. 12.8.93, 12.9.86, 13.0.48 and 13.0.88 do so, 13.1.80 and later do not.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from functools import cache

_WIDE_SUM = re.compile(r"add\.s64\s+%\w+, %\w+, (-?\d{10,});")


@dataclass(frozen=True)
class Fault:
    """What is wrong in versions before `mended`."""

    what: str
    mended: tuple[int, int]


_LOST_HALF = Fault("may lose the upper half of {number} in a sum of 64 bits", (13, 1))


def fault_in(ptx: str, ptxas: str) -> str:
    """What this ptxas may do wrong with this PTX, "" if nothing is known."""
    if "wgmma.mma_async" not in ptx:
        return ""
    wide = (int(found[1]) for found in _WIDE_SUM.finditer(ptx))
    number = next((number for number in wide if number >> 32 not in (0, -1)), None)
    if number is None or version(ptxas) >= _LOST_HALF.mended:
        return ""
    return _LOST_HALF.what.format(number=hex(number & (1 << 64) - 1))


@cache
def version(ptxas: str) -> tuple[int, ...]:
    """(13, 0, 88) of `ptxas --version`; what does not say it is taken to be the newest."""
    said = subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"\bV(\d+)\.(\d+)\.(\d+)", said)
    return tuple(map(int, found.groups())) if found else (1 << 16,)
