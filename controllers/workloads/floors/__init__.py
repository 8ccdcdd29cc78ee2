"""How many pods a service has at least, by the calendar."""
