"""Check that this machine can run real nodes; one line names what it lacks."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from control_plane.nodes.cgroups import hierarchies

PROGRAMS: Mapping[str, str] = {  # program: the Debian package that brings it
    "buildah": "buildah",
    "containerd": "containerd",
    "runc": "runc",
    "mmdebstrap": "mmdebstrap",
    "iptables": "iptables",
    "nft": "nftables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "unshare": "util-linux",
}
PLUGINS = Path("/usr/lib/cni")
# The kubelet requires each of these.
CONTROLLERS = frozenset({"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids"})


def missing() -> list[str]:
    """Return what the machine lacks, in words; empty if nodes can run."""
    if sys.platform != "linux":
        return ["Linux"]
    lacking = ["root"] if os.geteuid() != 0 else []
    packages = {package for program, package in PROGRAMS.items() if shutil.which(program) is None}
    if not (PLUGINS / "bridge").exists():
        packages.add("containernetworking-plugins")
    lacking += [f"the package {name}" for name in sorted(packages)]
    mounted = {controller for hierarchy in hierarchies() for controller in hierarchy.controllers}
    if absent := sorted(CONTROLLERS - mounted):
        lacking.append(
            f"cgroup v1 hierarchies of {', '.join(absent)} (with cgroup v2 alone these nodes do not run yet)"
        )
    return lacking


def one_line(lacking: list[str]) -> str:
    return f"real nodes: this machine lacks {'; '.join(lacking)} (docs/how-to/real-nodes.md)"
