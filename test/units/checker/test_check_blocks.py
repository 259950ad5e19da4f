"""Global memory: threads of a block, and blocks of the grid, with and without places of their own.

Each kernel that races stands beside one that does not; the machine runs both, as a grid of 3 x 2
blocks, and says the same. Random kernels beside the machine: what it finds is never passed.

Covers: checker/owners.py, checker/footprints.py, checker/grid_blocks.py
"""

from __future__ import annotations

import os
from random import Random

import numpy as np
import pytest

from helpers.check_harness import Checked, check_text
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.checker.overlap import Comparer

THREADS, GRID, SIZE = 8, (3, 2, 1), 1024
FOUND = {"missing-barrier", "cross-block"}
HEAD = """
gpu.module @m {{
  gpu.func @k(%A: memref<1024xf32> {{llvm.noalias}}, %C: memref<64x64xf32> {{llvm.noalias}})
      kernel attributes {{{attributes}}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %c7 = arith.constant 7 : index
    %c8 = arith.constant 8 : index
    %c24 = arith.constant 24 : index
    %c48 = arith.constant 48 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    {body}
    gpu.return
  }}
}}
"""
BLOCK = "known_block_size = array<i32: 8, 1, 1>"
KNOWN_GRID = ", known_grid_size = array<i32: 3, 2, 1>"
X = "%b = gpu.block_id x\n"
XY = X + "%by = gpu.block_id y\n"
STORE = "memref.store %zero, %A[{0}] : memref<1024xf32>"
LOAD = "%v{1} = memref.load %A[{0}] : memref<1024xf32>"


def store(place: str) -> str:
    return STORE.format(place)


def load(place: str) -> str:
    return LOAD.format(place, place[1:])


def let(name: str, op: str, *operands: str) -> str:
    comma = ", " if op.startswith("cmpi") else " "
    return f"{name} = arith.{op}{comma}{', '.join(operands)} : index\n"


