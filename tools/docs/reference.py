"""Generate documents from the code: the JSON Schemas, the tables of the pages, and the list of runbooks of the site.

`python -m tools.docs.reference` (`make schema`) writes; a test compares. In a page only the table between
`<!-- generated: NAME -->` and `<!-- end -->` is generated, and in the settings of the site the list of runbooks.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from ebbtide.policies import RULES
from ebbtide.preview.dangers import KINDS
from ebbtide.preview.render.as_json import schema_text as preview_schema
from ebbtide.settings.json_schema import base_schema_text
from ebbtide.settings.json_schema import schema_text as stack_schema
from ebbtide.text.files import write_file
from tests.aws.support.page import differences_table, faults_table, forgotten_table
from tests.fidelity.hpa import HpaScenario, likeness, read_recordings
from tests.paths import DATA
from tools.docs.commands import commands
from tools.docs.keys import FURTHER_KEYS, further_keys, refused_on_existing_clusters, stack_file_keys
from tools.docs.metrics import (
    ALERTS,
    alert_messages,
    alert_rows,
    exporter_metrics,
    metrics,
    ray_annotations,
    workload_events,
    workload_metrics,
)
from tools.docs.tables import Row, table

ROOT = Path(__file__).parents[2]
SITE = ROOT / "tools" / "docs" / "zensical.toml"
PREVIEW_SCHEMA = ROOT / "docs" / "preview.schema.json"
_BLOCK = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_NAVIGATION = re.compile(r"(    # generated: runbooks\n).*?(    # end\n)", re.DOTALL)
_DECISION = re.compile(r"# (\d+)\. (.+)\n\nStatus: (.+) · Date: (\d{4}-\d\d-\d\d)\n")


def documents() -> dict[Path, str]:
    """Return the expected content of the generated files, by path."""
    tables: Mapping[str, Callable[[], str]] = {
        "keys": stack_file_keys,
        "refused-on-existing-clusters": refused_on_existing_clusters,
        "rules": policy_rules,
        "dangers": dangers,
        "commands": commands,
        "metrics": metrics,
        "workload-metrics": workload_metrics,
        "exporter-metrics": exporter_metrics,
        "workload-events": workload_events,
        "alerts": alert_rows,
        "alert-messages": alert_messages,
        "ray-annotations": ray_annotations,
        "decisions": decisions,
        "hpa-likeness": hpa_likeness,
        "aws-differences": differences_table,
        "aws-forgotten": forgotten_table,
        "aws-faults": faults_table,
    }
    pages = [path for path in sorted((ROOT / "docs").rglob("*.md")) if _BLOCK.search(path.read_text(encoding="utf-8"))]

    def filled(match: re.Match[str]) -> str:
        text = further_keys(match.string, match.start()) if match[2] == FURTHER_KEYS else tables[match[2]]()
        return f"{match[1]}\n{text}\n{match[3]}"

    return {
        ROOT / "docs" / "stack.schema.json": stack_schema(),
        ROOT / "docs" / "base.schema.json": base_schema_text(),
        PREVIEW_SCHEMA: preview_schema(PREVIEW_SCHEMA.read_text(encoding="utf-8")),
        SITE: _NAVIGATION.sub(rf"\1{runbooks()}\2", SITE.read_text(encoding="utf-8")),
        **{path: _BLOCK.sub(filled, path.read_text(encoding="utf-8")) for path in pages},
    }


def runbooks() -> str:
    """Return the site's navigation of runbooks: each page with its title, in the order of the alerts."""
    lines: list[str] = []
    for page in dict.fromkeys(alert.runbook for alert in ALERTS):
        title = (ROOT / "docs" / "runbooks" / f"{page}.md").read_text(encoding="utf-8").partition("\n")[0]
        lines.append(f'    {{ "{title.removeprefix("# ")}" = "runbooks/{page}.md" }},\n')
    return "".join(lines)


def policy_rules() -> str:
    rows = [(rule.code, rule.severity.value, rule.title, rule.remedy, rule.source) for rule in RULES]
    return table(("id", "severity", "what holds", "fix", "source"), rows)


def dangers() -> str:
    rows = [(f"`{kind.code}`", " or ".join(kind.severities), kind.title) for _, kind in sorted(KINDS.items())]
    return table(("code", "severity", "what the change does"), rows)


def decisions() -> str:
    """Return the decisions of docs/adr: each begins with its title and a line of status and date."""
    rows: list[Row] = []
    for path in sorted((ROOT / "docs" / "adr").glob("[0-9]*.md")):
        match = _DECISION.match(path.read_text(encoding="utf-8"))
        if match is None:
            raise ValueError(f"{path.name}: wanted `# 1. Title`, an empty line, `Status: accepted · Date: 2026-01-31`")
        rows.append((match[1], f"[{match[2]}]({path.name})", match[3], match[4]))
    return table(("no.", "decision", "status", "date"), rows)


def hpa_likeness() -> str:
    """Compare the modelled HorizontalPodAutoscaler with the real one, from the recordings."""
    rows = [_likeness_row(scenario) for scenario in read_recordings(DATA / "hpa-scenarios" / "recorded.json")]
    heading = ("scenario", "what it shows", "replicas", "looks alike", "model alone", "apart", "takes apart")
    return table(heading, rows)


def _likeness_row(scenario: HpaScenario) -> Row:
    result = likeness(scenario)
    return (
        scenario.name,
        scenario.shows,
        " ".join(map(str, (scenario.first, *result.numbers))),
        f"{result.same} of {result.beats}",
        f"{result.alone_alike} of {len(scenario.takes)}",
        _seconds(result.offset_s),
        _seconds(result.spread_s),
    )


def _seconds(time: float | None) -> str:
    return "other numbers" if time is None else f"{time:.1f} s"


if __name__ == "__main__":
    for document, text in documents().items():
        write_file(document, text)
