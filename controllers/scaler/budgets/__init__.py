"""When flexible budgets are open. Decides only: no clock, no client, no logging."""
