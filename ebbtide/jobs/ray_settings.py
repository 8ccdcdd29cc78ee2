"""What a pool's workers know of the Ray cluster that they drive: one variable, which `ray:` of the pool becomes.

The token is not in it: Ray itself reads `RAY_AUTH_MODE` and `RAY_AUTH_TOKEN_PATH`.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

VARIABLE = "EBBTIDE_RAY"
_EXAMPLE = '{"cluster": "flow", "address": "flow-head.ebbtide-ray:6379", "version": "2.60.0"}'
_WANTED = ("cluster", "address", "version")


class RayError(Exception):
    """The job fails with this one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaySettings:
    cluster: str
    address: str  # host:port of the head's GCS
    version: str  # of Ray, in the cluster's image
    image: str  # of this pod, by digest where the stack file says one; else ""

    @property
    def host_and_port(self) -> tuple[str, int]:
        host, _, port = self.address.rpartition(":")
        return host, int(port)


def ray_settings(environment: Mapping[str, str] = os.environ) -> RaySettings:
    text = environment.get(VARIABLE)
    if text is None:
        raise RayError(f"no {VARIABLE}: the pool's section of the stack file says no ray (for example ray: flow)")
    try:
        given: Any = json.loads(text)
    except ValueError:
        given = None
    fields = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    wrong = [key for key in _WANTED if not isinstance(fields.get(key), str)]
    if not wrong and not str(fields["address"]).rpartition(":")[2].isdecimal():
        wrong = ["address as host:port"]
    if wrong:
        raise RayError(f"{VARIABLE}: found {text!r}, wanted {', '.join(wrong)}, for example {_EXAMPLE}")
    known = {key: str(fields[key]) for key in _WANTED}
    return RaySettings(**known, image=str(fields.get("image", "")))
