"""Report all faults of a fragment, each once: values that are refused anyway are not checked for their form."""

import re
from collections.abc import Iterator
from dataclasses import replace

from ebbtide.settings.file.problems import Finding, Location, did_you_mean, show
from ebbtide.settings.fragment.promises import OUR_VOLUMES, PodFacts, promise_findings
from ebbtide.settings.fragment.schema import shape_findings
from ebbtide.settings.fragment.values import containers, entries_of, name_of
from ebbtide.settings.sections.types import IMAGE

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def fragment_findings(fragment: object, at: Location, facts: PodFacts) -> Iterator[Finding]:
    """Yield findings at their locations in the fragment, which is at `at`."""
    broken = dict.fromkeys((*promise_findings(fragment, facts), *_names(fragment), *_containers(fragment, facts)))
    refused = {finding.at for finding in broken}
    for finding in broken:
        yield replace(finding, at=(*at, *finding.at))
    for finding in shape_findings(fragment, (), facts.minor):
        if not any(finding.at[:end] in refused for end in range(1, len(finding.at) + 1)):
            yield replace(finding, at=(*at, *finding.at))


def _names(fragment: object) -> Iterator[Finding]:
    for at, entry in (*containers(fragment), *entries_of(fragment, "volumes")):
        name = entry.get("name")
        if isinstance(name, str) and _LABEL.fullmatch(name) is None:
            expected = "a name of lower-case letters, digits and hyphens, at most 63 long"
            yield Finding(code="name.form", at=(*at, "name"), wanted=expected, found=show(name), example="log-shipper")


def _containers(fragment: object, facts: PodFacts) -> Iterator[Finding]:
    """Check containers as Kubernetes does beyond its schema."""
    volumes = {*facts.volumes, *(str(entry.get("name")) for _, entry in entries_of(fragment, "volumes"))}
    container_names = {name_of(entry) for at, entry in containers(fragment) if at[0] == "containers"} | {facts.main}
    for at, entry in containers(fragment):
        name, image = entry.get("name"), entry.get("image")
        if at[0] == "initContainers" and isinstance(name, str) and name in container_names:
            expected = "each name once, in containers and initContainers together"
            yield Finding(code="list.twice", at=(*at, "name"), wanted=expected, found=f"{name!r} twice")
        if at[0] == "initContainers" and entry.get("restartPolicy") != "Always":
            for key in entry.keys() & {"lifecycle", "livenessProbe", "readinessProbe", "startupProbe"}:
                expected = "no probe and no hook: this container ends before the pod's own starts"
                hint = "with restartPolicy: Always it stays"
                yield Finding(code="pod.ends-first", at=(*at, key), wanted=expected, found=show(entry[key]), hint=hint)
        if image is None and not (at[0] == "containers" and name == facts.main):
            hint = f"the pod's own container is called {facts.main!r}"
            expected = "the image of this container"
            yield Finding(code="key.missing", at=(*at, "image"), wanted=expected, found="nothing", hint=hint)
        elif isinstance(image, str) and re.fullmatch(IMAGE, image) is None:
            example = "registry.example.com/log-shipper:1.4.2"
            expected = "a container image"
            yield Finding(code="image.form", at=(*at, "image"), wanted=expected, found=show(image), example=example)
        for mount_at, mount in entries_of(entry, "volumeMounts"):
            used = mount.get("name")
            if isinstance(used, str) and used not in volumes and used not in OUR_VOLUMES:
                where = (*at, *mount_at, "name")
                hint = did_you_mean(used, sorted(volumes))
                expected = "one of the pod's volumes"
                yield Finding(code="name.unknown", at=where, wanted=expected, found=show(used), hint=hint)
    for at, entry in entries_of(fragment, "volumes"):
        kinds = sorted(entry.keys() - {"name"})
        if len(kinds) > 1:
            actual = " and ".join(kinds)
            yield Finding(code="keys.not-both", at=at, wanted="a volume of one kind", found=actual)
