"""The components of a stack: what waits for what as Mermaid text, what holds what as a tree, and how many of each type.

The graph is made to be read on one screen: only the outermost components are drawn, those of one type that stand in the
same place are one box, and an arrow is left out where a longer way already says the same.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from rich.text import Text
from rich.tree import Tree

from ebbtide.recording.resources import Resource, is_part, short_type

_NAMES_SHOWN = 4


def mermaid(resources: Sequence[Resource]) -> str:
    """Arrows lead from what comes first to what waits for it."""
    outermost = _outermost(resources)
    parts = [resource for resource in resources if resource.parent == "" and is_part(resource)]
    held = Counter(outermost[resource.urn] for resource in resources if resource.custom and is_part(resource))
    needs = _needs(resources, outermost)
    # What waits for more comes later. Not as registered: that order differs from one run of the program to the next.
    parts.sort(key=lambda part: (len(_reached(part.urn, needs)), part.urn))
    drawn = {resource.urn: resource for resource in parts}
    direct = _without_shortcuts({urn: needs[urn] & drawn.keys() for urn in drawn})
    boxes = _boxes(drawn, direct)
    box_of = {urn: f"n{number}" for number, box in enumerate(boxes) for urn in box}
    arrows = {(box_of[first], box_of[urn]): None for urn, earlier in direct.items() for first in sorted(earlier)}
    lines = ["flowchart TD"]
    lines += [f'    {box_of[box[0]]}["{_label([drawn[urn] for urn in box], held)}"]' for box in boxes]
    lines += [f"    {first} --> {then}" for first, then in sorted(arrows, key=lambda arrow: (len(arrow[1]), arrow[1]))]
    return "\n".join(lines) + "\n"


def _label(box: Sequence[Resource], held: Mapping[str, int]) -> str:
    names = ", ".join(resource.name for resource in box[:_NAMES_SHOWN])
    more = f" and {len(box) - _NAMES_SHOWN} more" if len(box) > _NAMES_SHOWN else ""
    number = sum(held[resource.urn] for resource in box)
    counted = "1 resource" if number == 1 else f"{number} resources"
    return f"{short_type(box[0].type)}: {counted}<br/>{names}{more}"


def _boxes(drawn: Mapping[str, Resource], direct: Mapping[str, set[str]]) -> list[list[str]]:
    """Components of one type that wait for the same ones, and are waited for by the same ones, share a box."""
    needed_by: dict[str, set[str]] = defaultdict(set)
    for urn, earlier in direct.items():
        for first in earlier:
            needed_by[first].add(urn)
    boxes: dict[tuple[str, frozenset[str], frozenset[str]], list[str]] = defaultdict(list)
    for urn, resource in drawn.items():
        boxes[resource.type, frozenset(direct[urn]), frozenset(needed_by[urn])].append(urn)
    return list(boxes.values())


def _outermost(resources: Sequence[Resource]) -> dict[str, str]:
    """Each resource's outermost component; its own URN where it stands alone."""
    parents = {resource.urn: resource.parent for resource in resources}

    def top(urn: str) -> str:
        while parents.get(urn):
            urn = parents[urn]
        return urn

    return {urn: top(urn) for urn in parents}


def _needs(resources: Sequence[Resource], outermost: Mapping[str, str]) -> dict[str, set[str]]:
    needs: dict[str, set[str]] = defaultdict(set)
    for resource in resources:
        mine = outermost[resource.urn]
        needs[mine] |= {outermost[urn] for urn in resource.depends_on if urn in outermost} - {mine}
    return needs


def _without_shortcuts(needs: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Drop a dependency that another one already brings along. Of two that wait for each other both stay."""
    reached = {urn: _reached(urn, needs) for urn in needs}

    def brought_along(first: str, others: set[str]) -> bool:
        return any(first in reached[other] and other not in reached[first] for other in others)

    return {urn: {one for one in direct if not brought_along(one, direct - {one})} for urn, direct in needs.items()}


def _reached(start: str, needs: Mapping[str, set[str]]) -> set[str]:
    """Everything that `start` waits for, near and far; ends on a circle too."""
    seen: set[str] = set()
    waiting = list(needs[start])
    while waiting:
        urn = waiting.pop()
        if urn not in seen:
            seen.add(urn)
            waiting.extend(needs[urn])
    return seen


def counts_by_type(resources: Sequence[Resource]) -> dict[str, int]:
    """How many of each full type, components aside, sorted by type."""
    return dict(sorted(Counter(r.type for r in resources if r.custom and is_part(r)).items()))


def component_tree(resources: Sequence[Resource], title: str) -> Tree:
    """Components as branches; of what they hold, the number per type, so that a large stack stays readable."""
    children: dict[str, list[Resource]] = defaultdict(list)
    for resource in filter(is_part, resources):
        children[resource.parent].append(resource)
    tree = Tree(Text(title, style="bold"))
    _add_branches(tree, "", children)
    return tree


def _add_branches(branch: Tree, parent: str, children: dict[str, list[Resource]]) -> None:
    leaves = Counter(short_type(child.type) for child in children[parent] if child.urn not in children)
    for child in children[parent]:
        if child.urn in children:
            _add_branches(branch.add(_branch_label(child)), child.urn, children)
    if leaves:
        held = ", ".join(f"{count} {kind}" if count > 1 else kind for kind, count in sorted(leaves.items()))
        branch.add(Text(held, style="dim"))


def _branch_label(component: Resource) -> Text:
    return Text.assemble((component.name, "bold"), "  ", (short_type(component.type), "cyan"))
