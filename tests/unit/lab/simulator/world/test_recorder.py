"""Counts at their changes."""

from ebbtide.lab.simulator.results import SeriesRecorder


def test_of_the_samples_at_one_instant_the_last_counts() -> None:
    recorder = SeriesRecorder(("flexible",))
    recorder.sample(0.0, {"flexible": 1}, 0, 0)
    recorder.sample(5.0, {"flexible": 1}, 3, 0)
    recorder.sample(5.0, {"flexible": 2}, 0, 3)

    series = recorder.series()

    assert (series.at, series.nodes["flexible"]) == ((0.0, 5.0), (1, 2))
    assert (series.waiting, series.running) == ((0, 0), (0, 3))


def test_a_sample_that_changes_nothing_is_dropped() -> None:
    recorder = SeriesRecorder(("flexible", "gpu"))
    recorder.sample(0.0, {"flexible": 1}, 0, 0)
    recorder.sample(4.0, {"flexible": 1, "gpu": 0}, 0, 0)

    assert recorder.series().at == (0.0,)


def test_a_change_that_is_taken_back_at_once_leaves_no_trace() -> None:
    recorder = SeriesRecorder(())
    recorder.sample(0.0, {}, 0, 0)
    recorder.sample(4.0, {}, 1, 0)
    recorder.sample(4.0, {}, 0, 0)

    assert recorder.series().at == (0.0,)
