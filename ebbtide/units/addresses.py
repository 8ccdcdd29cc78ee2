"""Address ranges that are not of the internet."""

PRIVATE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
"""RFC 1918: what a VPC is made of."""

SHARED = "100.64.0.0/10"
"""RFC 6598: what networks of providers use, and EKS for pods."""

UNIQUE_LOCAL = "fc00::/7"
"""RFC 4193: private IPv6."""
