"""Inks of page and charts, for light and for dark paper: one home for their variables and for the standalone picture.

Neighbouring bands differ in lightness as well as in hue, so they stay apart for colour-blind readers and in print;
every ink of a mark keeps a contrast of 3 to 1 against its paper, every ink of a text 4.5 to 1.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import cycle

FLEET, PRODUCT, BOUND = "fixed-fleet", "fixed-flexible", "zero-wait-bound"

LIGHT: Mapping[str, str] = {
    "paper": "#ffffff",
    "ground": "#f3f5f8",
    "code": "#eef2f7",
    "text": "#1b2533",
    "quiet": "#586577",
    "accent": "#0f4c81",
    "line": "#e1e6ee",
    "grid": "#d9dfe8",
    "axis": "#758296",
    "open": "#fbf1d5",
    "mark": "#1b2533",
    "g0": "#2c3a57",
    "g1": "#2f82b8",
    "g2": "#c98000",
    "g3": "#b3402f",
    "g4": "#8264ae",
    "g5": "#3d8b5f",
    "g6": "#a8487f",
    "g7": "#6f7330",
    "g8": "#1f7f86",
    "g9": "#8a5a2b",
    "g10": "#5a5fb0",
    "g11": "#6b7686",
    "g12": "#5f8a1e",
    "g13": "#d0356a",
    "k0": "#858f9f",
    "k1": "#c0762a",
    "k2": "#4a93c6",
    "k3": "#0f4c81",
    "k4": "#8264ae",
    "k5": "#3d8b5f",
    "k6": "#525c6b",
    "k7": "#a8487f",
    "k8": "#1f7f86",
    "k9": "#9a4a3c",
    "k10": "#5a5fb0",
    "k11": "#6f7330",
}
DARK: Mapping[str, str] = {
    "paper": "#131a24",
    "ground": "#0b1017",
    "code": "#0d141d",
    "text": "#e8edf4",
    "quiet": "#a3afbf",
    "accent": "#8fd3ff",
    "line": "#253040",
    "grid": "#2b3646",
    "axis": "#74829a",
    "open": "#212b3a",
    "mark": "#f4f7fb",
    "g0": "#6376a2",
    "g1": "#4c9fd6",
    "g2": "#f0b64a",
    "g3": "#d9614d",
    "g4": "#a58bd0",
    "g5": "#5fb485",
    "g6": "#d987b6",
    "g7": "#a9ad5c",
    "g8": "#4fb5bd",
    "g9": "#c69a6a",
    "g10": "#8f95e0",
    "g11": "#98a4b5",
    "g12": "#a4d44e",
    "g13": "#ff7ba5",
    "k0": "#8b97a9",
    "k1": "#d68e45",
    "k2": "#4f96c9",
    "k3": "#8fd3ff",
    "k4": "#a58bd0",
    "k5": "#5fb485",
    "k6": "#c3ccd8",
    "k7": "#d987b6",
    "k8": "#4fb5bd",
    "k9": "#d9806f",
    "k10": "#8f95e0",
    "k11": "#a9ad5c",
}
_GROUPS = {"fixed": "g0", "flexible": "g1", "gpu": "g2", "gpu-large": "g3", "spot": "g4"}
_STRATEGIES = {
    "peak-fleet": "k6",
    FLEET: "k0",
    "keda-defaults": "k4",
    "karpenter-defaults": "k9",
    "worker-autoscaling": "k1",
    "cluster-autoscaling": "k2",
    PRODUCT: "k3",
    "fixed-flexible-spot": "k8",
    "karpenter": "k10",
    "managed-groups": "k11",
    BOUND: "k5",
}


MARKS = tuple(name for name in LIGHT if re.fullmatch(r"[gk]\d+", name))
"""The inks of groups (g) and of strategies (k)."""
JOBS: tuple[str, str] = ("jobs running", "jobs waiting")


def job_inks(groups: Iterable[str]) -> dict[str, str]:
    """The inks of `JOBS` in a chart with these node groups: those that no group has, as long as there are any."""
    inks = group_inks([*groups, *JOBS])
    return {name: inks[name] for name in JOBS}


def group_inks(names: Iterable[str]) -> dict[str, str]:
    """The ink of each node group, known groups first: also the order in which they are stacked."""
    return _inks(names, _GROUPS, "g")


def strategy_inks(names: Iterable[str]) -> dict[str, str]:
    """The ink of each strategy, known strategies first: also the order in which they are listed."""
    return _inks(names, _STRATEGIES, "k")


def variables(inks: Mapping[str, str]) -> str:
    """The inks as CSS declarations."""
    return "".join(f"--{name}:{value};" for name, value in inks.items())


def literal(css: str, inks: Mapping[str, str]) -> str:
    """`css` with each variable replaced by its value, for readers of SVG that know no CSS variables."""
    return re.sub(r"var\(--([a-z0-9]+)\)", lambda match: inks[match[1]], css)


def _inks(names: Iterable[str], fixed: Mapping[str, str], family: str) -> dict[str, str]:
    """Give other names first the unassigned inks, then those of fixed names that are absent."""
    distinct = list(dict.fromkeys(names))
    inks = {name: ink for name, ink in fixed.items() if name in distinct}
    every = [name for name in MARKS if name.startswith(family)]  # further names reuse them
    unassigned = [ink for ink in every if ink not in fixed.values()]
    absent = [ink for ink in reversed(every) if ink in fixed.values() and ink not in inks.values()]
    spare = cycle([*unassigned, *absent])
    return inks | {name: next(spare) for name in distinct if name not in fixed}


def _rules() -> str:
    fills = "".join(f".f-{ink}{{fill:var(--{ink})}}.s-{ink}{{stroke:var(--{ink})}}" for ink in MARKS)
    return fills + (
        "svg text{font-family:Inter,system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;"
        "font-size:12.5px;fill:var(--quiet);font-variant-numeric:tabular-nums}"
        "svg .strong{fill:var(--text);font-weight:600}"
        "svg .halo{paint-order:stroke;stroke:var(--paper);stroke-width:4px;stroke-linejoin:round}"
        ".paper{fill:var(--paper)}.open{fill:var(--open)}.gap{fill:var(--grid)}.grid{stroke:var(--grid);stroke-width:1}"
        ".axis{stroke:var(--axis);stroke-width:1}.edge{stroke:var(--paper);stroke-width:.75;stroke-linejoin:round}"
        ".level{stroke:var(--mark);stroke-width:1.5;stroke-dasharray:6 4;fill:none}"
        ".f-mark{fill:var(--mark)}.point{stroke:var(--paper);stroke-width:1.5}.curve{fill:none;stroke-width:2;stroke-linejoin:round}"
        ".track{fill:var(--line)}.crosshair{stroke:var(--mark);stroke-width:1;visibility:hidden}"
    )


CHART_CSS = _rules()
"""The rules that the charts' classes need, in variables."""
