"""What moto keeps wrongly, put right after the request that it took wrongly."""

from importlib import import_module
from typing import Any


def mend(service: str, account: str, region: str, body: bytes) -> None:
    if service == "ec2" and body.startswith(b"Action=CreateLaunchTemplate&"):
        _launch_templates(account, region)


def _launch_templates(account: str, region: str) -> None:
    """The tags of a template itself are not part of what it makes machines with."""
    backends: Any = import_module("moto.ec2.models").ec2_backends
    for template in backends[account][region].launch_templates.values():
        for version in template.versions:
            kept = [each for each in version.data.get("TagSpecifications", []) if each["ResourceType"] != _ITSELF]
            version.data["TagSpecifications"] = kept


_ITSELF = "launch-template"
