"""Print proposals as the section of a stack file. All else is a YAML comment, so the output is a valid document."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

import yaml

from ebbtide.operate.adopt.facts import AdoptFacts
from ebbtide.operate.adopt.nights import Estimate, estimate, pinning_pods, staying_nodes
from ebbtide.operate.adopt.proposals import Proposal, proposals_of
from ebbtide.settings import StackSettings
from ebbtide.text.counts import several
from ebbtide.text.money import dollars
from ebbtide.text.quantities import cpu_text, memory_text
from ebbtide.vocabulary.labels import GPU_RESOURCE

_WIDTH = 116
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")


def adopt_lines(facts: AdoptFacts, settings: StackSettings | None = None) -> list[str]:
    """Return the section `ebbtide:adopted` for `config:`, and comments on the coming night."""
    proposals, found = proposals_of(facts, settings), {pod["metadata"]["namespace"] for pod in facts.pods}
    notes = [
        *(f"no pods in {namespace}" for namespace in facts.namespaces if namespace not in found),
        *(_night(facts, proposals) if proposals else ()),
        *_estimate_lines(estimate(facts, proposals, settings)),
        *(f"not known: {part}" for part in facts.unread),
    ]
    return [*_section(proposals), *(f"# {line}" for line in notes)]


def _section(proposals: Sequence[Proposal]) -> Iterator[str]:
    rules = [proposal for proposal in proposals if proposal.is_rule]
    yield "  ebbtide:adopted:" if rules else "  ebbtide:adopted: {}"
    for proposal in proposals:
        if not proposal.is_rule:
            yield f"    # no rule for {proposal.workload}: {proposal.why_not}"
            continue
        yield f"    # {proposal.workload}: {'; '.join((proposal.guess.reason, *proposal.notes))}"
        line = f"    {proposal.name}: {_flow(_values(proposal))}"
        yield from [line] if len(line) <= _WIDTH else (f"    {proposal.name}:", f"      {_flow(_values(proposal))}")


def _values(proposal: Proposal) -> dict[str, str]:
    size = proposal.size
    values = {
        "namespace": _scalar(proposal.workload.namespace),
        "selector": _flow({_scalar(key): _scalar(value) for key, value in proposal.selector.items()}),
        "category": str(proposal.guess.category),
        proposal.counted_by: str(proposal.count),
        "cpu": cpu_text(size.cpu),
        "memory": memory_text(size.memory),
    }
    if size.gpu:
        other = proposal.gpu_resource != GPU_RESOURCE
        gpus = {"count": str(size.gpu), "resource": _scalar(proposal.gpu_resource)}
        values["gpu"] = _flow(gpus) if other else str(size.gpu)
    return values


def _flow(values: Mapping[str, str]) -> str:
    return f"{{ {', '.join(f'{key}: {value}' for key, value in values.items())} }}"


def _scalar(text: str) -> str:
    """Quote a text that YAML would not read as this text."""
    return text if _PLAIN.fullmatch(text) and yaml.safe_load(text) == text else json.dumps(text)


def _night(facts: AdoptFacts, proposals: Sequence[Proposal]) -> Iterator[str]:
    pinned = pinning_pods(facts, proposals)
    yield f"tonight, without these rules: {'these pods keep their nodes' if pinned else 'no pod keeps its node'}"
    for each in pinned:
        pods = f"{each.workload}: {several(len(each.pods), 'pod')}"
        yield f"  {pods} on {', '.join(sorted(each.nodes))}: {'; '.join(each.reasons)}"
    for name, mark in staying_nodes(facts, proposals).items():
        yield f"with or without these rules: {name} {mark}"


def _estimate_lines(numbers: Estimate | None) -> Iterator[str]:
    if numbers is None:
        return
    kinds = [f"{count} {kind} (like {numbers.like[kind]})" for kind, count in sorted(numbers.by_kind.items())]
    kinds += [f"{numbers.staying} annotated to stay"] if numbers.staying else []
    rules = " and ".join(kinds) or "none"
    yield f"estimate for a night: today {several(numbers.today, 'node')}, with these rules {rules}"
    if isinstance(numbers.usd, str):
        yield f"  cost unknown: {numbers.usd}"
    else:
        today, then = map(dollars, numbers.usd)
        yield f"  at on-demand list prices: {today} an hour today, {then} with these rules"
    yield "  today: nodes kept by a pod or an annotation; with these rules: nodes for fixed pods, workers and pods that"
    yield "  pin now, packed by requests; ignored: zones, disks, affinities, DaemonSets, other namespaces, local files"
