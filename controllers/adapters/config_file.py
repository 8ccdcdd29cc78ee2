"""The config document as a file that may change under the running process, as a mounted ConfigMap does.

Compared by content, not by date: Kubernetes swaps a link. A document that is missing or wrong never replaces a good
one, and while it lies there the last good one is obeyed and distrusted.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")


class ConfigFile(Generic[T]):
    """`config` is the last good one. `read` raises ValueError or OSError for a bad one, and so does the start on it."""

    def __init__(self, path: Path, read: Callable[[str], T]) -> None:
        self._path, self._read = path, read
        self._text = path.read_text(encoding="utf-8")
        self.config = self._read(self._text)
        self.why = ""  # it is not followed now; empty if it is

    def changed(self) -> bool:
        """Look again; whether there is another good config now."""
        try:
            text = self._path.read_text(encoding="utf-8")
            config = self.config if text == self._text else self._read(text)
        except (OSError, ValueError) as error:
            self.why = f"the config document is bad, following the last good one: {error}"
            return False
        before, self.config, self._text, self.why = self.config, config, text, ""
        return config != before
