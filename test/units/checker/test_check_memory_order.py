"""What orders accesses of different threads and blocks beside barriers: never a false error where a
release and an acquire may do it, an error where nothing can, and a proof only where it is followed.

Covers: checker/sites.py, checker/flag_orders.py, checker/owners.py
"""

from __future__ import annotations

import pytest

from helpers import flag_kernels
from helpers.check_harness import Checked, check_text
from helpers.machine_programs import parse
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.vocabulary import named_row, row_of
from mlir_async_pipe.vocabulary.barriers import BARRIER_ROWS, FENCE_ROWS
from mlir_async_pipe.vocabulary.memory_ops import MEMORY_ROWS
from mlir_async_pipe.vocabulary.rows import unordered

KERNEL = """
gpu.module @m {{
  llvm.func @unknown()
  llvm.func @quiet() {{
    llvm.return
  }}
  llvm.func @flags(%flag: !llvm.ptr<1>) {{
    %one = llvm.mlir.constant(1 : i32) : i32
    %old = llvm.atomicrmw add %flag, %one acq_rel : !llvm.ptr<1>, i32
    llvm.return
  }}
  llvm.mlir.global internal @near() {{addr_space = 3 : i32}} : i64
  gpu.func @k(%X: memref<?xf32> {{llvm.noalias}}, %F: !llvm.ptr<1> {{llvm.noalias}},
      %G: memref<4xi32> {{llvm.noalias}}, %D: memref<?x64xi32> {{llvm.noalias}})
      workgroup(%s: memref<64xf32, 3>)
      kernel attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c63 = arith.constant 63 : index
    %c64 = arith.constant 64 : index
    %f0 = arith.constant 0.0 : f32
    %zero = llvm.mlir.constant(0 : i32) : i32
    %one = llvm.mlir.constant(1 : i32) : i32
    %some = llvm.mlir.constant(32 : i32) : i32
    %near = llvm.mlir.addressof @near : !llvm.ptr<3>
    %t = gpu.thread_id x
    %b = gpu.block_id x
    %o = arith.subi %c63, %t : index
    %first = arith.cmpi eq, %t, %c0 : index
    %lead = arith.cmpi eq, %b, %c0 : index
    %before = arith.subi %b, %c1 : index
    %start = arith.muli %b, %c64 : index
    %start_before = arith.muli %before, %c64 : index
    %mine = arith.addi %start, %t : index
    %theirs = arith.addi %start_before, %o : index
    %b64 = arith.index_cast %b : index to i64
    %before64 = arith.index_cast %before : index to i64
    %flag = llvm.getelementptr %F[%b64] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i32
    %flag_before = llvm.getelementptr %F[%before64] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i32
    {body}
    gpu.return
  }}
}}
"""


def check(body: str) -> Checked:
    return check_text(KERNEL.format(body=body))


def verdict(checked: Checked, code: str) -> str:
    """Of the hazards with a code: unsafe before unknown before proven."""
    for found, name in ((checked.unsafe, "unsafe"), (checked.unknown, "unknown")):
        if code in {kind for kind, _ in found}:
            return name
    return "proven"


def reasons(checked: Checked) -> set[str]:
    return {reason for entry in checked.report.of("checks") for reason in entry.reasons}


