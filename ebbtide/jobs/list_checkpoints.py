"""A payload that a `ListWorker` handles, as the checkpoint that its job opens sees it."""

import json
from collections.abc import Callable
from typing import Any, cast

from redis import Redis

from ebbtide.jobs.checkpoints.attempts import Hold
from ebbtide.jobs.checkpoints.errors import CheckpointError
from ebbtide.jobs.checkpoints.in_process import Attempt
from ebbtide.jobs.checkpoints.stopping import StopFlag

# KEYS: the processing list, the queue. ARGV: the payload. Reply: whether it was still this worker's.
PUT_BACK = """
local held = redis.call('LREM', KEYS[1], 1, ARGV[1])
if held == 1 then redis.call('LPUSH', KEYS[2], ARGV[1]) end
return held
"""


class HandledPayload(Attempt):
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

    @property
    def _name(self) -> str:
        try:
            return self.id
        except CheckpointError:
            return repr(self._payload[:60])

    @property
    def stopping(self) -> bool:
        return self._told.told

    def _held(self) -> tuple[Redis, Hold]:
        return self._connection, self._hold


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
