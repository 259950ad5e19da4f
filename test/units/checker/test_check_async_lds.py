"""Asynchronous copies between global memory and LDS, in each spelling: judged, or unknown by name.

Covers: vocabulary/async_ops.py, vocabulary/pure_ops.py, vocabulary/memory_ops.py,
checker/unfollowed.py, checker/effects.py
"""

import pytest

from helpers.check_harness import check_text
from helpers.machine_programs import parse
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.vocabulary import given_count, row_of
from mlir_async_pipe.vocabulary.async_ops import AMD_ROWS

ENDS = "!llvm.ptr<1>, !llvm.ptr<3>"
IMMEDIATES = f"({ENDS}, i32, i32, i32) -> ()"
COPIES = {
    "rocdl.load.async.to.lds": f"rocdl.load.async.to.lds %s, %b, 16, 0, 0 : {ENDS}",
    "rocdl.global.load.async.lds": f"rocdl.global.load.async.lds %s, %b, 16, 0, 0 : {ENDS}",
    "rocdl.global.load.async.to.lds.b128": (
        f"rocdl.global.load.async.to.lds.b128 %s, %p, 0, 0 : {ENDS}"
    ),
    "llvm.amdgcn.load.async.to.lds": (
        'llvm.call_intrinsic "llvm.amdgcn.load.async.to.lds.p1"(%s, %b, %c16, %z, %z) : '
        + IMMEDIATES
    ),
    "llvm.amdgcn.global.load.async.lds": (
        'llvm.call_intrinsic "llvm.amdgcn.global.load.async.lds"(%s, %b, %c16, %z, %z) : '
        + IMMEDIATES
    ),
    "llvm.amdgcn.global.load.async.to.lds.b128": (
        'llvm.call_intrinsic "llvm.amdgcn.global.load.async.to.lds.b128"(%s, %p, %z, %z)'
        f" : ({ENDS}, i32, i32) -> ()"
    ),
}
BUFFERS = {
    "rocdl.raw.ptr.buffer.load.async.lds": (
        "rocdl.raw.ptr.buffer.load.async.lds %r, %b, %c16, %at, %z, %z, %z"
    ),
    "llvm.amdgcn.raw.ptr.buffer.load.async.lds": (
        'llvm.call_intrinsic "llvm.amdgcn.raw.ptr.buffer.load.async.lds"(%r, %b, %c16, %at, %z, %z, %z)'
        " : (!llvm.ptr<8>, !llvm.ptr<3>, i32, i32, i32, i32, i32) -> ()"
    ),
}
MARKS = {
    "op": "rocdl.asyncmark",
    "intrinsic": 'llvm.call_intrinsic "llvm.amdgcn.asyncmark"() : () -> ()',
}
WAITS = {
    "mark": "rocdl.wait.asyncmark N",
    "counter": "rocdl.s.wait.asynccnt N",
    "mark intrinsic": 'llvm.call_intrinsic "llvm.amdgcn.wait.asyncmark"(%cN) : (i16) -> ()',
    "counter intrinsic": 'llvm.call_intrinsic "llvm.amdgcn.s.wait.asynccnt"(%cN) : (i16) -> ()',
}
# Their destinations, or the queue that they are on, are not in the IR.
UNSEEN = {
    "rocdl.cluster.load.async.to.lds.b128": (
        f"rocdl.cluster.load.async.to.lds.b128 %s, %p, 0, 0, %z : {ENDS}"
    ),
    "rocdl.tensor.load.to.lds": (
        '"rocdl.tensor.load.to.lds"(%v4, %v8, %v4, %v4, %v8) <{cachePolicy = 0 : i32}>'
        " : (vector<4xi32>, vector<8xi32>, vector<4xi32>, vector<4xi32>, vector<8xi32>) -> ()"
    ),
    "rocdl.tensor.store.from.lds": (
        '"rocdl.tensor.store.from.lds"(%v4, %v8, %v4, %v4, %v8) <{cachePolicy = 0 : i32}>'
        " : (vector<4xi32>, vector<8xi32>, vector<4xi32>, vector<4xi32>, vector<8xi32>) -> ()"
    ),
    # Of descriptors that are handed in nobody sees what they describe.
    "amdgpu.tensor_load_to_lds": "amdgpu.tensor_load_to_lds %d : !amdgpu.tdm_descriptor",
    "amdgpu.tensor_store_from_lds": "amdgpu.tensor_store_from_lds %d : !amdgpu.tdm_descriptor",
}
UNREAD = {
    "struct": (
        'llvm.call_intrinsic "llvm.amdgcn.struct.ptr.buffer.load.async.lds"'
        "(%r, %b, %c16, %z, %at, %z, %z, %z)"
        " : (!llvm.ptr<8>, !llvm.ptr<3>, i32, i32, i32, i32, i32, i32) -> ()"
    ),
    "by symbol": (
        f"llvm.call @llvm.amdgcn.global.load.async.lds(%s, %b, %c16, %z, %z) : {IMMEDIATES}"
    ),
}
COUNTERS = (
    "rocdl.s.waitcnt 0",
    "rocdl.s.wait.loadcnt 0",
    "rocdl.s.wait.dscnt 0",
    "amdgpu.memory_counter_wait load(0)",
)