ACQUIRE = "%a = llvm.load %F atomic acquire {alignment = 4 : i64} : !llvm.ptr<1> -> i32"
RELEASE = "llvm.store %one, %F atomic release {alignment = 4 : i64} : i32, !llvm.ptr<1>"
USE = "%u = arith.addi %x, %x : i32\nmemref.store %u, %D[%b, %t] : memref<?x64xi32>"
RMW = f"%x = memref.atomic_rmw addi %one, %G[%c0] : (i32, memref<4xi32>) -> i32\n{USE}"
GENERIC_RMW = f"""%x = memref.generic_atomic_rmw %G[%c0] : memref<4xi32> {{
^bb0(%old: i32):
  memref.atomic_yield %old : i32
}}
{USE}"""
RELAXED = "%r = llvm.atomicrmw add %F, %one monotonic : !llvm.ptr<1>, i32\n"
ARRIVE = "%p = nvvm.mbarrier.arrive %near : !llvm.ptr<3> -> i64"
WAIT = "nvvm.mbarrier.try_wait.parity %near, %zero, %one : !llvm.ptr<3>, i32, i32"
# What stands between a store and another thread's load: the verdicts in a block, and between blocks.
BEFORE = 'llvm.fence syncscope("workgroup") release'
AFTER = 'llvm.fence syncscope("workgroup") acquire'
LOCAL = '{llvm.mmra = #llvm.mmra_tag<"amdgpu-synchronize-as":"local">}'
ELSEWHERE = '{llvm.mmra = #llvm.mmra_tag<"amdgpu-synchronize-as":"global">}'
HALVES = "rocdl.s.barrier.signal id = -1\nrocdl.s.barrier.wait id = -1"
WAVES = 'llvm.fence syncscope("wavefront") {}'
TABLE = {
    "nothing": ("", "unsafe", "unsafe"),
    "a barrier": ("gpu.barrier", "proven", "unsafe"),
    "a barrier of CUDA": ("nvvm.barrier", "proven", "unsafe"),
    "an old barrier of CUDA": ('"nvvm.barrier0"() : () -> ()', "proven", "unsafe"),
    "a barrier of AMD": ("rocdl.barrier", "proven", "unsafe"),
    "a barrier of LDS": ("amdgpu.lds_barrier", "proven", "unsafe"),
    "a barrier of other memory": (
        "gpu.barrier memfence [#gpu.address_space<private>]",
        "unsafe",
        "unsafe",
    ),
    "a barrier of some threads": (
        "nvvm.barrier id = %one number_of_threads = %some",
        "unknown",
        "unknown",
    ),
    "half of a barrier": (
        "nvvm.barrier.arrive id = %one number_of_threads = %some",
        "unknown",
        "unknown",
    ),
    "a barrier of a warp": ("nvvm.bar.warp.sync %some : i32", "unknown", "unknown"),
    "a barrier of a cluster": (
        "nvvm.cluster.arrive {aligned}\nnvvm.cluster.wait {aligned}",
        "unknown",
        "unknown",
    ),
    "a relaxed barrier of a cluster": (
        "nvvm.cluster.arrive.relaxed {aligned}\nnvvm.cluster.wait {aligned}",
        "unknown",
        "unknown",
    ),
    "a barrier without memory": ("rocdl.s.barrier", "unsafe", "unsafe"),
    "a barrier between fences": (
        "llvm.fence release\nrocdl.s.barrier\nllvm.fence acquire",
        "proven",
        "unsafe",
    ),
    "a barrier between fences of the block": (
        f"{BEFORE}\nrocdl.s.barrier\n{AFTER}",
        "proven",
        "unsafe",
    ),
    "two halves of a barrier without memory": (HALVES, "unsafe", "unsafe"),
    "two halves of a barrier between fences": (f"{BEFORE}\n{HALVES}\n{AFTER}", "proven", "unsafe"),
    "a barrier between fences of workgroup memory": (
        f"{BEFORE} {LOCAL}\nrocdl.s.barrier\n{AFTER} {LOCAL}",
        "proven",
        "unsafe",
    ),
    "a barrier between fences of other memory": (
        f"{BEFORE} {ELSEWHERE}\nrocdl.s.barrier\n{AFTER} {ELSEWHERE}",
        "unknown",
        "unsafe",
    ),
    "a barrier between fences of different memory": (
        f"{BEFORE} {ELSEWHERE}\nrocdl.s.barrier\n{AFTER} {LOCAL}",
        "unknown",
        "unsafe",
    ),
    "a barrier between fences the wrong way round": (
        f"{AFTER}\nrocdl.s.barrier\n{BEFORE}",
        "unknown",
        "unsafe",
    ),
    "a barrier behind one fence": (f"{BEFORE}\nrocdl.s.barrier", "unsafe", "unsafe"),
    "a barrier between fences of a wave": (
        'llvm.fence syncscope("wavefront") release\nrocdl.s.barrier\n'
        'llvm.fence syncscope("wavefront") acquire',
        "unknown",
        "unsafe",
    ),
    "an atomic of MLIR": (RMW, "unknown", "unknown"),
    "a generic atomic of MLIR": (GENERIC_RMW, "unknown", "unknown"),
    "an ordered atomic": (
        "%x = llvm.atomicrmw add %F, %one acq_rel : !llvm.ptr<1>, i32",
        "unknown",
        "unknown",
    ),
    "an ordered atomic of the block": (
        '%x = llvm.atomicrmw add %flag, %one syncscope("block") acq_rel : !llvm.ptr<1>, i32',
        "unknown",
        "unsafe",
    ),
    "a relaxed atomic": (RELAXED, "unsafe", "unsafe"),
    "an atomic of one thread": (
        '%x = llvm.atomicrmw add %F, %one syncscope("singlethread") acq_rel : !llvm.ptr<1>, i32',
        "unsafe",
        "unsafe",
    ),
    "an exchange": (
        "%x = llvm.cmpxchg %F, %zero, %one acq_rel acquire : !llvm.ptr<1>, i32",
        "unknown",
        "unknown",
    ),
    "a relaxed exchange": (
        "%x = llvm.cmpxchg %F, %zero, %one monotonic monotonic : !llvm.ptr<1>, i32",
        "unsafe",
        "unsafe",
    ),
    "a release and an acquire": (f"{RELEASE}\n{ACQUIRE}", "unknown", "unknown"),
    "an acquire and a release": (f"{ACQUIRE}\n{RELEASE}", "unknown", "unknown"),
    "a release alone": (RELEASE, "unsafe", "unsafe"),
    "an acquire alone": (ACQUIRE, "unsafe", "unsafe"),
    "bytes copied and filled": (
        "%S = llvm.alloca %one x i32 : (i32) -> !llvm.ptr\n%byte = llvm.mlir.constant(0 : i8) : i8\n%four = llvm.mlir.constant(4 : i64) : i64\n"
        '"llvm.intr.memcpy"(%S, %F, %four) <{isVolatile = true}> : (!llvm.ptr, !llvm.ptr<1>, i64) -> ()\n'
        '"llvm.intr.memmove"(%S, %F, %four) <{isVolatile = true}> : (!llvm.ptr, !llvm.ptr<1>, i64) -> ()\n'
        '"llvm.intr.memcpy.inline"(%S, %F) <{isVolatile = true, len = 4 : i64}> : (!llvm.ptr, !llvm.ptr<1>) -> ()\n'
        '"llvm.intr.memset"(%S, %byte, %four) <{isVolatile = true}> : (!llvm.ptr, i8, i64) -> ()\n'
        '"llvm.intr.memset.inline"(%S, %byte) <{isVolatile = true, len = 4 : i64}> : (!llvm.ptr, i8) -> ()',
        "unsafe",
        "unsafe",
    ),
    "volatile accesses": (
        "llvm.store volatile %one, %F : i32, !llvm.ptr<1>\n"
        "%x = llvm.load volatile %F : !llvm.ptr<1> -> i32",
        "unsafe",
        "unsafe",
    ),
    "a fence": (f"{RELAXED}llvm.fence acq_rel", "unknown", "unknown"),
    "a fence that nobody hears of": ("llvm.fence acq_rel", "unsafe", "unsafe"),
    "a fence of one thread": (
        f'{RELAXED}llvm.fence syncscope("singlethread") acq_rel',
        "unsafe",
        "unsafe",
    ),
    "half of a fence": (f"{RELAXED}llvm.fence release", "unsafe", "unsafe"),
    "a fence of the device": (f"{RELAXED}nvvm.memory.barrier <gpu>", "unknown", "unknown"),
    "a fence of the block": (f"{RELAXED}nvvm.memory.barrier <cta>", "unknown", "unsafe"),
    "a fence of the cluster": (f"{RELAXED}nvvm.fence.sc.cluster", "unknown", "unknown"),
    "a fence of mbarriers": (f"{RELAXED}nvvm.fence.mbarrier.init", "unsafe", "unsafe"),
    "a fence of a proxy": (
        f"{RELAXED}nvvm.fence.proxy {{kind = #nvvm.proxy_kind<async>}}",
        "unknown",
        "unsafe",
    ),
    "an arrival": (ARRIVE, "unsafe", "unsafe"),
    "an arrival and a wait": (f"{ARRIVE}\n{WAIT}", "unknown", "unsafe"),
    "another kernel": ("nvvm.griddepcontrol wait", "unknown", "unknown"),
    "a call that nobody knows": ("llvm.call @unknown() : () -> ()", "unknown", "unknown"),
    "a call that does nothing": ("llvm.call @quiet() : () -> ()", "unsafe", "unsafe"),
    "a call with an atomic": ("llvm.call @flags(%F) : (!llvm.ptr<1>) -> ()", "unknown", "unknown"),
    "an op that nobody knows": ('"my.op"() : () -> ()', "unknown", "unknown"),
    "assembly": (
        'llvm.inline_asm has_side_effects "an.instruction.of.mine;", "" : () -> ()',
        "unknown",
        "unknown",
    ),
    "a fence in assembly": (
        'llvm.inline_asm has_side_effects "membar.gl;", "" : () -> ()',
        "unsafe",
        "unsafe",
    ),
    "assembly that computes": (
        '%x = llvm.inline_asm "mov.u32 $0, $1;", "=r,r" %one : (i32) -> i32',
        "unsafe",
        "unsafe",
    ),
    "a group and its wait": (
        "nvvm.cp.async.commit.group\nnvvm.cp.async.wait.group 0",
        "unsafe",
        "unsafe",
    ),
    "a counter": ("rocdl.s.waitcnt 0", "unsafe", "unsafe"),
    "a counter, and threads meet": ("rocdl.s.waitcnt 0\nrocdl.s.barrier", "unknown", "unsafe"),
    "the lanes of a wave": (
        f"{WAVES.format('release')}\nrocdl.wave.barrier\n{WAVES.format('acquire')}",
        "unknown",
        "unsafe",
    ),
}
STORE = "memref.store %f0, %s[%t] : memref<64xf32, 3>"
LOAD = "%v = memref.load %s[%o] : memref<64xf32, 3>"
FAR_STORE = "memref.store %f0, %X[%mine] : memref<?xf32>"
FAR_LOAD = "%v = memref.load %X[%theirs] : memref<?xf32>"


