"""The cost of a stack: a trace of jobs, a modelled cluster, and the production controller in virtual time.

May import the controller's loop, ports and decisions, the settings, the prices and the vocabulary; never an adapter and
never Pulumi. A package imports only those after it: services,
replay, strategies, world, cluster, trace. The modules of this folder are shared by all of them.
"""
