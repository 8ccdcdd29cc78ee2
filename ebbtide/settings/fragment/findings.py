"""All that is wrong with a fragment, no fault told twice: of what is refused altogether the shape does not matter."""

import re
from collections.abc import Iterator
from dataclasses import replace

from ebbtide.settings.file.problems import Finding, Location, did_you_mean, show
from ebbtide.settings.fragment.promises import OUR_VOLUMES, PodFacts, promise_findings
from ebbtide.settings.fragment.schema import shape_findings
from ebbtide.settings.fragment.values import containers, entries_of
from ebbtide.settings.sections.types import IMAGE

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def fragment_findings(fragment: object, at: Location, facts: PodFacts) -> Iterator[Finding]:
    """`at` is where the fragment stands; each finding is at its own place in it."""
    told = dict.fromkeys((*promise_findings(fragment, facts), *_names(fragment), *_containers(fragment, facts)))
    refused = {finding.at for finding in told}
    for finding in told:
        yield replace(finding, at=(*at, *finding.at))
    for finding in shape_findings(fragment, (), facts.minor):
        if not any(finding.at[:end] in refused for end in range(1, len(finding.at) + 1)):
            yield replace(finding, at=(*at, *finding.at))


def _names(fragment: object) -> Iterator[Finding]:
    for at, each in (*containers(fragment), *entries_of(fragment, "volumes")):
        name = each.get("name")
        if isinstance(name, str) and _LABEL.fullmatch(name) is None:
            what = "a name of lower-case letters, digits and hyphens, at most 63 long"
            yield Finding(code="name.form", at=(*at, "name"), wanted=what, found=show(name), example="log-shipper")


def _containers(fragment: object, facts: PodFacts) -> Iterator[Finding]:
    """What Kubernetes checks of containers and its schema does not say."""
    volumes = {*facts.volumes, *(str(each.get("name")) for _, each in entries_of(fragment, "volumes"))}
    beside = {each.get("name") for at, each in containers(fragment) if at[0] == "containers"} | {facts.main}
    for at, each in containers(fragment):
        name, image = each.get("name"), each.get("image")
        if at[0] == "initContainers" and isinstance(name, str) and name in beside:
            what = "each name once, in containers and initContainers together"
            yield Finding(code="list.twice", at=(*at, "name"), wanted=what, found=f"{name!r} twice")
        if at[0] == "initContainers" and each.get("restartPolicy") != "Always":
            for key in each.keys() & {"lifecycle", "livenessProbe", "readinessProbe", "startupProbe"}:
                what = "no probe and no hook: this container ends before the pod's own starts"
                hint = "with restartPolicy: Always it stays"
                yield Finding(code="pod.ends-first", at=(*at, key), wanted=what, found=show(each[key]), hint=hint)
        if image is None and not (at[0] == "containers" and name == facts.main):
            hint = f"the pod's own container is called {facts.main!r}"
            what = "the image of this container"
            yield Finding(code="key.missing", at=(*at, "image"), wanted=what, found="nothing", hint=hint)
        elif isinstance(image, str) and re.fullmatch(IMAGE, image) is None:
            example = "registry.example.com/log-shipper:1.4.2"
            what = "a container image"
            yield Finding(code="image.form", at=(*at, "image"), wanted=what, found=show(image), example=example)
        for mount_at, mount in entries_of(each, "volumeMounts"):
            used = mount.get("name")
            if isinstance(used, str) and used not in volumes and used not in OUR_VOLUMES:
                where = (*at, *mount_at, "name")
                hint = did_you_mean(used, sorted(volumes))
                what = "one of the pod's volumes"
                yield Finding(code="name.unknown", at=where, wanted=what, found=show(used), hint=hint)
    for at, each in entries_of(fragment, "volumes"):
        kinds = sorted(each.keys() - {"name"})
        if len(kinds) > 1:
            found = " and ".join(kinds)
            yield Finding(code="keys.not-both", at=at, wanted="a volume of one kind", found=found)