@pytest.mark.parametrize("name", TABLE)
def test_what_stands_between_two_threads_decides(name: str) -> None:
    between, expected, _ = TABLE[name]
    assert verdict(check(f"{STORE}\n{between}\n{LOAD}"), "missing-barrier") == expected


def test_fences_whose_barrier_stands_elsewhere_order_nothing() -> None:
    fences = f"{BEFORE} {LOCAL}\nBETWEEN\n{AFTER} {LOCAL}"
    whole, without = (fences.replace("BETWEEN", one) for one in ("rocdl.s.barrier", ""))
    assert verdict(check(f"{whole}\n{STORE}\n{without}\n{LOAD}"), "missing-barrier") == "unsafe"


@pytest.mark.parametrize("name", TABLE)
def test_what_stands_between_two_blocks_decides(name: str) -> None:
    between, _, expected = TABLE[name]
    assert verdict(check(f"{FAR_STORE}\n{between}\n{FAR_LOAD}"), "cross-block") == expected


@pytest.mark.parametrize("name", [n for n, row in TABLE.items() if row[1] != "proven"])
def test_what_stands_before_both_orders_nothing(name: str) -> None:
    """The twin of each row: the same op before the store, where its acquire comes too early for the
    load. What may have been anything, or makes only some threads meet, leaves its doubt."""
    between, inside, _ = TABLE[name]
    found = verdict(check(f"{between}\n{STORE}\n{LOAD}"), "missing-barrier")
    assert found == "unsafe" or (inside == "unknown" and not _ordinary(between))


