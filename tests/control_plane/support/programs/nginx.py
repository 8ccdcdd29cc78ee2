"""Stands for the web server of the example's image: it listens and answers as its configuration says, and no further.

Run as a file: `python nginx.py FOLDER`, the folder of configurations.
"""

import re
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

TEXT = "".join(file.read_text(encoding="utf-8") for file in sorted(Path(sys.argv[1]).glob("*.conf")))
ANSWERS = {
    path: (int(code), words)
    for path, code, words in re.findall(r'location = (\S+) { return (\d+) "(.*?)(?:\\n)?"', TEXT)
}


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        code, words = ANSWERS.get(self.path, (404, ""))
        self.send_response(code)
        self.end_headers()
        self.wfile.write(words.encode())


(port,) = re.findall(r"listen (\d+);", TEXT)
HTTPServer(("", int(port)), Answer).serve_forever()
