"""What a Prometheus of the stack's own needs of other sections: Secrets that are there, and roles only where AWS is."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ebbtide.settings.file.problems import Finding, did_you_mean, show
from ebbtide.settings.sections.checked import readable
from ebbtide.settings.sections.monitoring import MonitoringSettings, PrometheusKind
from ebbtide.settings.sections.secrets import SECRETS, SecretReference, set_command

MONITORING = "ebbtide:monitoring"


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringDraft:
    kind: PrometheusKind | None  # None where it could not be read
    has_alerts: bool
    has_role: bool
    references: tuple[SecretReference, ...]  # to Secrets of the stack alone

    def images(self, *, gpus: bool) -> Iterator[str]:
        """The keys of the images that it brings, or may."""
        if self.kind in (None, PrometheusKind.BUNDLED):
            yield "prometheus"
            if self.has_alerts:
                yield "alertmanager"
            if gpus:
                yield "gpuExporter"

    def findings(self, secrets: Mapping[str, Sequence[str]], *, existing: bool) -> Iterator[Finding]:
        for at, name, (key,) in self.references:
            if name not in secrets:
                yield Finding(
                    code="monitoring.secret-unknown",
                    at=at,
                    wanted=f"a Secret of {SECRETS}",
                    found=show(name),
                    hint=did_you_mean(name, tuple(secrets)) or set_command(name, key),
                )
        if self.has_role and existing:
            yield Finding(
                code="monitoring.role-without-eks",
                at=(MONITORING, "remoteWrite", "role"),
                wanted="no role on a cluster that is there already: its accounts are given none",
                found="a role",
                example="secret: mimir",
            )


def monitoring_draft(config: Mapping[str, object]) -> MonitoringDraft:
    read = readable(MonitoringSettings, config.get(MONITORING, {}))
    known = MonitoringSettings.model_construct(**{key: read.get(key) for key in ("alerts", "remote_write")})
    return MonitoringDraft(
        kind=read.get("prometheus"),
        has_alerts=known.alerts is not None,
        has_role=known.remote_write is not None and known.remote_write.role is not None,
        references=tuple(
            SecretReference((MONITORING, *at), name, (key,)) for at, name, key in known.secret_references()
        ),
    )
