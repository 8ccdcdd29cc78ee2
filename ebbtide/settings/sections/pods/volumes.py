"""Volumes of a pod.

Each volume has one kind. Files of a ConfigMap may be in the stack file's folder: `{ file: PATH }` is replaced by the
text before validation (`ebbtide.settings.file.contents`), so files are text here.
"""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, ClassVar, TypeAlias

from pydantic import BeforeValidator, Field, PlainSerializer, Strict, WithJsonSchema

from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.checked import Check, Settings
from ebbtide.settings.sections.grammar import exactly_one, only_with, text, text_schema
from ebbtide.settings.sections.pods.env import DataKey, ObjectName
from ebbtide.settings.sections.types import Mebibytes
from ebbtide.text.durations import format_duration

VOLUME_NAME = r"^(?!ebbtide-)[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
MOUNT_PATH = r"^/[^:,\s]*$"
MOST_BYTES = 2**20
"""Maximum bytes of all files of a volume. Source: Kubernetes, ValidateConfigMap: MaxSecretSize."""
SHM = "shm"
SHM_PATH = "/dev/shm"
"""Mount path of the volume for shared memory, where programs expect it."""
SNAPSHOT_INTERVALS = {f"{hours}h": timedelta(hours=hours) for hours in (1, 2, 3, 4, 6, 8, 12, 24)}
MOST_SNAPSHOTS = 1000
"""Maximum of Data Lifecycle Manager. Source: its API, CreateRule and RetainRule."""


def _mount_path(value: object) -> str:
    if not isinstance(value, str) or re.fullmatch(MOUNT_PATH, value) is None or value == "/":
        expected = "where it is mounted: a path from the root, without colons, commas and white space"
        raise wanted("volume.path", expected, example="/var/lib/data")
    if ".." in value.split("/"):
        raise wanted("volume.path", "a path without ..", example="/var/lib/data")
    return value.rstrip("/")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise wanted(
            "file.text", "the text of a file, or { file: PATH } relative to the stack file", example='"debug = true"'
        )
    return value


def _interval(value: object) -> timedelta:
    if isinstance(value, timedelta) and value in SNAPSHOT_INTERVALS.values():
        return value
    if not isinstance(value, str) or value not in SNAPSHOT_INTERVALS:
        *most, last = SNAPSHOT_INTERVALS
        hint = "Data Lifecycle Manager has no other interval"
        raise wanted("snapshots.every", f"{', '.join(most)} or {last}", example=last, hint=hint)
    return SNAPSHOT_INTERVALS[value]


def _number_kept(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_SNAPSHOTS:
        expected = f"the number of snapshots to keep of each disk: an integer from 1 to {MOST_SNAPSHOTS}"
        raise wanted("snapshots.keep", expected, example="7")
    return value


VolumeName: TypeAlias = Annotated[
    str,
    *text(
        VOLUME_NAME,
        "volume.name",
        f"the name of a volume: lower-case letters, digits and hyphens, not {SHM}, not beginning with ebbtide-",
        "data",
        unless=SHM,
    ),
]
MountPath: TypeAlias = Annotated[str, BeforeValidator(_mount_path), text_schema(MOUNT_PATH)]
FileText: TypeAlias = Annotated[
    str,
    BeforeValidator(_text),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "required": ["file"],
                    "additionalProperties": False,
                    "properties": {
                        "file": {"type": "string", "description": "a path relative to the stack file's folder"}
                    },
                },
            ]
        }
    ),
]


def _snapshots_have_our_class(per_pod: object, storage_class: object, snapshots: object) -> None:
    if snapshots is not None and per_pod is not None and storage_class is not None:
        expected = "snapshots without class: they need disks with a tag that only Ebbtide's own class sets"
        raise wanted("snapshots.named-class", expected, found=f"class: {storage_class}", at="snapshots")


def _writable_kind(read_only: object, scratch: object, per_pod: object) -> None:
    if read_only and (scratch is not None or per_pod is not None):
        raise wanted(
            "volume.read-only", "no readOnly, since no other pod writes to this volume", example="false", at="readOnly"
        )


def _files_fit(files: Mapping[str, str] | None) -> None:
    if files is None:
        return
    if not files:
        raise wanted("volume.no-files", "at least one file", example='{ app.toml: "debug = true" }', at="files")
    size = sum(len(name) + len(text.encode()) for name, text in files.items())
    if size > MOST_BYTES:
        expected = "files of at most 1 MiB together, the most that a ConfigMap takes"
        hint = "put large files into the image, or on a claim"
        raise wanted(
            "volume.files-too-large",
            expected,
            found=f"{size / 2**20:.1f} MiB",
            example="conf/app.toml",
            hint=hint,
            at="files",
        )


