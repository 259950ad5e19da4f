"""Writes a GEMM for Hopper as a front end emits it before pipelining: tensor copies and wgmma.

    python examples/generate_hopper_gemm.py > gemm.mlir
    python examples/generate_hopper_gemm.py --tile=128,256,64 --types=bf16 --b=n --persistent
    python examples/generate_hopper_gemm.py --tile=128,256,128 --types=e4m3 --warpgroups=2
    python examples/generate_hopper_gemm.py --roles=specialised --cluster=2
    python examples/generate_hopper_gemm.py --persistent --store=tma --out=f16

C[M, N] = A[M, K] * B, where B is given as N x K (`--b=k`: k along its rows, as weights lie) or as
K x N (`--b=n`). One thread copies the tiles of an iteration (TMA), whose bytes an mbarrier counts; each
warpgroup of 128 threads multiplies its rows by `wgmma` from shared memory. Nothing overlaps yet:
`async_pipe.num_stages` asks for it. M and N must be multiples of the tile; beyond K zeros are copied.

The kernel takes the tensor maps of A and B, and C of the type of the sums (`--sums`) or `--out`; with
`--store=tma` C's map too, in lines of 128 bytes (C.reshape(M, N // 64, 64).transpose(1, 0, 2) for 16 bits, unless
a tile has one line), M and N. A line of a tile has 128
bytes or less of a row, k or n, and is swizzled so (docs/hopper.md). With `--b=n`, for operands of 16 bits,
the map of B has three dimensions (tensor_gemm.py). With `--cluster` blocks that lie below each other have the
same columns of B: each copies a share of its tile into all of them; the map of B then has the box of a share.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Literal

from mlir_text import Writer
from tensor_gemm import TensorGemm
from tensor_sums import OUT, Sums
from tensor_tiles import (
    FULL,
    LINES,
    MMA_M,
    SHARED,
    SUMS,
    TYPES,
    WARPGROUP,
    Product,
    Tile,
    i32,
    tensor_maps,
    warpgroup_number,
)


@dataclass(frozen=True)
class HopperGemm(TensorGemm):
    """One kernel, with tiles of `tile_k` k."""

    tile_k: int = 64
    sums: str = ""
    warpgroups: int = 1
    roles: Literal["together", "specialised", "ping-pong"] = "together"
    cluster: int = 1
    store: Literal["registers", "tma"] = "registers"
    out: str = ""

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.warpgroups * WARPGROUP

    @property
    def launched(self) -> int:
        """Those to launch it with when it is pipelined: a warpgroup more that copies, and as many
        again that compute where two groups take tiles in turn."""
        more = {"together": 0, "specialised": WARPGROUP, "ping-pong": self.threads + WARPGROUP}
        return self.threads + more[self.roles]

    @property
    def parts(self) -> int:
        """Parts of 64 rows that a warpgroup multiplies."""
        return self.tile_m // MMA_M // self.warpgroups

    @property
    def left(self) -> Tile:
        """The tile of A."""
        return Tile("A", self.types, self.tile_m, self.tile_k)

    @property
    def right(self) -> Tile:
        """The tile of B."""
        return Tile("B", self.types, self.tile_n, self.tile_k, self.b == "k")

    @property
    def share(self) -> Tile:
        """What a block of a cluster copies of B, for all of them."""
        return replace(self.right, rows=self.tile_n // self.cluster)

    @property
    def product(self) -> Product:
        """What each wgmma multiplies."""
        integers = self.types in ("s8", "u8")
        return Product(self.left, self.right, self.sums or ("s32" if integers else "f32"))

    @property
    def c(self) -> str:
        """The type of C."""
        return f"memref<?x?x{self.result.element}>"

    @property
    def result(self) -> Sums:
        """What becomes of the sums."""
        product = self.product
        return Sums(product, self.parts, self.warpgroups, self.out or product.sums)

    @property
    def _stored(self) -> tuple[Tile, ...]:
        """The tile by which the sums go out, if they do by one."""
        return (self.result.tile,) if self.store == "tma" else ()

    def problems(self) -> list[str]:
        """Why this kernel cannot be made, [] if it can."""
        if self.tile_m % (MMA_M * self.warpgroups) or self.tile_m > 256:
            return ["each warpgroup takes a multiple of 64 rows, of 256 in all"]
        if self.tile_n % 64 or not 0 < self.tile_n <= 256:
            return ["the columns of the tile are a multiple of 64, at most 256"]
        if self.stages < 1:
            return ["there is one stage at least"]
        if self.roles == "ping-pong" and not self.persistent:
            return ["groups that take tiles in turn need several a block (--persistent)"]
        if self.group > 1 and not self.persistent:
            return ["tiles are taken in groups of rows where a block takes several (--persistent)"]
        if self.left.panels > 1:
            return ["k of a tile has 128 bytes at most"]
        if self.sums == "f16" and self.types not in ("f16", "e4m3", "e5m2"):
            return [f"{self.types} is not added up in f16"]
        if self.cluster > 1 and (self.b == "n" or self.roles == "ping-pong"):
            return ["a cluster shares B with k along its rows, and its groups take no turns"]
        if self.cluster < 1 or self.tile_n % (LINES * self.cluster) or self.cluster > 16:
            return ["the blocks of a cluster share out the columns of the tile, by eight"]
        if self.result.out not in OUT[self.product.sums]:
            return [f"sums of {self.product.sums} are not stored as {self.out}"]
        return self.left.problems() + self.right.problems()

    # -- the kernel ----------------------------------------------------------------------------

    def _body(self, w: Writer) -> None:
        zero = w.constant(0)
        tensor_maps(w, self.left, self.share, *self._stored)
        w.value("tid", "gpu.thread_id x")
        w.value("first", f"arith.cmpi eq, %tid, {zero} : index")
        w.value("false", "arith.constant false")
        w.value("true", "arith.constant true")
        FULL.create(w)
        self._meet(w)
        if self.warpgroups > 1:
            warpgroup_number(w)
        w.value("none", f"llvm.mlir.zero : {self.product.struct}")
        self._tiles(w)
        w.line("gpu.return")

    def _tile(self, w: Writer, at_m: str, at_n: str, phase: str) -> str:
        """The k loop and the store of one tile of C."""
        names = [f"%sum_{part}" for part in range(self.parts)]
        carried = ", ".join([*(f"{name} = %none" for name in names), f"%phase = {phase}"])
        types = ", ".join([*[self.product.struct] * self.parts, "i1"])
        header = (
            f"%total:{self.parts + 1} = scf.for %k32 = {i32(w, 0)} to %K step "
            f"{i32(w, self.tile_k)}\n        iter_args({carried}) -> ({types}) : i32"
        )
        with w.block(header, f"}} {{{self._annotation()}}}"):
            w.value("k", "arith.index_cast %k32 : i32 to index")
            self._copies(w, at_m, at_n)
            FULL.wait(w, "%phase")
            sums = self._products(w, names)
            self._meet(w)
            flip = w.value("flip", "arith.xori %phase, %true : i1")
            w.line(f"scf.yield {', '.join([*sums, flip])} : {types}")
        if self.store == "tma":
            self.result.store_tile(w, at_m, at_n)
        else:
            self.result.store(w, self.c, at_m, at_n)
        return f"%total#{self.parts}"

    def _more_memory(self) -> tuple[str, ...]:
        return tuple(f"%C_shared : {tile.buffer}" for tile in self._stored)

    def _result(self) -> str:
        if self.store == "tma":
            return "%C_map : !llvm.ptr, %M : index, %N : index"
        return super()._result()

    def _sizes(self, w: Writer) -> tuple[str, str]:
        return ("%M", "%N") if self.store == "tma" else super()._sizes(w)

    def _notes_on_tiles(self) -> str:
        """Nobody can see that the map of C is of another tensor than those of A and B."""
        return " {async_pipe.independent}" if self.store == "tma" else ""

    @property
    def _blocks_below(self) -> int:
        return self.cluster

    def _more_attributes(self) -> str:
        """Where each block has one tile only, the kernel says what else the loop over tiles does."""
        found = "" if self.persistent or self.store != "tma" else ", async_pipe.independent"
        if self.cluster == 1:
            return found
        return f"{found}, known_cluster_size = array<i32: 1, {self.cluster}, 1>"

    def _meet(self, w: Writer) -> None:
        """All threads of the block; of the cluster, where its blocks copy for each other."""
        if self.cluster == 1:
            w.line("gpu.barrier")
            return
        w.line("nvvm.fence.mbarrier.init")
        w.line("nvvm.cluster.arrive")
        w.line("nvvm.cluster.wait")

    def _copies(self, w: Writer, at_m: str, at_n: str) -> None:
        """In a cluster each block copies its tile of A, and its share of the tile of B for all."""
        if self.cluster == 1:
            super()._copies(w, at_m, at_n)
            return
        share, every = self.share, (1 << self.cluster) - 1
        FULL.announce(w, self.left, self.right)
        self.left.copy(w, ("%k", at_m))
        rank = w.value("rank", "gpu.cluster_block_id y")
        first = w.mul("share_n", rank, share.rows)
        kind = f"memref<{share.box}x{share.element}, strided<[{share.per_line}, 1], offset: ?>, {SHARED}>"
        to = w.value(
            "share",
            f"memref.subview %B_shared[{first}, 0][{share.rows}, {share.per_line}][1, 1] : "
            f"{self.right.buffer} to {kind}",
        )
        mask = w.value("mask", f"arith.constant {every - (every >> 15 << 16)} : i16")
        w.line(
            f"nvgpu.tma.async.load %B[%k, {w.add('n_share', at_n, first)}], {FULL.at(w)} to {to} "
            f"multicast_mask = {mask}, predicate = %first : {share.map}, {FULL.kind} -> {kind}"
        )

    def _annotation(self) -> str:
        roles = f', async_pipe.roles = "{self.roles}"' if self.roles != "together" else ""
        return super()._annotation() + roles

    # -- products ------------------------------------------------------------------------------

    def _products(self, w: Writer, sums: list[str]) -> list[str]:
        """Steps of 32 bytes of k for each part of 64 rows, in one group; returns the new sums."""
        part = self.left.of_group(w, self.parts * MMA_M) if self.warpgroups > 1 else ""
        a, b = self.left.descriptor(w, further=part), self.right.descriptor(w)
        w.line("nvvm.wgmma.fence.aligned")
        found = list(sums)
        for step in range(self.left.steps):
            right = self.right.moved(w, b, step)
            for part in range(self.parts):
                left = self.left.moved(w, a, step, part * MMA_M)
                found[part] = self.product.issue(w, left, right, found[part])
        w.line("nvvm.wgmma.commit.group.sync.aligned")
        w.line("nvvm.wgmma.wait.group.sync.aligned 0")
        return found


def main() -> None:
    """Print the kernel that the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tile", default="128,128,64", help="M,N,K")
    parser.add_argument("--types", choices=tuple(TYPES), default="f16")
    parser.add_argument("--sums", choices=tuple(SUMS), default="")
    parser.add_argument("--b", choices=("k", "n"), default="k")
    parser.add_argument("--stages", type=int, default=3)
    parser.add_argument("--in-flight", type=int)
    parser.add_argument("--warpgroups", type=int, default=1)
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument(
        "--group", type=int, default=1, help="rows of tiles that are taken column by column"
    )
    parser.add_argument(
        "--roles", choices=("together", "specialised", "ping-pong"), default="together",
        help="specialised: warps that are added issue the copies; ping-pong: and two groups of the "
        "threads take tiles in turn",
    )  # fmt: skip
    parser.add_argument(
        "--cluster", type=int, default=1,
        help="blocks along M that copy the tile of B for each other, by multicast",
    )  # fmt: skip
    parser.add_argument(
        "--store", choices=("registers", "tma"), default="registers",
        help="tma: by a tile in workgroup memory, which a tensor store takes away",
    )  # fmt: skip
    parser.add_argument("--out", choices=sorted({*OUT, "bf16"}), default="", help="the type of C")
    arguments = parser.parse_args()
    m, n, k = map(int, arguments.tile.split(","))
    made = HopperGemm(
        tile_m=m,
        tile_n=n,
        tile_k=k,
        types=arguments.types,
        sums=arguments.sums,
        b=arguments.b,
        stages=arguments.stages,
        in_flight=arguments.in_flight,
        warpgroups=arguments.warpgroups,
        persistent=arguments.persistent,
        group=arguments.group,
        roles=arguments.roles,
        cluster=arguments.cluster,
        store=arguments.store,
        out=arguments.out,
    )
    if made.problems():
        parser.error("; ".join(made.problems()))
    print(made.module(), end="")


if __name__ == "__main__":
    main()
