"""Ebbtide: clusters for machine-learning platforms that shrink safely at night."""
