"""`ebbtide why`: explanations of pools, budgets, services, Ray clusters, jobs and nodes."""
