"""The figures that the documents quote, measured anew: `make bench`. Nothing here is asserted."""
