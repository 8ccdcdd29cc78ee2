"""The minimum number of a service's pods, by the calendar."""
