"""Propose rules for the pods that a cluster already runs, and label running pods by the rules of a stack file."""
