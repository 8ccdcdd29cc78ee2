"""The token of a Ray cluster as the program itself registers it: made by each run, kept from the first one."""

import json
from base64 import b64decode
from typing import Any

from google.protobuf.json_format import MessageToDict

from ebbtide.recording.record import RecordingMonitor, record_program
from tests.components.ray.stack import IMAGE
from tests.paths import ROOT

CONFIG = {
    "ebbtide:customer": "acme",
    "ebbtide:businessHours": '{"timezone": "Europe/Berlin", "week": {"mon-fri": "08:00-18:00"}}',
    "ebbtide:workers": json.dumps(
        {
            "drive": {
                "source": {"queues": ["drive"]},
                "image": IMAGE,
                "max": 2,
                "cpu": 1,
                "memory": "2Gi",
                "longestJob": "1h",
                "ray": "flow",
            }
        }
    ),
    "ebbtide:ray": json.dumps(
        {
            "flow": {
                "version": "2.60.0",
                "image": IMAGE,
                "head": {"cpu": 2, "memory": "6Gi"},
                "groups": {"cpu": {"max": 2, "cpu": 1, "memory": "2Gi"}},
                "longestTask": "30m",
            }
        }
    ),
}


class Looking(RecordingMonitor):
    """Keeps what is sent of the token, which a recording hides."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: dict[str, dict[str, Any]] = {}
        self.ignored: list[str] = []

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        if request.name.startswith("ray-flow-token"):
            self.sent[request.name] = MessageToDict(request.object)
            self.ignored += request.ignoreChanges if request.name == "ray-flow-token" else ()
        return super().RegisterResource(request)


def run() -> Looking:
    import runpy

    import pulumi

    def program() -> None:
        pulumi.runtime.set_all_config(dict(CONFIG), [])
        runpy.run_path(str(ROOT / "infra"), run_name="__main__")

    looking = Looking()
    record_program(program, stack="acme", monitor=looking)
    return looking


def token_of(looking: Looking) -> str:
    text = json.dumps(looking.sent["ray-flow-token"]["data"])
    (value,) = [part for part in text.split('"') if len(part) > 80]
    return b64decode(value).decode()


def test_a_stack_without_secrets_of_its_own_has_a_token_that_nobody_guesses_and_the_first_one_is_kept() -> None:
    first, second = run(), run()

    assert len(bytes.fromhex(token_of(first))) == 32
    assert token_of(first) != token_of(second)
    assert first.ignored == ["data"]
