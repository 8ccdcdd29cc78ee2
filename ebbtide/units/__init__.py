"""Durations, quantities, money and address ranges: one home for reading, writing and describing them.

Knows no other package. The controller does not need it, so its image does not hold it.
"""
