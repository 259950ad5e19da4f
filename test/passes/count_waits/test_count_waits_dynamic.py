"""Mode dynamic: waits that some path keeps low switch on a run-time counter.

The async machine runs every program with late completion: it is right with the counts of the
switch, and a count that is one larger in any case is a race for some trip count and condition.

Covers: waits/dynamic.py, waits/ssa/carry.py
"""

import re

import pytest

from helpers.check_harness import check_text, machine_races
from helpers.counted_text import expand, function, run
from mlir_async_pipe import lower
from mlir_async_pipe.bindings import ir, new_context

ROW = "memref<16x1xf32, 3>"
SOURCE = "memref<16x1xf32>"


def group(name: str, row: str, buffer: str = "%s") -> str:
    """Copies one row and commits it as group `name`."""
    return (
        f"%{name}p = nvgpu.device_async_copy %A[{row}, %c0], {buffer}[{row}, %c0], 1 : {SOURCE} to {ROW}\n"
        f"%{name} = nvgpu.device_async_create_group %{name}p\n"
    )


def wait(token: str, row: str) -> str:
    """Waits for a group and reads its row."""
    return f"WAIT {token}\n%v = memref.load %s[{row}, %c0] : {ROW}\nmemref.store %v, %B[{row}, %c0] : {SOURCE}\n"


def kernel(body: str, callees: str = "") -> str:
    constants = "\n".join(f"%c{n} = arith.constant {n} : index" for n in range(16))
    return expand(f"""
      {callees}
      func.func @k(%A: {SOURCE} {{llvm.noalias}}, %B: {SOURCE} {{llvm.noalias}}, %n: index, %c: i1, %d: i1)
          attributes {{gpu.known_block_size = array<i32: 1, 1, 1>}} {{
        {constants}
        %true = arith.constant true
        %s = memref.alloc() : {ROW}
        %s2 = memref.alloc() : {ROW}
        {body}
        nvvm.cp.async.wait.group 0
        return
      }}
    """)


LOOP = "scf.for %i = %c0 to %n step %c1"

