"""PTX kernels as functions of the LLVM dialect: what clang, nvcc, Triton and CuTe compile to can be read, checked and run.

    .visible .entry sum(…)                    llvm.func @sum(%x: !llvm.ptr<1>, …) attributes {nvvm.kernel}
    $again:                                   ^again:
      cp.async.wait_group 1;                    nvvm.cp.async.wait.group 1
      bar.sync 0;                        -->    nvvm.barrier
      ld.shared.f32 %f1, [%r1+4];               %p = llvm.inttoptr %r1 … llvm.load
      @%p1 bra $again;                          llvm.cond_br %p1, ^again, ^next

Each op has the line and column of its instruction. Registers become values by MLIR's `mem2reg`. A loop that asks
an mbarrier until its phase is over is one op that waits. An instruction that nobody knows stays as inline
assembly, of which the checker says that it may do anything.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.ptx.calls import with_functions
from mlir_async_pipe.ptx.divisions import write_divisions
from mlir_async_pipe.ptx.function_writer import (
    SPACES,
    TYPES,
    Bank,
    FunctionWriter,
    UnreadError,
    Value,
    pointer_type,
    promoted,
    quoted,
    registers_of,
    storage_type,
)
from mlir_async_pipe.ptx.instructions import kind_of_sums, row_of, write_assembly, write_wait
from mlir_async_pipe.ptx.syntax import (
    BYTES,
    Address,
    Instruction,
    Label,
    Number,
    Operand,
    PtxEntry,
    PtxFile,
    Register,
    Symbol,
    Variable,
    Vector,
    instructions_of,
    no_ptx,
    read,
)
from mlir_async_pipe.session.diagnostics import UsageError


def raise_ptx(text: str, context: Any, file: str = "-") -> Any:
    """The kernels of a PTX file as a module, an `ir.Module` in `context`.

    Raises InputError (parse-error) for text that is no PTX, UsageError for bindings whose NVVM dialect
    is another one.
    """
    source = read(text, file)
    written = [_global(variable) for variable in source.variables]
    kernels = [with_functions(kernel, source.functions) for kernel in source.kernels]
    written += [_kernel(kernel, source) for kernel in kernels]
    try:
        module = promoted("\n".join(written), context)
    except ir.MLIRError as error:
        message = re.search(r"\d+:\d+: (.*)", str(error))
        raise UsageError(
            f"the NVVM dialect of these bindings is of another version than PTX is read with: {message[1] if message else error}",
            code="ptx-bindings",
            advice="--bindings=numba-cuda-mlir reads PTX: pip install 'mlir-async-pipe[nvidia]'",
        ) from None
    write_divisions(module.operation)
    return module


def _global(variable: Variable) -> str:
    """A variable that several functions may name; one of no size is as large as the launch says."""
    space, external = SPACES[variable.space], not variable.size
    linkage = "external" if external or variable.space in ("global", "const") else "internal"
    return (
        f'"llvm.mlir.global"() <{{addr_space = {space} : i32, alignment = {max(1, variable.alignment)} : i64, '
        f"global_type = !llvm.array<{variable.size} x i8>, linkage = #llvm.linkage<{linkage}>, "
        f"sym_name = {quoted(variable.name)}}}> ({{}}) : () -> ()"
    )


def _kernel(kernel: PtxEntry, source: PtxFile) -> str:
    near = [one for one in kernel.variables if one.space not in ("local", "param")]
    names = {one.name: one.space for one in (*source.variables, *near)}
    pointers = _pointers(kernel)
    arguments: dict[str, Value] = {}
    marks = []
    for number, parameter in enumerate(kernel.parameters):
        mark = ""
        if parameter.size != BYTES.get(parameter.kind):
            # A struct or a tensor map, whose bytes the kernel addresses.
            kind = "!llvm.ptr"
            mark = (
                f"llvm.byval = !llvm.array<{parameter.size} x i8>, "
                f"llvm.align = {max(1, parameter.alignment)} : i64, nvvm.grid_constant"
            )
        elif parameter.name in pointers:
            kind = pointer_type("global" if pointers[parameter.name] == "global" else "generic")
        else:
            kind = storage_type(TYPES[parameter.kind])
        arguments[parameter.name] = Value(f"%p{number}", kind)
        marks.append(f"{{{mark}}}")
    w = FunctionWriter(kernel, arguments, names, decided=decided_predicates(kernel))
    _declare(w, kernel)
    PtxBody(w).write()
    w.place = kernel.place
    stated = {
        "reqntid": kernel.block,
        "maxntid": kernel.most_threads,
        "cluster_dim": kernel.cluster,
    }
    sizes = {name: ", ".join(map(str, [*of, 1, 1][:3])) for name, of in stated.items() if of}
    attributes = [f"nvvm.{name} = array<i32: {three}>" for name, three in sizes.items()]
    properties = f"linkage = #llvm.linkage<external>, arg_attrs = [{', '.join(marks)}]"
    function = w.function(kernel.name, "void", properties, ", ".join(("nvvm.kernel", *attributes)))
    return "\n".join((*map(_global, near), function))


def declare_registers(w: FunctionWriter) -> None:
    """A variable for each register, and one for those that products add to together."""

    def variable(kind: str) -> Value:
        return w.make("llvm.alloca", (one,), "!llvm.ptr", f"elem_type = {kind}")

    one = w.constant(1, "i32")
    for bank in _banks(w.kernel):
        w.banks |= dict.fromkeys(bank.names, bank)
        w.storage |= dict.fromkeys(bank.names, variable(bank.type))
    for name, kind in w.kernel.registers.items():
        if kind not in TYPES:
            raise no_ptx(f"registers of type .{kind} are not read", w.kernel.place)
        if name not in w.storage:
            w.storage[name] = variable(storage_type(TYPES[kind]))


def _banks(kernel: PtxEntry) -> list[Bank]:
    """The lists of registers that products add to or multiply, but for those that share some registers with
    another list."""
    products = [(one, kind) for one in instructions_of(kernel) if (kind := kind_of_sums(one))]
    lists = [(item.operands[0], kind) for item, kind in products]
    lists += [(i.operands[1], "i32") for i, _ in products if isinstance(i.operands[1], Vector)]
    found = dict.fromkeys(
        Bank(tuple(one.name for one in registers_of([some])), kind) for some, kind in lists
    )
    often = Counter(name for bank in found for name in bank.names)
    return [bank for bank in found if all(often[name] == 1 for name in bank.names)]


def _declare(w: FunctionWriter, kernel: PtxEntry) -> None:
    """A variable for each register, and what the kernel keeps in local memory."""
    declare_registers(w)
    one = w.constant(1, "i32")
    for variable in kernel.variables:
        if variable.space in ("local", "param"):
            # What a call hands over in a variable of its size is a value in the end.
            is_one = variable.space == "param" and variable.size in (1, 2, 4, 8)
            of = f"i{8 * variable.size}" if is_one else f"!llvm.array<{variable.size} x i8>"
            properties = f"elem_type = {of}, alignment = {variable.alignment} : i64"
            w.storage[variable.name] = w.make("llvm.alloca", (one,), "!llvm.ptr", properties)


def _pointers(kernel: PtxEntry) -> dict[str, str]:
    """The parameters that hold addresses, with the space into which they lead: those that are declared or
    converted as such, and else the only one that an address is a sum of."""
    found = {one.name: one.pointer for one in kernel.parameters if one.pointer}
    loaded: dict[str, set[str]] = defaultdict(set)
    moves: list[tuple[str, list[str]]] = []
    addresses: list[tuple[str, str]] = []
    for item in instructions_of(kernel):
        head = item.parts[0]
        if head in ("ld", "st") and "param" in item.parts:
            handed = _handed_over(item, kernel)
            if handed is not None:
                moves.append(handed)
                continue
        for operand in item.operands:
            if isinstance(operand, Address) and isinstance(operand.base, Register):
                addresses.append((operand.base.name, _space_of_address(item, operand)))
        target, *sources = item.operands or (None,)
        if not isinstance(target, Register):
            continue
        if head == "ld" and "param" in item.parts and isinstance(sources[0], Address):
            if isinstance(sources[0].base, Symbol):
                loaded[target.name].add(sources[0].base.name)
        elif head in ("mov", "add", "mad", "cvta"):
            # Of a product and a sum it is the sum.
            summed = sources[-1:] if head == "mad" else sources
            moves.append((target.name, [one.name for one in summed if isinstance(one, Register)]))
    for item in instructions_of(kernel):
        if item.parts[0] == "cvta" and "to" in item.parts:
            for register in registers_of(item.operands[1:]):
                for parameter in loaded[register.name]:
                    found.setdefault(parameter, "global" if "global" in item.parts else "generic")
    changed = True
    while changed:
        changed = False
        for target_name, names in moves:
            reached = set().union(*(loaded[name] for name in names))
            changed = changed or not reached <= loaded[target_name]
            loaded[target_name] |= reached
    wide = {one.name for one in kernel.parameters if one.size == 8}
    given = dict(found)
    for name, space in addresses:
        parameters = loaded[name] & wide
        sure = parameters & given.keys()
        for parameter in sure or (parameters if len(parameters) == 1 else ()):
            if found.get(parameter) != "global":
                found[parameter] = space
    return {name: space for name, space in found.items() if name in wide}


def _handed_over(i: Instruction, kernel: PtxEntry) -> tuple[str, list[str]] | None:
    """What a call hands over in a variable, or takes from one: the name that gets a value, and that which has it."""
    first, second = i.operands
    place, other = (first, second) if i.parts[0] == "st" else (second, first)
    if not isinstance(place, Address) or not isinstance(place.base, Symbol) or place.offset:
        return None
    if not any(one.name == place.base.name for one in kernel.variables):
        return None
    there = [one.name for one in registers_of([other])]
    if i.parts[0] == "st":
        return place.base.name, there
    return (there[0], [place.base.name]) if len(there) == 1 else None


def decided_predicates(kernel: PtxEntry) -> dict[str, bool]:
    """setp.ne.b32 p, 1, 0: predicates that are written once, and how."""
    written: dict[str, list[Instruction]] = {}
    for item in instructions_of(kernel):
        target = item.operands[0] if item.operands else None
        if isinstance(target, Register) and kernel.registers.get(target.name) == "pred":
            written.setdefault(target.name, []).append(item)
    found = {}
    for name, (first, *others) in written.items():
        numbers = [one.text for one in first.operands[1:] if isinstance(one, Number)]
        compares = first.guard is None and first.parts[:2] == ("setp", "ne")
        if not others and compares and len(numbers) == 2:
            found[name] = int(numbers[0], 0) != int(numbers[1], 0)
    return found


def _space_of_address(i: Instruction, address: Operand) -> str:
    """The space that the instruction names for this operand: "global", or any."""
    copies = i.opcode.startswith(("cp.async.ca", "cp.async.cg")) or i.parts[:3] == ("cp", "async", "bulk")  # fmt: skip
    reads = copies and address is i.operands[1]
    return "global" if reads or "global" in i.parts else "generic"


class PtxBody:
    """Writes the statements of a kernel as blocks; or, `inside` another function, those of a piece of assembly: there
    an instruction without a row is refused (UnreadError) instead of kept, and one that ends the thread, too."""

    def __init__(self, w: FunctionWriter, inside: bool = False) -> None:
        self.w, self.inside = w, inside
        self.blocks: dict[str, str] = {}
        self.open = True
        self.guard: Register | None = None
        self.after = ""

    def block_of(self, label: str) -> str:
        return self.blocks.setdefault(label, f"l{len(self.blocks)}")

    def write(self) -> None:
        """Write all; a kernel ends after its last statement, what stands inside a function goes on."""
        items, at = self.w.kernel.body, 0
        while at < len(items):
            item = items[at]
            waiting = self.wait_loop(items, at)
            if waiting is not None:
                self.close_guard()
                length, wait, label = waiting
                # Who branches back to the label asks again.
                self.label(label)
                self.w.place = wait.place
                write_wait(self.w, wait)
                at += length
                continue
            if isinstance(item, Label):
                self.label(item)
            else:
                self.instruction(item)
            at += 1
        self.close_guard()
        if self.inside:
            self.unreached()
        elif self.open:
            self.w.op("llvm.return")
        for name, block in self.blocks.items():
            if f"^{block}:" not in self.w.lines:
                raise no_ptx(f"there is no label '{name}'", self.w.kernel.place)

    def wait_loop(
        self, items: list[Instruction | Label], at: int
    ) -> tuple[int, Instruction, Label] | None:
        """again: try_wait p; @!p bra again   or   again: try_wait p; @p bra done; bra again; done:"""
        match items[at : at + 5]:
            case [Label() as label, Instruction(guard=None) as wait, Instruction() as first, *rest]:
                if not (wait.opcode.startswith("mbarrier.try_wait.parity") and _is_branch(first)):
                    return None
            case _:
                return None
        asked = wait.operands[0]
        if not isinstance(asked, Register):
            return None
        if first.guard == Register(asked.name, negated=True) and _target(first) == label.name:
            return 3, wait, label
        match rest:
            case [Instruction(guard=None) as second, Label() as done, *_]:
                leaves = first.guard == Register(asked.name) and _target(first) == done.name
                if leaves and _is_branch(second) and _target(second) == label.name:
                    return 4, wait, label
        return None

    def label(self, label: Label) -> None:
        self.close_guard()
        block = self.block_of(label.name)
        if self.open:
            self.w.branch(block)
        self.w.begin_block(block)
        self.open = True

    def close_guard(self) -> None:
        if self.guard is None:
            return
        if self.open:
            self.w.branch(self.after)
        self.w.begin_block(self.after)
        self.open, self.guard = True, None

    def unreached(self) -> None:
        """What stands after a branch and has no label is reached by nobody, but is written."""
        if not self.open:
            self.w.begin_block(self.w.fresh_block())
            self.open = True

    def instruction(self, i: Instruction) -> None:
        w = self.w
        w.place = i.place
        if _is_branch(i) or i.parts[0] in ("ret", "exit", "trap", "brx"):
            self.close_guard()
            self.unreached()
            self.leave(i)
            return
        row, effects = row_of(i)
        if i.guard != self.guard or (self.guard is not None and _changes(i, self.guard)):
            self.close_guard()
        self.unreached()
        if effects and i.guard is not None and self.guard is None:
            inside, self.after = w.fresh_block(), w.fresh_block()
            condition = w.read(i.guard, "i1")
            w.branch_if(condition, inside, self.after)
            w.begin_block(inside)
            self.guard = i.guard
        w.guard = w.read(i.guard, "i1") if i.guard is not None and self.guard is None else None
        written = len(w.lines)
        try:
            if row is None:
                raise UnreadError
            row(w, i)
        except (UnreadError, ValueError, KeyError, IndexError, StopIteration):
            # Rows take operands apart as their form has them: another form does not fit, or has no such part.
            if self.inside and effects:
                raise UnreadError from None
            del w.lines[written:]
            w.held.clear()
            write_assembly(w, i, effects)
        w.guard = None

    def leave(self, i: Instruction) -> None:
        w, head = self.w, i.parts[0]
        if self.inside and head != "bra":
            raise UnreadError
        if head == "brx":
            self.switch(i)
            return
        after = ""
        if i.guard is not None:
            condition, after = w.read(i.guard, "i1"), w.fresh_block()
            inside = self.block_of(_target(i)) if head == "bra" else w.fresh_block()
            w.branch_if(condition, inside, after)
            w.begin_block(after if head == "bra" else inside)
            if head == "bra":
                return
        if head == "bra":
            w.branch(self.block_of(_target(i)))
        elif head == "trap":
            w.op("llvm.intr.trap")
            w.op("llvm.unreachable")
        else:
            w.op("llvm.return")
        self.open = False
        if after:
            w.begin_block(after)
            self.open = True

    def switch(self, i: Instruction) -> None:
        """brx.idx %r, targets: the label of that number."""
        w = self.w
        index, table = i.operands
        labels = w.kernel.branch_targets.get(table.name if isinstance(table, Symbol) else "")
        if not labels or i.guard is not None:
            raise no_ptx("the targets of this branch are declared nowhere", i.place)
        blocks = [self.block_of(label) for label in labels]
        value = w.read(index, "i32")
        cases = ", ".join(map(str, range(1, len(blocks))))
        where = ", ".join(f"^{block}" for block in blocks)
        if len(blocks) == 1:
            w.branch(blocks[0])
        else:
            zeros = ", ".join("0" for _ in blocks[1:])
            w.lines.append(
                f'"llvm.switch"({value.name}) [{where}] <{{case_operand_segments = array<i32: {zeros}>, '
                f"case_values = dense<[{cases}]> : vector<{len(blocks) - 1}xi32>, "
                f"operandSegmentSizes = array<i32: 1, 0, 0>}}> : (i32) -> () {w.location()}"
            )
        self.open = False


def _is_branch(item: Instruction) -> bool:
    return item.parts[0] == "bra"


def _target(i: Instruction) -> str:
    (target,) = i.operands
    return target.name if isinstance(target, Symbol | Register) else ""


def _changes(i: Instruction, guard: Register) -> bool:
    """Whether an instruction writes the register of a guard."""
    return any(one.name == guard.name for one in registers_of(i.operands[:1]))
