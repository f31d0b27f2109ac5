"""Pictures, where matplotlib is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from ._program import Error

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas


def axes(ax: Optional[matplotlib.axes.Axes]) -> Any:
    """The axes to draw in: those that were given, or new ones."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as err:
        raise Error("pictures need matplotlib, which is not installed",
                    "install it (pip install matplotlib; Debian: apt-get install python3-matplotlib)") from err
    return pyplot.subplots(layout="constrained")[1]


def intervals(table: pandas.DataFrame, value: str, label: str, ax: Optional[matplotlib.axes.Axes], *,
              zero: bool = True) -> Any:
    """A point for each row, from top to bottom, with its interval where it has one; zero: with a line at 0."""
    ax = axes(ax)
    for place, (_, row) in enumerate(table.iloc[::-1].iterrows()):
        if row["low"] == row["low"] and row["low"] is not None:  # else there is no interval
            ax.plot([row["low"], row["high"]], [place, place], color="C0")
        ax.plot([row[value]], [place], "o", color="C0")
    ax.set_yticks(range(len(table)), [_named(name) for name in table.index[::-1]])
    ax.set_ylim(-0.5, len(table) - 0.5)
    if zero:
        ax.axvline(0, color="0.7", linewidth=1, zorder=0)
    ax.set_xlabel(label)
    return ax


def gain(policies: pandas.DataFrame, ax: Optional[matplotlib.axes.Axes]) -> Any:
    """A line for each assumed effect, with two standard errors to each side."""
    ax = axes(ax)
    if not len(policies):
        raise Error("the plan predicts nothing", "plan cohorts of the learner's own, with predict=True")
    for name, of in policies.groupby("name", sort=False):
        error = 2 * of["gain_standard_error"]
        line, = ax.plot(of["after"], of["gain_mean"], marker=".", label=str(name))
        ax.fill_between(of["after"], of["gain_mean"] - error, of["gain_mean"] + error, alpha=0.2,
                        color=line.get_color())
    ax.axhline(0, color="0.7", linewidth=1, zorder=0)
    ax.set_xlabel("people learnt from")
    ax.set_ylabel("gain over the best constant option")
    ax.legend(title="assumed effect")
    return ax


def bars(column: pandas.Series[float], label: str, ax: Optional[matplotlib.axes.Axes]) -> Any:
    """A bar for each row, from top to bottom."""
    ax = axes(ax)
    ax.barh([_named(name) for name in column.index[::-1]], column.iloc[::-1])
    ax.set_xlabel(label)
    return ax


def _named(name: Any) -> str:
    """A row's name as people read it."""
    return ": ".join(map(_named, name)) if isinstance(name, tuple) else str(name)
