"""Ledger: what the nodes of a stack cost in a month, what others would have cost, and who caused it.

It reads what was recorded and names what was not. No figure of a gap is filled in silently.
"""
