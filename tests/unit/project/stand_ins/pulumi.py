"""Stands for the `pulumi` command: it notes its arguments, and runs the program and the policy pack of the project.

`preview --json` prints a plan that creates all resources, as the engine does before the first update.
"""

import argparse
import json
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import yaml

from ebbtide.recording.record import PROJECT, record_directory
from ebbtide.recording.resources import Resource


def main() -> None:
    with Path(os.environ["ASKED"]).open("a", encoding="utf-8") as asked:
        print("pulumi", *sys.argv[1:], file=asked)
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["preview", "up", "refresh"])
    parser.add_argument("--stack", required=True)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--policy-pack", type=Path)
    arguments, _ = parser.parse_known_args()
    if not (arguments.json or arguments.command == "up"):
        return
    project = yaml.safe_load(Path("Pulumi.yaml").read_text(encoding="utf-8"))
    assert project["name"] == PROJECT
    file = Path(project["stackConfigDir"], f"Pulumi.{arguments.stack}.yaml")
    texts = yaml.safe_load(file.read_text(encoding="utf-8"))["config"]
    config = {key: value if isinstance(value, str) else json.dumps(value) for key, value in texts.items()}
    recording = record_directory(Path(project["main"]), config, stack=arguments.stack)
    if arguments.policy_pack is not None:
        print("policies", _policies(arguments.policy_pack))
    if arguments.json:
        print(json.dumps(_plan(recording.resources, config)))
    else:
        print("outputs", *sorted(recording.outputs))


def _policies(pack: Path) -> str:
    """Return the names of a pack's policies. The SDK would serve until it is ended."""
    assert (pack / "PulumiPolicy.yaml").is_file()
    names: list[str] = []

    def served(name: str, policies: Sequence[object]) -> None:
        names.extend([name, *(str(vars(policy)["name"]) for policy in policies)])

    with patch("pulumi_policy.PolicyPack", served):
        runpy.run_path(str(pack), run_name="__main__")
    return " ".join(names)


def _plan(resources: Sequence[Resource], config: dict[str, str]) -> dict[str, object]:
    steps = [
        {
            "op": "create",
            "urn": resource.urn,
            "newState": {
                "urn": resource.urn,
                "type": resource.type,
                "custom": resource.custom,
                "parent": resource.parent,
                "inputs": resource.inputs,
            },
        }
        for resource in resources
    ]
    return {"config": config, "steps": steps, "changeSummary": {"create": len(steps)}}


main()
