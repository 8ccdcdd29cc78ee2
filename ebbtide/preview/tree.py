"""A stack as a tree of components, and how many resources of each type it has."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from rich.text import Text
from rich.tree import Tree

from ebbtide.preview.resources import Resource


def is_part(resource: Resource) -> bool:
    """A provider is how resources are made, and what is only read is somebody else's: neither is part of the stack."""
    return not (resource.read or resource.type.startswith("pulumi:"))


def short_type(type_: str) -> str:
    """The last word of a type: `aws:eks/nodeGroup:NodeGroup` is a NodeGroup."""
    return type_.rsplit(":", 1)[-1]


def counts_by_type(resources: Sequence[Resource]) -> dict[str, int]:
    """How many of each full type, components aside, sorted by type."""
    return dict(sorted(Counter(r.type for r in resources if r.custom and is_part(r)).items()))


def component_tree(resources: Sequence[Resource], title: str) -> Tree:
    """Components as branches; of what they hold, the number per type, so that a large stack stays readable."""
    children: dict[str, list[Resource]] = defaultdict(list)
    for resource in filter(is_part, resources):
        children[resource.parent].append(resource)
    tree = Tree(Text(title, style="bold"))
    _grow(tree, "", children)
    return tree


def _grow(branch: Tree, parent: str, children: dict[str, list[Resource]]) -> None:
    leaves = Counter(short_type(child.type) for child in children[parent] if child.urn not in children)
    for child in children[parent]:
        if child.urn in children:
            _grow(branch.add(_label(child)), child.urn, children)
    if leaves:
        held = ", ".join(f"{count} {kind}" if count > 1 else kind for kind, count in sorted(leaves.items()))
        branch.add(Text(held, style="dim"))


def _label(component: Resource) -> Text:
    return Text.assemble((component.name, "bold"), "  ", (short_type(component.type), "cyan"))
