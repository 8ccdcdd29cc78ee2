"""What Prometheus is told to watch over: recording rules and alerts, as values that know no cluster and no Pulumi.

`rules` says what a rule is, `alerts` and `recordings` which there are, `documents` how Prometheus reads them. Which
resources carry them into a cluster is `components.monitoring`'s business.
"""