# block * blocks + t, over both axes of the grid.
ROW = let("%r0", "muli", "%by", "%c3") + let("%row", "addi", "%r0", "%b")
FLAT = ROW + let("%f0", "muli", "%row", "%c8") + let("%flat", "addi", "%f0", "%t")
NEXT = FLAT + let("%next", "addi", "%flat", "%c8")
TIGHT = ROW + let("%h0", "muli", "%row", "%c4") + let("%tight", "addi", "%h0", "%t")
TILE = (
    let("%high", "divui", "%t", "%c4")
    + let("%low", "remui", "%t", "%c4")
    + let("%y0", "muli", "%by", "{rows}")
    + let("%y", "addi", "%y0", "%high")
    + let("%x0", "muli", "%b", "%c4")
    + let("%x", "addi", "%x0", "%low")
    + "memref.store %zero, %C[%y, %x] : memref<64x64xf32>"
)
STEPS = """{grid} = gpu.grid_dim x
scf.for %i = {first} to %c24 step {grid} {{
  %p0 = arith.muli %i, %c8 : index
  %place = arith.addi %p0, %t : index
  {store}
}}"""
PERSISTENT = X + STEPS.format(first="%b", grid="%g", store=store("%place"))
ALL_TILES = X + STEPS.format(first="%c0", grid="%g", store=store("%place"))
ONLY = let("%first", "cmpi eq", "%b", "%c0")
BY = let("%firsty", "cmpi eq", "%by", "%c0") + "%alone = arith.andi %first, %firsty : i1\n"
OPPOSITE = let("%o", "subi", "%c7", "%t")
# Name, a kernel that races between blocks, the same kernel mended.
BLOCKS = {
    "a store that no block id decides": (
        X + let("%sum", "addi", "%b", "%c1") + "%n = memref.load %A[%sum] : memref<1024xf32>\n"
        + store("%c0"),
        XY + ONLY + BY + "scf.if %alone { "
        + let("%z", "cmpi eq", "%t", "%c0") + "scf.if %z { " + store("%c0") + " } }",
    ),
    "tiles that overlap": (XY + TIGHT + store("%tight"), XY + FLAT + store("%flat")),
    "a read of the next block's tile": (
        XY + NEXT + load("%next") + "\n" + store("%flat"),
        XY + FLAT + load("%flat") + "\n" + store("%flat"),
    ),
    "two-dimensional tiles": (XY + TILE.format(rows="%c1"), XY + TILE.format(rows="%c2")),
    # Of three blocks along x the first and the last.
    "every second block": (
        XY + let("%half", "remui", "%b", "%c2") + FLAT.replace("%r0, %b ", "%r0, %half ") + store("%flat"),
        XY + let("%half", "remui", "%b", "%c3") + FLAT.replace("%r0, %b ", "%r0, %half ") + store("%flat"),
    ),
    "persistent blocks": (ALL_TILES, None),
    "an atomic beside a store": (
        XY + FLAT + "%a = memref.atomic_rmw addf %zero, %A[%c0] : (f32, memref<1024xf32>) -> f32\n"
        + let("%far", "addi", "%flat", "%c48") + store("%flat"),
        XY + FLAT + "%a = memref.atomic_rmw addf %zero, %A[%c0] : (f32, memref<1024xf32>) -> f32\n"
        + let("%far", "addi", "%flat", "%c48") + store("%far"),
    ),
}  # fmt: skip
# The same for the threads of one block.
INSIDE = {
    "a store that all threads make": (store("%c0"), store("%t")),
    "a read of another thread's place": (
        OPPOSITE + store("%t") + "\n" + load("%o"),
        OPPOSITE + store("%t") + "\ngpu.barrier\n" + load("%o"),
    ),
    "a barrier for other memory": (
        OPPOSITE + store("%t") + "\ngpu.barrier memfence [#gpu.address_space<workgroup>]\n"
        + load("%o"),
        OPPOSITE + store("%t") + "\ngpu.barrier memfence [#gpu.address_space<global>]\n"
        + load("%o"),
    ),
    "iterations that overlap": (
        "scf.for %i = %c0 to %c4 step %c1 {\n" + let("%p", "addi", "%i", "%t") + store("%p") + "\n}",
        "scf.for %i = %c0 to %c4 step %c1 {\n" + let("%q", "muli", "%i", "%c8")
        + let("%p", "addi", "%q", "%t") + store("%p") + "\n}",
    ),
    "a row that iteration and thread decide together": tuple(
        "scf.for %i = %c0 to %c8 step %c1 {\n" + let("%x", "xori", "%i", "%t")
        + let("%y", "muli", "%x", "%c48") + let("%z", "remui", "%t", column)
        + let("%p", "addi", "%y", "%z") + store("%p") + "\n}"
        for column in ("%c2", "%c8")
    ),
}  # fmt: skip


def text_of(body: str, *, known: bool = True) -> str:
    return HEAD.format(body=body, attributes=BLOCK + (KNOWN_GRID if known else ""))


def machine_codes(text: str, grid: tuple[int, int, int] = GRID, threads: int = THREADS) -> set[str]:
    with new_context():
        module = ir.Module.parse(text)
        arrays = [np.zeros(SIZE, np.float32), np.zeros((64, 64), np.float32)]
        result = machine.run(module, "k", arrays, threads=threads, grid=grid)
        return set(result.race_codes) & FOUND


def verdict(checked: Checked) -> set[str]:
    return {code for code, _ in checked.unsafe}


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_that_touch_one_place_race(name: str) -> None:
    text = text_of(BLOCKS[name][0])
    assert "cross-block" in {code for code, _ in check_text(text).unsafe | check_text(text).unknown}
    assert "cross-block" in machine_codes(text)


CERTAIN = [name for name in BLOCKS if name != "persistent blocks"]


@pytest.mark.parametrize("name", CERTAIN)
def test_such_a_race_is_certain_where_the_places_are_numbers(name: str) -> None:
    assert "cross-block" in verdict(check_text(text_of(BLOCKS[name][0])))


RIGHT = [name for name, (_, right) in BLOCKS.items() if right is not None]


