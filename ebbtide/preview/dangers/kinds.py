"""The kinds of dangers. The module that finds a danger registers its kind, with its public code."""

from dataclasses import dataclass

from ebbtide.findings import Kind, Severity
from ebbtide.preview.document import Danger


@dataclass(frozen=True, slots=True, kw_only=True)
class DangerKind(Kind):
    def danger(
        self,
        *,
        text: str,
        subjects: tuple[str, ...] = (),
        impact: str = "",
        remedy: str = "",
        severity: Severity | None = None,
    ) -> Danger:
        """Return a danger of the worst severity of its kind, unless another one is given.

        Raises: ValueError if the kind does not have that severity.
        """
        severity = severity or self.severities[0]
        if severity not in self.severities:
            raise ValueError(f"{self.code}: wanted one of {', '.join(self.severities)}, found {severity}")
        return Danger(code=self.code, severity=severity, text=text, subjects=subjects, impact=impact, remedy=remedy)


KINDS: dict[str, DangerKind] = {}
"""All kinds by code. Importing `ebbtide.preview.dangers` registers every kind."""


def danger_kind(code: str, title: str, *severities: Severity) -> DangerKind:
    """Register a kind with the severities that its dangers may have, the worst first.

    Raises: ValueError if the code is taken.
    """
    if code in KINDS:
        raise ValueError(f"{code}: wanted a new code, found one that is taken")
    KINDS[code] = DangerKind(code=code, title=title, severities=severities)
    return KINDS[code]
