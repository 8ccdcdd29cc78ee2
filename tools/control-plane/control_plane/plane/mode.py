"""Settings of a control plane: for simulated nodes, or also for real ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from control_plane.plane.binaries import PACKAGES
from control_plane.plane.probes import HOST


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """`accounts`: user and group by token, without the administrator's. `{folder}` in a flag is the control plane's."""

    host: str = HOST
    programs: tuple[str, ...] = tuple(PACKAGES)
    accounts: Mapping[str, str] = field(default_factory=dict[str, str])
    # The admission plugin waits for accounts and mounts tokens, which a simulated pod does not need.
    access: tuple[str, ...] = ("--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount")
    api_server: tuple[str, ...] = ()
    manager: tuple[str, ...] = ()
    played: tuple[str, ...] = ("--manage-all-nodes=true",)


PLAYED = Mode()


def real_nodes(host: str, programs: tuple[str, ...], accounts: Mapping[str, str]) -> Mode:
    """Return a cluster's settings: a node may change only its own objects, and each pod has its account's token."""
    return Mode(
        host=host,
        programs=programs,
        accounts=accounts,
        access=(
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--kubelet-preferred-address-types=InternalIP",  # names of nodes cannot be resolved
        ),
        manager=(
            "--service-account-private-key-file={folder}/accounts.key",
            "--root-ca-file={folder}/certificates/apiserver.crt",
        ),
        played=("--manage-all-nodes=false", "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake"),
    )
