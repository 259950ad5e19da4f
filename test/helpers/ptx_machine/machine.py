"""Runs one block of threads: those with the smallest program counter go first, all together.

Threads that diverge meet again where the ones ahead wait, since compilers lay joins out after
what joins there. Any order of threads is legal, so this is one of them; what depends on the
order is a race, and found as one.
"""

from __future__ import annotations

import numpy as np

from helpers.ptx_machine.copies import AsyncCopies
from helpers.ptx_machine.faults import PtxFault
from helpers.ptx_machine.program import Program, is_control
from helpers.ptx_machine.registers import UNSIGNED
from helpers.ptx_machine.syntax import Imm, Symbol, Vector

STEP_LIMIT = 200_000
_NOT_WAITING = -1


class Machine:
    def __init__(self, program: Program, memory, special: dict, completion: str, rng):
        self.program, self.memory, self.special = program, memory, special
        self.threads = len(special["%laneid"])
        self.every_lane = np.arange(self.threads)
        self.copies = AsyncCopies(self.threads, completion, rng)
        # What nobody wrote is a pattern that no right kernel computes with.
        unwritten = {
            bits: np.full(self.threads, 0xDEADBEEFDEADBEEF & ((1 << bits) - 1)).astype(kind)
            for bits, kind in UNSIGNED.items()
        }
        # A write puts another array in its place, so that many registers may begin as one.
        self.registers = [unwritten[program.widths[slot]] for slot in range(len(program.slots))]
        self.parameters: dict[tuple[str, str], np.ndarray] = {}
        self.returns: dict[str, np.ndarray] = {}
        self.inside: dict[str, np.ndarray] = {}
        for function in program.functions:
            for variable in (*function.parameters, *function.results, *function.variables):
                space = np.zeros((self.threads, variable.size), np.uint8)
                self.parameters[function.name, variable.name] = space
            self.returns[function.name] = np.zeros(self.threads, np.int64)
            self.inside[function.name] = np.zeros(self.threads, bool)
        self.pc = np.full(self.threads, program.entry[program.functions[0].name])
        self.done = np.zeros(self.threads, bool)
        self.barrier = np.full(self.threads, _NOT_WAITING)
        self.barrier_size = np.zeros(self.threads, np.int64)
        self.arrived: dict[int, np.ndarray] = {}
        self.held = np.zeros(self.threads, bool)
        self.executed = 0

    def lanes(self, mask) -> np.ndarray:
        return self.every_lane if mask is None else np.flatnonzero(mask)

    def active(self, mask) -> np.ndarray:
        return np.ones(self.threads, bool) if mask is None else mask

    def address_of(self, name: str, function: str) -> int:
        symbols = self.memory.symbols
        for key in (f"{function}.{name}", name):
            if key in symbols:
                return symbols[key]
        raise PtxFault("bad-program", f"no variable '{name}'")

    def run(self) -> None:
        together: int | None = int(self.pc[0])
        # Numbers overflow and divide by zero as on a chip, without a word.
        with np.errstate(all="ignore"):
            while True:
                if together is not None:
                    pc, mask = together, None
                else:
                    found = self._next()
                    if found is None:
                        return
                    pc, mask = found
                together = self._block(pc, mask)

    def _next(self):
        """The threads at the smallest program counter; None when all have ended."""
        ready = ~self.done & (self.barrier == _NOT_WAITING) & ~self.held
        if not ready.any():
            if self.done.all():
                return None
            self._release_or_fail()
            return self._next()
        pc = int(self.pc[ready].min())
        mask = ready & (self.pc == pc)
        return pc, None if mask.all() else mask

    def _block(self, pc: int, mask) -> int | None:
        """Run a block; returns where all threads go on together, None if they do not."""
        block = self.program.block(pc)
        if block.of_warp and mask is not None:
            mask = self._whole_warps(mask)
            if mask is None:
                return None
        self.executed += len(block.steps) + 1
        if self.executed > STEP_LIMIT:
            raise PtxFault("step-limit", f"more than {STEP_LIMIT} instructions")
        here = pc
        try:
            for here, step in block.steps:  # noqa: B007
                step(self, mask)
            here = block.end
            if self.held.any():
                self.held[:] = False
            if block.of_warp or block.end >= len(self.program.code):
                return self._go(block.end, mask)
            function, op = self.program.code[block.end]
            if is_control(op):
                return self._control(function, op, block.end, mask)
            return self._go(block.end, mask)
        except PtxFault as fault:
            if fault.line:
                raise
            op = self.program.code[here][1]
            raise PtxFault(fault.kind, f"{fault.message}: {op.text}", op.line) from fault

    def _whole_warps(self, mask):
        """Lanes of warps that have arrived whole; the others are held until something changes."""
        padded = np.zeros(-(-self.threads // 32) * 32, bool)
        needed = padded.copy()
        padded[: self.threads], needed[: self.threads] = mask, ~self.done
        whole = (padded.reshape(-1, 32) == needed.reshape(-1, 32)).all(axis=1)
        complete = mask & np.repeat(whole, 32)[: self.threads]
        self.held |= mask & ~complete
        return complete if complete.any() else None

    def _go(self, pc: int, mask) -> int | None:
        if mask is None:
            return pc
        self.pc[mask] = pc
        return None

    def _apart(self, here: int, mask) -> np.ndarray:
        """Bring the threads' own counters up to date before they part."""
        if mask is None:
            self.pc[:] = here
            return np.ones(self.threads, bool)
        return mask

    def _control(self, function, op, pc: int, mask) -> int | None:
        guard = self.program.guards.get(pc)
        taken = mask
        if guard is not None:
            chosen = guard(self)
            if mask is not None:
                chosen = chosen & mask
            if not chosen.any():
                return self._go(pc + 1, mask)
            if mask is not None or not chosen.all():
                active = self._apart(pc, mask)
                self.pc[active & ~chosen] = pc + 1
                taken = chosen
        match op.parts[0]:
            case "bra":
                return self._go(self.program.target(function, op.operands[0]), taken)
            case "brx":
                return self._branch_by_table(function, op, pc, taken)
            case "call":
                return self._call(function, op, pc, taken)
            case "ret" | "exit":
                return self._return(function, op, pc, taken)
            case "trap":
                raise PtxFault("bad-program", "trap")
        return self._bar(function, op, pc, taken)

    def _branch_by_table(self, function, op, pc: int, mask) -> int | None:
        active = self._apart(pc, mask)
        index = self.program.operands[function.name].get(op.operands[0], 32)(self)
        labels = function.tables[op.operands[1].name]
        if (index[active] >= len(labels)).any():
            raise PtxFault("bad-program", "brx.idx past its table")
        targets = np.array([self.program.target(function, Symbol(label)) for label in labels])
        self.pc[active] = targets[index[active]]
        return None

    def _call(self, function, op, pc: int, mask) -> int | None:
        """call (results), name, (arguments);"""
        at = next(
            (i for i, o in enumerate(op.operands) if getattr(o, "name", "") in self.program.entry),
            None,
        )
        if at is None:
            raise PtxFault("unknown-instruction", op.text)
        callee = self.program.module.functions[op.operands[at].name]
        active = self._apart(pc, mask)
        if self.inside[callee.name][active].any():
            raise PtxFault("unknown-instruction", "a function that calls itself")
        given = op.operands[at + 1].items if len(op.operands) > at + 1 else ()
        for symbol, parameter in zip(given, callee.parameters, strict=True):
            from_ = self.parameters[function.name, symbol.name]
            self.parameters[callee.name, parameter.name][active] = from_[active]
        self.returns[callee.name][active] = pc
        self.inside[callee.name] |= active
        return self._go(self.program.entry[callee.name], mask)

    def _return(self, function, op, pc: int, mask) -> int | None:
        active = self._apart(pc, mask)
        if function.kernel or op.parts[0] == "exit":
            self.done |= active
            return None
        self.inside[function.name] &= ~active
        sites = self.returns[function.name]
        for site in np.unique(sites[active]):
            here = active & (sites == site)
            caller, call = self.program.code[site]
            first = call.operands[0]
            results = first.items if isinstance(first, Vector) else ()
            for symbol, result in zip(results, function.results, strict=True):
                from_ = self.parameters[function.name, result.name]
                self.parameters[caller.name, symbol.name][here] = from_[here]
            self.pc[here] = site + 1
        return int(self.pc[0]) if mask is None and (self.pc == self.pc[0]).all() else None

    def _bar(self, function, op, pc: int, mask) -> int | None:
        """bar.sync a{, threads}; barrier.cta.sync; bar.arrive."""
        if "red" in op.parts or not all(isinstance(o, Imm) for o in op.operands):
            raise PtxFault("unknown-instruction", op.text)
        self.copies.some_may_complete(self)
        number = op.operands[0].value if op.operands else 0
        size = op.operands[1].value if len(op.operands) > 1 else 0
        if mask is None and size in (0, self.threads) and "arrive" not in op.parts:
            self.memory.ordering.whole_barrier()
            return pc + 1
        active = self._apart(pc, mask)
        if "arrive" in op.parts:
            gone = self.arrived.setdefault(number, np.zeros(self.threads, bool))
            if (gone & active).any():
                raise PtxFault("deadlock", "a thread arrives twice at a barrier")
            gone |= active
            self.pc[active] = pc + 1
            self._release(number, size)
            return None
        self.barrier[active], self.barrier_size[active], self.pc[active] = number, size, pc
        self._release(number, size)
        return None

    def _release(self, number: int, size: int) -> bool:
        """Let the threads that wait at a barrier go if all of them have come."""
        waiting = self.barrier == number
        gone = self.arrived.get(number, np.zeros(self.threads, bool))
        coming = np.count_nonzero(waiting) + np.count_nonzero(gone)
        if not waiting.any() or coming < (size or np.count_nonzero(~self.done)):
            return False
        self._check_converged(waiting)
        if coming == self.threads and not gone.any():
            self.memory.ordering.whole_barrier()
        else:
            self.memory.ordering.partial_barrier(
                np.flatnonzero(waiting | gone), np.flatnonzero(waiting)
            )
        self.pc[waiting] += 1
        self.barrier[waiting] = _NOT_WAITING
        self.arrived.pop(number, None)
        return True

    def _check_converged(self, waiting: np.ndarray) -> None:
        """bar.sync is aligned: all lanes of a warp have to run the same one."""
        places = np.where(waiting, self.pc, -1)
        for first in range(0, self.threads, 32):
            if len(np.unique(places[first : first + 32])) > 1:
                raise PtxFault("diverged", "the lanes of a warp are not all at this barrier")

    def _release_or_fail(self) -> None:
        """Threads that ended may have been the last that a barrier waited for."""
        for number in np.unique(self.barrier[self.barrier != _NOT_WAITING]):
            size = int(self.barrier_size[self.barrier == number].max())
            if self._release(int(number), size):
                return
        if self.held.any():
            raise PtxFault("diverged", "a warp is not together at an instruction of all lanes")
        raise PtxFault("deadlock", f"{np.count_nonzero(~self.done)} threads wait for ever")
