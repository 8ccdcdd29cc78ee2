"""A recording as files: what `ebbtide render --output` writes."""

import json
from collections.abc import Sequence
from typing import Any

from ebbtide.recording.graph import mermaid
from ebbtide.recording.manifests import manifests, steps
from ebbtide.recording.resources import Resource, as_json


def output_files(resources: Sequence[Resource]) -> dict[str, str]:
    """Path to text."""
    files = {f"kubernetes/{name}": text for name, text in manifests(resources).items()}
    files["APPLY.md"] = steps(resources)
    files["resources.json"] = json.dumps(as_json(resources), indent=2) + "\n"
    files["graph.mmd"] = mermaid(resources)
    files["controller-config.json"] = controller_document(resources)
    return files


def controller_document(resources: Sequence[Resource]) -> str:
    """The controller's config as it stands in its ConfigMap."""
    return next(r.inputs["data"]["config.json"] for r in resources if "config.json" in _data(r))


def _data(resource: Resource) -> Any:
    return resource.inputs.get("data", {}) if resource.inputs.get("kind") == "ConfigMap" else {}
