"""A Spec as MLIR: the kernel, and what stands beside it in the gpu.module.

for each block's rows: for each copy: tile[t ^ swizzle] = A[row, t]; wait; barrier
                       for each copy: D[row, t] = compute(tile[partner of t]); barrier
"""

from __future__ import annotations

from helpers.random_lowering.copy_text import copy_text, read_text, write_text
from helpers.random_lowering.lines import Lines, scratch_type, source_type, tile_type, vector_of
from helpers.random_lowering.model import result_element, xor_amount
from helpers.random_lowering.scratch_text import scratch_after, scratch_before
from helpers.random_lowering.spec import Spec


class Kernel:
    def __init__(self, spec: Spec):
        self.spec, self.lines = spec, Lines()
        self.tiles = [f"%tile{i}" for i in range(spec.inputs)]

    def text(self) -> str:
        """The gpu.func, with globals and the function that it calls before it."""
        spec, lines = self.spec, self.lines
        self._thread()
        head = lines.body
        lines.body = []
        loop = self._loops()
        before = scratch_before(spec, self.t, lines)
        tail = scratch_after(spec, self.t, self.block, lines)
        constants = [f"{name} = {text}" for text, name in lines.constants.items()]
        body = [*self._placed(), *constants, *head, *before, *loop, *tail]
        inner = "\n    ".join([*body, "gpu.return"])
        block = ", ".join(map(str, spec.block))
        return "\n".join([
            *self._beside(),
            f"  gpu.func @{spec.name}({', '.join(self._arguments())})",
            f"      {self._attributions()}kernel attributes "
            f"{{known_block_size = array<i32: {block}>, "
                f"known_grid_size = array<i32: {spec.blocks}, 1, 1>}} {{",
            f"    {inner}", "  }",
        ])  # fmt: skip

    def _arguments(self) -> list[str]:
        spec = self.spec
        found = []
        for number, source in enumerate(spec.sources):
            align = f", llvm.align = {source.align} : i64" if source.says_align else ""
            found.append(f"%A{number}: {source_type(spec, source)} {{llvm.noalias{align}}}")
        found.append(f"%D: memref<?x{result_element(spec).name}> {{llvm.noalias}}")
        if spec.scratch:
            found.append(f"%E: memref<?x{spec.scratch_element.name}> {{llvm.noalias}}")
        return [*found, "%n: index", "%trips: index"]

    def _memories(self) -> list[tuple[str, str, str]]:
        """Name, type and place of each workgroup buffer."""
        spec = self.spec
        found = [
            (name, tile_type(spec, tile), tile.place)
            for name, tile in zip(self.tiles, spec.tiles, strict=True)
        ]
        if spec.scratch:
            found.append(("%scratch", scratch_type(spec), spec.scratch_place))
        return found

    def _attributions(self) -> str:
        found = [
            f"{name}: {kind} {{llvm.align = 16 : i64}}"
            for name, kind, place in self._memories()
            if place == "attribution"
        ]
        return f"workgroup({', '.join(found)}) " if found else ""

    def _placed(self) -> list[str]:
        found = []
        for name, kind, place in self._memories():
            if place == "alloc":
                found.append(f"{name} = memref.alloc() {{alignment = 16 : i64}} : {kind}")
            elif place == "global":
                found.append(f"{name} = memref.get_global @{self._global(name)} : {kind}")
        return found

    def _global(self, name: str) -> str:
        """Scratch buffers of one type are one global, which kernels share."""
        if name == "%scratch":
            each = self.spec.scratch_element.name
            return f"scratch_{self.spec.scratch}_{each}_{self.spec.threads}"
        return f"{self.spec.name}_{name.strip('%')}"

    def _beside(self) -> list[str]:
        spec = self.spec
        found = [
            f'  memref.global "private" @{self._global(name)} : {kind} {{alignment = 16 : i64}}'
            for name, kind, place in self._memories()
            if place == "global"
        ]
        if spec.call:
            kind = vector_of(spec, spec.element)
            inner = Kernel(spec)
            result = inner.computed("%x")
            constants = [f"{n} = {t}" for t, n in inner.lines.constants.items()]
            lines = "\n    ".join([*constants, *inner.lines.body])
            to = vector_of(spec, result_element(spec))
            found.append(
                f"  func.func private @{spec.name}_f(%x: {kind}) -> {to} {{\n    {lines}\n"
                f"    return {result} : {to}\n  }}"
            )
        return found

    def _thread(self) -> None:
        """%t numbers the thread, %me is its first column, %other the partner's."""
        spec, lines = self.spec, self.lines
        x, y, z = (lines.value(f"gpu.thread_id {axis}") for axis in "xyz")
        t = x
        if spec.block[1] * spec.block[2] > 1:
            row = y
            if spec.block[2] > 1:
                row = lines.binary(
                    "addi", y, lines.binary("muli", z, lines.constant(spec.block[1]))
                )
            t = lines.binary("addi", x, lines.binary("muli", row, lines.constant(spec.block[0])))
        self.t = t
        partner = t
        if spec.partner == "reverse":
            partner = lines.binary("subi", lines.constant(spec.threads - 1), t)
        elif spec.partner == "xor":
            partner = lines.binary("xori", t, lines.constant(xor_amount(spec)))
        elif spec.partner == "rotate":
            turned = lines.binary("addi", t, lines.constant(spec.amount))
            partner = lines.binary("remui", turned, lines.constant(spec.threads))
        place = t
        if spec.swizzle:
            place = lines.binary("xori", t, lines.constant(spec.swizzle))
        width = lines.constant(spec.width)
        self.me = lines.binary("muli", t, width)
        self.place = lines.binary("muli", place, width)
        self.other = lines.binary("muli", partner, width)
        block = lines.value("gpu.block_id x")
        rows = lines.binary("muli", lines.constant(spec.outer), self._trips())
        self.first_row = lines.binary("muli", block, rows)
        self.block = block

    def _trips(self) -> str:
        return "%trips" if self.spec.dynamic_trips else self.lines.constant(self.spec.trips)

    def _bound(self) -> str:
        spec = self.spec
        return "%n" if spec.dynamic_bound else self.lines.constant(spec.bound)

    def _loops(self) -> list[str]:
        spec, lines = self.spec, self.lines
        trips = self._trips()
        zero, one = lines.constant(0), lines.constant(1)
        outer = "%j" if spec.outer > 1 else zero
        start = lines.value(f"arith.muli {outer}, {trips} : index")
        start = lines.binary("addi", start, self.first_row)
        before = lines.body
        kind = vector_of(spec, result_element(spec))
        carried = [f"%sum{c}" for c in range(spec.copies)] if spec.carried else []
        lines.body = []
        row = lines.binary("addi", start, "%i")
        self._copies(row)
        if spec.partner != "own" or spec.swizzle or spec.amount % 2:
            lines.body.append("gpu.barrier")
        results = self._results(row, carried)
        if spec.partner != "own" or spec.swizzle or spec.amount % 2:
            lines.body.append("gpu.barrier")
        if carried:
            lines.body.append(
                f"scf.yield {', '.join(results)} : {', '.join([kind] * len(results))}"
            )
        body = lines.body
        # Arrays of stages count statements, which also the stores after the loop are not.
        roles = list(lines.roles)
        unsigned = "unsigned " if spec.unsigned else ""
        init, signature = "", ""
        if carried:
            nothing = f"dense<{result_element(spec).literal(0)}>" if spec.width > 1 else (
                result_element(spec).literal(0)
            )  # fmt: skip
            if result_element(spec).name == "i1":
                nothing = nothing.replace("0", "false")
            start_value = lines.constant(nothing, kind)
            pairs = ", ".join(f"{name} = {start_value}" for name in carried)
            init = f" iter_args({pairs}) -> ({', '.join([kind] * len(carried))})"
            signature = f"%total:{len(carried)} = "
        loop = f"{signature}scf.for {unsigned}%i = {zero} to {trips} step {one}{init} {{"
        lines.body = []
        if carried:
            total_row = lines.binary("muli", self.block, lines.constant(spec.outer))
            total_row = lines.binary("addi", total_row, outer)
            for c in range(spec.copies):
                self._write(f"%total#{c}", total_row, c)
        if spec.outer > 1:
            lines.body.append("gpu.barrier")
        after = lines.body
        whole = [*before, loop, *body, f"}} {{{', '.join(self._annotations(roles))}}}", *after]
        if spec.outer > 1:
            whole = [
                f"scf.for %j = {zero} to {lines.constant(spec.outer)} step {one} {{",
                *whole,
                "}",
            ]
        return whole

    def _annotations(self, roles: list[str]) -> list[str]:
        spec = self.spec
        if not spec.explicit:
            return list(spec.attributes)
        late = 1 + spec.amount % 3
        stages = [0 if role == "copy" else late for role in roles]
        order = list(range(len(roles)))
        if spec.explicit == "consumer first":
            ranked = sorted(order, key=lambda at: (roles[at] == "copy", at))
            order = [ranked.index(at) for at in order]
        numbers = {"stage": stages, "order": order, "async_stages": [0]}
        arrays = [
            f"async_pipe.{name} = array<i64: {', '.join(map(str, values))}>"
            for name, values in numbers.items()
        ]
        return [*arrays, *spec.attributes]

    def _column(self, start: str, copy: int) -> str:
        spec = self.spec
        if not copy:
            return start
        return self.lines.binary(
            "addi", start, self.lines.constant(copy * spec.threads * spec.width)
        )

    def _copies(self, row: str) -> None:
        spec, lines = self.spec, self.lines
        tokens = []
        for number in range(spec.inputs):
            for copy in range(spec.copies):
                tokens += copy_text(self, number, row, copy)
        if tokens:
            group = lines.value(f"nvgpu.device_async_create_group {', '.join(tokens)}")
            lines.body.append(f"nvgpu.device_async_wait {group}")

    def _results(self, row: str, carried: list[str]) -> list[str]:
        spec, lines = self.spec, self.lines
        found = []
        for copy in range(spec.copies):
            values = [read_text(self, number, copy) for number in range(spec.inputs)]
            kind, to = vector_of(spec, spec.element), result_element(spec)
            if spec.call:
                result = lines.statement(f"func.call @{spec.name}_f({values[0]}) : ({kind}) -> {vector_of(spec, to)}", "call", True)  # fmt: skip
            else:
                result = self.computed(values[0])
            wide = vector_of(spec, to)
            add = "xori" if to.bits < 8 else ("addf" if to.is_float else "addi")
            for value in values[1:]:
                if to is not spec.element:
                    value = lines.value(f"arith.{self._extension()} {value} : {kind} to {wide}")
                result = lines.binary(add, result, value, wide)
            if carried:
                found.append(lines.binary(add, carried[copy], result, wide))
            else:
                self._write(result, row, copy)
        return found

    def _extension(self) -> str:
        return "extf" if self.spec.element.is_float else "extsi"

    def computed(self, value: str) -> str:
        spec, lines = self.spec, self.lines
        element, kind = spec.element, vector_of(spec, spec.element)
        suffix = "f" if element.is_float else "i"
        for step in spec.compute:
            match step:
                case "add" | "subtract":
                    other = self._splat(3 if step == "add" else 2)
                    value = lines.binary(f"{step[:3]}{suffix}", value, other, kind)
                case "double":
                    value = lines.binary(f"mul{suffix}", value, self._splat(2), kind)
                case "twice":
                    value = lines.binary(f"add{suffix}", value, value, kind)
                case "maximum":
                    op = "maximumf" if element.is_float else "maxsi"
                    value = lines.binary(op, value, self._splat(-1), kind)
                case "xor":
                    value = lines.binary("xori", value, self._splat(1), kind)
                case "widen":
                    wide = vector_of(spec, result_element(spec))
                    value = lines.value(f"arith.{self._extension()} {value} : {kind} to {wide}")
        return value

    def _splat(self, number: int) -> str:
        spec = self.spec
        text = spec.element.literal(number)
        if spec.element.name == "i1":
            text = "true" if number else "false"
        text = f"dense<{text}>" if spec.width > 1 else text
        return self.lines.constant(text, vector_of(spec, spec.element))

    def _write(self, value: str, row: str, copy: int) -> None:
        write_text(self, value, row, copy)
