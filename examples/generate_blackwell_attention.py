"""Writes flash attention for Blackwell with the warps of FlashAttention-4, by hand, or as a plain loop: tensor copies and tcgen05.

    python examples/generate_blackwell_attention.py --groups=2 > attention.mlir
    python examples/generate_blackwell_attention.py --features=128 --keys=128 --groups=2 --overlaid
    python examples/generate_blackwell_attention.py --plain --roles=specialised

O = softmax(Q K^T / sqrt(D)) V for each head. Q, K and V are [heads * positions, D], O is [heads, positions, D];
block x of head y makes 128 rows of O a group. The warps of a block have roles:

    softmax g:   wait scored[g]; load S; wait taken[g]; store the factor; arrive changed[g]; store P; arrive weighed[g]
    correction:  wait changed[g]; load the factor; arrive taken[g]; O times it; arrive scaled[g]; wait summed[g]
    copies:      wait empty[slot]; announce, copy K and V                                      full[slot]
    products:    wait full[slot]; S[g] = Q[g] K^T; commit scored[g]
                 wait weighed[g], scaled[g]; O[g] += P[g] V; commit summed[g]; commit empty[slot]

S, P, the factors and O are in tensor memory; P is the left operand of its product there, two elements of 16 bits in a
cell. One thread issues all products, so the commit of the next scores also says that P was read. With `--overlaid` P and the
factors are where the scores were, so that two groups of 128 rows, 128 keys and 128 features fit; then the products of the next
scores, which are in no order with the one that reads P, wait for it. O begins as zeros, so that no tile is the first. Q stays
in workgroup memory. Maps of V, and of Q and K with 128 features, have three dimensions as in
generate_hopper_attention.py.

With `--plain` all threads do one tile after the other: copies, scores, softmax, O scaled and P stored, O += P V. Nothing is
copied ahead yet: `async_pipe.num_stages` asks for it, `--roles=specialised` for warps that copy and multiply. With `--persistent`
a block goes from head to head.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace

from generate_blackwell_gemm import ALWAYS, MMA_M, WARP
from mlir_text import Writer
from online_softmax import NVIDIA_SOFTMAX, constants
from tensor_tiles import (
    K_BYTES,
    SHARED,
    TICKS,
    WARPGROUP,
    Descriptor,
    Mbarrier,
    Tile,
    i32,
    tensor_maps,
)

CELL_BYTES = 4
# Columns that a warp loads or stores at once.
CHUNK = 32
# Of a thread of 512, which begin with 128 each.
SOFTMAX_REGISTERS, CORRECTION_REGISTERS, REST_REGISTERS = 184, 96, 48
BITS = f"vector<{CHUNK}xi32>"
FLOATS = f"vector<{CHUNK}xf32>"
SHAPE = "{shape = #nvvm.tcgen05_ldst_shape<shape_32x32b>}"


@dataclass(frozen=True)
class BlackwellAttention:
    """One kernel: `features` D, `keys` of a tile, `slots` of K and V, `groups` of 128 rows; P and factors are where the scores were, if they are `overlaid`."""

    name: str = "attention"
    features: int = 64
    keys: int = 64
    slots: int = 2
    groups: int = 1
    overlaid: bool = False
    plain: bool = False
    stages: int = 3
    roles: str = ""
    persistent: bool = False

    @property
    def rows(self) -> int:
        """Rows of O that a block makes."""
        return MMA_M * self.groups

    @property
    def computing(self) -> int:
        """The threads of softmax, and of the correction."""
        return WARPGROUP * (self.groups + 1)

    @property
    def threads(self) -> int:
        """Threads of a block: with a warpgroup of which two warps copy and multiply, if they have roles."""
        return WARPGROUP if self.plain else self.computing + WARPGROUP

    @property
    def shares_registers(self) -> bool:
        """Whether softmax gets registers of the others: a thread has no more than 128 of the start."""
        return self.groups > 1

    def _tile(self, name: str) -> Tile:
        """K and V as they are multiplied by: k is the features of K, and the keys of V."""
        by_k = name != "V"
        rows, depth = (self.keys, self.features) if by_k else (self.features, self.keys)
        return Tile(name, "f16", rows, depth, by_k, slots=1 if self.plain else self.slots)

    def _query(self, name: str = "Q") -> Tile:
        return Tile(name, "f16", MMA_M, self.features, tensor="Q")

    @property
    def tiles(self) -> dict[str, Tile]:
        """All buffers of workgroup memory, by name; Q in parts of 128 rows."""
        parts = [self._query(f"Q{group}") for group in range(self.groups)]
        return {tile.name: tile for tile in [*parts, self._tile("K"), self._tile("V")]}

    @property
    def columns(self) -> dict[str, int]:
        """Where what a group has in tensor memory begins: scores, P, the factor, O, and the end of all."""
        if self.overlaid:
            starts = {"s": 0, "p": 0, "factor": self.keys - 1, "o": self.keys}
            return {**starts, "end": self.keys + self.features}
        sizes = {"s": self.keys, "p": self.keys // 2, "factor": 1, "o": self.features}
        starts = {name: sum([*sizes.values()][:n]) for n, name in enumerate(sizes)}
        return {**starts, "end": sum(sizes.values())}

    @property
    def taken(self) -> int:
        """Columns that are taken: a power of two."""
        return 1 << (self.columns["end"] * self.groups - 1).bit_length()

    def problems(self) -> list[str]:
        """Why this kernel cannot be made, [] if it can."""
        if self.features not in (64, 128) or self.keys not in (64, 128):
            return ["there are 64 or 128 features, and as many keys in a tile"]
        if self.slots < 2 or self.groups not in (1, 2):
            return ["there are two slots at least, and one group or two"]
        if self.persistent and not self.plain:
            return ["only the plain loop goes from head to head"]
        if self.taken > 512:
            return ["scores, P and O of all groups do not fit tensor memory"]
        return []

    def module(self) -> str:
        """The whole module as text."""
        w = Writer(indent=2)
        self._body(w)
        maps = ", ".join(f"%{name}_map : !llvm.ptr" for name in "QKV")
        memory = [f"%{t.name}_shared : {t.buffer}" for t in self.tiles.values()]
        memory.append(f"%place : memref<1xi32, {SHARED}>")
        return (
            "module attributes {gpu.container_module} {\ngpu.module @kernels {\n"
            f"  gpu.func @{self.name}({maps}, %O : {self._o} {{llvm.noalias}}, %N : i32)\n"
            f"      workgroup({', '.join(memory)})\n"
            f"      kernel attributes {{known_block_size = array<i32: {self.threads}, 1, 1>}} {{\n"
            f"{w.text()}\n  }}\n}}\n}}\n"
        )

    @property
    def _o(self) -> str:
        return f"memref<?x?x{self.features}xf32>"

    def _text(self, name: str, text: str) -> str:
        """What orders something, by its name."""
        return text

    def _part(self, w: Writer, name: str, text: str) -> None:
        for line in filter(None, self._text(name, text).split("\n")):
            w.line(line)

    # -- mbarriers -----------------------------------------------------------------------------

    @property
    def mbarriers(self) -> dict[str, tuple[int, int]]:
        """How many of each name, and the arrivals of a phase."""
        if self.plain:
            one = dict.fromkeys(("ready", "full"), (1, 1))
            return one | dict.fromkeys(("scored", "summed"), (self.groups, 1))
        one, warps = (self.groups, 1), (self.groups, WARPGROUP // WARP)
        return {
            **{"ready": (1, 1), "full": (self.slots, 1), "empty": (self.slots, 1)},
            **{"scored": one, "weighed": warps, "changed": warps, "taken": warps},
            **{"scaled": warps, "summed": one},
        }

    def _mbarrier(self, name: str, number: int = 0) -> Mbarrier:
        return Mbarrier(name, number, self.mbarriers[name][0])

    def _create(self, w: Writer) -> None:
        for name, (count, arrivals) in self.mbarriers.items():
            kind = self._mbarrier(name).kind
            w.value(name, f"nvgpu.mbarrier.create -> {kind}")
            for number in range(count):
                at, needs = self._mbarrier(name, number).at(w), w.constant(arrivals)
                init = f"nvgpu.mbarrier.init {at}, {needs}, predicate = %first : {kind}"
                self._part(w, f"init {name}", init)
        self._part(w, "fence init", "nvvm.fence.mbarrier.init")

    def _wait(self, w: Writer, name: str, at: str, phase: str, part: str = "") -> None:
        kind, ticks = self._mbarrier(name).kind, w.constant(TICKS)
        text = f"nvgpu.mbarrier.try_wait.parity %{name}[{at}], {phase}, {ticks} : {kind}"
        self._part(w, f"wait {part or name}", text)

    def _acquire(self, w: Writer, name: str, group: int, phase: str) -> None:
        """Wait for what others did in tensor memory."""
        self._wait(w, name, w.constant(group), phase)
        self._part(w, f"after {name}", "nvvm.tcgen05.fence <after>")

    def _release(self, w: Writer, name: str, group: int) -> None:
        """One lane of each warp arrives, after what the warp did in tensor memory."""
        self._part(w, f"before {name}", "nvvm.tcgen05.fence <before>")
        one = self._mbarrier(name, group)
        arrives = f"nvgpu.mbarrier.arrive {one.at(w)} : {one.kind} -> !nvgpu.mbarrier.token"
        self._part(w, f"arrive {name}", f"scf.if %lane_0 {{\n%token = {arrives}\n}}")

    def _commit(self, w: Writer, name: str, at: str) -> None:
        kind = self._mbarrier(name).kind
        where = w.value("at", f"nvgpu.mbarrier.get %{name}[{at}] : {kind} -> i32")
        to = w.value("to", f"llvm.inttoptr {where} : i32 to !llvm.ptr<3>")
        self._part(w, f"commit {name}", f"nvvm.tcgen05.commit {to} : !llvm.ptr<3>")

    # -- the kernel ----------------------------------------------------------------------------

    def _body(self, w: Writer) -> None:
        tensor_maps(w, self._query(), self.tiles["K"], self.tiles["V"])
        w.value("tid", "gpu.thread_id x")
        w.value("first", f"arith.cmpi eq, %tid, {w.constant(0)} : index")
        w.value("lane_0", f"arith.cmpi eq, {w.rem('lane', '%tid', WARP)}, {w.constant(0)} : index")
        w.value("warp_0", f"arith.cmpi ult, %tid, {w.constant(WARP)} : index")
        w.value("false", "arith.constant false")
        w.value("true", "arith.constant true")
        self._create(w)
        self._allocate(w)
        constants(w, self.features)
        w.value("positions", "arith.index_cast %N : i32 to index")
        w.mul("block_row", w.value("block", "gpu.block_id x"), self.rows)
        # The first cell of a warp: it has the 32 lanes of its number modulo 4.
        warp = w.rem("warp", w.div("warp_of", "%tid", WARP), WARPGROUP // WARP)
        narrow = w.value("warp_i", f"arith.index_cast {warp} : index to i32")
        lanes = w.value("lanes", f"arith.muli {narrow}, {i32(w, WARP << 16)} : i32")
        w.value("own", f"arith.addi %base, {lanes} : i32")
        head = w.value("first_head" if self.persistent else "head", "gpu.block_id y")
        if self.persistent:
            heads = w.value("heads", f"memref.dim %O, {w.constant(0)} : {self._o}")
            blocks = w.value("blocks", "gpu.grid_dim y")
            carried = "iter_args(%start = %false, %ready_start = %false) -> (i1, i1)"
            with w.block(f"%last:2 = scf.for %head = {head} to {heads} step {blocks} {carried}"):
                self._one_after_the_other(w, "%start", "%ready_start")
                flips = self._flipped(w, "%ready_start")
                w.line(f"scf.yield %done#{2 * self.groups}, {flips[0]} : i1, i1")
            self._give_back(w)
        elif self.plain:
            self._one_after_the_other(w, "%false", "%false")
            self._give_back(w)
        else:
            w.value("head_row", "arith.muli %head, %positions : index")
            self._roles(w)
        w.line("gpu.return")

    def _roles(self, w: Writer) -> None:
        for group in range(self.groups):
            self._begin(w, WARPGROUP * (group + 1), "increase", SOFTMAX_REGISTERS)
            self._softmax(w, group)
            w.line("} else {")
        self._begin(w, self.computing, "decrease", CORRECTION_REGISTERS)
        self._correction(w)
        w.line("} else {")
        if self.shares_registers:
            w.line(f"nvvm.setmaxregister decrease {REST_REGISTERS}")
        for number, write in enumerate((self._copies, self._products), 1):
            self._begin(w, self.computing + number * WARP)
            write(w)
            w.line("} else {")
        w.line("}" * (self.groups + 3))

    def _one_after_the_other(self, w: Writer, phase: str, ready_phase: str) -> None:
        """The plain form: all threads do all of an iteration, and thread 0 copies and multiplies."""
        w.value("head_row", "arith.muli %head, %positions : index")
        full, ready = self._mbarrier("full"), self._mbarrier("ready")
        groups = range(self.groups)
        queries = [self.tiles[f"Q{group}"] for group in groups]
        ready.announce(w, *queries)
        row = w.add("q_row", "%head_row", "%block_row")
        for group in groups:
            at = w.add("part_row", row, w.constant(MMA_M * group))
            queries[group].copy(w, self._from(w, queries[group], at), ready)
        ready.wait(w, ready_phase)
        for group in groups:
            self._clear(w, group)
        self._meet_at(w, "gpu.barrier")
        carried = {
            **{f"m_of_{group}": ("%low", "f32") for group in groups},
            **{f"l_of_{group}": ("%none", "f32") for group in groups},
            "phase": (phase, "i1"),
        }
        roles = f', async_pipe.roles = "{self.roles}"' if self.roles else ""
        notes = f"}} {{async_pipe.num_stages = {self.stages} : i64{roles}}}"
        with w.block(self._loop(w, "%done", carried), notes):
            row, tiles = w.add("row", "%head_row", "%done_j"), [self.tiles[name] for name in "KV"]
            full.announce(w, *tiles)
            for tile in tiles:
                tile.copy(w, self._from(w, tile, row))
            full.wait(w, "%phase")
            bases = {name: tile.descriptor(w, ALWAYS) for name, tile in self.tiles.items()}
            for group in groups:
                with w.block("scf.if %first"):
                    self._scores(w, group, bases[f"Q{group}"], bases["K"])
                    self._commit(w, "scored", w.constant(group))
            largest, sums = [], []
            for group in groups:
                self._acquire(w, "scored", group, "%phase")
                scores, most = self._scored(w, group, f"%m_of_{group}")
                shift = w.value("shift", f"arith.mulf {most}, %minus_scale : f32")
                factor = NVIDIA_SOFTMAX.exponential(w, f"%m_of_{group}", shift)
                total = w.value("old_l", f"arith.mulf %l_of_{group}, {factor} : f32")
                largest.append(most)
                sums.append(self._weigh(w, group, scores, shift, total))
                self._scale(w, group, factor)
                self._meet_at(w, "gpu.barrier")
                with w.block("scf.if %first"):
                    self._output(w, group, bases["V"])
                    self._commit(w, "summed", w.constant(group))
            for group in groups:
                self._acquire(w, "summed", group, "%phase")
            w.line("gpu.barrier")
            after = [*largest, *sums, *self._flipped(w, "%phase")]
            w.line(
                f"scf.yield {', '.join(after)} : {', '.join(kind for _, kind in carried.values())}"
            )
        row = w.add("own_row", "%block_row", "%tid")
        for group in groups:
            at = w.add("o_row", row, w.constant(MMA_M * group))
            self._divide(w, group, f"%done#{self.groups + group}", at)
        self._meet_at(w, "gpu.barrier")

    def _begin(self, w: Writer, last: int, change: str = "", registers: int = 0) -> None:
        """What threads up to `last` do, with so many registers."""
        mine = w.value("mine", f"arith.cmpi ult, %tid, {w.constant(last)} : index")
        w.line(f"scf.if {mine} {{")
        if change and self.shares_registers:
            w.line(f"nvvm.setmaxregister {change} {registers}")

    def _allocate(self, w: Writer) -> None:
        """One warp takes columns of tensor memory, and says to all where they begin."""
        kind = f"memref<1xi32, {SHARED}>"
        w.value("columns", f"arith.constant {self.taken} : i32")
        with w.block("scf.if %warp_0"):
            at = w.value("at", f"memref.extract_aligned_pointer_as_index %place : {kind} -> index")
            at = w.value("at_i", f"arith.index_cast {at} : index to i32")
            to = w.value("to", f"llvm.inttoptr {at} : i32 to !llvm.ptr<3>")
            w.line(f"nvvm.tcgen05.alloc {to}, %columns : !llvm.ptr<3>, i32")
            w.line("nvvm.tcgen05.relinquish_alloc_permit")
        w.line("gpu.barrier")
        w.value("base", f"memref.load %place[{w.constant(0)}] : {kind}")

    def _loop(self, w: Writer, result: str, carried: dict[str, tuple[str, str]]) -> str:
        """The header of the loop over keys: what it carries, from which value on, and of which type."""
        given = ", ".join(f"%{name} = {first}" for name, (first, _) in carried.items())
        kinds = ", ".join(kind for _, kind in carried.values())
        return (
            f"{result}:{len(carried)} = scf.for %{result[1:]}_j = {w.constant(0)} to %positions step "
            f"{w.constant(self.keys)} iter_args({given}) -> ({kinds})"
        )

    def _next_slot(self, w: Writer) -> list[str]:
        step = w.value("step", f"arith.addi %slot, {w.constant(1)} : index")
        wraps = w.value("wraps", f"arith.cmpi eq, {step}, {w.constant(self.slots)} : index")
        slot = w.value("next", f"arith.select {wraps}, {w.constant(0)}, {step} : index")
        return [slot, w.value("next_phase", f"arith.xori %phase, {wraps} : i1")]

    def _flipped(self, w: Writer, *phases: str) -> list[str]:
        return [w.value("flip", f"arith.xori {phase}, %true : i1") for phase in phases]

    # -- copies --------------------------------------------------------------------------------

    def _copies(self, w: Writer) -> None:
        w.value("copier", "nvvm.elect.sync -> i1")
        row = w.add("q_row", "%head_row", "%block_row")
        parts = [tile for tile in self.tiles.values() if tile.tensor]
        self._announce(w, "ready", w.constant(0), parts)
        for number, tile in enumerate(parts):
            at = w.add("part_row", row, w.constant(MMA_M * number))
            self._copy(w, tile, at, self._mbarrier("ready").at(w), f"%{tile.name}_shared", "ready")
        carried = {"slot": (w.constant(0), "index"), "phase": ("%true", "i1")}
        with w.block(self._loop(w, "%copied", carried)):
            self._wait(w, "empty", "%slot", "%phase")
            self._announce(w, "full", "%slot", [self.tiles[name] for name in "KV"])
            row = w.add("row", "%head_row", "%copied_j")
            for tile in (self.tiles[name] for name in "KV"):
                sizes = tile.box.replace("x", ", ")
                zeros, ones = (", ".join(n * (tile.box.count("x") + 1)) for n in "01")
                to = w.value(
                    f"{tile.name}_slot",
                    f"memref.subview %{tile.name}_shared[%slot, {zeros}][1, {sizes}][1, {ones}] : "
                    f"{tile.buffer} to {self._view(tile)}",
                )
                self._copy(w, tile, row, "%full[%slot]", to, "full")
            w.line(f"scf.yield {', '.join(self._next_slot(w))} : index, i1")

    def _announce(self, w: Writer, name: str, at: str, tiles: list[Tile]) -> None:
        size, kind = w.constant(sum(tile.bytes for tile in tiles)), self._mbarrier(name).kind
        text = (
            f"nvgpu.mbarrier.arrive.expect_tx %{name}[{at}], {size}, predicate = %copier : {kind}"
        )
        self._part(w, f"expect {name}", text)

    def _view(self, tile: Tile) -> str:
        """The type of a slot."""
        strides = [1]
        for size in reversed(tile.box.split("x")[1:]):
            strides.insert(0, strides[0] * int(size))
        return f"memref<{tile.box}x{tile.element}, strided<{strides}, offset: ?>, {SHARED}>"

    def _copy(self, w: Writer, tile: Tile, row: str, full: str, to: str, group: str) -> None:
        """All features from a row on."""
        at, kind = ", ".join(self._from(w, tile, row)), self._mbarrier(group).kind
        view = self._view(tile) if group == "full" else tile.buffer
        w.line(
            f"nvgpu.tma.async.load %{tile.tensor or tile.name}[{at}], {full} to {to}, "
            f"predicate = %copier : {tile.map}, {kind} -> {view}"
        )

    def _from(self, w: Writer, tile: Tile, row: str) -> tuple[str, ...]:
        """Where a tile begins, fastest first."""
        zero = w.constant(0)
        return (zero, row, zero) if tile.has_panels else (zero, row)

    # -- products ------------------------------------------------------------------------------

    def _products(self, w: Writer) -> None:
        bases = {name: tile.descriptor(w, ALWAYS) for name, tile in self.tiles.items()}
        self._wait(w, "ready", w.constant(0), "%false")
        carried = {
            **{"slot": (w.constant(0), "index"), "phase": ("%false", "i1")},
            **{"weighed_phase": ("%false", "i1"), "read_phase": ("%true", "i1")},
        }
        with w.block(self._loop(w, "%multiplied", carried)):
            self._wait(w, "full", "%slot", "%phase")
            slot = w.value("slot_i", "arith.index_cast %slot : index to i32")
            moved = {}
            for name in "KV":
                size = i32(w, self.tiles[name].bytes // 16)
                away = w.value("away", f"arith.muli {slot}, {size} : i32")
                low = w.value("low", f"arith.addi {bases[name].low}, {away} : i32")
                moved[name] = replace(bases[name], low=low)
            for group in range(self.groups):
                if self.overlaid:
                    # Products into other sums than those of the one that reads P are in no order with it.
                    self._wait(w, "summed", w.constant(group), "%read_phase", "read")
                with w.block(f"scf.if {self._elected(w)}"):
                    self._scores(w, group, bases[f"Q{group}"], moved["K"])
                    self._commit(w, "scored", w.constant(group))
            for group in range(self.groups):
                self._wait(w, "weighed", w.constant(group), "%weighed_phase")
                self._acquire(w, "scaled", group, "%weighed_phase")
                with w.block(f"scf.if {self._elected(w)}"):
                    self._output(w, group, moved["V"])
                    self._commit(w, "summed", w.constant(group))
                    if group == self.groups - 1:
                        self._commit(w, "empty", "%slot")
            flips = self._flipped(w, "%weighed_phase", "%read_phase")
            w.line(f"scf.yield {', '.join([*self._next_slot(w), *flips])} : index, i1, i1, i1")

    def _elected(self, w: Writer) -> str:
        return w.value("one", self._text("elect", "nvvm.elect.sync -> i1"))

    def _scores(self, w: Writer, group: int, q: Descriptor, k: Descriptor) -> None:
        """S = Q K^T."""
        sums, left, right = self._at(w, group, "s"), self.tiles[f"Q{group}"], self.tiles["K"]
        for step in range(left.steps):
            a, b = left.moved(w, q, step), right.moved(w, k, step)
            self._multiply(w, sums, (a, "i64"), b, right, "%true" if step else "%false")

    def _output(self, w: Writer, group: int, v: Descriptor) -> None:
        """O += P V, with P from tensor memory."""
        sums, right = self._at(w, group, "o"), self.tiles["V"]
        for step in range(right.steps):
            p = self._at(w, group, "p", step * K_BYTES // CELL_BYTES)
            self._multiply(w, sums, (p, "!llvm.ptr<6>"), right.moved(w, v, step), right, "%true")

    def _multiply(
        self, w: Writer, sums: str, a: tuple[str, str], b: str, right: Tile, adds: str
    ) -> None:
        """Bits 4-5 sums of f32, 16 lines of B along n, 17-22 N / 8, 24-28 M / 16."""
        form = 1 << 4 | (not right.by_k) << 16 | right.rows // 8 << 17 | MMA_M // 16 << 24
        w.line(
            f"nvvm.tcgen05.mma {sums}, {a[0]}, {b}, {i32(w, form)}, {adds} "
            "{kind = #nvvm.tcgen05_mma_kind<f16>, ctaGroup = #nvvm.cta_group<cta_1>} : "
            f"(!llvm.ptr<6>, {a[1]}, i64, i32, i1)"
        )

    # -- what threads do in tensor memory --------------------------------------------------------

    def _at(self, w: Writer, group: int, name: str, further: int = 0, base: str = "%base") -> str:
        """Columns of a group, from all lanes on or from a warp's own."""
        column = self.columns["end"] * group + self.columns[name] + further
        at = w.value("at", f"arith.addi {base}, {i32(w, column)} : i32")
        return w.value(f"{name}_at", f"llvm.inttoptr {at} : i32 to !llvm.ptr<6>")

    def _load(self, w: Writer, group: int, name: str, first: int = 0) -> str:
        """A thread's own lane of 32 columns, or of a factor, which is there after a wait."""
        kind = "i32" if name == "factor" else BITS
        at = self._at(w, group, name, first, base="%own")
        return w.value("bits", f"nvvm.tcgen05.ld {at} {SHAPE} : {kind}")

    def _loaded(self, w: Writer, name: str) -> None:
        self._part(w, f"wait load {name}", "nvvm.tcgen05.wait <load>")

    def _store(
        self, w: Writer, group: int, name: str, value: str, kind: str, first: int = 0
    ) -> None:
        at = self._at(w, group, name, first, base="%own")
        w.line(f"nvvm.tcgen05.st {at}, {value} {SHAPE} : {kind}")

    def _stored(self, w: Writer, name: str) -> None:
        self._part(w, f"wait store {name}", "nvvm.tcgen05.wait <store>")

    # -- softmax -------------------------------------------------------------------------------

    def _softmax(self, w: Writer, group: int) -> None:
        carried = {
            **{f"m_of_{group}": ("%low", "f32"), f"l_of_{group}": ("%none", "f32")},
            **{f"scored_{group}": ("%false", "i1"), f"taken_{group}": ("%true", "i1")},
        }
        m, total, scored, taken = (f"%{name}" for name in carried)
        done = f"%weighed_{group}"
        with w.block(self._loop(w, done, carried)):
            self._acquire(w, "scored", group, scored)
            scores, largest = self._scored(w, group, m)
            shift = w.value("shift", f"arith.mulf {largest}, %minus_scale : f32")
            factor = NVIDIA_SOFTMAX.exponential(w, m, shift)
            self._hand_on(w, group, factor, taken)
            sums = w.value("old_l", f"arith.mulf {total}, {factor} : f32")
            sums = self._weigh(w, group, scores, shift, sums)
            self._release(w, "weighed", group)
            flips = self._flipped(w, scored, taken)
            w.line(f"scf.yield {', '.join([largest, sums, *flips])} : f32, f32, i1, i1")
        self._hand_on(w, group, f"{done}#1", f"{done}#3")
        self._meet(w)
        if group == 0:
            self._give_back(w)

    def _scored(self, w: Writer, group: int, m: str) -> tuple[list[str], str]:
        """The scores of a row, 32 a vector, and the largest one so far."""
        bits = [self._load(w, group, "s", first) for first in range(0, self.keys, CHUNK)]
        self._loaded(w, "s")
        scores = [w.value("s", f"vector.bitcast {each} : {BITS} to {FLOATS}") for each in bits]
        for each in scores:
            m = w.value("m", f"vector.reduction <maxnumf>, {each}, {m} : {FLOATS} into f32")
        return scores, m

    def _weigh(self, w: Writer, group: int, scores: list[str], shift: str, total: str) -> str:
        """Store the weights as 16 bits, two in a cell; returns their sum and `total`."""
        halves, pairs = FLOATS.replace("f32", "f16"), f"vector<{CHUNK // 2}xi32>"
        for number, each in enumerate(scores):
            weights = []
            for n in range(CHUNK):
                score = w.value("score", f"vector.extract {each}[{n}] : f32 from {FLOATS}")
                weights.append(NVIDIA_SOFTMAX.exponential(w, score, shift))
                total = w.value("l", f"arith.addf {total}, {weights[-1]} : f32")
            p = w.value("p", f"vector.from_elements {', '.join(weights)} : {FLOATS}")
            p = w.value("half", f"arith.truncf {p} : {FLOATS} to {halves}")
            p = w.value("pairs", f"vector.bitcast {p} : {halves} to {pairs}")
            self._store(w, group, "p", p, pairs, number * CHUNK // 2)
        self._stored(w, "p")
        return total

    def _hand_on(self, w: Writer, group: int, value: str, taken: str) -> None:
        """A number of each row, for the correction."""
        self._acquire(w, "taken", group, taken)
        bits = w.value("bits", f"arith.bitcast {value} : f32 to i32")
        self._store(w, group, "factor", bits, "i32")
        self._stored(w, "factor")
        self._release(w, "changed", group)

    def _meet(self, w: Writer) -> None:
        """All are past what they do in tensor memory, before its columns go back."""
        threads = i32(w, self.computing)
        self._meet_at(w, f"nvvm.barrier id = {i32(w, 1)} number_of_threads = {threads}")

    def _meet_at(self, w: Writer, barrier: str) -> None:
        self._part(w, "before the meeting", "nvvm.tcgen05.fence <before>")
        self._part(w, "meet", barrier)
        self._part(w, "after the meeting", "nvvm.tcgen05.fence <after>")

    def _give_back(self, w: Writer) -> None:
        with w.block("scf.if %warp_0"):
            base = w.value("all", "llvm.inttoptr %base : i32 to !llvm.ptr<6>")
            w.line(f"nvvm.tcgen05.dealloc {base}, %columns : !llvm.ptr<6>, i32")

    # -- correction ----------------------------------------------------------------------------

    def _correction(self, w: Writer) -> None:
        for group in range(self.groups):
            self._clear(w, group)
        carried = {"changed_phase": ("%false", "i1"), "summed_phase": ("%true", "i1")}
        with w.block(self._loop(w, "%corrected", carried)):
            for group in range(self.groups):
                factor = self._take(w, group, "%changed_phase")
                self._acquire(w, "summed", group, "%summed_phase")
                self._scale(w, group, factor)
                self._release(w, "scaled", group)
            flips = self._flipped(w, "%changed_phase", "%summed_phase")
            w.line(f"scf.yield {', '.join(flips)} : i1, i1")
        row = w.add("own_row", "%block_row", w.rem("row_of", "%tid", WARPGROUP))
        for group in range(self.groups):
            total = self._take(w, group, "%corrected#0")
            self._acquire(w, "summed", group, "%corrected#1")
            self._divide(w, group, total, w.add("o_row", row, w.constant(MMA_M * group)))
        self._meet(w)

    def _take(self, w: Writer, group: int, phase: str) -> str:
        self._acquire(w, "changed", group, phase)
        bits = self._load(w, group, "factor")
        self._loaded(w, "factor")
        self._release(w, "taken", group)
        return w.value("number", f"arith.bitcast {bits} : i32 to f32")

    def _clear(self, w: Writer, group: int) -> None:
        """O is 0."""
        zeros = w.value("zeros", f"arith.constant dense<0> : {BITS}")
        for first in range(0, self.features, CHUNK):
            self._store(w, group, "o", zeros, BITS, first)
        self._stored(w, "o")

    def _scale(self, w: Writer, group: int, factor: str) -> None:
        """O times the factor of each row."""
        for first in range(0, self.features, CHUNK):
            scaled = self._times(w, group, factor, first)
            bits = w.value("bits", f"vector.bitcast {scaled} : {FLOATS} to {BITS}")
            self._store(w, group, "o", bits, BITS, first)
        self._stored(w, "o")

    def _divide(self, w: Writer, group: int, total: str, row: str) -> None:
        """O divided by the sums of the weights, to memory."""
        one = w.value("one", "arith.constant 1.0 : f32")
        inverse = w.value("inverse", f"arith.divf {one}, {total} : f32")
        for first in range(0, self.features, CHUNK):
            o, to = self._times(w, group, inverse, first), f"%O[%head, {row}, {w.constant(first)}]"
            w.line(f"vector.store {o}, {to} {{alignment = 16 : i64}} : {self._o}, {FLOATS}")

    def _times(self, w: Writer, group: int, factor: str, first: int) -> str:
        """32 columns of O times a factor of each row."""
        bits = self._load(w, group, "o", first)
        self._loaded(w, "o")
        o = w.value("o", f"vector.bitcast {bits} : {BITS} to {FLOATS}")
        factors = w.value("factors", f"vector.broadcast {factor} : f32 to {FLOATS}")
        return w.value("scaled", f"arith.mulf {o}, {factors} : {FLOATS}")


def main() -> None:
    """Print the kernel that the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--features", type=int, choices=(64, 128), default=64)
    parser.add_argument("--keys", type=int, choices=(64, 128), default=64)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--groups", type=int, choices=(1, 2), default=1)
    parser.add_argument("--overlaid", action="store_true")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--persistent", action="store_true", help="of the plain loop")
    parser.add_argument("--stages", type=int, default=3, help="of the plain loop")
    parser.add_argument(
        "--roles", choices=("", "specialised", "grouped"), default="", help="of the plain loop"
    )
    made = BlackwellAttention(**vars(parser.parse_args()))
    if made.problems():
        parser.error("; ".join(made.problems()))
    print(made.module(), end="")


if __name__ == "__main__":
    main()