# name: (body, the counts of each switch, the default last)
PROGRAMS = {
    "condition": (
        group("a", "%c0") + f"scf.if %c {{\n{group('b', '%c1')}}}\n" + wait("%a", "%c0"),
        [[1, 0]],
    ),
    "two conditions": (
        group("a", "%c0")
        + f"scf.if %c {{\n{group('b', '%c1')}{group('e', '%c2')}}}\n"
        + f"scf.if %d {{\n{group('g', '%c3')}}}\n"
        + wait("%a", "%c0"),
        [[1, 2, 3, 0]],
    ),
    "both sides, unevenly": (
        group("a", "%c0")
        + f"scf.if %c {{\n{group('b', '%c1')}{group('e', '%c2')}{group('g', '%c3')}}} else {{\n"
        + f"{group('h', '%c4')}}}\n"
        + wait("%a", "%c0"),
        [[3, 1]],
    ),
    "commits in a loop": (
        group("a", "%c0")
        + f"{LOOP} {{\n%j = arith.addi %i, %c1 : index\n{group('b', '%j')}}}\n"
        + wait("%a", "%c0"),
        [[1, 2, 3, 4, 5, 6, 7, 8, 0]],
    ),
    "token of a loop": (
        group("a", "%c0")
        + f"%r, %row = {LOOP} iter_args(%x = %a, %w = %c0) -> (TOK, index) {{\n"
        + "%j = arith.addi %i, %c1 : index\n"
        + group("b", "%j")
        + "scf.yield %b, %j : TOK, index\n}\n"
        + f"scf.if %c {{\n{group('e', '%c15', '%s2')}}}\n"
        + wait("%r", "%row"),
        [[1, 0]],
    ),
    "wait inside the loop, condition too": (
        group("a", "%c0")
        + f"%r, %row = {LOOP} iter_args(%x = %a, %w = %c0) -> (TOK, index) {{\n"
        + "%j = arith.addi %i, %c1 : index\n"
        + group("b", "%j")
        + f"scf.if %c {{\n%l = arith.addi %i, %c8 : index\n{group('e', '%l', '%s2')}}}\n"
        + wait("%x", "%w")
        + "scf.yield %b, %j : TOK, index\n}\n",
        [[2, 3, 1]],
    ),
    "shifted tokens": (
        group("a", "%c0")
        + group("b", "%c1")
        + f"%r:4 = {LOOP} iter_args(%x = %a, %y = %b, %w = %c0, %z = %c1)"
        + " -> (TOK, TOK, index, index) {\n"
        + wait("%x", "%w")
        + "%k = arith.cmpi ult, %i, %c2 : index\n"
        + "%j = arith.addi %i, %c2 : index\n"
        + f"%t, %u = scf.if %c -> (TOK, index) {{\n{group('e', '%j')}"
        + "scf.yield %e, %j : TOK, index\n} else {\nscf.yield %y, %z : TOK, index\n}\n"
        + "scf.yield %y, %t, %z, %u : TOK, TOK, index, index\n}\n",
        [[1, 0]],
    ),
    "result of a branch": (
        group("a", "%c0")
        + f"%r, %row = scf.if %c -> (TOK, index) {{\n{group('b', '%c1')}{group('e', '%c2')}"
        + "scf.yield %b, %c1 : TOK, index\n} else {\nscf.yield %a, %c0 : TOK, index\n}\n"
        + f"scf.if %d {{\n{group('g', '%c3')}}}\n"
        + wait("%r", "%row"),
        [[1, 2, 0]],
    ),
    "index_switch": (
        group("a", "%c0")
        + "%r, %row = scf.index_switch %n -> TOK, index\n"
        + f"case 1 {{\n{group('b', '%c1')}{group('e', '%c2')}{group('g', '%c3')}"
        + "scf.yield %b, %c1 : TOK, index\n}\n"
        + f"case 2 {{\n{group('b', '%c1')}scf.yield %a, %c0 : TOK, index\n}}\n"
        + "default {\nscf.yield %a, %c0 : TOK, index\n}\n"
        + wait("%r", "%row"),
        [[1, 2, 0]],
    ),
    "select": (
        group("a", "%c0")
        + group("b", "%c1")
        + "%r = arith.select %c, %a, %b : TOK\n%row = arith.select %c, %c0, %c1 : index\n"
        + wait("%r", "%row"),
        [[1, 0]],
    ),
    "while": (
        group("a", "%c0")
        + group("b", "%c1")
        + "%r:3 = scf.while (%x = %a, %w = %c0, %i = %c0)"
        + " : (TOK, index, index) -> (TOK, index, index) {\n"
        + "%k = arith.cmpi ult, %i, %n : index\n"
        + "scf.condition(%k) %x, %w, %i : TOK, index, index\n} do {\n"
        + "^bb0(%y: TOK, %z: index, %i: index):\n%l = arith.addi %i, %c2 : index\n"
        + group("e", "%l")
        + wait("%y", "%z")
        + "%j = arith.addi %i, %c1 : index\n"
        + "scf.yield %e, %l, %j : TOK, index, index\n}\n"
        + wait("%r#0", "%r#1"),
        [[2, 1], [1, 0]],
    ),
    "execute_region": (
        group("a", "%c0")
        + "%r, %row = scf.execute_region -> (TOK, index) {\n"
        + f"cf.cond_br %c, ^l, ^m\n^l:\n{group('b', '%c1')}{group('e', '%c2')}"
        + "scf.yield %b, %c1 : TOK, index\n^m:\nscf.yield %a, %c0 : TOK, index\n}\n"
        + wait("%r", "%row"),
        [[1, 0]],
    ),
    "graph of blocks": (
        group("a", "%c0")
        + "cf.br ^loop(%a, %c0, %c0 : TOK, index, index)\n"
        + "^loop(%x: TOK, %w: index, %i: index):\n"
        + "%k = arith.cmpi ult, %i, %n : index\ncf.cond_br %k, ^body, ^end\n^body:\n"
        + "%j = arith.addi %i, %c1 : index\n"
        + group("b", "%j")
        + "cf.cond_br %c, ^more, ^loop(%b, %j, %j : TOK, index, index)\n^more:\n"
        + "%l = arith.addi %i, %c8 : index\n"
        + group("e", "%l", "%s2")
        + "cf.br ^loop(%b, %j, %j : TOK, index, index)\n^end:\n"
        + wait("%x", "%w"),
        [[1, 0]],
    ),
    "switch between blocks": (
        group("a", "%c0")
        + "%f = arith.index_cast %n : index to i32\n"
        + "cf.switch %f : i32, [default: ^end, 1: ^one, 2: ^two]\n"
        + f"^two:\n{group('b', '%c1')}cf.br ^one\n^one:\n{group('e', '%c2')}cf.br ^end\n^end:\n"
        + wait("%a", "%c0"),
        [[1, 2, 0]],
    ),
    "copy's own token": (
        f"%p = nvgpu.device_async_copy %A[%c0, %c0], %s[%c0, %c0], 1 : {SOURCE} to {ROW}\n"
        + group("a", "%c1")
        + f"scf.if %c {{\n{group('b', '%c2')}}}\n"
        + wait("%p", "%c0"),
        [[1, 0]],
    ),
    "affine": (
        group("a", "%c0")
        + "%r = affine.for %i = 0 to %n iter_args(%x = %a) -> (TOK) {\n"
        + "%j = arith.addi %i, %c1 : index\n"
        + f"affine.if affine_set<(d0) : (d0 - 1 >= 0)>(%i) {{\n{group('b', '%j')}}}\n"
        + "affine.yield %x : TOK\n}\n"
        + wait("%r", "%c0"),
        [[1, 2, 3, 4, 5, 6, 7, 8, 0]],
    ),
    "static loop": (
        group("a", "%c0")
        + f"scf.for %i = %c0 to %c2 step %c1 {{\n%j = arith.addi %i, %c1 : index\n{group('b', '%j')}}}\n"
        + f"scf.if %c {{\n{group('e', '%c8')}}}\n"
        + wait("%a", "%c0"),
        [[3, 2]],
    ),
}