def _ordinary(text: str) -> set[str]:
    """The ops of a text that all threads run with an effect that a row tells in full."""
    words = {word.strip('"') for line in text.splitlines() for word in line.split("(")[0].split()}
    partial = {row.op for row in BARRIER_ROWS if row.whole is not None}
    return {word for word in words - partial if named_row(word).known}


def test_every_op_that_orders_stands_in_the_table() -> None:
    text = " ".join(between for between, _, _ in TABLE.values())
    rows = [*BARRIER_ROWS, *FENCE_ROWS, *MEMORY_ROWS.values()]
    ordering = {row.op for row in rows if row.barrier is not None or row.order is not unordered}
    alike = {
        "nvvm.fence.proxy.acquire",
        "nvvm.fence.proxy.release",
        "nvvm.fence.proxy.sync_restrict",
        "nvvm.fence.sync_restrict",
        "nvgpu.tma.fence.descriptor",
        "amdgpu.memory_counter_wait",
        *(f"rocdl.s.wait.{counter}cnt" for counter in ("ds", "exp", "load", "store")),
    }
    assert {op for op in ordering - alike if op not in text} == set()


@pytest.mark.parametrize(
    ("fence", "acquires", "releases", "scope"),
    [
        ("nvvm.fence.proxy.release #nvvm.mem_scope<gpu>", False, True, "device"),
        ("nvvm.fence.proxy.acquire #nvvm.mem_scope<cluster> %p, %size", True, False, "cluster"),
        ("nvvm.fence.sync_restrict {order = #nvvm.mem_order<acquire>}", True, False, "cluster"),
        ("nvvm.fence.sync_restrict {order = #nvvm.mem_order<release>}", False, True, "cluster"),
    ],
)
def test_a_fence_of_one_direction_orders_that_one(
    fence: str, acquires: bool, releases: bool, scope: str
) -> None:
    module = parse(f"""
llvm.func @f(%p: !llvm.ptr) {{
  %size = llvm.mlir.constant(128 : i32) : i32
  {fence}
  llvm.return
}}""")
    (op,) = [op for op in walk(module.operation) if op.name.startswith("nvvm.fence")]
    order = row_of(op).order(op)
    assert (order.acquire, order.release, order.scope) == (acquires, releases, scope)
    restricted = order.spaces == frozenset({"workgroup"})
    assert restricted == ("sync_restrict" in fence)


