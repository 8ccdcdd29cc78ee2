"""The workload controller: it writes what is neither worker replicas nor budgets, one file for each field.

A process, an account and a Lease of its own. `frame` knows how a process of this kind runs and nothing of Ray; each
kind of workload has a folder.
"""
