"""Stands in for a provider's plugin: `python -m tests.engine.stand_in aws 7.51.1 FOLDER`. Prints its port first."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
from pulumi.runtime.proto import provider_pb2_grpc

from tests.engine.stand_in.cloud import Cloud
from tests.engine.stand_in.provider import StandIn


def start(package: str, version: str, folder: Path) -> tuple[grpc.Server, int]:
    server = grpc.server(ThreadPoolExecutor(max_workers=8))
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(StandIn(package, version, Cloud(folder)), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


if __name__ == "__main__":
    running, listening = start(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
    print(listening, flush=True)
    running.wait_for_termination()