@pytest.mark.parametrize("name", RIGHT)
def test_blocks_with_places_of_their_own_are_safe(name: str) -> None:
    text = text_of(BLOCKS[name][1])
    checked = check_text(text)
    assert (checked.unsafe, checked.unknown) == (frozenset(), frozenset())
    assert not machine_codes(text)


def test_persistent_blocks_each_have_their_own_tiles() -> None:
    text = text_of(PERSISTENT, known=False)
    checked = check_text(text)
    assert (checked.unsafe, checked.unknown) == (frozenset(), frozenset())
    assert not machine_codes(text, (3, 1, 1))


@pytest.mark.parametrize("name", INSIDE)
def test_threads_of_a_block_race_in_global_memory(name: str) -> None:
    wrong, right = (text_of(body, known=False) for body in INSIDE[name])
    assert verdict(check_text(wrong)) == {"missing-barrier"}
    assert machine_codes(wrong, (1, 1, 1)) == {"missing-barrier"}
    checked = check_text(right)
    assert (checked.unsafe, checked.unknown) == (frozenset(), frozenset())
    assert not machine_codes(right, (1, 1, 1))


def test_a_kernel_that_reads_no_block_id_runs_as_one_block_unless_it_is_said() -> None:
    alone = text_of(store("%t"), known=False)
    assert not check_text(alone).unsafe
    assert verdict(check_text(alone, assume_several_blocks=True)) == {"cross-block"}
    assert verdict(check_text(text_of(store("%t")))) == {"cross-block"}


