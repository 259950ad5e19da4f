"""What ops order for other threads: every ordering, scope and kind of op, and the twins that order
nothing.

Covers: vocabulary/rows.py, vocabulary/barriers.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.vocabulary import order_of

# An op and what it orders: acquire, release, strong, scope.
ROWS = {
    "%x = llvm.load %p : !llvm.ptr<1> -> i32": (False, False, False, None),
    "%x = llvm.load volatile %p : !llvm.ptr<1> -> i32": (False, False, True, None),
    "%x = llvm.load %p atomic monotonic {alignment = 4 : i64} : !llvm.ptr<1> -> i32": (
        False,
        False,
        True,
        "system",
    ),
    '%x = llvm.load %p atomic syncscope("agent") acquire {alignment = 4 : i64} : !llvm.ptr<1> -> i32': (
        True,
        False,
        True,
        "device",
    ),
    "%x = llvm.load %p atomic seq_cst {alignment = 4 : i64} : !llvm.ptr<1> -> i32": (
        True,
        False,
        True,
        "system",
    ),
    'llvm.store %v, %p atomic syncscope("block") release {alignment = 4 : i64} : i32, !llvm.ptr<1>': (
        False,
        True,
        True,
        "block",
    ),
    "llvm.store %v, %p atomic seq_cst {alignment = 4 : i64} : i32, !llvm.ptr<1>": (
        False,
        True,
        True,
        "system",
    ),
    "llvm.store volatile %v, %p : i32, !llvm.ptr<1>": (False, False, True, None),
    "llvm.store %v, %p : i32, !llvm.ptr<1>": (False, False, False, None),
    "%x = llvm.atomicrmw add %p, %v monotonic : !llvm.ptr<1>, i32": (False, False, True, "system"),
    "%x = llvm.atomicrmw add %p, %v acq_rel : !llvm.ptr<1>, i32": (True, True, True, "system"),
    'llvm.atomicrmw add %p, %v syncscope("workgroup-one-as") release : !llvm.ptr<1>, i32': (
        False,
        True,
        True,
        "block",
    ),
    "%x = llvm.cmpxchg %p, %v, %v release acquire : !llvm.ptr<1>, i32": (
        True,
        True,
        True,
        "system",
    ),
    "%x = llvm.cmpxchg %p, %v, %v monotonic monotonic : !llvm.ptr<1>, i32": (
        False,
        False,
        True,
        "system",
    ),
    '%x = llvm.cmpxchg %p, %v, %v syncscope("singlethread") acq_rel monotonic : !llvm.ptr<1>, i32': (
        False,
        False,
        True,
        "thread",
    ),
    '"llvm.intr.memcpy"(%p, %p, %v) <{isVolatile = true}> : (!llvm.ptr<1>, !llvm.ptr<1>, i32) -> ()': (
        False,
        False,
        True,
        "thread",
    ),
    '"llvm.intr.memcpy"(%p, %p, %v) <{isVolatile = false}> : (!llvm.ptr<1>, !llvm.ptr<1>, i32) -> ()': (
        False,
        False,
        False,
        "thread",
    ),
    'llvm.fence syncscope("agent") release': (False, True, True, "device"),
    "llvm.fence seq_cst": (True, True, True, "system"),
    "nvvm.memory.barrier <gpu>": (True, True, False, "device"),
    "nvvm.memory.barrier <cta>": (True, True, False, "block"),
    "nvvm.fence.sc.cluster": (True, True, False, "cluster"),
    "nvvm.fence.mbarrier.init": (False, True, False, "cluster"),
    "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async>}": (True, True, False, "block"),
    "gpu.barrier": (True, True, False, "block"),
    "nvvm.barrier": (True, True, False, "block"),
    "nvvm.cluster.arrive {aligned}": (False, True, False, "cluster"),
    "nvvm.cluster.arrive.relaxed {aligned}": (False, False, False, None),
    "nvvm.cluster.wait {aligned}": (True, False, False, "cluster"),
    "nvvm.griddepcontrol wait": (True, True, True, "system"),
    "nvvm.griddepcontrol launch_dependents": (True, True, True, "system"),
    "llvm.call @unknown() : () -> ()": (True, True, True, "system"),
    'llvm.inline_asm has_side_effects "membar.gl;", "" : () -> ()': (True, True, True, "system"),
    '%x = llvm.inline_asm "mov.u32 $0, $1;", "=r,r" %v : (i32) -> i32': (False, False, False, None),
    "nvvm.cp.async.commit.group": (False, False, False, None),
    "nvvm.cp.async.wait.group 0": (False, False, False, None),
    "%x = llvm.add %v, %v : i32": (False, False, False, None),
}


def _order(text: str, around: str = "{}"):
    body = around.replace("{}", text)
    module = f"""
llvm.func @unknown()
llvm.func @kernel(%p: !llvm.ptr<1>, %v: i32, %b: i1) {{
  {body}
  llvm.return
}}"""
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        parsed = ir.Module.parse(module)
        name = text.partition("=")[2].split()[0] if text.startswith("%x") else text.split()[0]
        name = name.partition("(")[0].strip('"')
        op = next(op for op in walk(parsed.operation) if op.name == name)
        found = order_of(op)
        return found.acquire, found.release, found.strong, found.scope, found.spaces


@pytest.mark.parametrize("text", ROWS)
def test_an_op_orders_what_its_attributes_say(text):
    acquire, release, strong, scope = ROWS[text]
    found = _order(text)
    assert found[:3] == (acquire, release, strong)
    assert scope is None or found[3] == scope


def test_a_barrier_that_lists_spaces_orders_these():
    found = _order("gpu.barrier memfence [#gpu.address_space<workgroup>]")
    assert found[4] == {"workgroup"}


SPIN = """scf.while : () -> () {
    {}
    scf.condition(%b)
  } do { scf.yield }"""


@pytest.mark.parametrize(
    ("text", "acquires"),
    [
        ("%x = llvm.load volatile %p : !llvm.ptr<1> -> i32", True),
        ("%x = llvm.load %p : !llvm.ptr<1> -> i32", False),
        ("llvm.store volatile %v, %p : i32, !llvm.ptr<1>", False),
    ],
)
def test_a_volatile_read_that_a_loop_spins_on_counts_as_an_acquire(text, acquires):
    assert _order(text, SPIN)[0] is acquires
