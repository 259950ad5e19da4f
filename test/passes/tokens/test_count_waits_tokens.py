"""async-pipe-tokens: count-form waits get the token of the youngest group that they retire.

Covers: pipeliner/ask_checker/attach_tokens.py, waits/ssa/carry.py, vocabulary/async_ops.py
"""

import re
from pathlib import Path

import pytest

from helpers.counted_text import function, run
from helpers.paths import ROOT
from helpers.random_wait_programs import Maker
from helpers.wait_programs import print_program

HANDWRITTEN = sorted((ROOT / "examples" / "handwritten").glob("*.mlir"))

RING = """
  nvvm.cp.async.commit.group
  nvvm.cp.async.commit.group
  scf.for %i = %c0 to %n step %c1 {
    nvvm.cp.async.commit.group
    nvvm.cp.async.wait.group 2
  }
  nvvm.cp.async.wait.group 0
  return
"""


def test_counts_derived_from_attached_tokens_are_those_of_the_author():
    text = run(function(RING), name="tokens")[1]
    assert "nvvm.cp.async" not in text
    assert [(r.count, r.given) for r in run(text)[0].of("waits")] == [(2, 2), (0, 0)]


def test_groups_of_both_sides_of_a_branch_become_results():
    body = """
      nvvm.cp.async.commit.group
      scf.if %c {
        nvvm.cp.async.commit.group
      }
      nvvm.cp.async.wait.group 0
      return
    """
    text = run(function(body), name="tokens")[1]
    assert [r.count for r in run(text)[0].of("waits")] == [0]
    assert "scf.if %arg1 -> (!nvgpu.device.async.token)" in text


def test_wait_that_retires_nothing_on_some_path_stays():
    body = "nvvm.cp.async.commit.group\nnvvm.cp.async.wait.group 1\nreturn"
    report, text = run(function(body), name="tokens")
    assert "nvvm.cp.async.wait.group 1" in text
    assert [item.code for item in report.diagnostics] == ["no-group"]


def test_a_call_in_a_loop_hides_what_it_commits():
    text = """
      func.func private @g()
      func.func @f(%n: index) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        nvvm.cp.async.commit.group
        scf.for %i = %c0 to %n step %c1 {
          func.call @g() : () -> ()
          nvvm.cp.async.wait.group 0
          nvvm.cp.async.commit.group
          nvvm.cp.async.wait.group 0
        }
        return
      }
    """
    report, after = run(text, name="tokens")
    assert after.count("nvvm.cp.async.wait.group 0") == 1
    assert after.count("nvgpu.device_async_wait") == 1
    assert [item.code for item in report.diagnostics] == ["no-group"]


def test_abstract_waits_with_counts_get_tokens():
    body = """
      %a = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> TOK
      %b = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> TOK
      "async_pipe.wait_queue"() {queue = 0 : i64, count = 1 : i64} : () -> ()
      return
    """
    text = run(function(body), name="tokens")[1]
    assert '"async_pipe.wait_queue"(%0) {count = 1 : i64, queue = 0 : i64}' in text


