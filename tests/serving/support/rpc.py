"""A model that speaks gRPC, on port 8000 and without TLS: `Say` answers with its pod's name and what it was told."""

import os
from concurrent import futures
from threading import Event
from typing import Any

import grpc

SERVICE, METHOD = "ebbtide.Echo", "Say"


def _said(request: bytes, _context: Any) -> bytes:
    return os.environ["POD_NAME"].encode() + b" " + request


def main() -> None:
    server: Any = grpc.server(futures.ThreadPoolExecutor(8))
    handlers: dict[str, Any] = {METHOD: grpc.unary_unary_rpc_method_handler(_said)}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
    server.add_insecure_port("0.0.0.0:8000")
    server.start()
    Event().wait()


if __name__ == "__main__":
    main()
