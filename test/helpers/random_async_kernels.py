"""Random small kernels with copies, groups, waits, barriers and reads, right or wrong.

Nothing in them is meant to be correct: the async machine says what races, and the checker has
to say the same. Loops, conditions, slot counters and both forms of waits are drawn at random.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

THREADS = 4
ROW = f"memref<3x{THREADS}xf32, 3>"
SOURCE = f"memref<24x{THREADS}xf32>"


@dataclass
class _Writer:
    random: Random
    lines: list[str] = field(default_factory=list)
    names: int = 0
    depth: int = 0
    slots: list[str] = field(default_factory=lambda: ["%c0", "%c1", "%c2"])
    rows: list[str] = field(default_factory=lambda: ["%c0", "%c1", "%c5"])
    tokens: list[str] = field(default_factory=list)

    def fresh(self) -> str:
        self.names += 1
        return f"%v{self.names}"

    def put(self, line: str) -> None:
        self.lines.append(line)


def random_kernel(seed: int, *, threads: bool = True) -> str:
    """A module with one kernel `k(A, B, n, p)`."""
    random = Random(seed)
    w = _Writer(random)
    w.put("module {")
    w.put(
        f"func.func @k(%A: {SOURCE} {{llvm.noalias}}, %n: index, %p: i1)"
        f" attributes {{gpu.known_block_size = array<i32: {THREADS if threads else 1}, 1, 1>}} {{"
    )
    for i in (0, 1, 2, 3, 5):
        w.put(f"%c{i} = arith.constant {i} : index")
    w.put("%zero = arith.constant 0.0 : f32")
    w.put(f"%s0 = memref.alloc() : {ROW}")
    w.put(f"%s1 = memref.alloc() : {ROW}")
    if threads:
        w.put("%t = gpu.thread_id x")
        w.put("%u = arith.subi %c3, %t : index")
    else:
        w.put("%t = arith.constant 0 : index")
        w.put("%u = arith.constant 0 : index")
    _copy(w)
    _block(w, random.randint(2, 5))
    if random.random() < 0.8:
        _loop(w)
    _block(w, random.randint(1, 4))
    w.put("nvvm.cp.async.commit.group")
    w.put("nvvm.cp.async.wait.group 0")
    w.put("return")
    w.put("}")
    w.put("}")
    return "\n".join(w.lines) + "\n"


def _block(w: _Writer, length: int) -> None:
    for _ in range(length):
        choice = w.random.random()
        if choice < 0.3:
            _copy(w)
        elif choice < 0.5:
            _commit(w)
        elif choice < 0.65:
            w.put(f"nvvm.cp.async.wait.group {w.random.randint(0, 2)}")
        elif choice < 0.75:
            w.put("gpu.barrier")
        elif choice < 0.9:
            _read(w)
        elif choice < 0.94:
            _store(w)
        elif w.depth < 2:
            _condition(w)


def _buffer(w: _Writer) -> str:
    return w.random.choice(["%s0", "%s0", "%s1"])


def _copy(w: _Writer) -> None:
    name = w.fresh()
    w.put(
        f"{name} = nvgpu.device_async_copy %A[{w.random.choice(w.rows)}, %t], "
        f"{_buffer(w)}[{w.random.choice(w.slots)}, %t], 1 : {SOURCE} to {ROW}"
    )
    if w.random.random() < 0.8:
        _commit(w)


def _commit(w: _Writer) -> None:
    w.put("nvvm.cp.async.commit.group")


def _read(w: _Writer) -> None:
    thread = w.random.choice(["%t", "%u"])
    w.put(f"{w.fresh()} = memref.load {_buffer(w)}[{w.random.choice(w.slots)}, {thread}] : {ROW}")


def _store(w: _Writer) -> None:
    if w.random.random() < 0.5:
        w.put(f"memref.store %zero, {_buffer(w)}[{w.random.choice(w.slots)}, %t] : {ROW}")
    else:
        w.put(f"memref.store %zero, %A[{w.random.choice(w.rows)}, %t] : {SOURCE}")


def _condition(w: _Writer) -> None:
    w.depth += 1
    w.put("scf.if %p {")
    _block(w, w.random.randint(1, 3))
    if w.random.random() < 0.5:
        w.put("} else {")
        _block(w, w.random.randint(1, 2))
    w.put("}")
    w.depth -= 1


def _loop(w: _Writer) -> None:
    bound = w.random.choice(["%n", "%n", "%c2", "%c5"])
    i = w.fresh()
    form = w.random.choice(["remainder", "carried", "rotated", "constant"])
    slots, rows = list(w.slots), list(w.rows)
    versions = w.random.choice([2, 3])
    if form in ("carried", "rotated"):
        a, b = w.fresh(), w.fresh()
        w.put(
            f"{w.fresh()}:2 = scf.for {i} = %c0 to {bound} step %c1"
            f" iter_args({a} = %c0, {b} = %c{versions - 1}) -> (index, index) {{"
        )
        w.slots = [a, b, a, b, "%c1"]
    else:
        w.put(f"scf.for {i} = %c0 to {bound} step %c1 {{")
    ahead = w.fresh()
    w.put(f"{ahead} = arith.addi {i}, %c{w.random.choice([1, 2, 3])} : index")
    w.rows = [i, ahead, ahead]
    if form == "remainder":
        a, b = w.fresh(), w.fresh()
        w.put(f"{a} = arith.remui {i}, %c{versions} : index")
        w.put(f"{b} = arith.remui {ahead}, %c{versions} : index")
        w.slots = [a, b]
    _block(w, w.random.randint(3, 8))
    if form == "rotated":
        w.put(f"scf.yield {b}, {a} : index, index")
    elif form == "carried":
        up, full, next_ = w.fresh(), w.fresh(), w.fresh()
        w.put(f"{up} = arith.addi {a}, %c1 : index")
        w.put(f"{full} = arith.cmpi eq, {up}, %c{versions} : index")
        w.put(f"{next_} = arith.select {full}, %c0, {up} : index")
        w.put(f"scf.yield {next_}, {a} : index, index")
    w.put("}")
    w.slots, w.rows = slots, rows