# Accesses that are strong themselves -------------------------------------------------------

NEAR = "!llvm.ptr<3>"
WHERE = "%place = arith.index_cast %t : index to i32\n"


def _atomic(scope: str, memory: str, kind: str = NEAR) -> str:
    return f'%x = llvm.atomicrmw add {memory}, %one syncscope("{scope}") monotonic : {kind}, i32'


STRONG = {
    "atomics of the block": (_atomic("block", "%near"), "proven"),
    "atomics of a warp": (_atomic("warp", "%near"), "unknown"),
    "atomics of one thread": (_atomic("singlethread", "%near"), "unsafe"),
    "volatile accesses": (
        f"llvm.store volatile %one, %near : i32, {NEAR}\n"
        f"%x = llvm.load volatile %near : {NEAR} -> i32",
        "proven",
    ),
    "a volatile and a plain access": (
        f"llvm.store volatile %one, %near : i32, {NEAR}\n%x = llvm.load %near : {NEAR} -> i32",
        "unsafe",
    ),
    "an atomic and a plain store": (
        f"{_atomic('block', '%near')}\nllvm.store %one, %near : i32, {NEAR}",
        "unsafe",
    ),
    "an atomic store and an atomic": (
        f"llvm.store %one, %near atomic monotonic {{alignment = 4 : i64}} : i32, {NEAR}\n"
        f"{_atomic('block', '%near')}",
        "proven",
    ),
    "volatile accesses of two sizes": (
        f"llvm.store volatile %one, %near : i32, {NEAR}\n"
        f"%x = llvm.load volatile %near : {NEAR} -> i64",
        "unknown",
    ),
}


@pytest.mark.parametrize("name", STRONG)
def test_strong_accesses_of_one_block_do_not_race(name: str) -> None:
    body, expected = STRONG[name]
    assert verdict(check(body), "missing-barrier") == expected


@pytest.mark.parametrize(
    ("scope", "expected"),
    [("device", "proven"), ("cluster", "unknown"), ("block", "unsafe"), ("singlethread", "unsafe")],
)
def test_strong_accesses_of_blocks_need_the_scope_of_the_device(scope: str, expected: str) -> None:
    touched = [
        f"{_atomic(scope, '%flag', '!llvm.ptr<1>')}",
        f'%y = llvm.atomicrmw add %flag_before, %one syncscope("{scope}") monotonic '
        ": !llvm.ptr<1>, i32",
    ]
    assert verdict(check("\n".join(touched)), "cross-block") == expected


# Flags that blocks spin on ------------------------------------------------------------------


def _spin(flag: str, load: str = "", until: str = "eq, %f, %zero") -> str:
    load = load or f"llvm.load {flag} atomic acquire {{alignment = 4 : i64}}"
    return f"""scf.while : () -> () {{
      %f = {load} : !llvm.ptr<1> -> i32
      %go = arith.cmpi {until} : i32
      scf.condition(%go)
    }} do {{
      scf.yield
    }}"""


def _release(flag: str, order: str = "release", value: str = "%one") -> str:
    return f"llvm.store {value}, {flag} atomic {order} {{alignment = 4 : i64}} : i32, !llvm.ptr<1>"


def _first(body: str) -> str:
    return f"scf.if %first {{\n{body}\n}}"


