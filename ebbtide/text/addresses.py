"""Private address ranges, and the one notation of an address that every server accepts."""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from socket import inet_aton

PRIVATE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
"""RFC 1918: ranges for a VPC."""

SHARED = "100.64.0.0/10"
"""RFC 6598: used by provider networks, and by EKS for pods."""

UNIQUE_LOCAL = "fc00::/7"
"""RFC 4193: private IPv6."""


_NUMBERS = re.compile(r"[0-9a-fx.]+", re.IGNORECASE)
_ITSELF = ("localhost", "localhost.localdomain")


def is_host(host: str) -> bool:
    """True if resolvers accept it: in a name no label is empty or longer than 63 characters."""
    try:
        return bool(host.encode("idna"))
    except UnicodeError:
        return False


def leads_to_itself(host: str) -> bool:
    """True for localhost and equivalents, which in a pod are the pod itself."""
    address = _address(host)
    if address is None:
        name = host.lower().removesuffix(".")
        return name in _ITSELF or name.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


def _address(host: str) -> IPv4Address | IPv6Address | None:
    """Return None for a name. Resolvers read 127.1 and 2130706433 as 127.0.0.1."""
    try:
        return unmapped(ip_address(host))
    except ValueError:
        pass
    try:
        return IPv4Address(inet_aton(host)) if _NUMBERS.fullmatch(host) else None
    except OSError:
        return None


def unmapped(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address of `::ffff:10.0.0.9`; Kubernetes refuses that notation from 1.36 on."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