class Snapshots(Settings):
    """Snapshots of each disk of a volume, by Data Lifecycle Manager."""

    every: Annotated[
        timedelta,
        BeforeValidator(_interval),
        PlainSerializer(format_duration, return_type=str, when_used="json"),
        WithJsonSchema({"type": "string", "enum": list(SNAPSHOT_INTERVALS)}),
    ] = Field(description="time between two snapshots", examples=["24h"])
    keep: Annotated[
        int,
        BeforeValidator(_number_kept),
        WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MOST_SNAPSHOTS}),
    ] = Field(description="number of snapshots to keep of each disk", examples=["7"])


_KINDS = ("scratch", "perPod", "claim", "files", "secret", "configMap")
_STRAY = "volume.stray-key"


class Volume(Settings):
    """One volume of a pod and its mount path."""

    checks: ClassVar[tuple[Check, ...]] = (
        exactly_one(*_KINDS, of="a volume", example="{ scratch: 10Gi, at: /scratch }"),
        only_with("class", "perPod", code=_STRAY, example="{ perPod: 100Gi, class: gp3, at: /data }"),
        only_with("shared", "claim", code=_STRAY, example="{ claim: models-efs, at: /models }"),
        only_with(
            "snapshots",
            "perPod",
            code=_STRAY,
            example="{ perPod: 100Gi, at: /data, snapshots: { every: 24h, keep: 7 } }",
        ),
        Check(("per_pod", "class_", "snapshots"), _snapshots_have_our_class),
        Check(("read_only", "scratch", "per_pod"), _writable_kind),
        Check(("files",), _files_fit),
    )

    at: MountPath = Field(description="mount path", examples=["/data"])
    scratch: Mebibytes | None = Field(
        default=None,
        description="space on the node's disk, deleted with the pod; a pod that uses more is evicted",
        examples=["10Gi"],
    )
    per_pod: Mebibytes | None = Field(
        default=None,
        description="a disk for each pod of a stateful-set; kept when the pod is deleted",
        examples=["100Gi"],
    )
    class_: ObjectName | None = Field(
        alias="class",
        default=None,
        description="StorageClass of perPod, which decides whether a destroy keeps the disks; default: on EKS "
        "a class that keeps them, elsewhere the cluster's default",
        examples=["gp3"],
    )
    snapshots: Snapshots | None = Field(
        default=None,
        description="snapshots of the disks of perPod, on EKS and without `class`; they outlive the stack",
        examples=["{ every: 24h, keep: 7 }"],
    )
    claim: ObjectName | None = Field(
        default=None, description="an existing PersistentVolumeClaim", examples=["models-efs"]
    )
    shared: Annotated[bool, Strict()] | None = Field(
        default=None,
        description="pods on several nodes may mount the claim (ReadWriteMany, ReadOnlyMany); false: a release "
        "stops the old pod before the next one starts. Default: false for a single pod, else true",
        examples=["true"],
    )
    files: dict[DataKey, FileText] | None = Field(
        default=None,
        description="files by name, each a text or { file: PATH } relative to the stack file; 1 MiB in total",
        examples=['{ app.toml: "debug = true" }'],
    )
    secret: ObjectName | None = Field(default=None, description="a Secret, with one file per key", examples=["api-tls"])
    config_map: ObjectName | None = Field(
        default=None, description="an existing ConfigMap, with one file per key", examples=["api-flags"]
    )
    read_only: Annotated[bool, Strict()] = Field(
        default=False, description="mount read-only, as files, Secrets and ConfigMaps always are", examples=["true"]
    )


def mounted_once(volumes: Mapping[str, Volume], shm: int | None) -> None:
    first: dict[str, str] = {} if shm is None else {SHM_PATH: SHM}
    for name, volume in volumes.items():
        first_name = first.setdefault(volume.at, name)
        if first_name != name:
            raise wanted(
                "volume.path-twice",
                "a different path for each volume",
                found=f"{volume.at}, where {first_name} is mounted",
                example=f"/{name}",
                at=("volumes", name, "at"),
            )


def one_node_for_one_pod(volumes: Mapping[str, Volume], *, pods: str) -> None:
    """A second pod would wait forever on any other node. `pods` names the key that allows a second one."""
    for name, volume in volumes.items():
        if volume.shared is False:
            expected = f"true with {pods}: a claim that is not shared reaches only pods of one node"
            hint = "a disk for each pod: kind: stateful-set with perPod"
            at = ("volumes", name, "shared")
            raise wanted("volume.one-node", expected, found="false", example="true", hint=hint, at=at)


def no_claims(volumes: Mapping[str, Volume]) -> None:
    """Refuse claims for pods whose names change."""
    for name, volume in volumes.items():
        if volume.per_pod is not None:
            expected = "no perPod for pods whose names change: scratch, or a claim that all share"
            raise wanted("volume.per-pod-kind", expected, example="scratch: 100Gi", at=("volumes", name, "perPod"))
