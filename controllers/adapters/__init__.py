"""The only input and output of the controller: Redis, clock, waking, the log."""
