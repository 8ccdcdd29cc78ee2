"""A stack as its program registers it: resources, pods, node groups, budgets, drains, files, graph.

Only facts: `ebbtide.policies` judges a state, and `ebbtide.preview` judges a change. This package imports neither.
"""
