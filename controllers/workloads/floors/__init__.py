"""The minimum of pods of a service, by the calendar."""
