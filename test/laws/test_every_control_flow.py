"""Every engine asks the rows of control flow, and counts on none that nobody describes.

The law of the rows: around each op of the table, counts, balances, bounds of groups in flight,
tokens and counters that are carried along agree on whether its regions surely run.

The law of all others: around an op with regions or successors that has no row, counts are 0 or
right however its regions run, no wait is raised or dropped, and missing barriers are told.

Covers: facts/flow/flow_graph.py, facts/flow/solver.py, waits/ssa/carry.py, waits/simplify.py,
checker/unfollowed.py
"""

import pytest

from helpers.control_flow_programs import (
    BRANCHES,
    COPY,
    LOAD,
    TABLE,
    around,
    function,
    numbered,
    program,
    registered,
)
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import symbol_name, walk
from mlir_async_pipe.facts.flow import flow_graph
from mlir_async_pipe.facts.loops.annotations import DRAIN
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import AsyncPipeError
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary.control_flow import (
    BRANCH_ROWS,
    CALL_OPS,
    CARRYING_OPS,
    EXIT_OPS,
    LLVM_BRANCHES,
    REGION_ROWS,
    BranchRow,
    RegionRow,
)

GROUP = "\n  %e{0} = nvgpu.device_async_create_group {{async_pipe.empty}}\n"
TOKEN_WAIT = "\n  nvgpu.device_async_wait %gbefore\n"
COMMIT = "\n  nvvm.cp.async.commit.group\n"
HAND_OVER = '\n  %q{0} = "async_pipe.commit_queue"() {{queue = 0 : i64}} : () -> !nvgpu.device.async.token\n'
TAKE = '\n  "async_pipe.consumer_wait"() {{queue = 0 : i64}} : () -> ()\n'
WAIT = "\n  nvvm.cp.async.wait.group 0\n"
STORE = """
  %id{0} = gpu.thread_id x
  %one{0} = arith.constant 1.0 : f32
  memref.store %one{0}, %B[%id{0}] : memref<64xf32, 3>
"""
READ = "\n  %y{0} = memref.load %B[%c0] : memref<64xf32, 3>\n"
ELSEWHERE = list(registered())
unknown_ops = pytest.mark.parametrize(
    "name,regions,branches", ELSEWHERE, ids=[op[0] for op in ELSEWHERE]
)
# What they hold runs once or more in the thread that runs them, so a group in them is younger.
SURELY = (
    "scf.while scf.execute_region memref.alloca_scope cf.br llvm.br func.call llvm.call gpu.call"
).split()


def run(name: str, module, **options):
    """The report of a pass."""
    session = Session()
    found = passes.find(name)
    found.run(module.operation, found.options(**options), session)
    return session.report()


def waits_left(module, name: str, **options) -> int:
    """How many waits with a count a pass leaves in a module."""
    run(name, module, **options)
    return [op.name for op in walk(module)].count("nvvm.cp.async.wait.group")


def as_kernel(module):
    """The module whose function `f` starts with nothing in flight."""
    for op in walk(module):
        if op.name == "func.func" and symbol_name(op) == "f":
            op.attributes["gpu.kernel"] = ir.UnitAttr.get()
    return module


def count_behind(module) -> int:
    (wait,) = run("async-pipe-count-waits", module).of("waits")
    return wait.count


@pytest.mark.parametrize("name", TABLE)
def test_group_in_a_row_counts_where_it_surely_runs(name):
    with new_context():
        module = program(name, before=COPY, inside=GROUP, after=TOKEN_WAIT)
        assert count_behind(module) == int(name in SURELY)


@pytest.mark.parametrize("name", TABLE)
def test_wait_after_a_row_that_may_commit_stays(name):
    with new_context():
        module = as_kernel(program(name, inside=COMMIT, after=WAIT))
        left = waits_left(module, "async-pipe-simplify-waits", keep_commits=True)
    # The groups of a launch are those of its own threads.
    assert left == int(name != "gpu.launch")


