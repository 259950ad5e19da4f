"""The rooms of the package: who may import whom, and that names are told apart.

Every import is an arrow: those at the top, those inside of functions, those by name
(`import_module("mlir_async_pipe.…")`), and those under `TYPE_CHECKING`.

Covers: mlir_async_pipe, CONTRIBUTING.md
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeGuard

import pytest

from helpers.paths import ROOT

PACKAGE = ROOT / "mlir_async_pipe"
NAME = PACKAGE.name

# Base names that two modules need: one a dialect, and what a name has to be for others.
SHARED = {
    "async_ops": "the rows of async ops, and the machine's semantics of them",
    "nvvm": "the dialect in the machine, the vendor in the lowering",
    "passes": "the name under which plugins find the registry",
}


@cache
def modules() -> dict[str, Path]:
    """Every module by its dotted name without the package's."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules of this package that a file imports, now, later or for its types."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and of_package(node.module):
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield from shortened(full if shortened(full)[0] in modules() else node.module)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if of_package(alias.name):
                    yield from shortened(alias.name)
        elif isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
            name = getattr(node.args[0], "value", None)
            if of_package(name):
                yield from shortened(name)


def of_package(name: object) -> TypeGuard[str]:
    """Whether a dotted name is the package, or in it."""
    return isinstance(name, str) and (name == NAME or name.startswith(f"{NAME}."))


def shortened(name: str) -> tuple[str]:
    """A dotted name without the package's."""
    return (name[len(NAME) + 1 :],)


def in_circles(arrows: dict[str, frozenset[str]]) -> set[str]:
    """The modules that import themselves through others, and those between two such circles."""
    left = dict(arrows)
    while True:
        ends = {name for name, targets in left.items() if not targets & left.keys()}
        ends |= left.keys() - frozenset().union(*left.values())
        if not ends:
            return set(left)
        left = {name: targets for name, targets in left.items() if name not in ends}


@cache
def arrows() -> dict[str, frozenset[str]]:
    """Module to the modules that it imports; the package's own `__init__` left out."""
    return {
        name: frozenset(imported(ast.parse(path.read_text()))) - {name, ""}
        for name, path in modules().items()
        if name
    }


# Folders of rooms: what the IR says, and the way from a loop to a pipeline.
WINGS = ("facts", "pipeliner")


def box_of(module: str) -> str:
    """The folder or file of the package that a module stands in."""
    return module.partition(".")[0]


def room_of(module: str) -> str:
    """The room of a module: its box, or the part of a wing."""
    first, _, rest = module.partition(".")
    return rest.partition(".")[0] if first in WINGS else first


