"""Labels, time windows and config documents that provisioning and the controllers share.

It uses only the standard library and tzdata, since it is copied into the controller's image.
"""
