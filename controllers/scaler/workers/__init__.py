"""Decides the number of a pool's workers, and the pods that may be removed. No clock, no client, no logging."""
