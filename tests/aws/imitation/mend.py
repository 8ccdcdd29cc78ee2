"""What moto keeps wrongly, put right after the request that it took wrongly."""

from importlib import import_module
from typing import Any


def mend(service: str, account: str, region: str, body: bytes) -> None:
    if service != "ec2":
        return
    backend: Any = import_module("moto.ec2.models").ec2_backends[account][region]
    if body.startswith(b"Action=CreateLaunchTemplate&"):
        _launch_templates(backend)
    if body.startswith((b"Action=CreateTags&", b"Action=DeleteTags&")):
        for template in backend.launch_templates.values():
            template.tags = template.get_tags()  # moto says those that it began with
    if body.startswith(b"Action=ModifyVpcEndpoint&"):
        _endpoints(backend)


def _endpoints(backend: Any) -> None:
    """An endpoint that gets another route table is a route of that one too; without it its end is an error."""
    for endpoint in backend.vpc_end_points.values():
        target = endpoint.destination_prefix_list_id
        for name in endpoint.route_table_ids if target else ():
            if endpoint.id not in (route.gateway_id for route in backend.get_route_table(name).routes):
                backend.create_route(name, None, gateway_id=endpoint.id, destination_prefix_list_id=target)


def _launch_templates(backend: Any) -> None:
    """The tags of a template itself are not part of what it makes machines with."""
    for template in backend.launch_templates.values():
        for version in template.versions:
            kept = [each for each in version.data.get("TagSpecifications", []) if each["ResourceType"] != _ITSELF]
            version.data["TagSpecifications"] = kept


_ITSELF = "launch-template"
