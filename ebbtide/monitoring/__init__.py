"""Recording rules, alerts and dashboards as values, and a client that checks Prometheus' answers.

`rules` defines rules, `alerts` and `recordings` list them, `documents` renders them for Prometheus; `client` queries
it for current values, and `history` for recorded ones. `components.monitoring` deploys the rules.
"""
