"""What a Prometheus of the stack's own needs of other sections: Secrets that are there, and roles only where AWS is."""

from collections.abc import Iterator

from ebbtide.settings.checks.read import Read, Rule
from ebbtide.settings.file.keys import CLUSTER, MONITORING
from ebbtide.settings.file.problems import Finding, did_you_mean, show
from ebbtide.settings.sections.cluster import ClusterKind
from ebbtide.settings.sections.secrets import SECRETS, set_command


def _secrets_are_there(read: Read) -> Iterator[Finding]:
    known = read.names(SECRETS)
    for at, name, key in read.stack.monitoring.secret_references():
        if name not in known:
            yield Finding(
                code="monitoring.secret-unknown",
                at=(MONITORING, *at),
                wanted=f"a Secret of {SECRETS}",
                found=show(name),
                hint=did_you_mean(name, known) or set_command(name, key),
            )


def _roles_need_eks(read: Read) -> Iterator[Finding]:
    written = read.stack.monitoring.remote_write
    if written is not None and written.role is not None:
        yield Finding(
            code="monitoring.role-without-eks",
            at=(MONITORING, "remoteWrite", "role"),
            wanted="no role on an existing cluster, whose accounts get none",
            found="a role",
            example="secret: mimir",
        )


RULES = (
    Rule((MONITORING,), _secrets_are_there),
    Rule((MONITORING, CLUSTER), _roles_need_eks, on=ClusterKind.EXISTING),
)
