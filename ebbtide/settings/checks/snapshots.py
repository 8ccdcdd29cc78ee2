"""Snapshots against the cluster: only where Ebbtide makes it are its disks those of EBS, with a tag of ours."""

from collections.abc import Iterator, Mapping
from typing import cast

from ebbtide.settings.file.problems import Finding, Location, value_at

_WORKLOADS = "ebbtide:workloads"


def snapshots_draft(config: Mapping[str, object]) -> tuple[Location, ...]:
    """Where the file asks for snapshots, readable or not."""
    return tuple(_asked(config))


def _asked(config: Mapping[str, object]) -> Iterator[Location]:
    for name, workload in _entries(config.get(_WORKLOADS)).items():
        for volume, raw in _entries(value_at(workload, ("volumes",))).items():
            if value_at(raw, ("snapshots",)) is not None:
                yield _WORKLOADS, str(name), "volumes", str(volume), "snapshots"


def _entries(value: object) -> Mapping[object, object]:
    return cast("Mapping[object, object]", value) if isinstance(value, Mapping) else {}


def snapshot_findings(asked: tuple[Location, ...], *, existing: bool) -> Iterator[Finding]:
    for at in asked if existing else ():
        yield Finding(
            code="snapshots.existing-cluster",
            at=at,
            wanted="no snapshots on a cluster that is there already",
            found="the key",
            hint="Data Lifecycle Manager takes them of disks of AWS; whoever runs the cluster has a way of their own",
        )
