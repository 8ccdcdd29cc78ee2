"""Advice on Savings Plans: which plan, and how much of it, a stack's nodes would use."""
