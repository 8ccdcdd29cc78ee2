"""A server that answers as JupyterHub does when it is asked for users with a server."""

import json
from typing import cast

from tests.builders.workloads.loopback import LoopbackServer, Replying

TOKEN = "abc"
CONNECTED = {"name": "user-7", "servers": {"": {"pending": None, "ready": True}}}
STARTING = {"name": "user-7", "servers": {"": {"pending": "spawn", "ready": False}}}


class Hub(LoopbackServer):
    """Answers as JupyterHub 5 does to `GET /hub/api/users?state=active`; it is none."""

    def __init__(self) -> None:
        self.answer: tuple[int, object] = 200, []
        super().__init__(_Users)


class _Users(Replying):
    def answer(self) -> tuple[int, str]:
        hub = cast("Hub", self.server)
        known = (
            self.headers["Authorization"] == f"Bearer {TOKEN}" and self.path == "/hub/api/users?state=active&limit=1"
        )
        status, document = hub.answer if known else (403, {"status": 403, "message": "Forbidden"})
        return status, json.dumps(document)
