"""The operator's commands on a running cluster. Knows no command line, no simulator and no report."""
