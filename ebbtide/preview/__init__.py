"""Preview of a change to a stack before it is merged: changes, dangers, cost and nights, as one page.

Faults of a single state are for the policies (`ebbtide.policies`).
"""
