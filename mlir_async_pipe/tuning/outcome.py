"""What became of one candidate."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """One candidate and its figures; None where a figure was not made.

    `parameters`: the values of the space. `code`, `message`: why there is no code, "" where there
    is. `registers`: of 32 bits, a thread. `spill_bytes`: stored and loaded, a thread.
    `shared_bytes`: of a block. `blocks`: that one multiprocessor holds at once. `cycles`,
    `stalls`: of thread 0 on the machine, by the table of costs. `cost`: what the caller measured,
    `work`: what the caller says that one block does.
    `text`, `binary`: the emitted code.
    """

    parameters: dict[str, Any]
    code: str = ""
    message: str = ""
    registers: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int | None = None
    blocks: int | None = None
    cycles: float | None = None
    stalls: float | None = None
    cost: float | None = None
    work: float = 1
    text: str = field(default="", repr=False)
    binary: bytes = field(default=b"", repr=False)

    @property
    def failed(self) -> bool:
        """Whether there is no code, or none that may be used."""
        return bool(self.code)

    @property
    def cycles_of_work(self) -> float | None:
        """Cycles of a multiprocessor for one unit of work, with `blocks` blocks resident.

        While one block stalls another one computes: B blocks take max(total, B * (total - stalls))
        cycles. 1000 cycles with 600 of them stalled: 1000 for one block, 500 each for two, 400 each
        for three or more; that is divided by what each block does.
        """
        if self.cycles is None or self.stalls is None:
            return None
        of_block = max(self.cycles / max(self.blocks or 1, 1), self.cycles - self.stalls)
        return of_block / self.work

    @property
    def order(self) -> tuple[Any, ...]:
        """What candidates are sorted by, the best one first: those with code; measured ones by
        their cost; those without spills; fewest cycles for their work; most blocks; fewest
        registers; and the parameters, so that the order never depends on who came first."""
        return (
            self.failed,
            _known(self.cost),
            bool(self.spill_bytes),
            _known(self.cycles_of_work),
            -(self.blocks or 0),
            _known(self.registers),
            json.dumps(self.parameters, sort_keys=True, default=str),
        )

    def figures(self) -> dict[str, Any]:
        """All fields but the code, for tables."""
        found = asdict(replace(self, text="", binary=b""))
        return {key: value for key, value in found.items() if key not in ("text", "binary")}


def _known(number: float | None) -> tuple[bool, float]:
    return number is None, number or 0
