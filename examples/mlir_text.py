"""A small writer of MLIR text: lines, unique value names, constants collected at the top.

The generators in this folder write text and need no bindings, so that what they print can be
fed to any tool that reads MLIR.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Writer:
    """Collects the lines of one function body.

    Values are strings like "%row". Index arithmetic folds x + 0, x * 1, x / 1 and x xor 0, so
    that what is printed looks as if it was written by hand.
    """

    def __init__(self, indent: int) -> None:
        self._indent = indent
        self._base = indent
        self._lines: list[str] = []
        self._names: dict[str, int] = {}
        self._constants: dict[int, str] = {}

    def constant(self, value: int) -> str:
        """An index constant, defined once at the top of the function."""
        return self._constants.setdefault(value, f"%c{value}")

    def line(self, text: str) -> None:
        """One line at the current indentation."""
        self._lines.append("  " * self._indent + text)

    def comment(self, text: str) -> None:
        """A comment line."""
        self.line(f"// {text}")

    def value(self, name: str, text: str) -> str:
        """Define `%name` (made unique) by the op in `text`."""
        count = self._names.get(name, 0)
        self._names[name] = count + 1
        unique = f"%{name}" if count == 0 else f"%{name}_{count}"
        self.line(f"{unique} = {text}")
        return unique

    @contextmanager
    def block(self, header: str, footer: str = "}") -> Iterator[None]:
        """Lines inside `header {` and `footer`."""
        self.line(header + " {")
        self._indent += 1
        yield
        self._indent -= 1
        self.line(footer)

    @contextmanager
    def statement(self, name: str, types: list[str]) -> Iterator[list[str]]:
        """Several ops as one statement of a pipelined loop, with results `%name#0`, …; the
        block fills the list of values that it yields."""
        listed = ", ".join(types)
        results = f"%{name}:{len(types)} = scf.execute_region -> ({listed})"
        yielded: list[str] = []
        with self.block(f"{results} no_inline"):
            yield yielded
            self.line(f"scf.yield {', '.join(yielded)} : {listed}")

    def add(self, name: str, a: str, b: str) -> str:
        """The sum of two index values."""
        if "%c0" in (a, b):
            return b if a == "%c0" else a
        return self.value(name, f"arith.addi {a}, {b} : index")

    def mul(self, name: str, a: str, factor: int) -> str:
        """`a` times a constant."""
        return a if factor == 1 else self._with_constant(name, "muli", a, factor)

    def div(self, name: str, a: str, divisor: int) -> str:
        """`a` divided by a constant, both taken as unsigned."""
        return a if divisor == 1 else self._with_constant(name, "divui", a, divisor)

    def rem(self, name: str, a: str, divisor: int) -> str:
        """`a` modulo a constant, both taken as unsigned."""
        return self.constant(0) if divisor == 1 else self._with_constant(name, "remui", a, divisor)

    def xor(self, name: str, a: str, b: str) -> str:
        """The bitwise exclusive or of two index values."""
        if "%c0" in (a, b):
            return b if a == "%c0" else a
        return self.value(name, f"arith.xori {a}, {b} : index")

    def text(self) -> str:
        """All lines, the constants first."""
        pad = "  " * self._base
        constants = [
            f"{pad}{name} = arith.constant {value} : index"
            for value, name in sorted(self._constants.items())
        ]
        return "\n".join(constants + self._lines)

    def _with_constant(self, name: str, op: str, a: str, number: int) -> str:
        return self.value(name, f"arith.{op} {a}, {self.constant(number)} : index")
