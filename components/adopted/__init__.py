"""Adoption of pods that the stack does not create: their admission and their budgets."""
