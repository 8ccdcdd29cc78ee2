"""The instance types of a Karpenter group as `families` and a range of `cpu`, in place of a list."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ebbtide.prices import NoPrice, instance_type, instance_type_names, on_demand
from ebbtide.settings.file.problems import wanted

_RANGE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")


def types_of_families(group: Mapping[str, Any], region: str) -> list[str]:
    """Return the types with a price in the region; none if the keys are missing or invalid.

    Bare-metal machines start slowly and are used only if named.
    """
    families, size = group.get("families"), _RANGE.fullmatch(str(group.get("cpu")))
    if not isinstance(families, list | tuple) or size is None:
        return []
    least, most = int(size[1]), int(size[2] or size[1])
    return [
        name
        for name in instance_type_names()
        if name.partition(".")[0] in cast("Sequence[object]", families)
        and ".metal" not in name
        and least <= instance_type(name).vcpu <= most
        and _priced(region, name)
    ]


def _priced(region: str, name: str) -> bool:
    try:
        on_demand(region, name)
    except NoPrice:
        return False
    return True


def families_name_the_types(families: Sequence[str], cpu: str, types: Sequence[str]) -> None:
    """Raise if no type was found, if a family has none, or if the group lists other types, too."""
    if not families and not cpu:
        return
    size = _RANGE.fullmatch(cpu)
    if not families or size is None:
        raise wanted(
            "node-group.families",
            "both families and a range of cpu",
            found=f"families {list(families)}, cpu {cpu or 'missing'}",
            example="families: [m7i, m6i], cpu: 4-32",
        )
    found = {name.partition(".")[0] for name in types}
    if found != set(families):
        raise wanted(
            "node-group.no-types",
            f"families of which the price tables know types with {cpu} CPUs in this region, and no instanceTypes",
            found=", ".join(sorted({*families} ^ found)),
            example="families: [m7i, m6i], cpu: 4-32",
        )
