"""Disruption budgets of Karpenter's NodePools, by business hours: docs/adr/0037."""
