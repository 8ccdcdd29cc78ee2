"""Fixtures of the real Redis."""

from tests.builders.redis import client, server, shared_server

__all__ = ["client", "server", "shared_server"]
