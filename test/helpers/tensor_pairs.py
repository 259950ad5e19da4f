"""Two loops of tensor copies one after the other, on the same mbarriers: the executions of a
`TensorLoop` by turns, as a front end writes them.

for e = 0, 2, … { loop of execution e; loop of execution e + 1 }
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from helpers.machine_programs import parse
from helpers.tensor_loops import TensorLoop

_NAMES = re.compile(r"%(r|first|sum0|rows|part|end_|e|phase0)\b")


@dataclass(frozen=True)
class TensorPair:
    """`loop` has 2 executions (no loop around) or more, an even number of them. The second loop has
    annotations of its own (`stages`, `in_flight`, `issue`), runs `short` iterations less, and has
    tiles of its own (`apart`), and mbarriers of its own (`grouped`, where a loop around runs each an even
    number of times); it runs where `branch` says so (an scf.if of which the compiler knows nothing)."""

    loop: TensorLoop
    stages: int = 3
    in_flight: int | None = None
    issue: str = ""
    short: int = 0
    apart: bool = False
    branch: bool = False
    grouped: bool = False

    def text(self) -> str:
        """The annotated module."""
        loop = self.loop
        whole = loop.text()
        head = f"%end = scf.for %e = %i0 to %i{loop.executions} step %i1"
        start = whole.index(head)
        body = whole.index("{\n", start) + 2
        last = whole.rindex("scf.yield %r#1 : i1")
        first = whole[body:last]
        started = "%false" if self.grouped else "%r#1"
        second = _NAMES.sub(lambda m: started if m[1] == "phase0" else f"%{m[1]}2", first)
        second = self._annotated(second)
        lines = [
            "%e2 = arith.addi %e, %i1 : index",
            f"%less = arith.constant {self.short * loop.step} : index",
            "%upper2 = arith.subi %upper, %less : index",
        ]
        if self.short:
            second = second.replace("to %upper step", "to %upper2 step")
        if self.apart:
            second = re.sub(r"%b(\d)\b", r"%own\1", second)
        if self.branch:
            second = (
                f"%more = arith.cmpi sge, %upper, %i0 : index\n%phase2 = scf.if %more -> (i1) {{\n"
                f"{second}scf.yield %r2#1 : i1\n}} else {{\nscf.yield %r#1 : i1\n}}\n"
            )
        if self.grouped:
            second = second.replace("%full", "%other")
        after = "%r#1" if self.grouped else "%phase2" if self.branch else "%r2#1"
        pair = "\n".join([first, *lines, second])
        if loop.executions == 2:
            pair = pair.replace("%phase0", "%false").replace("%e,", "%i0,")
            return self._own_tiles(whole[:start] + pair + whole[whole.index("}\n", last) + 2 :])
        step = head.replace("step %i1", "step %i2")
        pair += whole[last:].replace("%r#1", after, 1)
        return self._own_tiles(whole[:start] + step + whole[start + len(head) : body] + pair)

    def _annotated(self, second: str) -> str:
        notes = [f"async_pipe.num_stages = {self.stages} : i64"]
        notes += [f'async_pipe.issue = "{self.issue}"'] if self.issue else []
        notes += [f'async_pipe.roles = "{self.loop.roles}"'] if self.loop.roles else []
        if self.in_flight is not None:
            notes.append(f"async_pipe.in_flight = {self.in_flight} : i64")
        return re.sub(r"\{async_pipe.num_stages[^}]*\}", f"{{{', '.join(notes)}}}", second)

    def _own_tiles(self, text: str) -> str:
        if self.grouped:
            own = "\n".join(re.findall(r"[^\n]*%full(?: =|\[)[^\n]*", text.split("scf.for")[0]))
            own = own.replace("%full", "%other")
            text = text.replace("nvvm.fence.mbarrier.init", f"{own}\nnvvm.fence.mbarrier.init", 1)
        if not self.apart:
            return text
        return re.sub(r"%b(\d) = (memref.*)", r"%b\1 = \2\n%own\1 = \2", text)

    def module(self) -> Any:
        """The annotated module, parsed."""
        return parse(self.text())

    def right(self, module: Any, completion: str, schedule: str = "lockstep") -> str:
        """Run a form of it: "" if the output is NumPy's and nothing raced, else why not."""
        return _Shorter(**vars(self.loop), short=self.short).right(module, completion, schedule)


@dataclass(frozen=True)
class _Shorter(TensorLoop):
    """Of which odd executions are shorter: their last rows stay zero."""

    short: int = 0

    def expected(self, arguments: list[Any]) -> Any:
        out = super().expected(arguments)
        if self.short:
            assert self.reader == "loads"
            for e in range(1, self.executions, 2):
                out[e * self.trips + max(0, self.trips - self.short) : (e + 1) * self.trips] = 0
        return out
