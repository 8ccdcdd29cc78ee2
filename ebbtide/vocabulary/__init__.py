"""Words and documents that the provisioning side and the controller share.

Standard library only (and the time zone data): this package is copied into the controller's image.
"""
