"""A headless Chromium, spoken to over a pair of pipes: no port, no further dependency.

Source of the names: the Chrome DevTools Protocol, domains Page, Emulation, Runtime, Input and Log.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome")
PROGRAM = next((path for path in map(shutil.which, _NAMES) if path), None)
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars")
_KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowRight": 39}


class Browser:
    """One page. `complaints` are what its console and its policies said since it was opened."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._session: dict[str, str] = {}
        self._buffer, self._sent = b"", 0
        self._events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": parameters, **self._session}
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._sent:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self._events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            read = os.read(self._answers, 1 << 20)
            assert read, "the browser is gone"
            self._buffer += read
        first, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(first)

    def open(self, page: Path, width: int, *, dark: bool = False, script: bool = True, media: str = "") -> None:
        """Load the page at a width of so many pixels and wait until it is there."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self._events.clear()
        self.call("Page.navigate", url=page.absolute().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._events.append(self._next())

    @property
    def complaints(self) -> list[dict[str, Any]]:
        return [event for event in self._events if event["method"] in ("Log.entryAdded", "Runtime.exceptionThrown")]

    @property
    def asked_for(self) -> list[str]:
        """The addresses that the page asked for, itself first."""
        requests = [event for event in self._events if event["method"] == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in requests]

    def value(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        kind = {"type": "keyDown", "text": "\r"} if key == "Enter" else {"type": "rawKeyDown"}
        for event in (kind, {"type": "keyUp"}):
            self.call("Input.dispatchKeyEvent", key=key, code=key, windowsVirtualKeyCode=_KEYS[key], **event)


@contextmanager
def a_browser(folder: Path) -> Generator[Browser]:
    """Chromium with a profile in `folder`. It reads commands from descriptor 3 and answers on 4."""
    assert PROGRAM is not None
    theirs_in, commands = os.pipe()
    answers, theirs_out = os.pipe()
    start = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
    process = subprocess.Popen(
        ["bash", "-c", start, PROGRAM, *_FLAGS, "--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"],
        pass_fds=(theirs_in, theirs_out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        browser = Browser(commands, answers)
        yield browser
    finally:
        os.close(commands)  # the browser ends when nobody can command it any more
        os.close(answers)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
