"""Deployments and StatefulSets that sleep outside business hours, by the clock or when they are idle."""
