"""Between the engine's values and the provider's, and what the engine keeps of a resource for the provider.

Terraform keeps a resource's state and a few bytes that only the provider reads. Pulumi's engine keeps outputs, so both
are one output more, as a secret: a password is among the values.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any, cast

from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.rpc import UNKNOWN as UNKNOWN_OF_PULUMI

from ebbtide.recording.record import SECRET_SIGNATURE, SIGNATURE
from ebbtide.recording.record import UNKNOWN as NOT_KNOWN
from tests.aws.support.messagepack import UNKNOWN
from tests.aws.support.provider import State

STATE = "__terraform"


def struct_of(values: Mapping[str, Any], state: State | None = None) -> Struct:
    """What the engine is answered, without what is null; with a state where there is one to keep."""
    message = Struct()
    message.update({key: _sent(each) for key, each in values.items() if each is not None})
    if state is not None:
        kept = {"values": state.values, "private": base64.b64encode(state.private).decode()}
        message.update({STATE: {SIGNATURE: SECRET_SIGNATURE, "value": json.dumps(kept)}})
    return message


def state_of(properties: Struct) -> State:
    """Raises LookupError for a resource that the plugin has not made, such as one to be imported."""
    if STATE not in properties.fields:
        raise LookupError("it was not made by this plugin, which takes over nothing")
    kept = json.loads(properties.fields[STATE].string_value)
    return State(kept["values"], base64.b64decode(kept["private"]))


def _sent(value: Any) -> Any:
    if value is UNKNOWN or value == NOT_KNOWN:
        return UNKNOWN_OF_PULUMI
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        return {key: _sent(each) for key, each in pairs if each is not None}
    return [_sent(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value
