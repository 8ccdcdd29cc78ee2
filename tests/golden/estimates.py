"""What `simulate` and `preview` say, as JSON: of traces on shipped stacks, and of ten changes of the demo customer."""

import json
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from ebbtide.lab.simulator.replay import ReplayOptions, replay
from ebbtide.lab.simulator.results import as_json as replay_json
from ebbtide.lab.simulator.services.replay import ServiceOptions, replay_service, service_course
from ebbtide.lab.simulator.services.results import as_json as service_json
from ebbtide.lab.simulator.trace.counted import find_requests
from ebbtide.lab.simulator.trace.traces import find_trace
from ebbtide.preview.page import PageRequest, preview
from ebbtide.preview.render.as_json import as_json as preview_json
from ebbtide.settings import load_stack
from tests.builders.sides import Change, Repository, put, whole, without
from tests.paths import DATA, STACK_FILES

JOBS = {"openb2023-a": "demo", "itp2021-a": "example-berlin"}
REQUESTS = {"requests-azure2023-code": ("ranker-base", None), "requests-servegen-m-small": ("embedder", 1)}
_NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
_TIMES = ("replay_seconds",)

CHANGES: Mapping[str, tuple[Change, ...]] = {
    "more-workers": (put("workers", "train", max=40),),
    "another-image": (put("workloads", "api", image="registry.example.com/ml/api:9.0.0"),),
    "a-pool-goes": (without("workers", "prep"),),
    "fixed-becomes-flexible": (put("workloads", "workflow-scheduler", category="flexible", replicas=2),),
    "shorter-business-hours": (whole("businessHours", week={"mon-fri": "10:00-16:00"}),),
    "larger-nodes": (put("nodeGroups", "flexible", instanceTypes=["m7i.4xlarge"]),),
    "another-zone": (whole("cluster", zones=["a", "b", "c"]),),
    "another-redis": (
        whole("redis", kind="elasticache"),
        lambda config: config.update({"ebbtide:redisPassword": {"secure": "v1:a:b"}}),
    ),
    "longer-jobs": (put("workers", "train", longestJob="36h"),),
    "a-mistake": (put("workers", "train", max=-1),),
}


def jobs_document(trace: str) -> str:
    found = replay(load_stack(JOBS[trace], DATA), find_trace(trace), ReplayOptions(days=2))
    return _written(replay_json(found))


def requests_document(trace: str) -> str:
    service, days = REQUESTS[trace]
    options = ServiceOptions(days=days)
    course = service_course(load_stack("example-lisbon", DATA), service, find_requests(trace), options)
    return _written(service_json(replay_service(course, options)))


def change_document(name: str) -> str:
    """The preview of one change of the demo customer's stack file, against the file in the repository."""
    config = yaml.safe_load((STACK_FILES / "Pulumi.demo.yaml").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        repository = Repository(Path(folder))
        repository.commit(yaml.safe_dump(config), "demo")
        for change in CHANGES[name]:
            change(config["config"])
        repository.write(yaml.safe_dump(config), "demo")
        document = preview(["demo"], Path(folder), PageRequest(now=_NOW, against="HEAD"), processes=1)
    return _written(json.loads(preview_json(document)))


def _written(document: Mapping[str, Any]) -> str:
    kept = {key: value for key, value in document.items() if key not in _TIMES}
    return json.dumps(kept, indent=1, ensure_ascii=False) + "\n"