def kernel(body: str) -> str:
    """64 threads; `%s` and `%p` are this thread's 16 bytes of `%g` and of LDS, `%b` the wave's."""
    return f"""
    llvm.mlir.global external @lds() {{addr_space = 3 : i32, alignment = 16 : i64}} : !llvm.array<4096 x i8>
    llvm.func @llvm.amdgcn.global.load.async.lds(!llvm.ptr<1>, !llvm.ptr<3>, i32, i32, i32)
    llvm.func @k(%g: !llvm.ptr<1> {{llvm.noalias}}, %o: !llvm.ptr<1> {{llvm.noalias}},
        %r: !llvm.ptr<8>, %v4: vector<4xi32>, %v8: vector<8xi32>, %dd: !llvm.ptr)
        attributes {{rocdl.kernel, rocdl.reqd_work_group_size = array<i32: 64, 1, 1>}} {{
      %d = builtin.unrealized_conversion_cast %dd : !llvm.ptr to !amdgpu.tdm_descriptor
      %b = llvm.mlir.addressof @lds : !llvm.ptr<3>
      %z = llvm.mlir.constant(0 : i32) : i32
      %c0 = llvm.mlir.constant(0 : i16) : i16
      %c1 = llvm.mlir.constant(1 : i16) : i16
      %t = rocdl.workitem.id.x : i32
      %c16 = llvm.mlir.constant(16 : i32) : i32
      %at = llvm.mul %t, %c16 overflow<nsw> : i32
      %s = llvm.getelementptr %g[%at] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i8
      %p = llvm.getelementptr %b[%at] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
      %q = llvm.getelementptr %o[%at] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i8
      {body}
      llvm.return
    }}"""


READ = """
      %v = llvm.load %p : !llvm.ptr<3> -> vector<4xf32>
      llvm.store %v, %q : vector<4xf32>, !llvm.ptr<1>"""
# The lanes of the one wave read across: a barrier tells them.
TRANSPOSED = """
      rocdl.barrier
      %v = rocdl.ds.read.tr16.b64 %p : !llvm.ptr<3> -> vector<4xf16>
      llvm.store %v, %q : vector<4xf16>, !llvm.ptr<1>"""


def reasons(checked) -> set[str]:
    return {reason for entry in checked.report.of("checks") for reason in entry.reasons}


