"""The components of a stack: dependencies as Mermaid text, contents as a tree, and the number of each type.

The graph fits on one screen: it has only the outermost components, components of one type with the same dependencies
share a box, and arrows that follow from longer paths are left out.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from rich.text import Text
from rich.tree import Tree

from ebbtide.recording.resources import Resource, is_part, short_type
from ebbtide.text.counts import number_of

_NAMES_SHOWN = 4


def mermaid(resources: Sequence[Resource]) -> str:
    """Arrows lead from a component to those that wait for it."""
    outermost = _outermost(resources)
    parts = [resource for resource in resources if resource.parent == "" and is_part(resource)]
    held = Counter(outermost[resource.urn] for resource in resources if resource.custom and is_part(resource))
    needs = _needs(resources, outermost)
    # Components with more dependencies come later. The order of registration differs between runs.
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
    return f"{short_type(box[0].type)}: {number_of(number, 'resource')}<br/>{names}{more}"


def _boxes(drawn: Mapping[str, Resource], direct: Mapping[str, set[str]]) -> list[list[str]]:
    """Components of one type share a box if the same components precede and follow them."""
    needed_by: dict[str, set[str]] = defaultdict(set)
    for urn, earlier in direct.items():
        for first in earlier:
            needed_by[first].add(urn)
    boxes: dict[tuple[str, frozenset[str], frozenset[str]], list[str]] = defaultdict(list)
    for urn, resource in drawn.items():
        boxes[resource.type, frozenset(direct[urn]), frozenset(needed_by[urn])].append(urn)
    return list(boxes.values())


def _outermost(resources: Sequence[Resource]) -> dict[str, str]:
    """Each resource's outermost component; its own URN if it has no parent."""
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
    """Drop dependencies that follow from another one. If two wait for each other, both stay."""
    reached = {urn: _reached(urn, needs) for urn in needs}

    def implied(urn: str, siblings: set[str]) -> bool:
        return any(urn in reached[sibling] and sibling not in reached[urn] for sibling in siblings)

    return {urn: {need for need in direct if not implied(need, direct - {need})} for urn, direct in needs.items()}


def _reached(start: str, needs: Mapping[str, set[str]]) -> set[str]:
    """Everything that `start` waits for, directly or not; also ends if there is a cycle."""
    reached: set[str] = set()
    waiting = list(needs[start])
    while waiting:
        urn = waiting.pop()
        if urn not in reached:
            reached.add(urn)
            waiting.extend(needs[urn])
    return reached


def counts_by_type(resources: Sequence[Resource]) -> dict[str, int]:
    """The number of resources of each full type, without components, sorted by type."""
    return dict(sorted(Counter(r.type for r in resources if r.custom and is_part(r)).items()))


def component_tree(resources: Sequence[Resource], title: str) -> Tree:
    """Components as branches; other resources as a number per type, so that a large stack stays readable."""
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
