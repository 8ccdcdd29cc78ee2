"""Advice about services: which floor pays, which targets and limits suit a history, which variant costs least.

Uses only settings, traces and the simulator of services. Prometheus is read through `ebbtide.monitoring.history`, by
a client that the caller creates.
"""
