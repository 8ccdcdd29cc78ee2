"""The section of the network: the VPC, and the ways out of it."""

from ebbtide.settings.checked import Settings


class NetworkSettings(Settings):
    """The VPC that the cluster lives in."""
