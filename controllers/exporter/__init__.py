"""The exporter: reports the cluster's capacity, its requests and its events to Prometheus.

It is a separate process with a read-only account: kube-state-metrics is not required, and no process that acts on the
cluster needs the right to read all of it. The exporter needs no Lease, and omits objects that it cannot read.
"""
