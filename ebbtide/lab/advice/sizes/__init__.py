"""Advice on sizes: requests of each container compared with its use, and nodes that would carry the pods cheaper.

`containers` reads the stack file, `reading` Prometheus; `rules` decide one amount each, `groups` and `shapes` pack the
recorded pods on other nodes, `advice` combines them, `text` lays them out. Only `queries` and `reading` ask Prometheus;
the other modules are pure.
"""