def floors() -> list[list[str]]:
    """The rooms by floor, lowest first, as the picture of CONTRIBUTING.md has them."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    picture = text.split("<!-- rooms, top floor first -->")[1].split("```")[1]
    lines = [re.findall(r"[a-z_]+", line.split("#")[0]) for line in picture.splitlines()]
    return [line for line in lines if line][::-1]


def test_every_room_stands_in_the_picture_once():
    named = [room for floor in floors() for room in floor]
    assert sorted(named) == sorted({room_of(module) for module in arrows() if module not in WINGS})


# Types of a higher room that one below names, and why.
NAMED_FROM_BELOW = {
    ("session.report", "chips"): "a session carries the target and asks it nothing",
    (
        "vocabulary.op_table",
        "chips.target",
    ): "whose copies go to which queue is the chip's; chips name queues",
}


def test_a_room_imports_rooms_of_lower_floors_only():
    height = {room: number for number, floor in enumerate(floors()) for room in floor}
    against = [
        f"{module} imports {target}"
        for module, targets in arrows().items()
        for target in targets
        if room_of(module) != room_of(target) and height[room_of(module)] <= height[room_of(target)]
        if (module, target) not in NAMED_FROM_BELOW
    ]
    assert against == []


def test_no_modules_import_each_other_in_a_circle():
    assert in_circles(arrows()) == set()


def test_no_boxes_import_each_other_in_a_circle():
    boxes: dict[str, set[str]] = {}
    for module, targets in arrows().items():
        known = {box_of(t) for t in targets if (module, t) not in NAMED_FROM_BELOW}
        boxes.setdefault(box_of(module), set()).update(known - {box_of(module)})
    assert in_circles({box: frozenset(targets) for box, targets in boxes.items()}) == set()


@pytest.mark.parametrize(
    "text",
    [
        "from mlir_async_pipe.facts.flow import flow_graph",
        "from mlir_async_pipe.facts.flow.flow_graph import Item",
        "import mlir_async_pipe.facts.flow.flow_graph",
        "def f():\n    from mlir_async_pipe.facts.flow.flow_graph import Item",
        "if TYPE_CHECKING:\n    from mlir_async_pipe.facts.flow.flow_graph import Item",
        "def f():\n    importlib.import_module('mlir_async_pipe.facts.flow.flow_graph')",
    ],
)
def test_an_import_is_seen_wherever_it_stands(text: str) -> None:
    assert list(imported(ast.parse(text))) == ["facts.flow.flow_graph"]


def test_a_circle_is_found() -> None:
    found = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}, "e": set()}
    assert in_circles({name: frozenset(targets) for name, targets in found.items()}) == {"b", "c"}


# What a module would import to change IR.
EDITS = {"again", "clone", "constant", "create", "erase", "set_integer", "write_for", "write_if"}


def names_imported(path: Path) -> set[str]:
    """The names that a file takes from other modules."""
    found = ast.walk(ast.parse(path.read_text()))
    return {a.name for node in found if isinstance(node, ast.ImportFrom) for a in node.names}


def inside(room: str) -> dict[str, Path]:
    """The modules of a room."""
    return {name: path for name, path in modules().items() if name.startswith(f"{room}.")}


def test_plans_edit_nothing():
    for module, path in inside("pipeliner.plan").items():
        assert not names_imported(path) & EDITS, module
        assert not arrows()[module] & inside("pipeliner.expand.write").keys(), module


def test_what_is_planned_is_written_without_errors():
    for module, path in inside("pipeliner.expand.write").items():
        assert not any(name.endswith("Error") for name in names_imported(path)), module


def test_no_base_name_stands_twice_without_need():
    names = Counter(module.rpartition(".")[2] for module in arrows())
    assert {name for name, count in names.items() if count > 1} == set(SHARED)


def test_every_room_says_what_it_is():
    for module, path in modules().items():
        if path.name == "__init__.py" and "." not in module:
            assert ast.get_docstring(ast.parse(path.read_text())), module


# Rooms that say what ops are, or that give each op its own code.
OF_OPS = ("vocabulary", "lowering", "machine", "bindings")
# Modules elsewhere that may name several ops in one list, and why.
LISTS = {
    "facts.costs.cost_model": "prices: an op that is not in the list has the price of its kind",
    "facts.values.same_values": "what it takes for another value, and how vectors are put together",
    "pipeliner.dependence.privatise": "the regions around an access whose conditions it reads",
    "pipeliner.normalise.affine_loops": "what it rewrites, and as what",
    "pipeliner.plan.thread_groups": "the ops with regions that it shares among groups, part by part",
    "ptx.divisions": "what it rewrites: the instructions of one idiom",
}
OP_NAME = re.compile(
    r"(affine|amdgpu|arith|async_pipe|builtin|cf|func|gpu|index|linalg|llvm|memref|nvgpu|nvvm|"
    r"rocdl|scf|tensor|ub|vector)\.[a-z_][a-z0-9_.]*"
)


def listed_ops(tree: ast.AST) -> list[list[str]]:
    """The op names of each list, set, tuple, dictionary or text that names more than one."""
    found = []
    for node in ast.walk(tree):
        parts: list[ast.expr | None] = []
        words: list[object] = []
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            parts = [*node.elts]
        elif isinstance(node, ast.Dict):
            parts = node.keys
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = [*node.value.split()]
        words += [part.value for part in parts if isinstance(part, ast.Constant)]
        names = [w for w in words if isinstance(w, str) and OP_NAME.fullmatch(w)]
        if len(names) > 1 and (parts or len(names) == len(words)):
            found.append(names)
    return found


def test_what_an_op_does_stands_in_the_vocabulary() -> None:
    """A list of op names elsewhere is a property of their rows that nobody has named."""
    lists = {
        name: found
        for name, path in modules().items()
        if name.split(".")[0] not in OF_OPS and (found := listed_ops(ast.parse(path.read_text())))
    }
    assert lists.keys() == LISTS.keys(), lists


@pytest.mark.parametrize(
    "text",
    [
        'LOOPS = ("scf.for", "scf.while")',
        'SAME = frozenset({"gpu.num_subgroups", "gpu.subgroup_size"})',
        'KINDS = {"gpu.thread_id": 1, "gpu.block_id": 2}',
        'PURE = "arith.addi index.add llvm.add".split()',
        'def f(op):\n    return op.name in ("scf.if", *OTHERS, "scf.for")',
    ],
)
def test_a_list_of_op_names_is_found(text: str) -> None:
    assert len(listed_ops(ast.parse(text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        'op.name == "scf.for"',
        '(create("scf.if"), "yes")',
        'f"see scf.for and scf.if"',
        '("a.b", "c.d")',
    ],
)
def test_one_op_name_is_no_list(text: str) -> None:
    assert listed_ops(ast.parse(text)) == []
