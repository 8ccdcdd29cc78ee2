"""The bills of docs/evidence/bills.md, read, and a calculator for their arithmetic."""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from ebbtide.preview.document import Amounts
from tests.paths import ROOT

PAGE = ROOT / "docs" / "evidence" / "bills.md"


@dataclass(frozen=True)
class Bill:
    title: str
    stack: str
    rows: Mapping[str, tuple[str, ...]]  # the cells as they are written, by line

    def amounts(self, line: str) -> tuple[float, ...]:
        return tuple(number(cell.rpartition("=")[2]) for cell in self.rows[line])


def number(text: str) -> float:
    return float(text.replace(",", "").strip(" *"))


@cache
def bills() -> tuple[Bill, ...]:
    head, *parts = re.split(r"^## (?=\d)", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    base = fenced(head)
    return tuple(bill(part, base) for part in parts)


def bill(part: str, base: str) -> Bill:
    keys = "".join(f"  {line}\n" for line in fenced(part).splitlines())
    rows = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in part.splitlines() if line[:1] == "|"]
    return Bill(part.splitlines()[0], base + keys, {name: tuple(cells) for name, *cells in rows[2:]})


def fenced(text: str) -> str:
    found = re.search(r"```yaml\n(.*?)```", text, flags=re.DOTALL)
    assert found is not None
    return found[1]


def worked_out(text: str) -> float:
    plain = text.replace(",", "").replace("×", "*").replace("÷", "/").replace("−", "-")  # noqa: RUF001 - signs of the page
    return reckoned(ast.parse(plain.strip(), mode="eval").body)


def reckoned(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    assert isinstance(node, ast.BinOp), ast.dump(node)
    left, right = reckoned(node.left), reckoned(node.right)
    match node.op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div():
            return left / right
        case other:
            raise AssertionError(ast.dump(other))


def columns(amounts: Amounts | None) -> tuple[float | None, ...]:
    return () if amounts is None else (amounts.always, amounts.at_max, amounts.at_usage)
