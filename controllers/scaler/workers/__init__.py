"""How many workers a pool gets and which pods may go. Decides only: no clock, no client, no logging."""
