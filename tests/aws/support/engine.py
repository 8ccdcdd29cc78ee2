"""A stack on Pulumi's real engine: the program as it is, its AWS half by HashiCorp's provider against an imitation.

The Kubernetes half is the stand-in of the engine's tier: the imitated cluster has no API server.
"""

import json
import sys
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.aws.support.imitation import Imitation
from tests.aws.support.service_models import Sent, operation, values
from tests.engine.project import Project

CLI = "needs a pulumi CLI on PATH (https://www.pulumi.com/docs/install)"


@dataclass(frozen=True, slots=True)
class Request:
    operation: str
    said: Any  # what it says, by the names of AWS' model


@dataclass(frozen=True)
class Running:
    project: Project
    imitation: Imitation
    stack: str
    region: str

    def sent(self, *operations: str) -> list[Request]:
        """What was asked of AWS since its beginning, of these operations or of all, in this order."""
        every = [Sent.of(line) for line in self.imitation.requests()]
        named = ((operation(sent), sent) for sent in every)
        return [Request(name, values(sent)) for name, sent in named if not operations or name in operations]

    def since(self, asked: int, *operations: str) -> list[Request]:
        """As `sent`, without so many of all requests."""
        return [each for each in self.sent()[asked:] if each.operation in operations]

    def node_groups(self) -> dict[str, dict[str, Any]]:
        """As AWS has them, by name."""
        groups = f"/clusters/{self.stack}/node-groups"
        return {name: self._eks(f"{groups}/{name}")["nodegroup"] for name in self._eks(groups)["nodegroups"]}

    def autoscaler_sets(self, groups: tuple[str, ...], nodes: int) -> None:
        """Of groups whose names begin like this, behind Pulumi's back."""
        for name, group in self.node_groups().items():
            if name.startswith(groups):
                sizes = {**group["scalingConfig"], "desiredSize": nodes}
                self._eks(f"/clusters/{self.stack}/node-groups/{name}/update-config", {"scalingConfig": sizes})

    def _eks(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        scope = f"AWS4-HMAC-SHA256 Credential=nobody/20260101/{self.region}/eks/aws4_request"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.imitation.url}{path}", data=data, headers={"Authorization": scope})
        with urllib.request.urlopen(request) as answer:
            return json.loads(answer.read())


@contextmanager
def running(folder: Path, stack: str, region: str) -> Generator[Running]:
    """An empty project and an empty AWS."""
    with Imitation() as imitation:
        plugin = [sys.executable, "-m", "tests.aws.plugin", version("pulumi-aws"), imitation.url]
        project = Project(folder, stand_ins=("kubernetes",), plugins={"aws": plugin})
        yield Running(project, imitation, stack, region)
