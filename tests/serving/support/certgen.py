"""Stands for kube-webhook-certgen, which is no Go module: `create`, with openssl. The standard library alone.

It runs as that image's pod, and makes the Secret with the rights of the pod's account.
"""

import base64
import json
import os
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

_ACCOUNT = Path("/run/secrets/kubernetes.io/serviceaccount")


def made(hosts: list[str]) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        names = "subjectAltName=" + ",".join(f"DNS:{host}" for host in hosts)
        openssl("req", "-x509", *new, "-keyout", f"{folder}/ca.key", "-out", f"{folder}/ca", "-subj", "/CN=ca")
        openssl("req", *new, "-keyout", f"{folder}/key", "-out", f"{folder}/csr", "-subj", "/CN=webhook")
        (folder / "extensions").write_text(names)
        by = ["-CA", f"{folder}/ca", "-CAkey", f"{folder}/ca.key", "-CAcreateserial"]
        extensions = ["-extfile", f"{folder}/extensions"]
        openssl("x509", "-req", "-in", f"{folder}/csr", *by, "-out", f"{folder}/cert", *extensions)
        return {name: (folder / name).read_bytes() for name in ("ca", "cert", "key")}


def openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def main(words: list[str]) -> None:
    given = dict(word.removeprefix("--").split("=", 1) for word in words if word.startswith("--"))
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    data = {name: base64.b64encode(text).decode() for name, text in made(given["host"].split(",")).items()}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": given["secret-name"]}, "data": data}
    request = urllib.request.Request(
        f"https://{host}:{port}/api/v1/namespaces/{given['namespace']}/secrets",
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {(_ACCOUNT / 'token').read_text()}", "Content-Type": "application/json"},
    )
    try:
        urllib.request.urlopen(request, context=ssl.create_default_context(cafile=str(_ACCOUNT / "ca.crt"))).close()
    except urllib.error.HTTPError as error:
        if error.code != 409:  # there is one, which stays
            raise


if __name__ == "__main__":
    main(sys.argv[1:])
