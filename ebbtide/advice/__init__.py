"""Advice from traces and replays: what a load is like, which stack would suit it, which commitment and floors pay.

May import the simulator, the settings and the prices; never the command line, an adapter or Pulumi. Everything here is
computed from what was submitted or replayed, and each piece of advice carries the figures that it rests on.
"""