@pytest.mark.parametrize("read", (READ, TRANSPOSED), ids=("load", "transposed"))
@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_that_nothing_waits_for_races_in_every_spelling(copy, read):
    checked = check_text(kernel(f"{COPIES[copy]}\nrocdl.asyncmark{read}\nrocdl.wait.asyncmark 0"))
    assert {code for code, _ in checked.unsafe} == {"read-in-flight"}


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("copy", {**COPIES, **BUFFERS})
def test_a_wait_for_nothing_in_flight_makes_it_safe_and_one_more_does_not(copy, wait, mark):
    def checked(count: int):
        text = {**COPIES, **BUFFERS}[copy] + f"\n{MARKS[mark]}\n"
        return check_text(kernel(text + WAITS[wait].replace("N", str(count)) + TRANSPOSED))

    safe, early = checked(0), checked(1)
    assert not safe.unsafe
    assert not safe.unknown
    assert early.unsafe or early.unknown


@pytest.mark.parametrize("copy", UNSEEN)
def test_a_copy_that_the_table_does_not_describe_is_unknown_by_name(copy):
    """A wait and a barrier make it no better: what they end is not known."""
    text = kernel(f"{UNSEEN[copy]}\nrocdl.s.wait.tensorcnt 0{TRANSPOSED}")
    checked = check_text(text)
    assert reasons(checked) == {"unfollowed-copy"}
    said = [str(entry) for entry in checked.report.diagnostics]
    assert any(copy in line and "who waits for it, is not followed" in line for line in said)
    assert not check_text(text.replace(UNSEEN[copy], "")).unknown


@pytest.mark.parametrize("copy", UNREAD)
def test_an_intrinsic_without_a_row_is_unknown(copy):
    checked = check_text(kernel(f"{UNREAD[copy]}\nrocdl.asyncmark\nrocdl.wait.asyncmark 0{READ}"))
    assert "unfollowed-control-flow" in reasons(checked)


@pytest.mark.parametrize("counter", COUNTERS)
def test_a_hardware_counter_makes_a_copy_in_flight_unknown_and_touches_nothing(counter):
    copy = f"{COPIES['rocdl.global.load.async.lds']}\nrocdl.asyncmark\n"
    checked = check_text(kernel(copy + counter + TRANSPOSED))
    assert not checked.unsafe
    assert reasons(checked) == {"undecided-path"}
    waited = check_text(kernel(f"{copy}rocdl.wait.asyncmark 0\n{counter}{TRANSPOSED}"))
    assert not waited.unsafe
    assert not waited.unknown


def test_a_barrier_that_copies_arrive_at_makes_them_unknown():
    copy = f"{COPIES['rocdl.global.load.async.to.lds.b128']}\n"
    arrive = "rocdl.ds.atomic.async.barrier.arrive.b64 %b : !llvm.ptr<3>\n"
    assert check_text(kernel(copy + TRANSPOSED)).unsafe
    checked = check_text(kernel(copy + arrive + TRANSPOSED))
    assert not checked.unsafe
    assert checked.unknown


def test_an_immediate_offset_moves_the_copy():
    """Bytes 512 … 1535 are written, and threads 32 … 63 read bytes 512 … 1023."""
    copy = COPIES["rocdl.load.async.to.lds"].replace("16, 0, 0", "16, 512, 0")
    checked = check_text(kernel(f"{copy}\nrocdl.asyncmark{TRANSPOSED}"))
    assert checked.unknown
    there = READ.replace("%p :", "%p1 :")
    past = "%p1 = llvm.getelementptr %p[512] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8\n"
    assert check_text(kernel(f"{copy}\nrocdl.asyncmark\n{past}{there}")).unknown


@pytest.mark.parametrize("wait", (True, False))
def test_a_store_from_lds_reads_it_until_its_wait(wait):
    store = f"rocdl.global.store.async.from.lds.b128 %q, %p, 0, 0 : {ENDS}\nrocdl.asyncmark\n"
    over = "%n = llvm.mlir.constant(dense<0> : vector<4xi32>) : vector<4xi32>\nllvm.store %n, %p : vector<4xi32>, !llvm.ptr<3>"
    checked = check_text(kernel(store + "rocdl.wait.asyncmark 0\n" * wait + over))
    assert {code for code, _ in checked.unsafe} == (set() if wait else {"source-overwritten"})
    assert not checked.unknown


