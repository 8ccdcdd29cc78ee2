import json
import random
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from ebbtide.lab.report import write_report
from ebbtide.lab.report.pages.page import render
from ebbtide.lab.report.pages.sentences import command, headline, jobs_line
from ebbtide.lab.simulator.results import DEFAULT_STRATEGIES, ClusterSeries, Overload, PoolResult, Replay
from ebbtide.text.files import Unwritable
from tests.builders.replay import a_replay, priced

REPLAY = a_replay(samples_per_day=60)
PAGE = render(REPLAY, live={}, title="Ebbtide replay")
FIGURES = 6  # the seventh needs retained nodes


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


def words(page: str) -> str:
    """What a reader sees: no style, script or tags."""
    bare = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return plain(" ".join(unescape(re.sub(r"<[^>]+>", " ", bare)).split()))


def wild(samples: int, seed: int) -> ClusterSeries:
    """Every sample another count: the worst case for the size of the drawing."""
    rng = random.Random(seed)
    return ClusterSeries(
        at=tuple(28 * 86_400.0 * place / samples for place in range(samples)),
        nodes={group: tuple(rng.randrange(40) for _ in range(samples)) for group in ("fixed", "flexible", "gpu")},
        waiting=tuple(rng.randrange(900) for _ in range(samples)),
        running=tuple(rng.randrange(300) for _ in range(samples)),
    )


def test_the_page_asks_for_nothing_from_outside() -> None:
    page = PAGE.replace("http://www.w3.org/2000/svg", "")

    assert not re.search(r"https?://|//[a-z]|@import|url\(|<link|<img|\ssrc=", page)
    assert "default-src 'none'" in page


def test_every_strategy_is_in_the_table_with_its_figures() -> None:
    costs, harm = re.findall(r"<tbody>(.*?)</tbody>", PAGE, flags=re.DOTALL)[:2]

    for body in (costs, harm):
        assert [name for name in REPLAY.strategies if name in body] == list(REPLAY.strategies)
        assert body.count("<tr") == len(REPLAY.strategies)
    assert "3 min 44 s" in harm
    assert "3,696" in costs


def test_coverage_stands_beside_every_figure() -> None:
    assert PAGE.count("<figure") == FIGURES
    for figure in re.findall(r"<figcaption>.*?</figcaption>", PAGE, flags=re.DOTALL):
        assert "87 % of the trace's jobs, 61 % of its CPU-hours" in words(figure).replace(" ,", ",")


def test_ids_are_unique() -> None:
    ids = re.findall(r'\sid="([^"]+)"', PAGE)

    assert len(ids) == len(set(ids)) > 0


def test_the_page_lists_assumptions_left_out_jobs_and_the_command() -> None:
    text = words(PAGE)

    assert all(assumption in text for assumption in REPLAY.assumptions)
    assert "fits no node group 378" in text
    assert "too much GPU 41" in text
    assert "ebbtide simulate demo --trace openb2023-a --start 2026-03-02T00:00:00-05:00" in text


def test_the_command_names_what_differs_from_a_plain_replay() -> None:
    text = command(replace(REPLAY, max_job_s=28_800.0, strategies={"fixed-fleet": REPLAY.strategies["fixed-fleet"]}))

    assert "--max-job 28800s --strategy fixed-fleet" in text
    assert "--strategy" not in command(a_replay(samples_per_day=20, strategies=DEFAULT_STRATEGIES))


def test_the_command_asks_for_the_same_failures() -> None:
    text = command(replace(REPLAY, failures={"spot_interruptions": 2.0, "failed_boots": 0.02, "image_pull_s": 60.0}))

    assert "--spot-interruptions 2 --failed-boots 0.02 --image-pull 60s" in text


def test_facts_of_a_live_run_are_shown_when_there_are_any() -> None:
    assert "Measured live" not in PAGE
    assert "jobs by real workers 200" in words(render(REPLAY, live={"jobs by real workers": "200"}, title="T"))


def test_the_headline_has_two_amounts_and_the_interruptions_in_twenty_words() -> None:
    fleet, product = REPLAY.strategies["fixed-fleet"], REPLAY.strategies["fixed-flexible"]
    replay = replace(
        REPLAY,
        strategies={
            "fixed-fleet": replace(fleet, usd=4821.0),
            "fixed-flexible": replace(product, usd=1351.0, saving_vs_fixed_fleet=0.7198),
        },
    )

    assert plain(headline(replay)) == (
        "Ebbtide costs $1,351 over 7 days and interrupts no jobs; an equally good fixed fleet costs $4,821"
    )
    assert len(plain(headline(replay)).split()) <= 20


def test_a_saving_at_a_long_wait_of_one_pool_names_the_wait_and_no_good_fleet() -> None:
    pools = {
        name: PoolResult(jobs=9, wait_p95_s=wait, wait_p99_s=wait, jobs_unfinished=0)
        for name, wait in (("prep", 3600.0), ("train", 46_800.0))
    }
    product = replace(REPLAY.strategies["fixed-flexible"], pools=pools)
    replay = replace(REPLAY, strategies={**REPLAY.strategies, "fixed-flexible": product})

    assert "an equally slow fixed fleet costs" in plain(headline(replay))
    assert "The p95 wait is long: 13 h 00 min in pool train. Savings" in words(render(replay, live={}, title="T"))
    assert "The p95 wait is long" not in words(PAGE)


