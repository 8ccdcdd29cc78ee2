"""A payload that a `ListWorker` handles, as an attempt of a job with checkpoints."""

import json
from collections.abc import Callable
from typing import Any, cast

from redis import Redis

from ebbtide.jobs.checkpoints.attempts import Hold
from ebbtide.jobs.checkpoints.errors import CheckpointError
from ebbtide.jobs.checkpoints.in_process import Attempt
from ebbtide.jobs.checkpoints.shared_memory import StopFlag

# KEYS: the processing list, the queue. ARGV: the payload. Reply: 1 if it was still this worker's.
PUT_BACK = """
local held = redis.call('LREM', KEYS[1], 1, ARGV[1])
if held == 1 then redis.call('LPUSH', KEYS[2], ARGV[1]) end
return held
"""


class HandledPayload(Attempt):
    """The payload that this process handles, for its checkpoint."""

    def __init__(
        self, connection: Redis, payload: bytes, job_id: Callable[[bytes], str], hold: Hold, stop: StopFlag
    ) -> None:
        self._connection = connection
        self._payload = payload
        self._job_id = job_id
        self._hold = hold
        self._stop = stop

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
        return self._stop.is_set

    def _held(self) -> tuple[Redis, Hold]:
        return self._connection, self._hold


def id_in(payload: bytes) -> str:
    """Return the member `id` of a JSON object. Two payloads with one id would be two attempts of one job."""
    try:
        document: Any = json.loads(payload)
    except ValueError:
        document = None
    job_id = cast("dict[str, Any]", document).get("id") if isinstance(document, dict) else None
    if not isinstance(job_id, str | int) or not str(job_id):
        raise CheckpointError(
            f"no id in the payload {payload[:60]!r}: wanted a JSON object with one for its checkpoints, for example "
            '{"id": "4f1c"}, or ListWorker(…, job_id=…)'
        )
    return str(job_id)
