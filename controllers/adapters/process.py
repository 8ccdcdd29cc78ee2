"""How a process of the controller's image starts: its options, its document, its pages, and signals that end it."""

import argparse
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from controllers.adapters.config_file import ConfigFile
from controllers.adapters.kube_api import NoCluster
from controllers.adapters.server import Page, Server

T = TypeVar("T")


class Running(Protocol):
    @property
    def pages(self) -> Mapping[str, Callable[[], Page]]: ...

    def stop(self, *_: object) -> None: ...

    def run(self) -> None: ...


def start(
    prog: str,
    description: str,
    document: str,
    load: Callable[[str], T],
    process_of: Callable[[ConfigFile[T], str | None], Running],
    arguments: Sequence[str],
) -> int:
    """Run until a signal; 2 where the document, the cluster or the port cannot be had."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("--config", required=True, type=Path, metavar="FILE", help=document)
    parser.add_argument("--kubeconfig", metavar="FILE", help="how to reach the cluster (default: as a pod of it)")
    parser.add_argument("--listen", default="0.0.0.0:8080", metavar="ADDRESS:PORT", help="for probes and metrics")
    chosen = parser.parse_args(arguments)
    about = f"--config {chosen.config}"
    try:
        file = ConfigFile(chosen.config, load)
        about = f"--kubeconfig {chosen.kubeconfig}" if chosen.kubeconfig else "the pod's own cluster"
        process = process_of(file, chosen.kubeconfig)
        about = f"--listen {chosen.listen}"
        host, _, port = chosen.listen.rpartition(":")
        Server(host.strip("[]"), int(port), process.pages)
    except (NoCluster, ValueError, OSError, OverflowError) as error:
        print(f"{prog}: {about}: {error}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, process.stop)
    signal.signal(signal.SIGINT, process.stop)
    process.run()
    return 0
