"""moto's imitation of SQS on loopback, and what a test reads and writes there.

It models no eventual consistency: counts are exact and at once. A message whose visibility timeout has passed is
delivered again, as on SQS.
"""

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, NamedTuple

from ebbtide.demo.embedded import HOST, EmbeddedServer, free_port
from tests.backends.environments import environment

REGION = "eu-central-1"
ENVIRONMENT = "celery-sqs"
# Nobody's: the imitation accepts any. No profile and no metadata service of this machine is asked.
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "nobody",
    "AWS_SECRET_ACCESS_KEY": "nothing",
    "AWS_DEFAULT_REGION": REGION,
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}


class NoMoto(RuntimeError):
    """The imitation does not start; the message is one line."""


class Counts(NamedTuple):
    visible: int
    hidden: int  # received and not deleted
    delayed: int


class Moto(EmbeddedServer):
    """An imitation of SQS from `with` to its end. Raises `NoEnvironment` if its environment cannot be built."""

    name, failed, start_limit = "moto", NoMoto, 30.0

    def _choose_port(self) -> int:
        environment(ENVIRONMENT)
        return free_port()

    def _command(self, directory: Path) -> Sequence[str]:
        program = environment(ENVIRONMENT) / "moto_server"
        return ("env", f"HOME={directory}", str(program), "-H", HOST, "-p", str(self.port))

    def _answers(self) -> bool:
        with suppress(OSError, HTTPException):
            connection = HTTPConnection(HOST, self.port, timeout=2)
            connection.request("GET", "/moto-api/data.json")
            return connection.getresponse().status == 200
        return False

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def variables(self) -> dict[str, str]:
        """The environment that leads AWS' clients here, in this process or another one."""
        return {**CREDENTIALS, "AWS_ENDPOINT_URL_SQS": self.url}

    def call(self, action: str, **parameters: Any) -> Any:
        """Call SQS' API by its JSON protocol. No client of AWS is needed in the tests' own environment."""
        connection = HTTPConnection(HOST, self.port, timeout=30)
        try:
            scope = f"nobody/20260101/{REGION}/sqs/aws4_request"
            headers = {
                "Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0",
                "Content-Type": "application/x-amz-json-1.0",
                "X-Amz-Target": f"AmazonSQS.{action}",
            }
            connection.request("POST", "/", json.dumps(parameters), headers)
            response = connection.getresponse()
            body = response.read()
            assert response.status < 300, (response.status, body)
            return json.loads(body) if body else None
        finally:
            connection.close()

    def create(self, queue: str, timeout: int = 30, **attributes: str) -> str:
        """Create a queue with this visibility timeout in seconds, and return its URL."""
        wanted = {"VisibilityTimeout": str(timeout), **attributes}
        return self.call("CreateQueue", QueueName=queue, Attributes=wanted)["QueueUrl"]

    def url_of(self, queue: str) -> str:
        return self.call("GetQueueUrl", QueueName=queue)["QueueUrl"]

    def set_timeout(self, queue: str, seconds: int) -> None:
        wanted = {"VisibilityTimeout": str(seconds)}
        self.call("SetQueueAttributes", QueueUrl=self.url_of(queue), Attributes=wanted)

    def redrive(self, queue: str, dead_letters: str, receives: int) -> None:
        """Move a message that was received this often to the queue with the URL `dead_letters`."""
        asked = self.call("GetQueueAttributes", QueueUrl=dead_letters, AttributeNames=["QueueArn"])
        policy = {"deadLetterTargetArn": asked["Attributes"]["QueueArn"], "maxReceiveCount": receives}
        self.call("SetQueueAttributes", QueueUrl=self.url_of(queue), Attributes={"RedrivePolicy": json.dumps(policy)})

    def delete_all(self) -> None:
        for url in self.call("ListQueues").get("QueueUrls", []):
            self.call("DeleteQueue", QueueUrl=url)

    def send(self, queue: str, body: str, **more: object) -> None:
        self.call("SendMessage", QueueUrl=self.url_of(queue), MessageBody=body, **more)

    def counts(self, queue: str) -> Counts:
        answer = self.call("GetQueueAttributes", QueueUrl=self.url_of(queue), AttributeNames=["All"])["Attributes"]
        names = ("", "NotVisible", "Delayed")
        return Counts(*(int(answer[f"ApproximateNumberOfMessages{name}"]) for name in names))


def main() -> None:
    """For a look by hand: `python -m tests.backends.sqs.moto_server` prints the variables and waits."""
    with Moto() as moto:
        print("\n".join(f"export {name}={value}" for name, value in moto.variables().items()), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
