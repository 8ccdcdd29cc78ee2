"""The stack's own monitoring on the site: its scrape jobs, rules and exporter, as they are rendered.

The server is the site's: the stack's own is a stateful set with a disk, which nothing here provides.
"""

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from components.monitoring.scraping import CONFIG_FILE, RULES_FILE
from controllers.adapters.kube_api import Json
from ebbtide.settings.sections.monitoring import PROMETHEUS
from ebbtide.vocabulary.labels import EXPORTER
from tests.builders.monitoring.rule_files import at_once
from tests.serving.support.site import Serving
from tests.serving.support.stack import rendered

_RIGHTS = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
_PROCESS = ("ServiceAccount", "ConfigMap", "Deployment")


@contextmanager
def monitored(serving: Serving, *services: str, at_once: bool = False, around: str = "") -> Generator[None]:
    """`at_once`: everything is looked at each second, and no alert waits."""
    stack = rendered(services, around)
    exporter = _called(stack, EXPORTER, _PROCESS)
    (config,) = _called(stack, PROMETHEUS, ["ConfigMap"])
    files: dict[str, Json] = {name: json.loads(text) for name, text in config["data"].items()}
    serving.apply(*_called(stack, EXPORTER, _RIGHTS), *_called(stack, PROMETHEUS, _RIGHTS), *exporter)
    try:
        with serving.watching(hurried(files) if at_once else files):
            serving.pods(EXPORTER, 1)
            yield
    finally:
        serving.delete(*(one for one in exporter if one["kind"] == "Deployment"))


def _called(stack: Sequence[Json], name: str, kinds: Sequence[str]) -> list[Json]:
    return [one for one in stack if one["kind"] in kinds and one["metadata"]["name"] == name]


def hurried(files: dict[str, Json]) -> dict[str, Json]:
    config = files[CONFIG_FILE]
    often = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    jobs: list[dict[str, Any]] = [
        {key: value for key, value in job.items() if key not in ("scrape_interval", "scrape_timeout")}
        for job in config["scrape_configs"]
    ]
    whole = {**config, "global": {**config["global"], **often}, "scrape_configs": jobs}
    return {CONFIG_FILE: whole, RULES_FILE: at_once(files[RULES_FILE])}
