"""Measurements of the figures that the documents quote: `make bench`. They assert nothing."""
