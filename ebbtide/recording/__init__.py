"""A stack as its program registers it: resources, pods, node groups, budgets, what may be drained, files, graph.

Facts alone: what is wrong with a state is for `ebbtide.policies` to say, and what a change does for `ebbtide.preview`;
this package imports neither.
"""
