"""Advice about services: which floor pays, which targets and limits suit a history, which variant costs least.

Uses only settings, traces and the simulator of services. Recordings of Prometheus are answers of
`ebbtide.monitoring.client`, from a client that the caller made.
"""
