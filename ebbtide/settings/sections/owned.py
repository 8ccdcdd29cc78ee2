"""Keys of everything that has an owner: who answers for it, and until when it is wanted.

Nothing is stopped by them. They reach no object of the cluster, so a new owner rolls no pod.
"""

from datetime import date
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema

from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.checked import Settings
from ebbtide.settings.sections.types import DateText

_LONGEST = 100


def _owner(value: object) -> str:
    text = value.strip() if isinstance(value, str) else ""
    if not text or len(text) > _LONGEST or not text.isprintable():
        expected = f"a team or an address on one line, at most {_LONGEST} characters"
        raise wanted("owner.form", expected, example="team-search", hint="" if isinstance(value, str) else "quote it")
    return text


_Owner: TypeAlias = Annotated[
    str,
    BeforeValidator(_owner),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": _LONGEST, "pattern": r"^[^\r\n]+$"}),
]


class Owned(Settings):
    """Something with an owner and a last day."""

    owner: _Owner = Field(
        default="", description="team or address that answers for it; ebbtide idle names it", examples=["team-search"]
    )
    expires: DateText | None = Field(
        default=None,
        description="last day on which it is wanted, in UTC; check and ebbtide idle name it after that, and nothing "
        "is stopped; default: none",
        examples=['"2027-03-31"'],
    )

    def expired(self, today: date) -> bool:
        """True after the last day."""
        return self.expires is not None and self.expires < today
