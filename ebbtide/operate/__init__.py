"""Operator commands on a running cluster. Imports nothing of the command line, the simulator or the reports."""
