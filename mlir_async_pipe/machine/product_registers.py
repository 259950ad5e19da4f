"""Registers that products of a warpgroup add to: what their threads did to them since the last fence.

    %s = llvm.insertvalue %one, %none[0]    the thread writes a register of %s
    nvvm.wgmma.fence.aligned                now products may have it
    %d = nvvm.wgmma.mma_async …, %s         else it adds to what the register held before (NaN, unless eager)

(PTX ISA, wgmma.fence.) A register is the array of its lanes, by identity: what a product of one shape
filled the next one of that shape may add to; what a thread read or wrote needs a fence. Registers that hold
nothing yet need one before the first product only. Copies of registers are not told apart: the checker knows
those that two products add to.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlir_async_pipe.machine.decode import Site

Array = np.ndarray


@dataclass(eq=False)
class Touched:
    """What an op did last to a register: `how` is the shape of a product, or None. No fence came since in
    the lanes `unfenced`. The register is forgotten when its array no longer `lives`."""

    lives: Any
    site: int
    unfenced: Array
    how: Hashable


class ProductRegisters:
    """The registers of the sums of one unit of so many lanes."""

    def __init__(self, width: int) -> None:
        self.fenced = np.zeros(width, np.bool_)
        self.known: dict[int, Touched] = {}

    def touch(self, unit: Any, site: Site, value: Any, how: Hashable = None) -> None:
        """An op writes registers, or reads them."""
        for array in _arrays(value):
            lives = weakref.finalize(array, self.known.pop, id(array), None)
            lives.atexit = False
            before = self.known.get(id(array))
            if before is not None:
                before.lives.detach()
            self.known[id(array)] = Touched(lives, site.number, unit.active().copy(), how)

    def fence(self, lanes: Array) -> None:
        """What lanes did to registers comes before products."""
        self.fenced |= lanes
        for touched in self.known.values():
            touched.unfenced &= ~lanes

    def multiply(self, unit: Any, site: Site, sums: Any, shape: Hashable) -> bool:
        """A product adds to registers; whether it has what was written there, else it is reported."""
        lanes = unit.active()
        thread = int(unit.launch.grid_threads(unit.threads[:1])[0])
        if (lanes & ~self.fenced).any():
            unit.launch.detector.report("missing-register-fence", site.number, thread=thread)
            return False
        known = [self.known[id(array)] for array in _arrays(sums) if id(array) in self.known]
        bad = [t for t in known if (t.unfenced & lanes).any() and t.how != shape]
        for touched in bad[:1]:
            unit.launch.detector.report_between(
                "missing-register-fence", site.number, touched.site, thread=thread
            )
        return not bad


def _arrays(value: Any) -> Iterator[Array]:
    """The registers of a value, a struct of structs perhaps."""
    if isinstance(value, tuple):
        for part in value:
            yield from _arrays(part)
    elif isinstance(value, np.ndarray):
        yield value