BARRIER = "gpu.barrier"
LEADER = """scf.if %lead {{
  memref.store %f0, %X[%t] : memref<?xf32>
  {meet}
  {release}
}} else {{
  {wait}
  %v = memref.load %X[%o] : memref<?xf32>
}}"""
LOOK_BACK = """memref.store %f0, %X[%mine] : memref<?xf32>
{meet}
{release}
%follows = arith.cmpi ne, %b, %c0 : index
scf.if %follows {{
  {wait}
  %v = memref.load %X[%theirs] : memref<?xf32>
}}"""
ONE_THREAD = """scf.if %first {{
  memref.store %f0, %X[%b] : memref<?xf32>
  {meet}
  {release}
}}
%follows = arith.cmpi ne, %b, %c0 : index
scf.if %follows {{
  {wait}
  %v = memref.load %X[%before] : memref<?xf32>
}}"""
LEADS = {"meet": BARRIER, "release": _first(_release("%F")), "wait": _spin("%F")}
BACK = {"meet": BARRIER, "release": _first(_release("%flag")), "wait": _spin("%flag_before")}
OWN = {"meet": "", "release": _release("%flag"), "wait": _spin("%flag_before")}
BY_ONE = f"{_first(_spin('%flag_before'))}\n{BARRIER}"
ORDERED = {
    "a block for all others": (LEADER, LEADS),
    "a block for all others, by one thread": (
        LEADER,
        {**LEADS, "wait": f"{_first(_spin('%F'))}\n{BARRIER}"},
    ),
    "each block for the next": (LOOK_BACK, BACK),
    "each block for the next, by one thread": (LOOK_BACK, {**BACK, "wait": BY_ONE}),
    "one thread stores and releases": (ONE_THREAD, OWN),
    "until the number that is released": (
        LOOK_BACK,
        {**BACK, "wait": _spin("%flag_before", until="ne, %f, %one")},
    ),
    "all threads release": (LOOK_BACK, {**BACK, "release": _release("%flag")}),
    "the flag is cleared first": (
        LOOK_BACK,
        {**BACK, "meet": f"{_release('%flag', 'monotonic', '%zero')}\n{BARRIER}"},
    ),
    "sequentially consistent": (
        LOOK_BACK,
        {**BACK, "release": _first(_release("%flag", "seq_cst"))},
    ),
}


@pytest.mark.parametrize("name", ORDERED)
def test_a_flag_that_only_one_release_ends_orders_blocks(name: str) -> None:
    form, parts = ORDERED[name]
    checked = check(form.format(**parts))
    assert (checked.unsafe, checked.unknown) == (frozenset(), frozenset())


