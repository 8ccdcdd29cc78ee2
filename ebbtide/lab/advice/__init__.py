"""Advice from traces, replays and what Prometheus recorded: which stack, sizes, commitment and floors suit a load.

May import the simulator, the settings, the prices and the client of Prometheus; never the command line, an adapter or
Pulumi. Everything here is computed from what was submitted, replayed or recorded, and each piece of advice carries the
figures that it rests on.
"""