# name: (body with count-form waits, the waits that get tokens, those that do not)
FORMS = {
    "while": (
        """
        COMMIT
        COMMIT
        scf.while : () -> () {
          KEEP 1
          COMMIT
          KEEP 2
          %k = "test.truth"() : () -> i1
          scf.condition(%k)
        } do {
          COMMIT
          KEEP 3
          scf.yield
        }
        KEEP 2
        """,
        4,
        0,
    ),
    "while that carries a value": (
        """
        COMMIT
        %r = scf.while (%x = %n) : (index) -> (index) {
          COMMIT
          %k = "test.truth"() : () -> i1
          scf.condition(%k) %x : index
        } do {
        ^bb0(%y: index):
          KEEP 1
          scf.yield %y : index
        }
        KEEP 1
        %s = arith.addi %r, %r : index
        """,
        2,
        0,
    ),
    "index_switch": (
        """
        COMMIT
        scf.index_switch %n
        case 3 {
          COMMIT
          scf.yield
        }
        default {
          COMMIT
          COMMIT
          scf.yield
        }
        KEEP 1
        KEEP 2
        """,
        1,
        1,
    ),
    "execute_region": (
        """
        COMMIT
        scf.execute_region {
          COMMIT
          scf.yield
        }
        KEEP 1
        """,
        1,
        0,
    ),
    "execute_region with blocks": (
        """
        COMMIT
        %v = scf.execute_region -> index {
          cf.cond_br %c, ^left, ^right(%n : index)
        ^left:
          COMMIT
          cf.br ^right(%c0 : index)
        ^right(%x: index):
          COMMIT
          KEEP 1
          scf.yield %x : index
        }
        KEEP 1
        %w = arith.addi %v, %v : index
        """,
        2,
        0,
    ),
    "graph of blocks with a loop": (
        """
        COMMIT
        COMMIT
        cf.br ^loop(%c0 : index)
      ^loop(%i: index):
        KEEP 1
        COMMIT
        %j = arith.addi %i, %c1 : index
        %k = arith.cmpi slt, %j, %n : index
        cf.cond_br %k, ^loop(%j : index), ^end
      ^end:
        KEEP 2
        KEEP 3
        return
        """,
        2,
        1,
    ),
    "irreducible graph": (
        """
        COMMIT
        cf.cond_br %c, ^left, ^right
      ^left:
        COMMIT
        KEEP 1
        cf.cond_br %d, ^right, ^end
      ^right:
        COMMIT
        KEEP 1
        %k = "test.truth"() : () -> i1
        cf.cond_br %k, ^right, ^left
      ^end:
        KEEP 0
        return
        """,
        3,
        0,
    ),
    "switch between blocks": (
        """
        COMMIT
        %f = arith.index_cast %n : index to i32
        cf.switch %f : i32, [default: ^end, 1: ^more(%n : index), 2: ^most]
      ^more(%x: index):
        COMMIT
        cf.br ^most
      ^most:
        COMMIT
        cf.br ^end
      ^end:
        KEEP 0
        KEEP 1
        return
        """,
        1,
        1,
    ),
    "unreachable block": (
        """
        COMMIT
        cf.br ^end
      ^nobody:
        KEEP 0
        cf.br ^end
      ^end:
        COMMIT
        KEEP 0
        return
        """,
        1,
        1,
    ),
    "affine loop and condition": (
        """
        COMMIT
        affine.for %i = 0 to %n {
          COMMIT
          affine.if affine_set<(d0) : (d0 - 3 >= 0)>(%i) {
            COMMIT
          }
          KEEP 1
        }
        KEEP 0
        """,
        2,
        0,
    ),
    "prologue loop with constant trips": (
        """
        scf.for %p = %c0 to %c3 step %c1 {
          KEEP 0
          COMMIT
        }
        scf.for %i = %c0 to %n step %c1 {
          KEEP 2
          COMMIT
        }
        """,
        1,
        1,
    ),
    "loop that never runs": (
        """
        COMMIT
        scf.for %p = %c0 to %c0 step %c1 {
          COMMIT
          KEEP 0
        }
        KEEP 0
        """,
        1,
        1,
    ),
    "many constant trips": (
        """
        %many = arith.constant 1000 : index
        scf.for %p = %c0 to %many step %c1 {
          COMMIT
          KEEP 1
        }
        KEEP 2
        """,
        1,
        1,
    ),
    "groups of a forall": (
        """
        COMMIT
        scf.forall (%t) in (%n) {
          COMMIT
          KEEP 0
        }
        KEEP 0
        """,
        1,
        1,
    ),
    "scope": (
        """
        COMMIT
        "async_pipe.scope"() ({
          "async_pipe.yield"() : () -> ()
        }) {queue = 0 : i64} : () -> ()
        KEEP 0
        """,
        1,
        0,
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_tokens_follow_every_form_of_control_flow(name):
    """Law: who gets a token gets his own count back."""
    body, attached, left = FORMS[name]
    body = body.replace("COMMIT", "nvvm.cp.async.commit.group")
    body = body.replace("KEEP", "nvvm.cp.async.wait.group")
    report, text = run(function(body if "return" in body else body + "\nreturn"), name="tokens")
    assert text.count("nvvm.cp.async.wait.group") == left
    found = run(text)[0].of("waits")
    assert len(found) == attached
    assert [record.count for record in found] == [record.given for record in found]
    reported = [item.code for item in report.diagnostics]
    assert reported == ["no-group"] * (left if name != "loop that never runs" else 0)


def has_bare_waits(path: Path) -> bool:
    return re.search(r"wait\.(group|asyncmark) \d", path.read_text()) is not None


@pytest.mark.parametrize(
    "path", list(filter(has_bare_waits, HANDWRITTEN)), ids=lambda path: path.stem
)
def test_hand_written_kernels_get_their_counts_back(path):
    """Law: tokens, then counts: every wait gets a token, and none becomes stricter."""
    chip = "gfx1250" if "wide" in path.stem else "gfx950" if "amd" in path.stem else "sm_80"
    waits = len(re.findall(r"wait\.(?:group|asyncmark) \d|device_async_wait %", path.read_text()))
    report, text = run(path.read_text(), f"chip={chip}", name="tokens")
    assert report.diagnostics == ()
    assert has_bare_waits(path) and not re.search(r"wait\.(group|asyncmark) \d", text)
    found = run(text, f"chip={chip}")[0].of("waits")
    assert len(found) == waits
    assert all(record.count >= record.given for record in found)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(0, 120, 3))
def test_random_programs_get_the_counts_of_their_waits_back(seed):
    """Law: forget the tokens of counted waits and attach some again: the counts are the same."""
    program = Maker(seed).make()
    counted = run(print_program(program))[1]
    bare = re.sub(
        r'"async_pipe.wait_queue"\([^)]*\) {count = (\d+) : i64, (.*?)} : .*',
        r'"async_pipe.wait_queue"() {count = \1 : i64, \2} : () -> ()',
        counted,
    )
    attached = run(bare, name="tokens")[1]
    found = run(attached)[0].of("waits")
    assert [record.count for record in found] == [record.given for record in found]
    if found:
        assert 'wait_queue"(%' in attached


def test_groups_name_the_copies_that_they_take_in():
    body = """
      %g = memref.alloc() : memref<64xf32>
      %s = memref.alloc() : memref<64xf32, #gpu.address_space<workgroup>>
      nvvm.cp.async.commit.group
      %p = nvgpu.device_async_copy %g[%c0], %s[%c0], 4 : memref<64xf32> to memref<64xf32, #gpu.address_space<workgroup>>
      nvvm.cp.async.commit.group
      nvvm.cp.async.commit.group
      nvvm.cp.async.wait.group 0
      return
    """
    text = run(function(body), name="tokens")[1]
    lines = [
        line.split("create_group")[1].strip() for line in text.splitlines() if "create_g" in line
    ]
    # What is before the function may have issued copies that the first group takes in.
    assert [re.sub(r"%\d+", "%p", line) for line in lines] == [
        "{async_pipe.copies}", "%p", "{async_pipe.empty}",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("commit", "wait"),
    [
        ("rocdl.asyncmark", "rocdl.wait.asyncmark 0"),
        ("nvvm.cp.async.bulk.commit.group", "nvvm.cp.async.bulk.wait_group 0"),
        ("nvvm.wgmma.commit.group.sync.aligned", "nvvm.wgmma.wait.group.sync.aligned 0"),
    ],
)
def test_queues_without_an_op_with_a_token_stay_and_say_so(commit, wait):
    report, text = run(function(f"{commit}\n{wait}\nreturn"), name="tokens")
    assert [item.code for item in report.diagnostics] == ["no-token-form"]
    assert wait in text and commit in text


def test_marks_become_abstract_groups_where_the_chip_copies_by_marks():
    body = "rocdl.asyncmark\nrocdl.asyncmark\nrocdl.wait.asyncmark 1\nreturn"
    text = run(function(body), "chip=gfx950", name="tokens")[1]
    assert '"async_pipe.wait_queue"(%0) {count = 1 : i64, queue = 0 : i64}' in text
    assert "rocdl" not in text


def test_function_whose_waits_retire_nothing_keeps_its_commits():
    body = "nvvm.cp.async.commit.group\nnvvm.cp.async.wait.group 5\nreturn"
    text = run(function(body), name="tokens")[1]
    assert "nvvm.cp.async.commit.group" in text
