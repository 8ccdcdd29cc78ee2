"""What the services with JSON over plain HTTP share: a request by the parts of its path, and errors by name."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    parts: tuple[str, ...]  # of the path; an ARN in it is one part
    region: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    body: bytes
    kind: str
    status: str = "200 OK"
    error: str = ""


class Failed(Exception):
    """What AWS would refuse, by the name of its error."""

    def __init__(self, error: str, message: str, status: str = "400 Bad Request") -> None:
        super().__init__(message)
        self.error = error
        self.status = status


def request_of(method: str, uri: str, region: str, body: bytes) -> Request:
    parts = tuple(unquote(part) for part in urlsplit(uri).path.strip("/").split("/"))
    return Request(method, parts, region, json.loads(body) if body else {})


def as_json(said: Mapping[str, Any]) -> Answer:
    return Answer(json.dumps(said).encode(), "application/json")


def failed_as_json(failed: Failed) -> Answer:
    said = {"message": str(failed), "__type": failed.error}
    return Answer(json.dumps(said).encode(), "application/json", failed.status, failed.error)


def missing(what: str) -> Failed:
    return Failed("ResourceNotFoundException", f"there is no {what}", "404 Not Found")


def now() -> float:
    return float(int(time.time()))
