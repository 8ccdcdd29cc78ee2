"""Kubernetes' own rules as values: taints, label selectors, and the cluster autoscaler's options that Ebbtide sets.

Pure; imports only the label keys. Not in the controller's image.
"""
