"""What a change does to a stack before it is merged: both sides, changes, dangers, cost and nights, as one page.

What is wrong with one state alone is a policy's to find (`ebbtide.policies`).
"""
