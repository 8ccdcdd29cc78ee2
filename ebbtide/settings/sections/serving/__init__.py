"""The sections of services: what is served, how it grows, where requests find it, and the gateway in front."""