def test_the_count_of_a_wait_is_its_attribute_or_its_operand():
    assert all(row.wait is None or row.wait.operand is None for row in AMD_ROWS)
    waits = "\n".join(wait.replace("N", "1") for wait in WAITS.values())
    module = parse(kernel(waits))
    rows = [(op, row_of(op)) for op in walk(module.operation)]
    counts = [given_count(op) for op, row in rows if row is not None and row.wait is not None]
    assert counts == [1] * len(WAITS)


@pytest.mark.parametrize(("count", "safe"), [(0, True), (1, False)])
def test_where_waits_count_copies_the_path_without_one_is_looked_at(count, safe):
    """With the second copy in flight a count of 1 waits for the first one, without it for none: the
    path that remembers more does not stand for the other."""
    copy = COPIES["rocdl.load.async.to.lds"]
    body = f"""
      %word = llvm.ptrtoint %dd : !llvm.ptr to i64
      %zero = llvm.mlir.constant(0 : i64) : i64
      %some = llvm.icmp "slt" %word, %zero : i64
      %free = llvm.getelementptr %b[2048] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
      {copy}
      scf.if %some {{
        {copy.replace("%b", "%free")}
      }}
      rocdl.s.wait.asynccnt {count}
      {READ}
      rocdl.s.wait.asynccnt 0"""
    checked = check_text(kernel(body))
    assert bool(checked.unsafe or checked.unknown) is not safe


# A neighbour's bytes.
ACROSS = """
      rocdl.barrier
      %x = llvm.xor %at, %c16 : i32
      %n = llvm.getelementptr %b[%x] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
      %v = llvm.load %n : !llvm.ptr<3> -> vector<4xf32>
      llvm.store %v, %q : vector<4xf32>, !llvm.ptr<1>"""
# The same copies, for which the compiler waits.
SYNCHRONOUS = {
    **{
        f"rocdl.{name}": f'"rocdl.{name}"(%s, %b) {{size = 16 : i32, offset = 0 : i32, aux = 0 : i32}}'
        f" : ({ENDS}) -> ()"
        for name in ("load.to.lds", "global.load.lds")
    },
    **{
        name.replace("async.", ""): text.replace("async.", "")
        for name, text in {**COPIES, **BUFFERS}.items()
        if "llvm." in name or "buffer" in name
        if "b128" not in name
    },
}


@pytest.mark.parametrize("copy", SYNCHRONOUS)
def test_a_copy_that_the_compiler_waits_for_is_safe_after_a_barrier(copy):
    checked = check_text(kernel(SYNCHRONOUS[copy] + ACROSS))
    assert not checked.unsafe
    assert not checked.unknown
    early = check_text(kernel(SYNCHRONOUS[copy] + ACROSS.replace("rocdl.barrier", "")))
    assert {code for code, _ in early.unsafe} == {"missing-barrier"}


@pytest.mark.parametrize("copy", SYNCHRONOUS)
def test_each_lane_reads_what_it_copied_without_a_barrier(copy):
    """Copies of 4 bytes lie closer: what a lane reads is that of four lanes."""
    checked = check_text(kernel(SYNCHRONOUS[copy] + READ))
    assert not checked.unsafe
    assert not checked.unknown
    words = SYNCHRONOUS[copy].replace("size = 16", "size = 4").replace("%c16", "%c4")
    four = "%c4 = llvm.mlir.constant(4 : i32) : i32\n"
    assert {code for code, _ in check_text(kernel(four + words + READ)).unsafe} == {
        "missing-barrier"
    }