def test_the_headline_of_an_overload_has_no_amounts() -> None:
    overloads = tuple(
        Overload(name=pool, max=12, node_group=None, needed=need) for pool, need in (("a", 20), ("b", 87))
    )
    replay = replace(REPLAY, attainable=None, overloads=overloads)

    assert headline(replay) == (
        "Demand exceeds the stack: pool b needs at least 87 workers, its max is 12 (1 more too small)"
    )
    assert "attainable without queueing" not in words(render(replay, live={}, title="T"))


def test_a_strategy_that_does_better_is_named() -> None:
    better = replace(
        REPLAY.strategies["cluster-autoscaling"], usd=priced(REPLAY.strategies["fixed-flexible"].usd) - 200
    )
    replay = replace(REPLAY, strategies={**REPLAY.strategies, "cluster-autoscaling": better})

    assert "Here cluster-autoscaling costs $200 less than fixed-flexible." in words(render(replay, live={}, title="T"))
    assert "less than fixed-flexible" not in words(PAGE)


def test_a_wait_of_less_than_a_second_is_shown_as_under_one() -> None:
    product = replace(REPLAY.strategies["fixed-flexible"], wait_p50_s=0.2, wait_p95_s=30.0)

    text = plain(jobs_line(replace(REPLAY, strategies={"fixed-flexible": product}), "fixed-flexible"))
    assert text.endswith("half waited under 1 s, 95 % at most 30 s.")


def test_interrupted_jobs_are_counted_in_the_headline() -> None:
    product = replace(REPLAY.strategies["fixed-flexible"], jobs_interrupted=3)
    replay = replace(REPLAY, strategies={**REPLAY.strategies, "fixed-flexible": product})

    assert "and interrupts 3 jobs;" in plain(headline(replay))


def test_the_attainable_saving_is_shown_with_every_figure() -> None:
    text = words(render(replace(REPLAY, attainable=0.75), live={}, title="T"))

    assert text.count("attainable without queueing: 75 %") == FIGURES + 1


def test_a_hostile_stack_name_stays_text() -> None:
    name = '</script><script>alert("1")</script>'
    series = ClusterSeries(at=(0.0,), nodes={name: (1,)}, waiting=(0,), running=(0,))
    product = replace(REPLAY.strategies["fixed-flexible"], series=series)

    replay = replace(REPLAY, stack=name, strategies={name: product}, assumptions=(name, "<b>--start</b>"))

    page = render(replay, live={name: name}, title=name)

    assert "<script>alert" not in page
    assert "<b>--start" not in page
    assert page.count("<script") == PAGE.count("<script")


@pytest.mark.parametrize("kept", [(), ("fixed-fleet",), ("fixed-flexible",), ("worker-autoscaling", "fixed-fleet")])
def test_a_replay_of_few_strategies_still_has_a_page(kept: tuple[str, ...], tmp_path: Path) -> None:
    replay = replace(REPLAY, strategies={name: REPLAY.strategies[name] for name in kept})

    write_report(replay, tmp_path / "report.html")

    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<figure") == (FIGURES if kept else 0)
    assert all(name in page for name in kept)


def test_a_replay_without_samples_or_days_still_has_a_page() -> None:
    empty = replace(REPLAY.strategies["fixed-flexible"], series=ClusterSeries(), usd_per_day=())

    page = render(replace(REPLAY, days=0, strategies={"fixed-flexible": empty}, open_spans=()), live={}, title="T")

    assert page.count("<figure") == FIGURES - 2  # no day in detail, no cost


def test_a_single_day_is_not_shown_twice() -> None:
    page = render(a_replay(days=1, samples_per_day=20), live={}, title="T")

    assert 'id="day"' in PAGE
    assert 'id="day"' not in page


def test_the_tooltips_data_can_be_read() -> None:
    documents = re.findall(r'<script type="application/json">(.*?)</script>', PAGE, flags=re.DOTALL)

    assert [sorted(json.loads(document)) for document in documents] == [["labels", "places", "rows"]] * 5


def test_four_weeks_of_wild_samples_stay_under_a_megabyte() -> None:
    results = {name: replace(r, series=wild(8000, place)) for place, (name, r) in enumerate(REPLAY.strategies.items())}
    replay: Replay = replace(REPLAY, days=28, strategies=results)

    assert len(render(replay, live={}, title="T").encode()) < 1_000_000


def test_folders_are_made_and_nothing_else_is_left_behind(tmp_path: Path) -> None:
    write_report(REPLAY, tmp_path / "out" / "demo" / "report.html", title="A title")

    assert [path.name for path in (tmp_path / "out" / "demo").iterdir()] == ["report.html"]
    assert "A title" in (tmp_path / "out" / "demo" / "report.html").read_text(encoding="utf-8")


def test_a_write_that_fails_leaves_the_old_page_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    path.write_text("the old page", encoding="utf-8")

    def full_disk(self: Path, text: str, encoding: str) -> int:
        with self.open("w", encoding=encoding) as file:
            file.write(text[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full_disk)
    with pytest.raises(Unwritable, match="No space left"):
        write_report(REPLAY, path)

    assert path.read_text(encoding="utf-8") == "the old page"
    assert list(tmp_path.iterdir()) == [path]