# One part of what is ordered above is broken: the accesses race, or nobody can tell.
BROKEN = {
    "no barrier before the release": {"meet": ""},
    "a barrier of other memory": {"meet": "gpu.barrier memfence [#gpu.address_space<workgroup>]"},
    "a barrier of some threads": {"meet": "nvvm.barrier id = %one number_of_threads = %some"},
    "the store comes after the barrier": {
        "meet": f"{BARRIER}\nmemref.store %f0, %X[%mine] : memref<?xf32>"
    },
    "no release": {"release": ""},
    "a relaxed store": {"release": _first(_release("%flag", "monotonic"))},
    "a plain store": {"release": _first("llvm.store %one, %flag : i32, !llvm.ptr<1>")},
    "a release of the block": {"release": _first(_release("%flag", 'syncscope("block") release'))},
    "a release of another number": {"release": _first(_release("%flag", value="%zero"))},
    "a release of any number": {
        "release": "%any = llvm.load %near : !llvm.ptr<3> -> i32\n"
        + _first(_release("%flag", value="%any"))
    },
    "two releases": {"release": f"{_first(_release('%flag'))}\n{_release('%flag')}"},
    "somebody adds": {
        "release": f"{_first(_release('%flag'))}\n"
        "%old = llvm.atomicrmw add %flag, %one monotonic : !llvm.ptr<1>, i32"
    },
    "somebody else may write": {
        "release": f'{_first(_release("%flag"))}\n"my.op"(%F) : (!llvm.ptr<1>) -> ()'
    },
    "no wait": {"wait": ""},
    "a wait for another block": {"wait": _spin("%flag")},
    "a wait of one thread alone": {"wait": _first(_spin("%flag_before"))},
    "a wait of a thread that need not be there": {
        "wait": f"%last = arith.cmpi eq, %t, %c64 : index\nscf.if %last {{\n{_spin('%flag_before')}\n}}\n{BARRIER}"
    },
    "a relaxed wait": {
        "wait": _spin(
            "%flag_before", "llvm.load %flag_before atomic monotonic {alignment = 4 : i64}"
        )
    },
    "a volatile wait": {"wait": _spin("%flag_before", "llvm.load volatile %flag_before")},
    "a wait of the block": {
        "wait": _spin(
            "%flag_before",
            'llvm.load %flag_before atomic syncscope("block") acquire {alignment = 4 : i64}',
        )
    },
    "a wait for workgroup memory alone": {
        "wait": _spin(
            "%flag_before",
            "llvm.load %flag_before atomic acquire {alignment = 4 : i64, "
            'llvm.mmra = #llvm.mmra_tag<"amdgpu-synchronize-as":"local">}',
        )
    },
    "a release of workgroup memory alone": {
        "release": _first(
            _release("%flag").replace(
                "{alignment = 4 : i64",
                '{llvm.mmra = #llvm.mmra_tag<"amdgpu-synchronize-as":"local">, alignment = 4 : i64',
            )
        )
    },
    "a wait that asks once": {
        "wait": "%f = llvm.load %flag_before atomic acquire {alignment = 4 : i64} "
        ": !llvm.ptr<1> -> i32"
    },
    "a wait that may give up": {
        "wait": _spin("%flag_before").replace(
            "scf.condition(%go)",
            "%k = llvm.load %near : !llvm.ptr<3> -> i32\n%more = arith.cmpi eq, %k, %zero : i32\n"
            "%both = arith.andi %go, %more : i1\nscf.condition(%both)",
        )
    },
    "a wait for nothing": {"wait": _spin("%flag_before", until="ne, %f, %zero")},
    "a wait in a loop that need not run": {
        "wait": f"%n = memref.dim %X, %c0 : memref<?xf32>\nscf.for %i = %c64 to %n step %c1 {{\n{_spin('%flag_before')}\n}}"
    },
    "a wait under a condition": {
        "wait": f"%n = memref.dim %X, %c0 : memref<?xf32>\n%large = arith.cmpi ugt, %n, %c64 : index\nscf.if %large {{\n{_spin('%flag_before')}\n}}"
    },
    "the load comes before the wait": {
        "wait": f"%w = memref.load %X[%theirs] : memref<?xf32>\n{_spin('%flag_before')}"
    },
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_flag_that_is_broken_is_never_proven(name: str) -> None:
    checked = check(LOOK_BACK.format(**{**BACK, **BROKEN[name]}))
    assert verdict(checked, "cross-block") != "proven"


def test_a_thread_that_goes_on_to_store_after_its_release_is_not_proven() -> None:
    body = ONE_THREAD.format(**OWN).replace(_release("%flag"), f"{_release('%flag')}\n}}", 1)
    looped = body.replace(
        "scf.if %first {", "scf.if %first {\nscf.for %i = %c0 to %c64 step %c1 {", 1
    )
    assert verdict(check(looped), "cross-block") != "proven"


def test_a_thread_that_does_not_release_itself_needs_a_barrier() -> None:
    """All threads store, and thread 0 alone would order its own store only."""
    body = ONE_THREAD.format(**OWN).replace("scf.if %first {", "scf.if %any_thread {", 1)
    checked = check(f"%any_thread = arith.cmpi ult, %t, %c64 : index\n{body}")
    assert verdict(checked, "cross-block") != "proven"


# The kernels that the machine judges: block 0 hands a row to block 1.
SIZES = "gpu.known_block_size = array<i32: 4, 1, 1>, gpu.known_grid_size = array<i32: 2, 1, 1>"
FOLLOWED = ("thread 0 releases, thread 0 acquires", "every thread acquires")


def handed(ends: tuple[str, str]) -> Checked:
    text = flag_kernels.text(*ends).replace(") {", f") attributes {{{SIZES}}} {{", 1)
    return check_text(text, assume_noalias_arguments=True)


@pytest.mark.parametrize("name", flag_kernels.RIGHT)
def test_a_row_that_is_handed_over_is_no_error_and_proven_where_it_is_followed(name: str) -> None:
    checked = handed(flag_kernels.RIGHT[name])
    assert not checked.unsafe
    assert (not checked.unknown) == (name in FOLLOWED)


@pytest.mark.parametrize("name", flag_kernels.RACY)
def test_a_row_that_is_handed_over_in_a_race_is_never_proven(name: str) -> None:
    checked = handed(flag_kernels.RACY[name])
    assert checked.unsafe or checked.unknown


# Idioms -------------------------------------------------------------------------------------

LOCK = """scf.while : () -> () {
  %pair = llvm.cmpxchg %near, %zero, %one acquire monotonic : !llvm.ptr<3>, i32
  %old = llvm.extractvalue %pair[0] : !llvm.struct<(i32, i1)>
  %go = arith.cmpi ne, %old, %zero : i32
  scf.condition(%go)
} do {
  scf.yield
}
%v = memref.load %s[%c0] : memref<64xf32, 3>
memref.store %v, %s[%c0] : memref<64xf32, 3>
llvm.store %zero, %near atomic release {alignment = 4 : i64} : i32, !llvm.ptr<3>"""
LAST_BLOCK = """memref.store %f0, %X[%mine] : memref<?xf32>
nvvm.memory.barrier <gpu>
gpu.barrier
scf.if %first {
  %old = llvm.atomicrmw add %F, %one acq_rel : !llvm.ptr<1>, i32
  %number = arith.index_cast %old : i32 to index
  %last = arith.cmpi eq, %number, %c63 : index
  scf.if %last {
    scf.for %i = %c0 to %c64 step %c1 {
      %v = memref.load %X[%i] : memref<?xf32>
    }
  }
}"""
THREAD_FOR_THREADS = """scf.if %first {
  memref.store %f0, %s[%c0] : memref<64xf32, 3>
  llvm.store %one, %near atomic release {alignment = 4 : i64} : i32, !llvm.ptr<3>
} else {
  scf.while : () -> () {
    %f = llvm.load %near atomic acquire {alignment = 4 : i64} : !llvm.ptr<3> -> i32
    %go = arith.cmpi eq, %f, %zero : i32
    scf.condition(%go)
  } do {
    scf.yield
  }
  %v = memref.load %s[%c0] : memref<64xf32, 3>
}"""


@pytest.mark.parametrize("body", [LOCK, LAST_BLOCK, THREAD_FOR_THREADS])
def test_idioms_that_are_not_followed_are_unknown(body: str) -> None:
    checked = check(body)
    assert not checked.unsafe
    assert checked.unknown


def test_a_critical_section_without_its_lock_races() -> None:
    lines = LOCK.splitlines()
    assert verdict(check("\n".join(lines[8:10])), "missing-barrier") == "unsafe"


@pytest.mark.parametrize(
    "body",
    [
        f"memref.store %f0, %X[%mine] : memref<?xf32>\ngpu.barrier\n{_first(_release('%flag'))}",
        f"{_first(_spin('%flag'))}\ngpu.barrier\n%v = memref.load %X[%theirs] : memref<?xf32>",
        f"memref.store %f0, %X[%mine] : memref<?xf32>\ngpu.barrier\n{_first(RMW.splitlines()[0])}",
    ],
)
def test_flags_between_this_kernel_and_others_need_no_proof(body: str) -> None:
    checked = check(body)
    assert (checked.unsafe, checked.unknown) == (frozenset(), frozenset())


def test_what_a_flag_may_order_says_so() -> None:
    checked = check(f"{STORE}\n{RELEASE}\n{ACQUIRE}\n{LOAD}")
    assert reasons(checked) == {"memory-order"}


OF_UNKNOWN_STRIDE = """
gpu.module @m {{
  gpu.func @k(%out: memref<?xi32, strided<[?], offset: ?>>, %one: i32)
      kernel attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
    %b = gpu.block_id x
    %b64 = arith.index_cast %b : index to i64
    %parts = builtin.unrealized_conversion_cast %out : memref<?xi32, strided<[?], offset: ?>>
      to !llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>
    %base = llvm.extractvalue %parts[1] : !llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>
    %global = llvm.addrspacecast %base : !llvm.ptr to !llvm.ptr<1>
    %there = llvm.getelementptr %global[%b64] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i32
    {op}
    gpu.return
  }}
}}
"""


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (_atomic("device", "%there", "!llvm.ptr<1>"), "proven"),
        (_atomic("block", "%there", "!llvm.ptr<1>"), "unknown"),
        ("llvm.store %one, %there : i32, !llvm.ptr<1>", "unknown"),
    ],
)
def test_atomics_at_places_that_cannot_be_compared_do_not_race(op: str, expected: str) -> None:
    """A pointer into a memref whose strides nobody knows, as a front end writes it."""
    assert verdict(check_text(OF_UNKNOWN_STRIDE.format(op=op)), "cross-block") == expected