# Clusters of 3 x 2 blocks, by what tells their blocks apart: what a kernel stores at, and whether blocks race in a grid
# of which nothing says how large it is (None: undecided; else of such a size), of one cluster, and of two.
IN_CLUSTER = {
    "its number in the cluster": (
        "%r = nvvm.read.ptx.sreg.cluster.ctarank : i32\n%row = arith.index_cast %r : i32 to index\n",
        (False, (3, 2, 1)), False, True,
    ),
    "the cluster": ("%row = gpu.cluster_id x\n", (True, (6, 2, 1)), True, True),
    "cluster and number": (
        "%cx = gpu.cluster_id x\n%cy = gpu.cluster_id y\n%nx = gpu.cluster_dim x\n"
        "%r = nvvm.read.ptx.sreg.cluster.ctarank : i32\n%rank = arith.index_cast %r : i32 to index\n"
        "%n = nvvm.read.ptx.sreg.cluster.nctarank : i32\n%count = arith.index_cast %n : i32 to index\n"
        + let("%m0", "muli", "%cy", "%nx") + let("%m", "addi", "%m0", "%cx")
        + let("%k", "muli", "%m", "%count") + let("%row", "addi", "%k", "%rank"),
        (None, (6, 2, 1)), False, False,
    ),
    "its column and row": (
        "%r = gpu.cluster_block_id y\n%s = gpu.cluster_block_id x\n%w = gpu.cluster_dim_blocks x\n"
        + let("%r0", "muli", "%r", "%w") + let("%row", "addi", "%r0", "%s"),
        (False, (3, 2, 1)), False, True,
    ),
    "its column": ("%row = gpu.cluster_block_id x\n", (True, (3, 2, 1)), True, True),
    "its column, and the row in the grid": (
        "%by = gpu.block_id y\n%s = gpu.cluster_block_id x\n"
        + let("%r0", "muli", "%by", "%c3") + let("%row", "addi", "%r0", "%s"),
        (False, (3, 4, 1)), False, True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("grid", [None, (3, 2, 1), (6, 2, 1)], ids=["unknown", "one", "two"])
@pytest.mark.parametrize("name", IN_CLUSTER)
def test_blocks_of_a_cluster_are_told_apart_by_their_ids_there(name, grid) -> None:
    """Of an axis whose block id nothing reads there is one cluster, where nothing says how many there are."""
    ids, (by_itself, size), in_one, in_two = IN_CLUSTER[name]
    body = f"{ids}%c32 = arith.constant 32 : index\n"
    body += let("%p0", "muli", "%row", "%c32") + let("%p", "addi", "%p0", "%t") + store("%p")
    attributes = "known_block_size = array<i32: 32, 1, 1>, known_cluster_size = array<i32: 3, 2, 1>"
    if grid is not None:
        attributes += f", known_grid_size = array<i32: {grid[0]}, {grid[1]}, 1>"
    text = HEAD.format(body=body, attributes=attributes)
    races = {None: by_itself, (3, 2, 1): in_one, (6, 2, 1): in_two}[grid]
    checked = check_text(text)
    assert bool(checked.unsafe | checked.unknown) == (races is not False)
    assert bool(machine_codes(text, grid or size, 32)) == bool(races)
    if races and name in ("the cluster", "its column"):
        assert verdict(checked) == {"cross-block"}


@pytest.mark.parametrize("size", ["", BLOCK])
def test_one_place_for_each_thread_of_the_grid_is_proven(size: str) -> None:
    """Also where neither block nor grid have a known size, and by a loop over the grid."""
    start = X + "%d = gpu.block_dim x\n%g = gpu.grid_dim x\n"
    start += let("%s0", "muli", "%b", "%d") + let("%s", "addi", "%s0", "%t")
    once = start + store("%s")
    stride = start + let("%step", "muli", "%g", "%d")
    loop = stride + "scf.for %i = %s to %c48 step %step {\n" + store("%i") + "\n}"
    for body in (once, loop, "%i = gpu.global_id x\n" + store("%i")):
        checked = check_text(HEAD.format(body=body, attributes=size))
        assert (checked.unsafe, checked.unknown) == (frozenset(), frozenset())


def test_a_block_that_the_data_chooses_is_unknown() -> None:
    """The last block to arrive writes the result: that it is one cannot be seen."""
    body = (
        X
        + """%one = arith.constant 1.0 : f32
    %old = memref.atomic_rmw addf %one, %C[%c0, %b] : (f32, memref<64x64xf32>) -> f32
    %last = arith.cmpf oeq, %old, %one : f32
    scf.if %last { %z = arith.cmpi eq, %t, %c0 : index
      scf.if %z { memref.store %one, %A[%c0] : memref<1024xf32> } }"""
    )
    checked = check_text(text_of(body))
    assert not checked.unsafe
    assert {h.reason for h in checked.report.of("hazards")} == {"other-blocks"}


def test_arguments_that_may_be_one_memory_are_unknown() -> None:
    text = text_of("%x = memref.load %A[%t] : memref<1024xf32>\n"
                   "memref.store %x, %C[%c0, %t] : memref<64x64xf32>", known=False)  # fmt: skip
    assert not check_text(text).unknown
    text = text.replace(" {llvm.noalias}", "")
    (hazard,) = check_text(text).report.of("hazards")
    assert (hazard.verdict, hazard.reason) == ("unknown", "may-alias")
    assert not check_text(text, assume_noalias_arguments=True).unknown


# Tile i of %n columns: row i / %n, column i mod %n; what each block stores at, and for which %n.
TILES_OF_ROWS = let("%row", "divui", "%i", "%n") + let("%col", "remui", "%i", "%n")
TILES_OF_ROWS += let("%x0", "muli", "%col", "%c8") + let("%x", "addi", "%x0", "%t")
ALIKE = "%n = gpu.grid_dim y\n"
DYNAMIC_TILES = {
    "row and column": (ALIKE, "%row, %x", True),
    "column and row": (ALIKE, "%col, %row", True),
    "the row alone": (ALIKE, "%row, %t", False),
    "the column alone": (ALIKE, "%c0, %x", False),
    "another divisor in each block": (let("%n", "addi", "%b", "%c1"), "%row, %x", False),
}


@pytest.mark.parametrize("name", DYNAMIC_TILES)
def test_quotient_and_remainder_by_a_number_of_the_launch_tell_tiles_apart(name: str) -> None:
    """Blocks with one quotient and one remainder have one tile, if they divide by one number."""
    divisor, place, right = DYNAMIC_TILES[name]
    tile = TILES_OF_ROWS + f"memref.store %zero, %C[{place}] : memref<64x64xf32>"
    body = X + divisor + STEPS.format(first="%b", grid="%g", store=tile)
    checked = check_text(text_of(body, known=False))
    assert "cross-block" not in verdict(checked)
    assert ("cross-block" in {code for code, _ in checked.unknown}) != right


def test_a_place_that_each_block_computes_is_no_certain_race() -> None:
    """Of a loaded number nobody knows that two blocks get the same one, nor that they do not."""
    body = (
        X
        + """%bits = memref.load %A[%b] : memref<1024xf32>
    %word = arith.fptoui %bits : f32 to i32
    %i = arith.index_cast %word : i32 to index
    memref.store %zero, %C[%i, %t] : memref<64x64xf32>"""
    )
    checked = check_text(text_of(body))
    assert not checked.unsafe
    assert {h.reason for h in checked.report.of("hazards")} == {"other-blocks"}


def test_threads_divide_by_numbers_of_threads() -> None:
    """t / (7 - t) is no number of one thread: the kernel is not proven, nor given up with."""
    body = OPPOSITE + let("%q", "divui", "%t", "%o") + store("%q")
    assert {c for c, _ in check_text(text_of(body, known=False)).unknown} == {"missing-barrier"}


def random_body(seed: int) -> str:
    """Accesses at sums of block, thread and iteration numbers, barriers and conditions."""
    random = Random(seed)
    lines = [XY + ONLY + let("%small", "cmpi ult", "%t", "%c4")]
    names = iter(range(100))

    def place(extra: list[str]) -> str:
        name = f"%p{next(names)}"
        parts = random.sample(["%t", "%b", "%by", *extra], random.randint(1, 3))
        lines.append(let(f"{name}_0", "addi", "%c0", random.choice(["%c0", "%c1", "%c48"])).strip())
        for number, part in enumerate(parts):
            factor = "%c1" if part == "%t" else random.choice(["%c4", "%c8", "%c24", "%c48"])
            lines.append(let(f"{name}_m{number}", "muli", part, factor).strip())
            lines.append(
                let(f"{name}_{number + 1}", "addi", f"{name}_{number}", f"{name}_m{number}").strip()
            )
        return f"{name}_{len(parts)}"

    def access(extra: list[str]) -> None:
        at = place(extra)
        lines.append(store(at) if random.random() < 0.6 else load(at))

    for _ in range(random.randint(1, 3)):
        kind = random.choice(["plain", "plain", "loop", "if", "barrier"])
        if kind == "plain":
            access([])
        elif kind == "barrier":
            lines.append("gpu.barrier")
        elif kind == "if":
            lines.append(f"scf.if {random.choice(['%first', '%small'])} {{")
            access([])
            lines.append("}")
        else:
            variable = f"%i{next(names)}"
            lines.append(f"scf.for {variable} = %c0 to %c3 step %c1 {{")
            access([variable])
            if random.random() < 0.3:
                lines.append("gpu.barrier")
            lines.append("}")
    return "\n".join(lines)


@pytest.mark.slow
def test_what_the_machine_finds_in_random_kernels_is_never_passed() -> None:
    """Law: a race of threads or blocks in a run is unsafe or unknown. Most kernels that run
    without one are proven; a place that only a larger grid would share is not looked for."""
    count = 4000 if os.environ.get("ASYNC_PIPE_NIGHTLY") else 60
    clean = unknown = 0
    for seed in range(count):
        text = text_of(random_body(seed))
        checked = check_text(text)
        reported = {code for code, _ in checked.unsafe | checked.unknown}
        races = machine_codes(text)
        assert races <= reported, f"seed {seed}: {races} {reported}\n{text}"
        if not races:
            clean += 1
            assert not checked.unsafe, f"seed {seed}\n{text}"
            unknown += bool(checked.unknown)
    print(f"\nrandom kernels: {count}, without a race: {clean}, of which unknown: {unknown}")
    assert unknown <= 0.2 * clean


HOST = """
func.func @k() {{
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %x = {alloc} () : memref<32x32xf32>
  %y = {alloc} () : memref<32x32xf32>
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c32, %gy = %c1, %gz = %c1)
      threads(%tx, %ty, %tz) in (%sx = %c32, %sy = %c1, %sz = %c1) {{
    %v = memref.load %x[%bx, %tx] : memref<32x32xf32>
    memref.store %v, {target} : memref<32x32xf32>
    gpu.terminator
  }}
  return
}}
"""


@pytest.mark.parametrize("alloc", ["memref.alloc", "gpu.alloc"])
@pytest.mark.parametrize("target", ["%y[%bx, %tx]", "%x[%c1, %tx]"])
def test_two_allocations_of_the_host_are_two_memories(alloc: str, target: str) -> None:
    checked = check_text(HOST.format(alloc=alloc, target=target))
    assert not checked.unknown
    found = {code for code, _ in checked.unsafe}
    assert found == ({"cross-block"} if target.startswith("%x") else set())


GUARDED = """
gpu.module @m {{
  gpu.func @k(%A: memref<4096xf32> {{llvm.noalias}}) kernel
      attributes {{known_block_size = array<i32: 256, 1, 1>, known_grid_size = array<i32: 4, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c7 = arith.constant 7 : index
    %c128 = arith.constant 128 : index
    %by = arith.constant {by} : index
    %high = arith.constant -{by} : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %b = gpu.block_id x
    {condition}
    scf.if %p {{
      %first = arith.muli %b, %c128 : index
      scf.for %i = %c0 to %c128 step %c128 {{
        %row = arith.addi %first, %i : index
        %at = arith.addi %row, %t : index
        memref.store %zero, %A[%at] : memref<4096xf32>
      }}
    }}
    gpu.return
  }}
}}
"""
GUARDS = {
    "quotient": """%q = arith.divui %t, %by : index
    %p = arith.cmpi eq, %q, %c0 : index""",
    "quotient below 1": """%q = arith.divui %t, %by : index
    %p = arith.cmpi ult, %q, %c1 : index""",
    "quotient not 0": """%q = arith.divui %t, %by : index
    %p = arith.cmpi ne, %q, %c0 : index""",
    "signed quotient": """%q = arith.floordivsi %t, %by : index
    %p = arith.cmpi eq, %q, %c1 : index""",
    "mask": """%q = arith.andi %t, %high : index
    %p = arith.cmpi eq, %q, %c0 : index""",
    "shift": """%q = arith.shrui %t, %c7 : index
    %p = arith.cmpi eq, %q, %c0 : index""",
}


@pytest.mark.parametrize("name", GUARDS)
def test_a_guard_on_a_part_of_the_thread_id_bounds_the_id(name: str) -> None:
    """128 threads of 256 store to 128 places of their block."""
    checked = check_text(GUARDED.format(by=128, condition=GUARDS[name]))
    assert not checked.unknown and not checked.unsafe


def test_a_guard_that_lets_more_threads_through_is_no_proof() -> None:
    checked = check_text(GUARDED.format(by=129, condition=GUARDS["quotient"]))
    assert "cross-block" in {code for code, _ in checked.unsafe | checked.unknown}


@pytest.mark.parametrize(("number", "races"), [("0", False), ("1", True)])
def test_what_a_path_knows_of_its_block_outlives_the_sides_of_a_branch_on_threads(number, races):
    """Of three blocks all but those from `number` on store: one block alone, or two of them."""
    text = """
func.func @k(%A: memref<8xf32>) attributes {gpu.known_block_size = array<i32: 8, 1, 1>,
    gpu.known_grid_size = array<i32: 3, 1, 1>} {
  %c0 = arith.constant 0 : index
  %last = arith.constant NUMBER : index
  %zero = arith.constant 0.0 : f32
  %s = memref.alloc() : memref<8xf32, 3>
  %t = gpu.thread_id x
  %b = gpu.block_id x
  %few = arith.cmpi ule, %b, %last : index
  %first = arith.cmpi eq, %t, %c0 : index
  scf.if %few {
    scf.if %first {
      memref.store %zero, %s[%t] : memref<8xf32, 3>
    }
    memref.store %zero, %A[%t] : memref<8xf32>
  }
  return
}"""
    checked = check_text(text.replace("NUMBER", number))
    assert {code for code, _ in checked.unsafe} == ({"cross-block"} if races else set())
    assert not checked.unknown


OWN_ROWS = """
gpu.module @m {
  gpu.func @k(%O: memref<?xf32> {llvm.noalias}, %n: index) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>ASSERTED} {
    %c0 = arith.constant 0 : index
    %c256 = arith.constant 256 : index
    %zero = arith.constant 0.0 : f32
    %block = gpu.block_id x
    %t = gpu.thread_id x
    %begin = arith.muli %block, EACH overflow<nsw> : index
    scf.for %i = %c0 to EACH step %c256 {
      %row = arith.addi %begin, %i : index
      %place = arith.addi %row, %t : index
      memref.store %zero, %O[%place] : memref<?xf32> loc("rows.py":7:5)
      %next = arith.addi %place, %c256 : index
      memref.store %zero, %O[%place] : memref<?xf32> loc("rows.py":7:5)
    }
    gpu.return
  }
}
"""


def rows_of(each: str, asserted: str = "") -> Checked:
    return check_text(OWN_ROWS.replace("EACH", each).replace("ASSERTED", asserted))


def test_blocks_of_a_length_that_is_given_are_reported_once_for_each_line_and_what_helps() -> None:
    """Rows of 300 elements in steps of 256 threads: block 0 stores to 300 … 511, as block 1 does."""
    (reported,) = rows_of("%n").report.diagnostics
    assert reported.place.line == 7
    assert "(other-blocks)" in reported.message
    (advice,) = [note.message for note in reported.notes if "give each block" in note.message]
    assert "constant number of elements" in advice
    assert "`async_pipe.independent`" in advice
    # And with either advice followed:
    assert not rows_of("%c256").report.diagnostics
    assert not rows_of("%n", ", async_pipe.independent").report.diagnostics


POINTERS = """
llvm.func @f(i32) -> !llvm.ptr<1>
llvm.func @k(%one: !llvm.ptr<1> {{llvm.noalias}}, %other: !llvm.ptr<1> {{llvm.noalias}}) attributes {{
    nvvm.kernel, nvvm.reqntid = array<i32: 32, 1, 1>, gpu.known_grid_size = array<i32: {blocks}, 1, 1>}} {{
  %t = nvvm.read.ptx.sreg.tid.x : i32
  %b = nvvm.read.ptx.sreg.ctaid.x : i32
  %zero = llvm.mlir.constant(0 : i32) : i32
  %first = llvm.icmp "eq" %b, %zero : i32
  %lead = llvm.icmp "eq" %t, %zero : i32
  %s = llvm.mlir.zero : !llvm.ptr<3>
  %p = {pointer}
  %q = llvm.getelementptr %p[{at}] : (!llvm.ptr<{space}>, i32) -> !llvm.ptr<{space}>, i32
  llvm.store %t, %q : i32, !llvm.ptr<{space}>
  llvm.return
}}"""
CHOSEN = "llvm.select {condition}, %one, %other : i1, !llvm.ptr<1>"


@pytest.mark.parametrize(
    ("condition", "at", "blocks", "found"),
    [
        ("%first", "%t", 1, "proven"),
        ("%first", "%t", 2, "proven"),
        ("%first", "%t", 3, "unknown"),
        ("%lead", "%t", 1, "proven"),
        ("%lead", "%zero", 1, "unsafe"),
    ],
)
def test_pointers_that_ids_choose_are_followed_each(
    condition: str, at: str, blocks: int, found: str
) -> None:
    """Blocks 1 and 2 both store to %other; thread 0 alone stores to %one."""
    pointer = CHOSEN.format(condition=condition)
    checked = check_text(POINTERS.format(pointer=pointer, at=at, blocks=blocks, space=1))
    assert bool(checked.unsafe) == (found == "unsafe")
    assert bool(checked.unknown) == (found == "unknown")


@pytest.mark.parametrize(
    ("pointer", "space"),
    [
        ("llvm.call @f(%b) : (i32) -> !llvm.ptr<1>", 1),
        ("nvvm.mapa %s, %b : !llvm.ptr<3> -> !llvm.ptr<7>", 7),
    ],
)
def test_pointers_of_unknown_origin_need_not_be_one_in_two_blocks(pointer: str, space: int) -> None:
    """Each block may have another one: no error, and not proven."""
    checked = check_text(POINTERS.format(pointer=pointer, at="%t", blocks=2, space=space))
    assert not checked.unsafe
    assert "cross-block" in {code for code, _ in checked.unknown}


VERSIONS = """
gpu.module @m {{
  gpu.func @k(%A: memref<?xf32, strided<[?], offset: ?>>, %n: index)
      kernel attributes {{known_block_size = array<i32: 8, 1, 1>}} {{
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c7 = arith.constant 7 : index
    %c8 = arith.constant 8 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %b = gpu.block_id x
    %own = arith.muli %b, %c8 : index
    %one = arith.addi %own, %t : index
    %next = arith.addi %one, %c8 : index
    %turned = arith.subi %c7, %t : index
    %back = arith.addi %own, %turned : index
    {number}
    %rest = arith.andi %number, %c1 : index
    %odd = arith.cmpi eq, %rest, %c1 : index
    scf.if %odd {{
      memref.store %zero, %A[%one] : memref<?xf32, strided<[?], offset: ?>>
    }} else {{
      memref.store %zero, %A[{other}] : memref<?xf32, strided<[?], offset: ?>>
    }}
    gpu.return
  }}
}}
"""
METADATA = (
    "%base, {}, %size, {} = memref.extract_strided_metadata {} : memref<?xf32, strided<[?], offset: ?>>"
    " -> memref<f32>, index, index, index"
)
ADDRESS = "%number = memref.extract_aligned_pointer_as_index {} : {} -> index"
OF_BLOCK = "%V = memref.subview %A[%b] [%n] [1] : memref<?xf32, strided<[?], offset: ?>> to memref<?xf32, strided<[?], offset: ?>>\n"
NUMBERS = {
    "stride": (METADATA.format("%o", "%number", "%A"), True),
    "offset": (METADATA.format("%number", "%s", "%A"), True),
    "address": (ADDRESS.format("%A", "memref<?xf32, strided<[?], offset: ?>>"), True),
    "argument": ("%number = arith.addi %n, %c1 : index", True),
    "offset of a view of the block's own": (
        OF_BLOCK + METADATA.format("%number", "%s", "%V"),
        False,
    ),
    "block": ("%number = arith.addi %b, %c1 : index", False),
}


@pytest.mark.parametrize("other", ["%next", "%back"])
@pytest.mark.parametrize("name", NUMBERS)
def test_versions_that_a_number_of_the_launch_chooses_meet_nowhere(name: str, other: str) -> None:
    """%next is what the next block stores in the other version; %back is another thread's place of this block."""
    number, of_launch = NUMBERS[name]
    checked = check_text(VERSIONS.format(number=number, other=other))
    proven = of_launch or other == "%back"
    assert (not checked.unsafe and not checked.unknown) == proven


def test_versions_of_stores_are_not_compared_store_by_store(monkeypatch) -> None:
    """64 stores in each version: threads meet in none of them, so that no two stores are compared."""
    asked = []
    overlap = Comparer.overlap

    def counted(*given, **more):
        asked.append(given)
        return overlap(*given, **more)

    monkeypatch.setattr(Comparer, "overlap", counted)
    one = "memref.store %zero, %A[{}] : memref<?xf32, strided<[?], offset: ?>>"

    def stores(at: str, name: str) -> str:
        return "\n".join(
            f"%k{name}{n} = arith.constant {8 * n} : index\n%{name}{n} = arith.addi {at}, %k{name}{n} : index\n"
            + one.format(f"%{name}{n}")
            for n in range(64)
        )

    text = VERSIONS.replace("%c8 = arith.constant 8", "%c8 = arith.constant 512")
    text = text.replace(one.format("%one"), stores("%one", "p"))
    text = text.replace(one.format("{other}"), stores("%back", "q"))
    checked = check_text(text.format(number=NUMBERS["stride"][0]))
    assert not checked.unsafe
    assert not checked.unknown
    assert not asked
