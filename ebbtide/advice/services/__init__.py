"""Advice about services: which floor pays, which targets and limits suit a history, which variant costs least.

As the package above: nothing but settings, traces and the simulator of services. What Prometheus recorded comes in as
answers of `ebbtide.monitoring.client`, by a client that the caller made.
"""
