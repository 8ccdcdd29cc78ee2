"""Both controllers and the closer of an installed stack as processes, with documents whose business hours change."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

from control_plane.plane.driver import ControlPlane

from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.labels import CLOSER, CONTROLLER, NAMESPACE, WORKLOADS
from ebbtide.vocabulary.windows import BusinessHours, DatedInterval
from ebbtide.vocabulary.workloads import WorkloadsConfig
from tests.builders.control_plane import eventually
from tests.builders.operation import ALWAYS_NIGHT, Process
from tests.paths import ROOT

_SLOW = 180.0  # seconds
_PROGRAMS = {CONTROLLER: "controllers", WORKLOADS: "controllers.workloads"}


@dataclass(frozen=True)
class Program:
    """One of the controllers, as `tests.builders.operation.Process` wants it."""

    plane: ControlPlane
    folder: Path
    file: Path
    apps: str = NAMESPACE


class Controllers:
    """The scaler, the workload controller and the closer, with their own accounts. `follow` gives them documents."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._plane, self._folder = plane, folder
        self._files = (folder / "scaler.json", folder / "workloads.json")
        self._logs: list[Path] = []
        self.running = dict[str, Process]()

    def follow(self, scaler: ControllerConfig, workloads: WorkloadsConfig, hours: BusinessHours) -> None:
        self._scaler, self._workloads = replace(scaler, resync=timedelta(seconds=1)), workloads
        self.write(hours)

    def write(self, hours: BusinessHours) -> None:
        """Both documents with these hours, swapped as Kubernetes does with a mounted ConfigMap."""
        for file, config in zip(self._files, (self._scaler, self._workloads), strict=True):
            new = file.with_suffix(".new")
            new.write_text(dump(replace(config, hours=hours)), encoding="utf-8")
            new.replace(file)

    def start(self, *accounts: str) -> None:
        """Start the named ones, by default both, and wait until they lead."""
        for account in accounts or _PROGRAMS:
            file = self._files[list(_PROGRAMS).index(account)]
            program = Program(self._plane, self._folder, file)
            kubeconfig = self._plane.kubeconfig_as(NAMESPACE, account)
            name = f"{account}-{len(self._logs)}"
            process = Process(name, program, kubeconfig=kubeconfig, module=_PROGRAMS[account])  # pyright: ignore[reportArgumentType] - all that it takes
            self.running[account] = process
            self._logs.append(process.log)
        for account, process in self.running.items():
            eventually(process.leads, what=f"{account} to lead")

    def kill(self) -> None:
        for process in self.running.values():
            process.kill()

    def about(self, pool: str) -> Mapping[str, Any]:
        """What the workload controller says of a NodePool."""
        found: list[Mapping[str, Any]] = self.running[WORKLOADS].status().get("workloads", [])
        return next((each for each in found if each["name"] == pool), dict[str, Any]())

    def writes(self) -> list[tuple[datetime, str]]:
        """When they wrote budgets, and which."""
        logs = [log.read_text(encoding="utf-8").splitlines() for log in self._logs]
        said = [json.loads(line) for line in chain(*logs) if '"acted"' in line and "udget" in line]
        return [
            (datetime.fromisoformat(it["at"]), f"{it.get('change') or it['budget']}: {it['reason']}") for it in said
        ]

    def close(self) -> "subprocess.CompletedProcess[str]":
        """As cron would."""
        scaler, workloads = map(str, self._files)
        kubeconfig = str(self._plane.kubeconfig_as(NAMESPACE, CLOSER))
        command = ["-m", "controllers.closer", "--config", scaler, "--workloads", workloads, "--kubeconfig", kubeconfig]
        return subprocess.run(
            [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=_SLOW, check=False
        )

    def soon(self) -> BusinessHours:
        """Hours that begin so soon that NodePools are closed, but not yet the pods' budgets."""
        early, late = self._workloads.drain_guard, self._scaler.closing_guard
        opening = datetime.now(UTC) + late + (early - late) / 2
        start = opening.hour * 60 + opening.minute
        return replace(ALWAYS_NIGHT, open_dates=frozenset({DatedInterval(opening.date(), start, start + 600)}))
