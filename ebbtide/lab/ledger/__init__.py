"""Ledger: what a stack's nodes cost in a month, what other fleets would have cost, and which workloads caused the cost.

It uses recorded data only. Every gap in the recording is listed with bounds; none is filled silently.
"""
