"""The workload controller: writes fields that are neither worker replicas nor budgets, one module per field.

It has its own process, account and Lease. `loop` is independent of Ray; each kind of workload has a subpackage.
"""
