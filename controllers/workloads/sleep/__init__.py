"""Deployments and StatefulSets that sleep outside business hours, at fixed times or when idle."""
