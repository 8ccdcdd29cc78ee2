"""What Prometheus is told to watch over, recording rules and alerts as values, and what is believed of its answers.

`rules` says what a rule is, `alerts` and `recordings` which there are, `documents` how Prometheus reads them; `client`
asks. Which resources carry rules into a cluster is `components.monitoring`'s business.
"""
