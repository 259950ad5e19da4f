"""Reads MLIR's generic textual form into plain Python objects.

    %0:2 = "scf.for"(%a, %b)[^bb1] <{properties}> ({regions}) {attributes} : (types) -> (types)

Attributes and types stay text. Each operation knows its line, by which findings are named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field


class NotJudged(Exception):
    """The program uses something that the second machine has no meaning for."""


@dataclass(eq=False)
class Operation:
    """One operation; `operands` and `results` are names such as `%8#1`."""

    name: str
    line: int
    operands: list[str]
    results: list[str]
    successors: list[str] = field(default_factory=list)
    attributes: dict[str, str] = field(default_factory=dict)
    regions: list[Region] = field(default_factory=list)
    operand_types: list[str] = field(default_factory=list)
    result_types: list[str] = field(default_factory=list)

    def integer(self, name: str, default: int = 0) -> int:
        """An integer attribute such as `4 : index`, `true` or `-1`."""
        text = self.attributes.get(name, str(default)).split(":")[0].strip()
        return {"true": 1, "false": 0}.get(text) if text in ("true", "false") else int(text)

    def integers(self, name: str) -> list[int]:
        """The numbers of an `array<i64: 1, 2>` or `dense<[1, 2]>` attribute."""
        text = self.attributes.get(name, "array<i64>")
        if text.startswith("dense<"):
            text = text[: text.rindex(">") + 1]
        elif ":" not in text:
            return []
        else:
            text = text[text.index(":") :]
        return [int(number) for number in re.findall(r"-?\d+", text.split("> :")[0])]

    def word(self, name: str) -> str:
        """The word of an enum attribute: `#gpu<dim x>` is `x`."""
        return self.attributes[name].rstrip("> )").split("<")[-1].split()[-1]


@dataclass(eq=False)
class Block:
    """A block: its label, arguments (name, type) and operations."""

    label: str
    arguments: list[tuple[str, str]]
    operations: list[Operation]


@dataclass(eq=False)
class Region:
    """Blocks in textual order; the first is the entry."""

    blocks: list[Block]


_SPACE = re.compile(r"(?:\s|//[^\n]*)+")
_NAME = re.compile(r"%[\w$.-]+(?:#\d+)?")
_COUNT = re.compile(r":\d+")
_LABEL = re.compile(r"\^[\w$.-]+")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_KEY = re.compile(r"[\w$.-]+")
_ALIAS = re.compile(r"^([#!][\w$.-]+) = (.*)$", re.MULTILINE)


def parse(text: str) -> list[Operation]:
    """The top-level operations of a module in generic form."""
    return _Reader(_without_aliases(text)).operations(top=True)


def _without_aliases(text: str) -> str:
    """Aliases written out, their own lines left empty so that line numbers stay."""
    aliases = dict(_ALIAS.findall(text))
    text = _ALIAS.sub("", text)
    for name, meaning in aliases.items():
        text = re.sub(re.escape(name) + r"(?![\w$.-])", lambda _, m=meaning: m, text)
    return text


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.starts = [0, *(m.end() for m in re.finditer("\n", text))]
        self.line = 1
        self.skip()

    def skip(self) -> None:
        found = _SPACE.match(self.text, self.at)
        if found:
            self.at = found.end()

    def here(self, word: str) -> bool:
        return self.text.startswith(word, self.at)

    def take(self, word: str) -> bool:
        if not self.here(word):
            return False
        self.at += len(word)
        self.skip()
        return True

    def expect(self, word: str) -> None:
        if not self.take(word):
            raise NotJudged(f"expected {word!r} at {self.text[self.at : self.at + 40]!r}")

    def match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise NotJudged(f"unexpected {self.text[self.at : self.at + 40]!r}")
        self.at = found.end()
        self.skip()
        return found[0]

    def listed(self, end: str, read: object) -> list:
        found = []
        while not self.take(end):
            found.append(read())
            self.take(",")
        return found

    def operations(self, *, top: bool = False) -> list[Operation]:
        found = []
        while self.at < len(self.text) and not self.here("}") and not self.here("^"):
            found.append(self.operation())
        return found

    def operation(self) -> Operation:
        while self.line < len(self.starts) and self.starts[self.line] <= self.at:
            self.line += 1
        line = self.line
        results: list[str] = []
        while self.here("%"):
            name = self.match(_NAME)
            count = _COUNT.match(self.text, self.at)
            if count:
                self.at = count.end()
                self.skip()
                results += [f"{name}#{i}" for i in range(int(count[0][1:]))]
            else:
                results.append(name)
            self.take(",") or self.take("=")
        name = self.match(_STRING)[1:-1]
        self.expect("(")
        op = Operation(name, line, self.listed(")", lambda: self.match(_NAME)), results)
        if self.take("["):
            op.successors = self.listed("]", lambda: self.match(_LABEL))
        if self.take("<{"):
            op.attributes |= dict(self.listed("}>", self.attribute))
        if self.take("("):
            op.regions = self.listed(")", self.region)
        if self.take("{"):
            op.attributes |= dict(self.listed("}", self.attribute))
        self.expect(":")
        self.expect("(")
        op.operand_types = self.listed(")", self.balanced)
        self.expect("->")
        if self.take("("):
            op.result_types = self.listed(")", self.balanced)
        else:
            op.result_types = [self.balanced(line_end=True)]
        return op

    def region(self) -> Region:
        self.expect("{")
        blocks = []
        if not self.here("^") and not self.here("}"):
            blocks.append(Block("", [], self.operations()))
        while self.here("^"):
            label = self.match(_LABEL)
            arguments = self.listed(")", self.argument) if self.take("(") else []
            self.expect(":")
            blocks.append(Block(label, arguments, self.operations()))
        self.expect("}")
        return Region(blocks)

    def argument(self) -> tuple[str, str]:
        name = self.match(_NAME)
        self.expect(":")
        return name, self.balanced()

    def attribute(self) -> tuple[str, str]:
        key = self.match(_STRING)[1:-1] if self.here('"') else self.match(_KEY)
        return (key, self.balanced()) if self.take("=") else (key, "unit")

    def balanced(self, line_end: bool = False) -> str:
        """Text up to a comma or closing bracket outside all brackets (or the line's end)."""
        text, at, depth = self.text, self.at, 0
        while at < len(text):
            char = text[at]
            if char == '"':
                at = _STRING.match(text, at).end()
                continue
            if text.startswith(("->", ">=", "<="), at):
                at += 2
                continue
            if char in "([{<":
                depth += 1
            elif char in ")]}>":
                if depth == 0:
                    break
                depth -= 1
            elif depth == 0 and (char == "," or (line_end and char in "\n/ ")):
                break
            at += 1
        found = text[self.at : at].strip()
        self.at = at
        self.skip()
        return found
