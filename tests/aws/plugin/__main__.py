"""Pulumi's AWS plugin in front of HashiCorp's provider: `python -m tests.aws.plugin 7.51.1 http://127.0.0.1:5000`.

It prints its port first, as the engine wants it. The address is that of the imitation.
"""

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event

import grpc
from pulumi.runtime.proto import provider_pb2_grpc

from tests.aws.plugin.resources import Plugin
from tests.aws.support.imitation import config_of
from tests.aws.support.provider import Provider, found

_AT_ONCE = 64  # more than the engine ever asks for: a call that waits for AWS must not keep another one waiting
_LOOK = 0.5  # seconds


def main(version: str, url: str) -> None:
    """Ends with the process that started it, however that one ends: no provider of Terraform's stays behind.

    The engine gives each plugin a group of processes. All of it ends, since a provider may be on the way up.
    """
    program, parent = found(os.environ, Path.home()), os.getppid()
    assert program is not None
    with ExitStack() as ending:
        plugin = Plugin(version, lambda region: ending.enter_context(Provider(program, config_of(url, region))))
        server = grpc.server(ThreadPoolExecutor(_AT_ONCE), options=[("grpc.max_receive_message_length", -1)])
        provider_pb2_grpc.add_ResourceProviderServicer_to_server(plugin, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        print(port, flush=True)
        while os.getppid() == parent:
            Event().wait(_LOOK)
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
