"""The section of images: where they are pulled from, and with which right."""

from ebbtide.settings.checked import Settings


class ImageSettings(Settings):
    """Where images come from."""
