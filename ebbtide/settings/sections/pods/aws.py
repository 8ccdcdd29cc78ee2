"""AWS permissions of a pod, as a role that grants access to the named resources only.

The actions of each word are listed here; the component joins them with ARNs. **Writing does not include reading**, and
only one word deletes objects: stores of checkpoints delete old ones.

Trap: a bucket or queue that is encrypted with the owner's key needs permissions on that key, too. Its name does not
reveal the key, so these come from `policies`.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from ipaddress import AddressValueError, IPv4Address
from typing import Annotated, Any, ClassVar, TypeAlias, cast

from pydantic import AfterValidator, BeforeValidator, Field

from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.checked import Check, Settings, each_once
from ebbtide.settings.sections.grammar import choice, text, text_schema

MOST_POLICIES = 10
"""Maximum managed policies of a role. Source: IAM quotas, the default."""

TRUSTED = "pods.eks.amazonaws.com"

_BUCKET = r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$"
SQS_QUEUE = r"^([A-Za-z0-9_-]{1,80}|[A-Za-z0-9_-]{1,75}\.fifo)$"
# In both, only the name has a limit, not the path before it. Source: "IAM and AWS STS quotas".
_POLICY = r"^arn:aws:iam::(aws|[0-9]{12}):policy/([\w+=,.@/-]+/)?[\w+=,.@-]{1,128}$"
_ROLE = r"^arn:aws:iam::[0-9]{12}:role/([\w+=,.@/-]+/)?[\w+=,.@-]{1,64}$"

# Source: Amazon S3 user guide, general purpose bucket naming rules. A directory bucket takes other actions than these.
_RESERVED_BEGINNINGS = ("xn--", "sthree-", "amzn-s3-demo-")
_RESERVED_ENDS = ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")

_ALL_OF_AWS = {
    f"arn:aws:iam::aws:policy/{name}" for name in ("AdministratorAccess", "PowerUserAccess", "IAMFullAccess")
}


class BucketAccess(StrEnum):
    READ = "read"
    WRITE = "write"
    READ_WRITE = "read-write"
    READ_WRITE_DELETE = "read-write-delete"


class QueueAccess(StrEnum):
    SEND = "send"
    RECEIVE = "receive"
    BOTH = "both"
    COUNT = "count"  # Ebbtide's own: no pod of a stack file has it


_READ_OBJECTS = ("s3:GetObject",)
_WRITE_OBJECTS = ("s3:AbortMultipartUpload", "s3:ListMultipartUploadParts", "s3:PutObject")
OBJECT_ACTIONS: Mapping[BucketAccess, tuple[str, ...]] = {
    BucketAccess.READ: _READ_OBJECTS,
    BucketAccess.WRITE: _WRITE_OBJECTS,
    BucketAccess.READ_WRITE: (*_READ_OBJECTS, *_WRITE_OBJECTS),
    BucketAccess.READ_WRITE_DELETE: (*_READ_OBJECTS, *_WRITE_OBJECTS, "s3:DeleteObject"),
}
"""Actions on the objects of a bucket."""

LISTING: Mapping[BucketAccess, tuple[str, ...]] = {
    BucketAccess.READ: ("s3:ListBucket",),
    BucketAccess.WRITE: (),
    BucketAccess.READ_WRITE: ("s3:ListBucket",),
    BucketAccess.READ_WRITE_DELETE: ("s3:ListBucket",),
}
"""Actions on the bucket itself: without listing, a missing object is reported as forbidden."""

_SEND = ("sqs:SendMessage",)
_RECEIVE = ("sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage")
_FIND = ("sqs:GetQueueUrl",)
QUEUE_ACTIONS: Mapping[QueueAccess, tuple[str, ...]] = {
    QueueAccess.SEND: (*_FIND, *_SEND),
    QueueAccess.RECEIVE: (*_FIND, *_RECEIVE),
    QueueAccess.BOTH: (*_FIND, *_RECEIVE, *_SEND),
    QueueAccess.COUNT: (*_FIND, "sqs:GetQueueAttributes"),
}
"""Receiving includes deleting received messages, which completes them, and delaying them, but not purging."""


def parse_bucket(value: object) -> str:
    """Accept a bucket's name by the rules of S3."""
    name = value if isinstance(value, str) else ""
    if re.fullmatch(_BUCKET, name) is None or ".." in name or _is_address(name):
        expected = "the name of an S3 bucket: 3 to 63 lower-case letters, digits, dots and hyphens"
        raise wanted("bucket.form", expected, found=repr(value), example="acme-data", hint=_bucket_hint(name))
    if name.startswith(_RESERVED_BEGINNINGS) or name.endswith(_RESERVED_ENDS):
        hint = "S3 reserves it for access points, directory buckets and the like; use policies for those"
        raise wanted("bucket.reserved", "the name of an ordinary bucket", found=repr(name), hint=hint)
    return name


