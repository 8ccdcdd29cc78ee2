"""Stands for the API server of the example's image: every path is answered with what the process was given.

Run as a file, with gunicorn's own words: `python gunicorn.py APP --bind=ADDRESS:PORT --config=FILE`.
"""

import argparse
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

parser = argparse.ArgumentParser()
parser.add_argument("app")
parser.add_argument("--bind", required=True)
parser.add_argument("--config", required=True, type=Path)
WORDS = parser.parse_args(sys.argv[1:])

SETTINGS: dict[str, Any] = {}
exec(compile(WORDS.config.read_text(encoding="utf-8"), str(WORDS.config), "exec"), SETTINGS)
GIVEN = {
    "app": WORDS.app,
    "workers": SETTINGS["workers"],
    # A kubelet's mount also holds the links by which it swaps all files at once.
    "files": sorted(path.name for path in WORDS.config.parent.iterdir() if not path.name.startswith("..")),
    "environment": dict(os.environ),
}


def _writable(folder: str) -> bool:
    try:
        (Path(folder) / "probe").touch()
    except OSError:
        return False
    return True


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        writable = [folder for folder in ("/etc/labelling", "/var/spool/uploads") if _writable(folder)]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({**GIVEN, "writable": writable}).encode())


host, _, port = WORDS.bind.rpartition(":")
HTTPServer((host, int(port)), Answer).serve_forever()
