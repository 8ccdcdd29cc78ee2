"""A network like a cluster's, in namespaces that `python -m tests.serving` made: a bridge, and pods that hang on it.

This process is on the bridge too, at `HOST`: so are the API server and the load. Nothing of it can be reached from
outside, and all of it is gone with the last process in it.
"""

import os
import subprocess
from itertools import count
from pathlib import Path

INSIDE = "EBBTIDE_SERVING_NETWORK"
HOST = "10.244.0.1"
_RANGE = 16
_BRIDGE = "pods"


def is_inside() -> bool:
    return os.environ.get(INSIDE) == "yes"


def prepare() -> None:
    _run("mount", "-t", "tmpfs", "tmpfs", "/run")  # where `ip` keeps the names of networks
    Path("/run/netns").mkdir()
    Path("/run/secrets/kubernetes.io/serviceaccount").mkdir(parents=True)  # where pods find their token
    _ip(
        "link set lo up",
        f"link add {_BRIDGE} type bridge",
        f"addr add {HOST}/{_RANGE} dev {_BRIDGE}",
        f"link set {_BRIDGE} up",
    )


class Networks:
    """Of pods: each has one, with an address that no other pod gets later."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def add(self) -> tuple[str, str]:
        """Its name and its address."""
        number = next(self._numbers)
        name, address = f"pod{number}", f"10.244.{1 + number // 250}.{number % 250 + 1}"
        _run("ip", "netns", "add", name)
        _ip(f"link add v{number} type veth peer name eth0 netns {name}", f"link set v{number} master {_BRIDGE} up")
        _ip(
            "link set lo up",
            f"addr add {address}/{_RANGE} dev eth0",
            "link set eth0 up",
            f"route add default via {HOST}",
            network=name,
        )
        return name, address

    def remove(self, name: str) -> None:
        """Who still has a connection to it hears nothing more."""
        subprocess.run(["ip", "link", "delete", f"v{name.removeprefix('pod')}"], capture_output=True, check=False)
        _run("ip", "netns", "delete", name)


def in_network(name: str, *command: str) -> list[str]:
    return ["nsenter", f"--net=/run/netns/{name}", *command]


def own_address(address: str) -> None:
    """One that this process may listen on, for all pods to reach."""
    _ip(f"addr add {address}/32 dev lo")


def _ip(*lines: str, network: str = "") -> None:
    where = ["-n", network] if network else []
    _run("ip", *where, "-batch", "-", stdin="\n".join(lines))


def _run(*command: str, stdin: str = "") -> None:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} {stdin!r}: {done.stderr.strip()}")
