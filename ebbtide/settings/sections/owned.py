"""The owner of a workload and its last day. Nothing is stopped, and no object of the cluster has these keys."""

from typing import Annotated

from pydantic import Field

from ebbtide.settings.sections.checked import Settings
from ebbtide.settings.sections.exceptions import TEXT, stated
from ebbtide.settings.sections.types import DateText


class Owned(Settings):
    """Something with an owner and a last day."""

    owner: Annotated[str, stated("a team or an address on one line", "team-search", "owner.form"), TEXT] = Field(
        default="", description="team or address that answers for it; ebbtide idle names it", examples=["team-search"]
    )
    expires: DateText | None = Field(
        default=None,
        description="last day on which it is wanted, in UTC; afterwards check and ebbtide idle name it, and nothing is "
        "stopped; default: none",
        examples=['"2027-03-31"'],
    )