@pytest.mark.parametrize("name", [name for name in TABLE if name != "gpu.launch"])
def test_wait_after_a_row_goes_where_one_surely_runs_in_it(name):
    with new_context():
        module = as_kernel(program(name, before=COMMIT, inside=WAIT, after=WAIT))
        left = waits_left(module, "async-pipe-simplify-waits", keep_commits=True)
    # What a callee waits for is not followed.
    assert left == (1 if name in SURELY and name not in CALL_OPS else 2)


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("inside", (COMMIT, ""), ids=("commits", "empty"))
def test_token_carried_past_a_row_counts_what_the_wait_said(name, inside):
    with new_context():
        module = program(name, before=COMMIT + COMMIT, inside=inside, after=WAIT.replace("0", "1"))
        run("async-pipe-tokens", module)
        counts = [wait.count for wait in run("async-pipe-count-waits", module).of("waits")]
    if name in CARRYING_OPS or name in BRANCHES:
        assert counts == [1] * (name not in LLVM_BRANCHES)
    assert set(counts) <= {1}


@pytest.mark.parametrize("name", TABLE)
def test_counter_carried_past_a_row_decides_where_it_may_run(name):
    with new_context():
        module = program(name, before=COPY, inside=GROUP, after=TOKEN_WAIT)
        before = [op.name for op in walk(module)].count("scf.index_switch")
        report = run("async-pipe-count-waits", module, mode="dynamic")
        switches = [op.name for op in walk(module)].count("scf.index_switch") - before
        (wait,) = report.of("waits")
    assert wait.count == int(name in SURELY)
    carried = name in CARRYING_OPS or (name in BRANCHES and name not in LLVM_BRANCHES)
    # A region or block that runs just once leaves nothing to decide.
    assert switches == int(carried and (name not in SURELY or name == "scf.while"))


@unknown_ops
def test_group_in_an_unknown_op_never_counts(name, regions, branches):
    with new_context():
        module = around(name, regions, branches, before=COPY, inside=GROUP, after=TOKEN_WAIT)
        assert count_behind(module) == 0


TAKEN = {"before": HAND_OVER + HAND_OVER.replace("q{0}", "p{0}"), "inside": TAKE, "after": TAKE}


@pytest.mark.parametrize("name", TABLE)
def test_group_that_a_row_may_take_is_not_in_flight(name):
    with new_context():
        module = program(name, **TAKEN)
        inside, after = run("async-pipe-count-waits", module).of("waits")
        if name in CALL_OPS:
            # The callee stands after its caller.
            inside, after = after, inside
    # The thread of a launch takes from queues of its own.
    assert after.count == int(name == "gpu.launch")


@unknown_ops
def test_group_that_an_unknown_op_may_take_is_not_in_flight(name, regions, branches):
    with new_context():
        module = around(name, regions, branches, **TAKEN)
        *_, last = run("async-pipe-count-waits", module).of("waits")
    assert last.count == 0


@unknown_ops
def test_no_wait_is_raised_around_an_unknown_op(name, regions, branches):
    parts = {"before": COPY + COMMIT, "inside": COMMIT, "after": WAIT + LOAD}
    with new_context():
        module = around(name, regions, branches, **parts)
        if branches:
            with pytest.raises(AsyncPipeError) as error:
                run("async-pipe-tokens", module, relax=True)
            assert error.value.code == "unfollowed-control-flow"
        else:
            assert run("async-pipe-tokens", module, relax=True).of("relaxed") == ()


@unknown_ops
def test_wait_after_an_unknown_op_with_a_copy_stays(name, regions, branches):
    parts = {"before": COPY + WAIT, "inside": COPY, "after": WAIT + LOAD}
    with new_context():
        module = around(name, regions, branches, **parts)
        run("async-pipe-simplify-waits", module)
        assert [op.name for op in walk(module)].count("nvvm.cp.async.wait.group") == 2


def drains_dropped(module) -> int:
    """How many waits go if the first one is a drain, in a kernel of one thread."""
    (function,) = (op for op in walk(module) if op.name == "func.func")
    function.attributes["gpu.kernel"] = ir.UnitAttr.get()
    function.attributes["known_block_size"] = ir.DenseI32ArrayAttr.get([1, 1, 1])
    drain = next(op for op in walk(module) if op.name == "nvvm.cp.async.wait.group")
    drain.attributes[DRAIN] = ir.UnitAttr.get()
    return len(run("async-pipe-drop-drains", module).of("drains"))


def test_drain_that_nobody_needs_goes():
    with new_context():
        module = program("scf.if", before=COPY + WAIT, inside="", after=WAIT + LOAD)
        assert drains_dropped(module) == 1


