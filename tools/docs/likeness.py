"""How like the real HorizontalPodAutoscaler the modelled one is, from the recordings."""

from tests.fidelity.hpa import HpaScenario, likeness, read_recordings
from tests.paths import DATA
from tools.docs.tables import Row, table


def hpa_likeness() -> str:
    rows = [_row(one) for one in read_recordings(DATA / "hpa-scenarios" / "recorded.json")]
    heading = ("scenario", "what it shows", "replicas", "looks alike", "model alone", "apart", "takes apart")
    return table(heading, rows)


def _row(scenario: HpaScenario) -> Row:
    it = likeness(scenario)
    return (
        scenario.name,
        scenario.shows,
        " ".join(map(str, (scenario.first, *it.numbers))),
        f"{it.same} of {it.beats}",
        f"{it.alone_alike} of {len(scenario.takes)}",
        _seconds(it.offset_s),
        _seconds(it.spread_s),
    )


def _seconds(time: float | None) -> str:
    return "other numbers" if time is None else f"{time:.1f} s"
