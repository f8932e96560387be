"""The picture of a run: its loss in training and on held-out text, from metrics.jsonl.

matplotlib is imported when a picture is drawn.
"""

import logging
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int64

from mlmdist import files
from mlmdist.tracking.journal import METRICS, OUTBOX, STEP, read_all

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:
    Axes = Figure = object  # imported when a picture is drawn

log = logging.getLogger(__name__)

PICTURE = "loss.png"
TRAIN_LOSS = "train/mlm_loss"
HELD_OUT_LOSS = "held_out/mlm_loss"

INK, GREY, FAINT = "#1f2933", "#7b8794", "#e4e7eb"
TRAIN_COLOUR, HELD_OUT_COLOUR = "#2f6fb3", "#d1495b"
SMOOTHING_SHARE, MAX_SMOOTHING = 0.03, 50  # points to each side: a share of all, and at most
MAX_DRAWN_POINTS = 4000
MAX_MARKERS = 60
LABEL_GAP = 0.045  # between the middles of two labels, as a share of the height


@dataclass(frozen=True)
class Series:
    """A metric's finite values, by step."""

    steps: Int64[np.ndarray, "points"]
    values: Float[np.ndarray, "points"]

    def __bool__(self) -> bool:
        return self.steps.size > 0


@dataclass(frozen=True)
class Label:
    """A name in the right margin, level with what it names."""

    height: float
    text: str
    colour: str


def draw(run: Path) -> Path | None:
    """Draw `loss.png` in the run folder; its path, or None if there is no loss to draw yet."""
    train, held_out = (read_series(run / METRICS, name) for name in (TRAIN_LOSS, HELD_OUT_LOSS))
    if not train and not held_out:
        return None
    figure = _figure(run.resolve().name, train, held_out, read_levels(run / OUTBOX))
    with files.atomic_writer(run / PICTURE) as file:
        figure.savefig(file, format="png", dpi=160, metadata={"Software": None})
    return run / PICTURE


def read_series(path: Path, name: str) -> Series:
    """The finite values of metric `name` in a metrics.jsonl; each step once, the last one said."""
    values = {r[STEP]: float(r[name]) for r in read_all(path) if name in r}
    finite = sorted((step, value) for step, value in values.items() if math.isfinite(value))
    steps, losses = np.array([s for s, _ in finite]), np.array([v for _, v in finite])
    return Series(steps.astype(np.int64), losses.astype(np.float64))


def read_levels(path: Path) -> dict[str, float]:
    """The losses to compare with, in nats by name, as the last start of the run gave them."""
    openings = [event for event in read_all(path) if event["event"] == "open"]
    levels = openings[-1]["levels"] if openings else {}
    return {name: float(loss) for name, loss in levels.items()}


def smooth(values: Float[np.ndarray, "points"], half: int) -> Float[np.ndarray, "points"]:
    """The mean over `half` points to each side: as many as there are before and after."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    place = np.arange(values.size)
    before = np.minimum(half, place)
    after = np.minimum(before, values.size - 1 - place)  # so the first value stays the first
    return (total[place + after + 1] - total[place - before]) / (before + after + 1)


def spread(heights: list[float], gap: float) -> list[float]:
    """Rising heights moved apart to at least `gap`, each as a group around where it was."""
    groups: list[list[float]] = []
    for height in heights:
        groups.append([height])
        while len(groups) > 1 and _top(groups[-2], gap) + gap > _bottom(groups[-1], gap):
            last = groups.pop()
            groups[-1] += last
    return [_bottom(group, gap) + gap * i for group in groups for i in range(len(group))]


def thin(series: Series, count: int) -> Series:
    """At most `count` of the points, evenly spread, the first and last among them."""
    if series.steps.size <= count:
        return series
    chosen = np.linspace(0, series.steps.size - 1, count).round().astype(np.int64)
    return Series(series.steps[chosen], series.values[chosen])


def _bottom(group: list[float], gap: float) -> float:
    return sum(group) / len(group) - gap * (len(group) - 1) / 2


def _top(group: list[float], gap: float) -> float:
    return sum(group) / len(group) + gap * (len(group) - 1) / 2


def _figure(name: str, train: Series, held_out: Series, levels: dict[str, float]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    half = min(round(train.steps.size * SMOOTHING_SHARE), MAX_SMOOTHING)
    course = Series(train.steps, smooth(train.values, half))
    _draw_train(axes, thin(train, MAX_DRAWN_POINTS), thin(course, MAX_DRAWN_POINTS))
    _draw_held_out(axes, thin(held_out, MAX_DRAWN_POINTS))
    for loss in levels.values():
        axes.axhline(loss, color=GREY, linewidth=1, linestyle=(0, (5, 4)), zorder=1)
    _dress(axes, name)
    _set_limits(axes, course, held_out, levels)
    _write_labels(axes, _labels(course, held_out, levels))
    return figure


def _draw_train(axes: Axes, raw: Series, course: Series) -> None:
    """Every value faintly, and their smoothed course on top."""
    axes.plot(raw.steps, raw.values, color=TRAIN_COLOUR, alpha=0.25, linewidth=0.8)
    axes.plot(course.steps, course.values, color=TRAIN_COLOUR, linewidth=2)


def _draw_held_out(axes: Axes, held_out: Series) -> None:
    """A line, with a mark an evaluation as long as marks can be told apart."""
    marks: dict[str, Any] = {"marker": "o", "markersize": 5.5, "markeredgecolor": "white"}
    style = marks if held_out.steps.size <= MAX_MARKERS else {}
    axes.plot(
        held_out.steps, held_out.values, color=HELD_OUT_COLOUR, linewidth=2, zorder=3, **style
    )


def _dress(axes: Axes, name: str) -> None:
    axes.set_title(name, loc="left", fontsize=13, fontweight="bold", color=INK, pad=14)
    axes.set_xlabel("step", color=INK)
    axes.set_ylabel("masked-language-model loss (nats a token)", color=INK, labelpad=8)
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GREY)
    axes.tick_params(colors=INK, length=0)
    axes.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")


def _set_limits(axes: Axes, course: Series, held_out: Series, levels: dict[str, float]) -> None:
    """Frame the courses and the levels; a single wild step may leave the frame."""
    shown = np.concatenate([course.values, held_out.values, list(levels.values())])
    margin = 0.05 * max(float(np.ptp(shown)), 0.1)
    axes.set_ylim(float(shown.min()) - margin, float(shown.max()) + margin)
    last = max(int(series.steps[-1]) for series in (course, held_out) if series)
    axes.set_xlim(0, max(last, 1) * 1.01)


def _labels(course: Series, held_out: Series, levels: dict[str, float]) -> list[Label]:
    labels = [Label(loss, f"{name}  {loss:.2f}", GREY) for name, loss in levels.items()]
    for series, name, colour in (
        (course, "training", TRAIN_COLOUR),
        (held_out, "held-out", HELD_OUT_COLOUR),
    ):
        if series:
            last = float(series.values[-1])
            labels.append(Label(last, f"{name}  {last:.2f}", colour))
    return sorted(labels, key=lambda label: label.height)


def _write_labels(axes: Axes, labels: list[Label]) -> None:
    """Write in the right margin, none over another."""
    low, high = axes.get_ylim()
    heights = spread([label.height for label in labels], LABEL_GAP * (high - low))
    place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "va": "center"}
    for label, height in zip(labels, heights, strict=True):
        weight = "normal" if label.colour == GREY else "bold"
        axes.annotate(
            label.text,
            (1.0, height),
            xytext=(8, 0),
            textcoords="offset points",
            color=label.colour,
            fontweight=weight,
            **place,
        )
