"""The platform of examples/ on real nodes: its file, less what only AWS has, with small requests and stand-in programs.

Nobody has published its images, so each pod runs the base image with a program of ours in the place of theirs. The
names `api` and `hub` belong to the stack that is installed already: here they are `labels-api` and `notebooks`. None
of its pods sleeps, whatever the time of the test.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import yaml
from control_plane.nodes.images.recipes import BASE_TAG

from ebbtide.settings import StackSettings, parse_stack
from ebbtide.settings.file.contents import files_in
from tests.builders.example import FOLDER, STACK_FILE
from tests.node.harbour import config
from tests.paths import ROOT

RENAMED = {"api": "labels-api", "hub": "notebooks"}
SECRETS: Mapping[str, Mapping[str, str]] = {
    "db-login": {"password": "postgres' own word"},
    "platform": {"SESSION_KEY": "of sessions", "SIGNING_KEY": "of signatures"},
}
_PROGRAMS = "/opt/programs"
_SMALL = {"cpu": "10m", "memory": "48Mi"}
_ONLY_AWS = ("aws", "expose")
_OURS = ROOT / "tests" / "control_plane" / "support" / "programs"

_SERVER = """
import json, os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

def serve(port, answer):
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            text = answer()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(text).encode())
    HTTPServer(("", port), Answer).serve_forever()
"""
# Writes a line at each start into the folder that must outlive it, and tells all of them.
_STATE = f"""{_SERVER}
from pathlib import Path
file = Path(os.environ["PGDATA"]) / "starts"
file.parent.mkdir(parents=True, exist_ok=True)
with file.open("a") as starts:
    starts.write(os.environ["HOSTNAME"] + chr(10))
serve(5432, lambda: file.read_text().split())
"""
# Asks the API server with the pod's own token, as the notebook hub does.
_HUB = f"""{_SERVER}
import ssl, urllib.error, urllib.request
from pathlib import Path
account = Path("/var/run/secrets/kubernetes.io/serviceaccount")

def asked(resource):
    url = f"https://kubernetes.default.svc/api/v1/namespaces/{{account.joinpath('namespace').read_text()}}/{{resource}}"
    headers = {{"Authorization": "Bearer " + account.joinpath("token").read_text()}}
    request = urllib.request.Request(url, headers=headers)
    try:
        return urllib.request.urlopen(request, context=ssl.create_default_context(cafile=account / "ca.crt")).status
    except urllib.error.HTTPError as error:
        return error.code

serve(8081, lambda: {{resource: asked(resource) for resource in ("pods", "secrets")}})
"""
_PLAIN = f"{_SERVER}\nserve(8200, lambda: os.environ['DATABASE_PASSWORD'])\n"


def platform() -> StackSettings:
    """The stack that is installed, with the example's workloads and its job."""
    example = yaml.safe_load(STACK_FILE.read_text(encoding="utf-8"))["config"]
    base = config()
    theirs = {
        RENAMED.get(name, name): _workload(name, deepcopy(given))
        for name, given in example["ebbtide:workloads"].items()
    }
    grown = {
        **base,
        "ebbtide:workloads": {**base["ebbtide:workloads"], **theirs},
        "ebbtide:jobs": {name: _job(deepcopy(given)) for name, given in example["ebbtide:jobs"].items()},
        **{key: example[key] for key in ("ebbtide:secrets", "ebbtide:digestKey")},
    }
    return parse_stack(grown, stack="harbour", file=str(STACK_FILE), reader=files_in(FOLDER))


def _workload(name: str, given: dict[str, Any]) -> dict[str, Any]:
    program, words = {
        "web": (_text("nginx"), ["/etc/nginx/conf.d"]),
        "api": (_text("gunicorn"), given.get("command", [""])[1:]),
        "postgres": (_STATE, []),
        "orchestrator": (_PLAIN, []),
        "hub": (_HUB, []),
    }[name]
    if name == "postgres":
        given["probes"] = {"readiness": {"tcp": "postgres"}}  # its image has pg_isready
    if name == "hub":
        given["probes"] = {"readiness": {"tcp": "hub"}}
        given.pop("args")
    for volume in given.get("volumes", {}).values():
        if "perPod" in volume:
            volume["perPod"] = "1Gi"
            volume.pop("snapshots", None)
    for beside in given.get("pod", {}).get("initContainers", ()):
        beside |= {"image": BASE_TAG, "command": ["sleep", "infinity"]}
    given.setdefault("volumes", {})["programs"] = {"files": {"main.py": program}, "at": _PROGRAMS}
    return {
        **{key: value for key, value in given.items() if key not in (*_ONLY_AWS, "limits", "shm", "sleep")},
        **_SMALL,
        "image": BASE_TAG,
        "command": ["python", f"{_PROGRAMS}/main.py", *words],
    }


def _job(given: dict[str, Any]) -> dict[str, Any]:
    check = "import os, urllib.request as r; print(r.urlopen(f\"http://{os.environ['DATABASE_HOST']}:5432\").status)"
    return {**given, **_SMALL, "image": BASE_TAG, "command": ["python", "-c", check]}


def _text(program: str) -> str:
    return (_OURS / f"{program}.py").read_text(encoding="utf-8")
