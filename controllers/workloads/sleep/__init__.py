"""Deployments and StatefulSets that sleep outside business hours."""