CALLEE = f"""
  func.func @g(%A: {SOURCE} {{llvm.noalias}}, %s: {ROW}, %r: index) {{
    %c0 = arith.constant 0 : index
    {group("x", "%r")}
    return
  }}
"""
PROGRAMS["known callee"] = (
    group("a", "%c0")
    + f"func.call @g(%A, %s, %c1) : ({SOURCE}, {ROW}, index) -> ()\n"
    + f"scf.if %c {{\n{group('e', '%c8')}}}\n"
    + wait("%a", "%c0"),
    [[2, 1]],
)


def switched(name: str) -> str:
    """The program after the pass."""
    body, _ = PROGRAMS[name]
    return run(kernel(body, CALLEE if "@g" in body else ""), "chip=sm_80 mode=dynamic")[1]


COUNT = r"wait\.group (?=\d+\n +(?:scf\.yield|}))(\d+)"


def switches(text: str) -> list[list[int]]:
    """The counts of each switch, the default last."""
    found = []
    for part in text.split("scf.index_switch ")[1:]:
        cases, _, rest = part.partition("default {")
        counts = re.findall(COUNT, cases) + re.findall(COUNT, rest)[:1]
        found.append([int(count) for count in counts])
    return [counts for counts in found if counts]


@pytest.mark.parametrize("name", PROGRAMS)
def test_switch_has_the_counts_that_can_occur(name):
    assert switches(switched(name)) == PROGRAMS[name][1]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_machine_finds_no_race_in_any_case(name):
    text = switched(name)
    assert machine_races(text, "nvvm:sm_80", trips=range(6)) == frozenset()
    assert check_text(text, "nvvm:sm_80").unsafe == frozenset()


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_more_in_any_case_is_a_race(name):
    text = switched(name)
    places = list(re.finditer(COUNT, text))
    assert len(places) == sum(len(counts) for counts in PROGRAMS[name][1])
    for place in places:
        more = f"wait.group {int(place[1]) + 1}"
        wrong = text[: place.start()] + more + text[place.end() :]
        assert machine_races(wrong, "nvvm:sm_80", trips=range(10), completions=[("late", 0)])


def test_unconditional_waits_stay_static():
    text = run(function("%a = GROUP\n%b = GROUP\nWAIT %a\nreturn"), "mode=dynamic")[1]
    assert "scf.index_switch" not in text
    assert "numGroups = 1" in text


def test_static_mode_writes_no_switch():
    text = run(kernel(PROGRAMS["condition"][0]), "chip=sm_80")[1]
    assert "scf.index_switch" not in text


def test_given_counts_stay_where_they_are_to_be_kept():
    body = "%a = GROUP\nscf.if %c {\n%t = GROUP\n}\nWAIT %a {numGroups = 0 : i32}\nreturn"
    assert "scf.index_switch" not in run(function(body), "mode=dynamic keep-given")[1]