@unknown_ops
def test_drain_before_an_unknown_op_stays(name, regions, branches):
    parts = {"before": COPY + WAIT, "inside": LOAD, "after": WAIT + LOAD}
    with new_context():
        assert drains_dropped(around(name, regions, branches, **parts)) == 0


@pytest.mark.parametrize("name", ("omp.parallel", "shape.assuming"))
def test_barriers_that_may_be_missing_are_reported(name):
    with new_context():
        module = around(name, 1, False, before=STORE, inside=READ)
        function = module.body.operations[0].operation
        function.attributes["known_block_size"] = ir.DenseI32ArrayAttr.get([32, 1, 1])
        codes = {diagnostic.code for diagnostic in run("async-pipe-barriers", module).diagnostics}
    assert codes == {"unknown-hazard"}


@pytest.mark.parametrize("name", ("cf.cond_br", "llvm.indirectbr"))
def test_barrier_between_blocks_where_threads_part_is_refused(name):
    parts = {"before": STORE, "inside": READ}
    with new_context():
        module = program(name, **parts) if name in TABLE else around(name, 0, True, **parts)
        function = module.body.operations[0].operation
        function.attributes["known_block_size"] = ir.DenseI32ArrayAttr.get([32, 1, 1])
        with pytest.raises(AsyncPipeError) as error:
            run("async-pipe-barriers", module)
    assert error.value.code == "divergent-barrier"


# An op that nobody has, and its row ------------------------------------------------------------

MADE_UP = {
    "section": '{before} "my.section"() ({{ {inside} "my.end"() : () -> () }}) : () -> () {after}',
    "jump": '{before} "my.jump"() [^a] : () -> ()\n^a: {inside}\n cf.br ^b\n^b: {after}',
}
without_or_with_its_row = pytest.mark.parametrize("row", (False, True), ids=("no row", "row"))


@pytest.fixture
def made_up(row, monkeypatch):
    """Programs around ops that nobody has, which a row and a terminator may describe."""
    if row:
        monkeypatch.setitem(REGION_ROWS, "my.section", RegionRow("my.section", "once"))
        monkeypatch.setitem(EXIT_OPS, "my.end", 0)
        jump = BranchRow("my.jump", lambda op: [range(len(op.operands))])
        monkeypatch.setitem(BRANCH_ROWS, "my.jump", jump)
        monkeypatch.setattr(flow_graph, "_OP_KINDS", flow_graph._op_kinds())
    return lambda op, **parts: ir.Module.parse(function(MADE_UP[op].format(**numbered(parts))))


@without_or_with_its_row
@pytest.mark.parametrize("op", MADE_UP)
def test_one_row_lets_every_count_follow_an_op(op, row, made_up):
    with new_context():
        module = made_up(op, before=COPY, inside=GROUP, after=TOKEN_WAIT)
        # Where a jump leads is in the IR, what it hands on is in its row.
        assert count_behind(module) == int(row or op == "jump")


@without_or_with_its_row
def test_row_of_a_jump_says_what_it_hands_on(row, made_up):
    jump = '"my.jump"(%gbefore) [^a] : (!nvgpu.device.async.token) -> ()'
    argument = "\n^a(%x: !nvgpu.device.async.token): nvgpu.device_async_wait %x"
    with new_context():
        text = function(COPY.format("before") + GROUP.format("") + jump + argument)
        assert count_behind(ir.Module.parse(text)) == int(row)


@without_or_with_its_row
@pytest.mark.parametrize("op", MADE_UP)
def test_one_row_lets_bounds_in_flight_follow_an_op(op, row, made_up):
    with new_context():
        module = as_kernel(made_up(op, before=COMMIT, inside=WAIT, after=WAIT))
        assert waits_left(module, "async-pipe-simplify-waits", keep_commits=True) == (
            1 if row or op == "jump" else 2
        )


@without_or_with_its_row
@pytest.mark.parametrize("op", MADE_UP)
def test_one_row_lets_the_checker_follow_an_op(op, row, made_up):
    with new_context():
        module = made_up(op, before=COPY, inside=WAIT, after=LOAD)
        (check,) = run("async-pipe-check", module).of("checks")
        assert (check.unsafe + check.unknown > 0) == (not row)
        racy = run("async-pipe-check", made_up(op, before=COPY, after=WAIT, inside=LOAD))
        assert [check.unsafe > 0 or check.unknown > 0 for check in racy.of("checks")] == [True]