def _is_address(name: str) -> bool:
    try:
        return bool(IPv4Address(name))
    except AddressValueError:
        return False


def _bucket_hint(name: str) -> str:
    return "only the name, without the ARN" if name.startswith(("arn:", "s3:")) else ""


def parse_sqs_queue(value: object) -> str:
    """Accept the name of an SQS queue in the stack's account and region."""
    if not isinstance(value, str) or re.fullmatch(SQS_QUEUE, value) is None:
        expected = "the name of an SQS queue of the stack's account and region, at most 80 letters, digits, - and _"
        raise wanted("sqs-queue.form", expected, found=repr(value), example="uploads", hint="a FIFO queue with .fifo")
    return value


def parse_policy(value: object) -> str:
    """Accept the ARN of a managed policy, of AWS or of the account."""
    if not isinstance(value, str) or re.fullmatch(_POLICY, value) is None:
        example = "arn:aws:iam::aws:policy/AmazonBedrockReadOnly"
        raise wanted("aws-policy.form", "the ARN of a managed policy", example=example)
    if value in _ALL_OF_AWS:
        expected = "a policy with the rights that this pod needs"
        hint = "an attacker in the pod would control the entire account"
        raise wanted("aws-policy.everything", expected, example="arn:aws:iam::123456789012:policy/api", hint=hint)
    return value


def _few_policies(policies: tuple[str, ...]) -> tuple[str, ...]:
    if len(policies) > MOST_POLICIES:
        expected = f"at most {MOST_POLICIES} policies, the limit of a role"
        raise wanted("aws-policies.too-many", expected, found=f"{len(policies)} policies")
    return policies


def _role_alone(role: str | None, buckets: object, queues: object, policies: object) -> None:
    if role is not None and (buckets or queues or policies):
        expected = "an existing role, or buckets, queues and policies for a new one"
        hint = "the permissions of an existing role are managed where it was created"
        raise wanted("aws-role.not-alone", expected, found="both", hint=hint, at="role")


def _not_empty(value: Any) -> Any:
    """Check the raw keys: an invalid entry has its own fault."""
    if isinstance(value, Mapping):
        keys = cast("Mapping[object, object]", value)
        if not any(keys.values()):
            expected = "what the pod may do: buckets, queues, policies or a role"
            raise wanted("aws.nothing", expected, found="nothing", example="{ buckets: { acme-data: read } }")
        return keys
    return value


Bucket: TypeAlias = Annotated[str, BeforeValidator(parse_bucket), text_schema(_BUCKET)]
SqsQueue: TypeAlias = Annotated[str, BeforeValidator(parse_sqs_queue), text_schema(SQS_QUEUE)]
PolicyArn: TypeAlias = Annotated[str, BeforeValidator(parse_policy), text_schema(_POLICY)]
RoleArn: TypeAlias = Annotated[
    str,
    *text(
        _ROLE,
        "aws-role.form",
        f"the ARN of an IAM role of the stack's account, whose trust policy lets {TRUSTED} assume it",
        "arn:aws:iam::123456789012:role/api",
        unless=".*/aws-service-role/.*",
    ),
]


class AwsRights(Settings):
    """AWS permissions of a pod."""

    checks: ClassVar[tuple[Check, ...]] = (Check(("role", "buckets", "queues", "policies"), _role_alone),)

    buckets: dict[Bucket, Annotated[BucketAccess, *choice(*BucketAccess, planned={})]] = Field(
        default={},
        description="S3 buckets: read gets and lists objects; write only puts them; read-write-delete, for "
        "checkpoints, allows all three",
        examples=["{ acme-data: read, acme-results: write }"],
    )
    queues: dict[SqsQueue, Annotated[QueueAccess, *choice("send", "receive", "both", planned={})]] = Field(
        default={},
        description="SQS queues of the stack's account and region: send, receive (which includes deleting "
        "processed messages) or both",
        examples=["{ uploads: receive }"],
    )
    policies: Annotated[
        tuple[PolicyArn, ...],
        AfterValidator(_few_policies),
        each_once("policy", "arn:aws:iam::123456789012:policy/api"),
    ] = Field(
        default=(),
        description="additional managed policies of the pod's role",
        examples=["[arn:aws:iam::123456789012:policy/api]"],
    )
    role: RoleArn | None = Field(
        default=None,
        description=f"an existing role, without other keys; its trust policy must allow {TRUSTED} to use "
        "sts:AssumeRole and sts:TagSession",
        examples=["arn:aws:iam::123456789012:role/api"],
    )


GivenAwsRights: TypeAlias = Annotated[AwsRights, BeforeValidator(_not_empty)]
