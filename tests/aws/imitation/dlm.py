"""Amazon Data Lifecycle Manager in memory, from its API reference."""

from itertools import count
from typing import Any

from tests.aws.imitation.rest import Answer, Failed, Request, as_json, missing


class Dlm:
    def __init__(self, account: str) -> None:
        self._account = account
        self._policies: dict[str, dict[str, Any]] = {}
        self._numbers = count(1)

    def answer(self, request: Request) -> Answer:
        match request.method, request.parts:
            case "POST", ("policies",):
                return as_json({"PolicyId": self._make(request)})
            case "GET", ("policies",):
                return as_json({"Policies": [{"PolicyId": name} for name in self._policies]})
            case "GET", ("policies", name) if name in self._policies:
                return as_json({"Policy": self._policies[name]})
            case "PATCH", ("policies", name) if name in self._policies:
                self._policies[name].update(request.body)
                return as_json({})
            case "DELETE", ("policies", name) if name in self._policies:
                del self._policies[name]
                return as_json({})
            case _, ("policies", name):
                raise missing(f"policy {name}")
            case "GET", ("tags", arn):
                found = (each["Tags"] for each in self._policies.values() if each["PolicyArn"] == arn)
                return as_json({"Tags": next(found, dict[str, str]())})
            case "POST", ("tags", arn):
                named = (each for each in self._policies.values() if each["PolicyArn"] == arn)
                next(named)["Tags"].update(request.body["Tags"])
                return as_json({})
            case _:
                raise Failed("InvalidRequestException", f"{request.method} {request.parts} is not imitated")

    def _make(self, request: Request) -> str:
        name = f"policy-{next(self._numbers):017}"
        arn = f"arn:aws:dlm:{request.region}:{self._account}:policy/{name}"
        self._policies[name] = {"Tags": {}, **request.body, "PolicyId": name, "PolicyArn": arn}
        return name