UNSUPPORTED = {
    "in an op that nobody knows": """
      func.func @f(%c: i1) {
        "test.region"() ({
          %a = GROUP
          scf.if %c {
            %t = GROUP
          }
          WAIT %a
          "test.end"() : () -> ()
        }) : () -> ()
        return
      }
    """,
    "in a forall": """
      func.func @f(%n: index, %c: i1) {
        scf.forall (%i) in (%n) {
          %a = GROUP
          scf.if %c {
            %t = GROUP
          }
          WAIT %a
        }
        return
      }
    """,
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_cannot_be_counted_at_run_time_stays_static_and_says_so(name):
    report, text = run(UNSUPPORTED[name], "mode=dynamic")
    assert "scf.index_switch" not in text and "numGroups = 0" in text
    (remark,) = [d for d in report.diagnostics if d.code == "dynamic-unsupported"]
    assert str(remark.place) == str(report.of("waits")[0].place)


def test_call_under_a_condition_counts_what_its_callee_commits_at_least():
    text = """
      func.func @g(%c: i1) {
        %a = GROUP
        scf.if %c {
          %b = GROUP
        }
        %d = GROUP
        return
      }
      func.func @f(%c: i1) {
        %a = GROUP
        scf.if %c {
          func.call @g(%c) : (i1) -> ()
        }
        WAIT %a
        return
      }
    """
    after = run(text, "mode=dynamic")[1]
    assert switches(after) == [[2, 0]]


def test_each_queue_has_a_counter_of_its_own():
    commit = '"async_pipe.commit_queue"() {queue = N : i64} : () -> TOK'
    body = f"""
      %a = {commit.replace("N", "0")}
      %b = {commit.replace("N", "1")}
      scf.if %c {{
        %t = {commit.replace("N", "0")}
      }} else {{
        %t = {commit.replace("N", "1")}
        %u = {commit.replace("N", "1")}
      }}
      "async_pipe.wait_queue"(%a) {{queue = 0 : i64}} : (TOK) -> ()
      "async_pipe.wait_queue"(%b) {{queue = 1 : i64}} : (TOK) -> ()
      return
    """
    text = run(function(body), "mode=dynamic")[1]
    assert re.findall(r"count = (\d) : i64, queue = (\d)", text) == [
        ("1", "0"), ("0", "0"), ("2", "1"), ("0", "1"),
    ]  # fmt: skip


def test_wait_for_several_tokens_follows_the_youngest():
    commit = '"async_pipe.commit_queue"() {queue = 0 : i64} : () -> TOK'
    body = f"""
      %a = {commit}
      %r = scf.if %c -> (TOK) {{
        %t = {commit}
        scf.yield %t : TOK
      }} else {{
        scf.yield %a : TOK
      }}
      scf.if %d {{
        %t = {commit}
      }}
      "async_pipe.wait_queue"(%a, %r) {{queue = 0 : i64}} : (TOK, TOK) -> ()
      return
    """
    text = run(function(body), "mode=dynamic")[1]
    assert "arith.maxsi" in text
    assert re.findall(r"count = (\d)", text) == ["1", "2", "0"]


@pytest.mark.parametrize(("chip", "counts"), [("", ["1", "2", "0"]), ("gfx950", ["1", "0"])])
def test_marks_of_another_body_are_one_behind(chip, counts):
    """A token that comes with the call counts from there; where marks belong to a function body
    the first mark here has to complete too."""
    commit = '"async_pipe.commit_queue"() {queue = 0 : i64} : () -> TOK'
    text = f"""
      func.func @f(%t: TOK, %c: i1, %d: i1) {{
        scf.if %c {{
          %a = {commit}
        }}
        scf.if %d {{
          %a = {commit}
        }}
        "async_pipe.wait_queue"(%t) {{queue = 0 : i64}} : (TOK) -> ()
        return
      }}
    """
    after = run(text, f"mode=dynamic chip={chip}")[1]
    assert re.findall(r"count = (\d)", after) == counts


@pytest.mark.parametrize("options", ["chip=sm_80", "chip=sm_80 mode=dynamic"])
def test_second_run_changes_nothing(options):
    once = switched("wait inside the loop, condition too")
    assert run(once, options)[1] == once


@pytest.mark.parametrize(
    ("name", "waits"),
    [("while", {"2", "1", "0"}), ("graph of blocks", {"1", "0"}), ("token of a loop", {"1", "0"})],
)
def test_cases_reach_ptx(name, waits):
    text = switched(name).replace("func.func @k(", "gpu.module @m {\ngpu.func @k(")
    text = text.replace("    return\n  }\n}", "    gpu.return\n  }\n}\n}")
    text = text.replace("attributes {gpu.known", "kernel attributes {known")
    text = text.replace(", 3>", ", #gpu.address_space<workgroup>>")
    with new_context():
        ptx = lower(ir.Module.parse(text), target="nvvm:sm_80", emit="ptx").text
    assert set(re.findall(r"cp\.async\.wait_group\s+(\d+)", ptx)) == waits
