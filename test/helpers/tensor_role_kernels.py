"""A GEMM in tensor memory whose warps have roles, written by hand, with every part open to change.

    warp 4:      wait empty[slot]; announce, copy                 full[slot]
    warp 5:      wait drained[acc]; for k { wait full[slot]; products; commit empty[slot] }; commit filled[acc]
    warps 0-3:   wait filled[acc]; load; arrive at drained[acc]; store

`slots` tiles of A and B, `accumulators` versions of the sums, which the checker tells apart by the
number that is added to the address of all. The names of the parts are the keys of
`changes`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from mlir_text import Writer
from tensor_tiles import SHARED, TICKS, Tile, i32, tensor_maps

from helpers.tensor_memory_kernels import BlackwellGemm

READERS, WARP = 128, 32


def _group(count: int) -> str:
    return f"!nvgpu.mbarrier.group<memorySpace = {SHARED}, num_barriers = {count}>"


@dataclass(frozen=True)
class RoleGemm(BlackwellGemm):
    """One kernel; it goes from tile to tile of C."""

    tile_n: int = 32
    persistent: bool = True
    slots: int = 2
    accumulators: int = 2
    # With as many tiles of C and of k, as constants.
    counted: tuple[int, int] | None = None
    changes: dict[str, str] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        """Those that load, and two warps."""
        return READERS + 2 * WARP

    @property
    def left(self) -> Tile:
        """The tile of A, of which there are two or more."""
        return Tile("A", self.types, self.tile_m, self.line, slots=max(2, self.slots))

    @property
    def right(self) -> Tile:
        """The tile of B."""
        return Tile("B", self.types, self.tile_n, self.line, slots=max(2, self.slots))

    def changed(self, **changes: str) -> RoleGemm:
        """With other parts."""
        return replace(self, changes=changes)

    def _part(self, w: Writer, name: str, text: str, at: str = "") -> None:
        changed = self.changes.get(name, text).replace("BARS", _group(self.accumulators))
        for line in changed.replace("[AT]", f"[{at}]").split("\n"):
            if line:
                w.line(line)

    def _body(self, w: Writer) -> None:
        tensor_maps(w, self.left, self.right)
        for number in (0, 1, 2, 3, 4, WARP, READERS):
            w.constant(number)
        w.value("tid", "gpu.thread_id x")
        w.value("first", "arith.cmpi eq, %tid, %c0 : index")
        w.value("warp_0", "arith.cmpi ult, %tid, %c32 : index")
        w.value("false", "arith.constant false")
        w.value("true", "arith.constant true")
        w.value("c0_i32", "arith.constant 0 : i32")
        w.value("ticks", f"arith.constant {TICKS} : index")
        w.value("bytes", f"arith.constant {self.left.bytes + self.right.bytes} : index")
        counts = {"full": 1, "empty": 1, "filled": 1, "drained": 4}
        for name, count in counts.items():
            size = self.slots if name in ("full", "empty") else self.accumulators
            w.value(name, f"nvgpu.mbarrier.create -> {_group(size)}")
            for number in range(size):
                at = w.constant(number)
                self._part(
                    w,
                    f"init {name}",
                    f"nvgpu.mbarrier.init %{name}[{at}], %c{count}, predicate = %first : {_group(size)}",
                    at,
                )
        self._part(w, "fence init", "nvvm.fence.mbarrier.init")
        self._allocate(w)
        w.value("size", f"arith.constant {self.tile_n} : i32")
        if self.counted is None:
            w.value("row_columns", f"memref.dim %C, %c1 : {self.c}")
            w.value("tiles", f"arith.divui %row_columns, {w.constant(self.tile_n)} : index")
            w.value("depth", "arith.addi %K, %c0_i32 : i32")
        else:
            tiles, depth = self.counted
            w.value("tiles", f"arith.constant {tiles} : index")
            w.value("depth", f"arith.constant {depth * self.line} : i32")
        self._part(w, "after allocation", "")
        w.value("reads", "arith.cmpi ult, %tid, %c128 : index")
        with w.block("scf.if %reads", "} else {"):
            self._readers(w)
        w.value("last", f"arith.constant {READERS + WARP} : index")
        w.value("copies", "arith.cmpi ult, %tid, %last : index")
        with w.block("scf.if %copies", "} else {"):
            self._copier(w)
        self._multiplier(w)
        w.line("}")
        w.line("}")
        w.line("gpu.return")

    @property
    def columns(self) -> int:
        """The power of two that has room for all versions."""
        return 1 << (self.tile_n * self.accumulators - 1).bit_length()

    def _loop(self, header: str, state: str, first: str) -> str:
        """A loop that carries a slot and a phase for each name in `state`."""
        names = [f"%{name}{part}" for name in state.split() for part in ("", "_p")]
        given = ", ".join(f"{n} = {f}" for n, f in zip(names, first.split(), strict=True))
        kinds = ", ".join(["index, i1"] * (len(names) // 2))
        return f"{header} iter_args({given}) -> ({kinds})"

    def _next(self, w: Writer, name: str, count: int) -> None:
        slot, phase = f"%{name}", f"%{name}_p"
        step = w.value("step", f"arith.addi {slot}, %c1 : index")
        wraps = w.value("wraps", f"arith.cmpi eq, {step}, {w.constant(count)} : index")
        w.line(f"{slot}_next = arith.select {wraps}, %c0, {step} : index")
        self._part(w, f"flip {name}", f"{slot}_p_next = arith.xori {phase}, {wraps} : i1")

    def _wait(self, w: Writer, name: str, group: str, slot: str, phase: str) -> None:
        size = _group(self.slots if group in ("full", "empty") else self.accumulators)
        self._part(
            w, name, f"nvgpu.mbarrier.try_wait.parity %{group}[{slot}], {phase}, %ticks : {size}"
        )

    # -- the roles -----------------------------------------------------------------------------

    def _copier(self, w: Writer) -> None:
        w.value("c_one", "nvvm.elect.sync -> i1")
        outer = self._loop(
            "%c_all:2 = scf.for %c_t = %c0 to %tiles step %c1",
            "c",
            f"%c0 {self.changes.get('cs first', '%true')}",
        )
        with w.block(outer):
            at_n = w.mul("c_n", "%c_t", self.tile_n)
            inner = self._loop(
                f"%c_in:2 = scf.for %c_k = %c0_i32 to %depth step {i32(w, self.line)}",
                "cs",
                "%c %c_p",
            )
            with w.block(f"{inner} : i32"):
                w.value("k", "arith.index_cast %c_k : i32 to index")
                self._wait(w, "wait empty", "empty", "%cs", "%cs_p")
                kind = _group(self.slots)
                self._part(
                    w,
                    "expect",
                    f"nvgpu.mbarrier.arrive.expect_tx %full[%cs], %bytes, predicate = %c_one : {kind}",
                )
                for tile, at in ((self.left, "%c0"), (self.right, at_n)):
                    view = f"memref<{tile.box}x{tile.element}, strided<[{tile.per_line}, 1], offset: ?>, {SHARED}>"
                    lines = tile.box.replace("x", ", ")
                    w.line(
                        f"%{tile.name}_slot = memref.subview %{tile.name}_shared[%cs, 0, 0][1, {lines}][1, 1, 1] : {tile.buffer} to {view}"
                    )
                    w.line(
                        f"nvgpu.tma.async.load %{tile.name}[%k, {at}], %full[%cs] to %{tile.name}_slot, "
                        f"predicate = %c_one : {tile.map}, {kind} -> {view}"
                    )
                self._next(w, "cs", self.slots)
                w.line("scf.yield %cs_next, %cs_p_next : index, i1")
            w.line("scf.yield %c_in#0, %c_in#1 : index, i1")

    def _multiplier(self, w: Writer) -> None:
        a, b = self.left.descriptor(w, 1 << 46), self.right.descriptor(w, 1 << 46)
        first = self.changes.get("ms first", "%false")
        outer = self._loop(
            "%m_all:4 = scf.for %m_t = %c0 to %tiles step %c1",
            "m acc",
            f"%c0 {first} %c0 {self.changes.get('acc first', '%true')}",
        )
        with w.block(outer):
            self._wait(w, "wait drained", "drained", "%acc", "%acc_p")
            self._part(w, "fence drained", "nvvm.tcgen05.fence <after>")
            self._version(w, "m", "%acc")
            inner = self._loop(
                f"%m_in:2 = scf.for %m_k = %c0_i32 to %depth step {i32(w, self.line)}",
                "ms",
                "%m %m_p",
            )
            with w.block(f"{inner} : i32"):
                self._wait(w, "wait full", "full", "%ms", "%ms_p")
                w.value("slot", "arith.index_cast %ms : index to i32")
                moved = []
                for tile, base in ((self.left, a), (self.right, b)):
                    away = w.value("away", f"arith.muli %slot, {i32(w, tile.bytes // 16)} : i32")
                    low = w.value("low", f"arith.addi {base.low}, {away} : i32")
                    moved.append(replace(base, low=low))
                later = w.value("later", "arith.cmpi ne, %m_k, %c0_i32 : i32")
                w.value("m_one", self.changes.get("elect", "nvvm.elect.sync -> i1"))
                with w.block("scf.if %m_one"):
                    for step in range(self.left.steps):
                        left = self.left.moved(w, moved[0], step)
                        right = self.right.moved(w, moved[1], step)
                        adds = "%true" if step else self.changes.get("adds", later)
                        w.line(
                            f"nvvm.tcgen05.mma %m_sums, {left}, {right}, {i32(w, self._instruction())}, "
                            f"{adds} {{kind = #nvvm.tcgen05_mma_kind<f16>, "
                            "ctaGroup = #nvvm.cta_group<cta_1>} : (!llvm.ptr<6>, i64, i64, i32, i1)"
                        )
                    self._commit(w, "commit empty", "empty", "%ms", self.slots)
                self._next(w, "ms", self.slots)
                w.line("scf.yield %ms_next, %ms_p_next : index, i1")
            w.value("m_last", "nvvm.elect.sync -> i1")
            with w.block("scf.if %m_last"):
                self._commit(w, "commit filled", "filled", "%acc", self.accumulators)
            self._next(w, "acc", self.accumulators)
            w.line("scf.yield %m_in#0, %m_in#1, %acc_next, %acc_p_next : index, i1, index, i1")

    def _commit(self, w: Writer, name: str, group: str, slot: str, count: int) -> None:
        at = w.value("at", f"nvgpu.mbarrier.get %{group}[{slot}] : {_group(count)} -> i32")
        to = w.value("to", f"llvm.inttoptr {at} : i32 to !llvm.ptr<3>")
        self._part(w, name, f"nvvm.tcgen05.commit {to} : !llvm.ptr<3>")

    def _version(self, w: Writer, role: str, acc: str) -> None:
        number = w.value(f"{role}_acc", f"arith.index_cast {acc} : index to i32")
        away = w.value(f"{role}_away", f"arith.muli {number}, %size : i32")
        self._part(w, f"{role} columns", f"%{role}_at = arith.addi %sums_at, {away} : i32")
        w.line(f"%{role}_sums = llvm.inttoptr %{role}_at : i32 to !llvm.ptr<6>")

    def _readers(self, w: Writer) -> None:
        warp = w.value("warp_i", f"arith.index_cast {w.div('warp', '%tid', WARP)} : index to i32")
        w.value("lanes", f"arith.muli {warp}, {i32(w, WARP << 16)} : i32")
        w.value("lane", "arith.remui %tid, %c32 : index")
        w.value("lane_0", "arith.cmpi eq, %lane, %c0 : index")
        kind = f"vector<{self.tile_n}xf32>"
        outer = self._loop(
            "%r_all:2 = scf.for %r_t = %c0 to %tiles step %c1",
            "ra",
            f"%c0 {self.changes.get('ra first', '%false')}",
        )
        with w.block(outer):
            at_n = w.mul("r_n", "%r_t", self.tile_n)
            self._wait(w, "wait filled", "filled", "%ra", "%ra_p")
            self._part(w, "fence filled", "nvvm.tcgen05.fence <after>")
            self._version(w, "r", "%ra")
            at = w.value("from", "arith.addi %r_at, %lanes : i32")
            at = w.value("from_ptr", f"llvm.inttoptr {at} : i32 to !llvm.ptr<6>")
            bits = w.value(
                "bits",
                f"nvvm.tcgen05.ld {at} {{shape = #nvvm.tcgen05_ldst_shape<shape_32x32b>}} "
                f": vector<{self.tile_n}xi32>",
            )
            self._part(w, "after load", "")
            self._part(w, "wait load", "nvvm.tcgen05.wait <load>")
            value = w.value("x", f"vector.bitcast {bits} : vector<{self.tile_n}xi32> to {kind}")
            self._part(w, "fence load", "nvvm.tcgen05.fence <before>")
            arrives = (
                f"%token = nvgpu.mbarrier.arrive %drained[%ra] : {_group(self.accumulators)} "
                "-> !nvgpu.mbarrier.token"
            )
            self._part(w, "before arrive", "")
            self._part(w, "arrive", f"scf.if %lane_0 {{\n{arrives}\n}}")
            w.line(f"vector.store {value}, %C[%tid, {at_n}] : memref<?x?xf32>, {kind}")
            self._next(w, "ra", self.accumulators)
            w.line("scf.yield %ra_next, %ra_p_next : index, i1")
        barrier = f"nvvm.barrier id = {i32(w, 1)} number_of_threads = {i32(w, READERS)}"
        self._part(w, "meet", barrier)
        with w.block("scf.if %warp_0"):
            w.line("nvvm.tcgen05.dealloc %sums, %columns : !llvm.ptr<6>, i32")


def _init(group: str, count: str) -> str:
    return f"nvgpu.mbarrier.init %{group}[AT], {count}, predicate = %first : {_group(2)}"


def _stuck(name: str) -> str:
    return f"%{name}_p_next = arith.xori %{name}_p, %false : i1"


_ARRIVES = "nvgpu.mbarrier.arrive %drained[%ra] : BARS -> !nvgpu.mbarrier.token"
# What is wrong with such kernels, and what the checker may call it: the first on a path.
MUTANTS: dict[str, tuple[dict[str, str], set[str]]] = {
    "no wait for empty": ({"wait empty": ""}, {"too-many-arrivals", "wrong-bytes"}),
    "no wait for full": ({"wait full": ""}, {"read-in-flight", "too-many-arrivals"}),
    "no wait for drained": ({"wait drained": ""}, {"missing-barrier", "too-many-arrivals"}),
    "no wait for filled": (
        {"wait filled": ""},
        {"read-in-flight", "too-many-arrivals", "deadlock"},
    ),
    "no commit on empty": ({"commit empty": ""}, {"deadlock"}),
    "no commit on filled": ({"commit filled": ""}, {"deadlock"}),
    "no arrival at drained": ({"arrive": ""}, {"deadlock"}),
    "no fence after filled": ({"fence filled": ""}, {"missing-tensor-fence"}),
    "no fence after drained": ({"fence drained": ""}, {"missing-tensor-fence"}),
    "no fence after the loads": ({"fence load": ""}, {"missing-tensor-fence"}),
    "no wait for the loads": ({"wait load": ""}, {"read-in-flight", "source-overwritten"}),
    "no fence for the mbarriers": ({"fence init": ""}, {"missing-fence"}),
    "no expect": ({"expect": ""}, {"deadlock"}),
    "all threads of a warp multiply": ({"elect": "arith.constant true"}, {"several-issuers"}),
    "arrivals before the wait for the loads": (
        {
            "after load": "nvvm.tcgen05.fence <before>\nscf.if %lane_0 {\n%early = "
            + _ARRIVES
            + "\n}",
            "arrive": "",
        },
        {"source-overwritten", "missing-tensor-fence", "missing-barrier"},
    ),
    "no meeting before the columns go": ({"meet": ""}, {"missing-barrier", "out-of-bounds"}),
    "all threads arrive": ({"arrive": "%token = " + _ARRIVES}, {"too-many-arrivals"}),
    "one warp arrives": (
        {
            "arrive": "scf.if %first {\n%token = " + _ARRIVES + "\n}",
            "init drained": _init("drained", "%c1"),
        },
        {"missing-barrier"},
    ),
    "drained counts less": ({"init drained": _init("drained", "%c3")}, {"too-many-arrivals"}),
    "drained counts more": ({"init drained": _init("drained", "%c32")}, {"deadlock"}),
    "empty counts more": ({"init empty": _init("empty", "%c2")}, {"deadlock"}),
    "filled counts more": ({"init filled": _init("filled", "%c2")}, {"deadlock"}),
    "the copies' phase never flips": ({"flip cs": _stuck("cs")}, {"deadlock", "phase-not-flipped"}),
    "the tiles' phase never flips": ({"flip ms": _stuck("ms")}, {"deadlock", "phase-not-flipped"}),
    "the sums' phase never flips": ({"flip acc": _stuck("acc")}, {"deadlock", "phase-not-flipped"}),
    "the readers' phase never flips": (
        {"flip ra": _stuck("ra")},
        {"deadlock", "phase-not-flipped"},
    ),
    "the copies' first parity": ({"cs first": "%false"}, {"deadlock"}),
    "the tiles' first parity": ({"ms first": "%true"}, {"read-in-flight", "deadlock"}),
    "the sums' first parity": ({"acc first": "%false"}, {"deadlock"}),
    "the readers' first parity": ({"ra first": "%true"}, {"read-in-flight", "deadlock"}),
    "products in the first columns": (
        {"m columns": "%m_at = arith.addi %sums_at, %c0_i32 : i32"},
        {"missing-barrier", "source-overwritten"},
    ),
    "loads of the first columns": (
        {"r columns": "%r_at = arith.addi %sums_at, %c0_i32 : i32"},
        {"missing-barrier", "read-in-flight"},
    ),
}
