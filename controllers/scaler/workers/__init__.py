"""The number of workers of a pool, and the pods that may go. Decides only: no clock, no client, no logging."""
