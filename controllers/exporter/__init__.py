"""The exporter: tells Prometheus what the cluster has, what is asked of it and what happened there.

A process of its own with an account that may only read: kube-state-metrics need not be there, and nothing that acts on
the cluster has to read all of it. It needs no Lease. What it does not see it leaves out.
"""
