"""What a preview costs before any engine: imports, the whole stack recorded, the settings checked."""

from benchmarks.measure import Figures, fresh_process, spread

RECORD = """
from ebbtide.settings import load_stack
from ebbtide.preview.recording import record
record(load_stack("demo"))
"""
CHECK = 'from ebbtide.settings import load_stack; load_stack("demo")'


def measured() -> dict[str, Figures]:
    found: dict[str, Figures] = {}
    for name, code in (("program", RECORD), ("check", CHECK)):
        seconds, peaks = fresh_process(code, runs=5)
        found[f"{name}_cpu_s"] = spread(seconds)
        found[f"{name}_peak_mib"] = spread(peaks, 0)
    return found
