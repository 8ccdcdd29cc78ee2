"""How like the real HorizontalPodAutoscaler the modelled one is, from the recordings."""

from ebbtide.simulator.fidelity.hpa import HpaScenario, likeness, read_recordings
from tests.paths import DATA
from tools.docs.tables import Row, table


def hpa_likeness() -> str:
    rows = [_row(one) for one in read_recordings(DATA / "hpa-scenarios" / "recorded.json")]
    heading = ("scenario", "what it shows", "looks alike", "numbers", "takes alike", "model alone", "apart")
    return table(heading, rows)


def _row(scenario: HpaScenario) -> Row:
    it = likeness(scenario)
    takes = len(scenario.takes)
    spread = "" if it.spread_s is None else f", takes {it.spread_s:.1f} s"
    return (
        scenario.name,
        scenario.shows,
        f"{it.same} of {it.beats}",
        " ".join(map(str, (scenario.first, *it.numbers))),
        f"{it.takes_alike} of {takes}",
        f"{it.alone_alike} of {takes}",
        "" if it.offset_s is None else f"{it.offset_s:.1f} s{spread}",
    )
