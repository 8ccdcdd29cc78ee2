"""moto as a process of its own environment, on a free port of the loopback interface."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Self

from ebbtide.recording.answers import ACCOUNT
from tests.aws.support.provider import NOBODY
from tests.paths import ROOT

PYTHON = ROOT / ".venvs" / "aws" / "bin" / "python"
_LINES = 30
_SERVICES = ("autoscaling", "dlm", "ec2", "eks", "elasticache", "iam", "kms", "logs", "sts")


def config_of(url: str, region: str) -> dict[str, Any]:
    """The provider's configuration that leads it to an imitation."""
    return {**NOBODY, "region": region, "max_retries": 3, "endpoints": dict.fromkeys(_SERVICES, url)}


class Imitation:
    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="ebbtide-")
        self._requests = Path(self._folder.name) / "requests"
        self._environment = {  # nothing of the caller's: neither a proxy nor a profile of AWS
            "PATH": os.defpath,
            "HOME": self._folder.name,
            "MOTO_ACCOUNT_ID": ACCOUNT,
            "MOTO_IAM_LOAD_MANAGED_POLICIES": "true",
        }
        with (Path(self._folder.name) / "log").open("w") as log:
            self._process = subprocess.Popen(
                [PYTHON, "-m", "tests.aws.imitation", self._requests],
                cwd=ROOT,
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        port = self._process.stdout.readline().strip()
        if not port:
            told = self._log()
            self.__exit__()
            raise RuntimeError(f"the imitation of AWS does not start: {told}")
        self.url = f"http://127.0.0.1:{port}"
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        if kind:
            print(self._log(), file=sys.stderr)
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._folder.cleanup()

    def _log(self) -> str:
        """The end of it; requests that went well are not in it."""
        return "\n".join((Path(self._folder.name) / "log").read_text(encoding="utf-8").splitlines()[-_LINES:])

    def config(self, region: str) -> dict[str, Any]:
        """The provider's configuration that leads it here."""
        return config_of(self.url, region)

    def requests(self) -> list[dict[str, Any]]:
        lines = self._requests.read_text(encoding="utf-8").splitlines() if self._requests.exists() else []
        return [json.loads(line) for line in lines]

    def left(self, region: str) -> dict[str, list[str]]:
        """By the action that lists them, what is there but was not there from the start."""
        asked = [PYTHON, "-m", "tests.aws.imitation.left", self.url, region]
        done = subprocess.run(asked, cwd=ROOT, env=self._environment, capture_output=True, text=True, check=True)
        return {action: names for action, names in json.loads(done.stdout).items() if names}
