"""The tables of docs/evidence/aws-provider.md."""

import re
from collections.abc import Mapping, Sequence

from tests.aws.support.differences import DIFFERENCES, EXCUSED, FORGOTTEN, Difference
from tests.aws.support.faults import FAULTS, Fault
from tests.aws.support.inputs import Objection
from tests.aws.support.lived import Lived
from tests.aws.support.stacks import GENERATED, VARIANTS, shipped
from tools.docs.tables import Row, table


def faults_table() -> str:
    """Each fault with who says it first, and then what else does."""
    rows = [(each.words, each.kind, _first(each), _said(each)) for each in FAULTS]
    return table(("fault", "kind", "first found by", "reported at"), rows)


def _first(fault: Fault) -> str:
    return "a policy" if fault.policy else "the provider" if fault.at else "AWS only"


def _said(fault: Fault) -> str:
    return ", ".join(f"`{each}`" for each in (fault.policy, fault.at) if each)


def differences_table() -> str:
    return _reasons(DIFFERENCES)


def forgotten_table() -> str:
    return _reasons(FORGOTTEN)


def _reasons(differences: Sequence[Difference]) -> str:
    rows = [(f"`{each.type}`", f"`{each.path}`", each.reason) for each in differences]
    return table(("resource", "property", "why"), rows)


def life_row(name: str, lived: Lived, requests: int) -> str:
    """One line of the table of lives."""
    changes = len(lived.changes)
    plan = "empty" if not changes else f"{changes} forgotten by moto"
    counts = (lived.resources, lived.applied, plan, lived.destroyed, requests, len(lived.malformed))
    return f"| {name} | {' | '.join(f'{each:,}' if isinstance(each, int) else each for each in counts)} |\n"


def requests_of_life(name: str, page: str) -> int:
    """What the table says, 0 for no such row."""
    found = re.search(rf"^\| {re.escape(name)} \|(?: [^|]+ \|){{4}} ([\d,]+) \| \d+ \|$", page, re.MULTILINE)
    return int(found[1].replace(",", "")) if found else 0


def stacks_table(counts: Mapping[str, int], said: Mapping[str, Sequence[Objection]]) -> str:
    rows = [_row(name, counts[name], said[name]) for name in (*shipped(), *VARIANTS)]
    generated = [name for name in counts if name not in shipped() and name not in VARIANTS]
    together = [each for name in generated for each in said[name]]
    rows.append(_row(f"{GENERATED} generated files together", sum(counts[name] for name in generated), together))
    return table(("stack", "AWS resources", "refused", "differences"), rows)


def _row(name: str, count: int, said: Sequence[Objection]) -> Row:
    excused = sum((each.type, each.path) in EXCUSED for each in said)
    return name, f"{count:,}", str(len(said) - excused), f"{excused:,}"