@pytest.mark.parametrize("copy", {**SYNCHRONOUS, **COPIES, **BUFFERS})
def test_where_lanes_name_other_places_the_wave_has_one_of_them(copy):
    """Lane l would copy to byte 16 l of what lane 0 names, and not of what it names itself."""
    text = {**SYNCHRONOUS, **COPIES, **BUFFERS}[copy].replace("%b", "%p")
    checked = check_text(kernel(f"{text}\nrocdl.asyncmark\nrocdl.wait.asyncmark 0{READ}"))
    assert not checked.unsafe
    # A chip whose lanes each name a place has it of each.
    assert bool(checked.unknown) is ("b128" not in copy)


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        ("rocdl.s.waitcnt 0\nrocdl.s.barrier", {"memory-order"}),
        ("rocdl.s.barrier\nrocdl.s.wait.loadcnt 0", {"memory-order"}),
        ('llvm.fence syncscope("workgroup") release\nrocdl.s.barrier\n'
         'llvm.fence syncscope("workgroup") acquire', set()),
    ],
)  # fmt: skip
@pytest.mark.parametrize("copy", SYNCHRONOUS)
def test_what_a_wait_for_a_counter_orders_no_memory_model_says(copy, between, expected):
    checked = check_text(kernel(SYNCHRONOUS[copy] + ACROSS.replace("rocdl.barrier", between)))
    assert not checked.unsafe
    assert reasons(checked) == expected


@pytest.mark.parametrize("between", ["rocdl.s.barrier", "rocdl.s.waitcnt 0"])
def test_threads_that_only_meet_or_only_wait_race(between):
    copy = SYNCHRONOUS["rocdl.load.to.lds"]
    checked = check_text(kernel(copy + ACROSS.replace("rocdl.barrier", between)))
    assert {code for code, _ in checked.unsafe} == {"missing-barrier"}


def masked(copies: int, left: int, filled: str) -> str:
    """Each lane copies 16 bytes of several rows that are `%len` long, or fills them with zeros; all marks but `left` are over
    before it reads a neighbour's bytes of all rows."""
    body = [
        "%len = llvm.ptrtoint %dd : !llvm.ptr to i64",
        "%zeros = llvm.mlir.zero : vector<4xf32>",
    ]
    body += ["%x = llvm.xor %at, %c16 : i32", "%tl = llvm.zext %t : i32 to i64"]
    for n in range(copies):
        body.append(f"""
      %o{n} = llvm.mlir.constant({1024 * n} : i32) : i32
      %l{n} = llvm.getelementptr %g[{n}] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i64
      %len{n} = llvm.load %l{n} : !llvm.ptr<1> -> i64
      %in{n} = llvm.icmp "slt" %tl, %len{n} : i64
      %w{n} = llvm.getelementptr %b[%o{n}] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
      %m{n} = llvm.getelementptr %w{n}[%at] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
      llvm.cond_br %in{n}, ^copy{n}, ^copied{n}
    ^copy{n}:
      rocdl.load.async.to.lds %s, %w{n}, 16, 0, 0 : {ENDS}
      llvm.br ^copied{n}
    ^copied{n}:
      %true{n} = llvm.mlir.constant(true) : i1
      %out{n} = llvm.icmp "{filled}" %in{n}, %true{n} : i1
      llvm.cond_br %out{n}, ^fill{n}, ^filled{n}
    ^fill{n}:
      llvm.store %zeros, %m{n} : vector<4xf32>, !llvm.ptr<3>
      llvm.br ^filled{n}
    ^filled{n}:
      rocdl.asyncmark""")
    body += [f"rocdl.wait.asyncmark {left}", "rocdl.barrier"]
    for n in range(copies):
        body.append(f"""
      %n{n} = llvm.getelementptr %w{n}[%x] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
      %read{n} = llvm.load %n{n} : !llvm.ptr<3> -> vector<4xf32>""")
    return kernel("\n".join(body)).replace("array<4096 x i8>", f"array<{1024 * copies} x i8>")


@pytest.mark.parametrize(
    ("left", "filled", "codes"),
    [
        (0, "ne", set()),
        (1, "ne", {"read-in-flight"}),
        # Zeros over what was copied.
        (0, "eq", {"overwrite-in-flight"}),
    ],
)
def test_copies_that_are_there_or_not_take_no_path_for_each_subset(left, filled, codes):
    checked = check_text(masked(14, left, filled))
    assert {code for code, _ in checked.unsafe} == codes
    assert not checked.unknown
