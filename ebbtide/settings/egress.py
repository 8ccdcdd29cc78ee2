"""The section of closed networks: the proxy and the certificates by which pods reach what lies outside."""

from ebbtide.settings.checked import Settings


class EgressSettings(Settings):
    """How pods reach what lies outside the cluster."""
