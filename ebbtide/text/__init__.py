"""Parse and format durations, quantities, money and address ranges. Imports no other package; not in the controller's
image.
"""
