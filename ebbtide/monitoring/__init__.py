"""Recording rules, alerts and dashboards as values, and a client that checks Prometheus' answers.

`rules` defines rules, `alerts` and `recordings` list them, `documents` renders them for Prometheus; `client` queries.
`components.monitoring` deploys the rules.
"""
