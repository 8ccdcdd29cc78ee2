"""Labels, time windows and config documents that provisioning and the controllers share.

Standard library and tzdata only: this package is copied into the controller's image.
"""
