"""A payload that a `ListWorker` handles, as the checkpoint that its job opens sees it."""

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, cast

from redis import Redis

from ebbtide.jobs.checkpoints.attempts import MOST_DEATHS, Hold, claim, impatient, note
from ebbtide.jobs.checkpoints.errors import CheckpointError
from ebbtide.jobs.checkpoints.kept import KeptCheckpoints
from ebbtide.jobs.checkpoints.stopping import StopFlag

# KEYS: the processing list, the queue. ARGV: the payload. Reply: whether it was still this worker's.
PUT_BACK = """
local held = redis.call('LREM', KEYS[1], 1, ARGV[1])
if held == 1 then redis.call('LPUSH', KEYS[2], ARGV[1]) end
return held
"""


class HandledPayload:
    """The payload that this process handles, for the checkpoint that its job opens."""

    def __init__(
        self, connection: Redis, payload: bytes, job_id: Callable[[bytes], str], hold: Hold, told: StopFlag
    ) -> None:
        self._connection = connection
        self._payload = payload
        self._job_id = job_id
        self._hold = hold
        self._told = told

    @property
    def id(self) -> str:
        return self._job_id(self._payload)

    @cached_property
    def _quick(self) -> Redis:
        return impatient(self._connection)

    @property
    def stopping(self) -> bool:
        return self._told.told

    def claim(self, at_least: int) -> int:
        return claim(self._connection, self.id, at_least, self._hold, MOST_DEATHS)

    def opened(self, kept: KeptCheckpoints) -> None:
        del kept

    def note(self, progress: Mapping[str, str | int]) -> None:
        note(self._quick, self.id, progress)


def id_in(payload: bytes) -> str:
    """The member `id` of a JSON object. Two payloads with one id would be two attempts of one job."""
    try:
        given: Any = json.loads(payload)
    except ValueError:
        given = None
    found = cast("dict[str, Any]", given).get("id") if isinstance(given, dict) else None
    if not isinstance(found, str | int) or not str(found):
        raise CheckpointError(
            f"no id in the payload {payload[:60]!r}: wanted a JSON object with one for its checkpoints, for example "
            '{"id": "4f1c"}, or ListWorker(…, job_id=…)'
        )
    return str(found)
