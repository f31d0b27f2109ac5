"""What the commands return: a few fields, tables as DataFrames, and everything that the program said as .json."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Tuple

from . import _plots
from ._frames import flat, frame, has_pandas

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas


@dataclass(frozen=True)
class Result:
    """Every result has these.

    json     the object that the program printed, with all of it
    notes    what the program said beside it; each is also a riffle.Warning
    frame    the main table, as a pandas.DataFrame
    """

    json: Dict[str, Any] = field(repr=False)
    notes: Tuple[str, ...] = field(repr=False)

    @property
    def frame(self) -> pandas.DataFrame:
        raise NotImplementedError

    def _head(self) -> str:
        return "\n".join(f"{name}: {value}" for name, value in self.__dict__.items() if name not in ("json", "notes"))

    def __str__(self) -> str:
        table = f"\n\n{self.frame.to_string()}" if has_pandas() else ""
        return self._head() + table

    def _repr_html_(self) -> str:  # as a notebook shows it
        table = self.frame.to_html() if has_pandas() else ""
        return f"<pre>{html.escape(self._head())}</pre>{table}"


@dataclass(frozen=True)
class Plan(Result):
    """What a deployment's privacy costs, and what it learns, before it runs: see riffle.plan.

    epsilon, delta       guarantee of each person, at worst over the cohorts
    messages_per_user    bit messages of one person, at most
    bytes_per_user       bytes that one person sends, at most
    verdict              whether the plan is worth running: "run", or what else the program advises
    reasons              why, in sentences, and which channel is recommended

    frame                a row for each cohort
    channels             a row for each channel: its guarantee, its noise, what a person sends, whom it trusts
    releases             a row for each released vector of numbers
    prediction           a row for each assumed effect: what is gained, with its standard error
    policies             a row for each policy of each assumed effect: the gain after so many people
    """

    epsilon: float
    delta: float
    messages_per_user: float
    bytes_per_user: float
    verdict: Optional[str]
    reasons: Tuple[str, ...]

    @classmethod
    def of(cls, json: Dict[str, Any], notes: Tuple[str, ...]) -> Plan:
        said = json.get("prediction") or {}
        reasons = [*(said.get("verdict_reasons") or []), *(json.get("reasons") or [])]
        return cls(json, notes, json["epsilon"], json["delta"], json["messages_per_user"], json["bytes_per_user"],
                   said.get("verdict"), tuple(reasons))

    @property
    def frame(self) -> pandas.DataFrame:
        return frame([{"cohort": i + 1, **flat(c)} for i, c in enumerate(self.json["cohorts"])], "cohort")

    @property
    def channels(self) -> pandas.DataFrame:
        return frame([flat(c) for c in self.json.get("channels") or []], "trust")

    @property
    def releases(self) -> pandas.DataFrame:
        return frame({"cohort": i + 1, **flat(r)} for i, c in enumerate(self.json["cohorts"]) for r in c["releases"])

    def _cases(self) -> List[Mapping[str, Any]]:
        return (self.json.get("prediction") or {}).get("cases") or []

    @property
    def prediction(self) -> pandas.DataFrame:
        return frame([flat(c) for c in self._cases()], "name")

    @property
    def policies(self) -> pandas.DataFrame:
        return frame({"name": c["name"], **flat(p)} for c in self._cases() for p in c["policies"])

    def plot(self, ax: Optional[matplotlib.axes.Axes] = None) -> matplotlib.axes.Axes:
        """Draws what is gained over the best constant option, by the number of people. Needs matplotlib."""
        return _plots.gain(self.policies, ax)


@dataclass(frozen=True)
class Fit(Result):
    """Coefficients that may be published: see riffle.fit.

    epsilon, delta       guarantee of every row
    rests_on             whom it trusts
    rows, target         of the table
    assumes              what must be true for the intervals to hold
    dry_run              nothing was read or spent: the errors are those to expect, and no coefficient is one

    frame                a row for each coefficient: value, standard_error, low and high of the interval; with by= also
                         for each group
    groups               with by=: a row for each group, with its number of rows and its mean of the target
    left_epsilon         with ledger=: what a further fit may spend
    """

    epsilon: float
    delta: float
    rests_on: str
    rows: int
    target: str
    assumes: str
    dry_run: bool

    @classmethod
    def of(cls, json: Dict[str, Any], notes: Tuple[str, ...]) -> Fit:
        return cls(json, notes, json["epsilon"], json["delta"], json["rests_on"], json["rows"], json["target"],
                   json.get("assumes", ""), json.get("dry_run", False))

    @property
    def frame(self) -> pandas.DataFrame:
        if "groups" not in self.json:
            return frame([flat(c) for c in self.json["coefficients"]], "name")
        rows = [{"group": g["name"], **flat(c)} for g in self.json["groups"] for c in g.get("coefficients") or []]
        made = frame(rows)
        return made.set_index(["group", "name"]) if rows else made

    @property
    def groups(self) -> pandas.DataFrame:
        return frame([flat(g) for g in self.json.get("groups") or []], "name")

    @property
    def left_epsilon(self) -> Optional[float]:
        left: Optional[float] = (self.json.get("ledger") or {}).get("left_epsilon")
        return left

    def plot(self, ax: Optional[matplotlib.axes.Axes] = None) -> matplotlib.axes.Axes:
        """Draws the coefficients, but for intercepts, with their intervals. Needs matplotlib."""
        named = self.frame
        shown = named[named.index.get_level_values("name") != "(intercept)"]
        return _plots.intervals(shown, "value", f"coefficient for {self.target}", ax)


@dataclass(frozen=True)
class Ledger(Result):
    """What fits of the same people have spent: see riffle.ledger.

    epsilon, delta       budget of all fits together
    spent_epsilon        by fits until now
    left_epsilon         what a further fit may spend

    frame                a row for each fit
    """

    epsilon: float
    delta: float
    spent_epsilon: float
    left_epsilon: float

    @classmethod
    def of(cls, json: Dict[str, Any], notes: Tuple[str, ...]) -> "Ledger":
        return cls(json, notes, json["epsilon"], json["delta"], json["spent_epsilon"], json["left_epsilon"])

    @property
    def frame(self) -> pandas.DataFrame:
        return frame(flat(f) for f in self.json["list"])


@dataclass(frozen=True)
class Evaluation(Result):
    """What a policy would have earned on a log: see riffle.evaluate. Neither log nor estimates are private.

    decisions            of the log
    effective_size       with how many equally weighted decisions the estimates can be compared

    frame                a row for each estimator, for what was played (logged) and for what the policy earns more
                         (over_logged), with its interval where there is one
    """

    decisions: int
    effective_size: Optional[float]

    @classmethod
    def of(cls, json: Dict[str, Any], notes: Tuple[str, ...]) -> Evaluation:
        return cls(json, notes, json["decisions"], (json.get("overlap") or {}).get("effective_size"))

    @property
    def frame(self) -> pandas.DataFrame:
        rows = []
        for of in (self.json, self.json.get("comparison") or {}):
            for name, v in of.items():
                if isinstance(v, Mapping) and "value" in v:
                    rows.append(_valued({"estimate": name}, v))
        return frame(rows, "estimate")

    def plot(self, ax: Optional[matplotlib.axes.Axes] = None) -> matplotlib.axes.Axes:
        """Draws the estimates with their intervals. Needs matplotlib."""
        return _plots.intervals(self.frame.drop("over_logged", errors="ignore"), "value", "mean reward", ax, zero=False)


@dataclass(frozen=True)
class Replay(Result):
    """What a deployment would have brought on past decisions: see riffle.replay. Not private.

    decisions            of the log
    people               whom each replay accepted: intervals are of live runs with so many
    epsilon, delta       guarantee of each person in a live run

    frame                the mean reward of what was played, of uniform play, of each channel and of the same learner
                         without privacy: while_learning, and last_policy for those who come after it, with intervals
    gain                 the same less what was played, with the intervals of the difference
    """

    decisions: int
    people: int
    epsilon: float
    delta: float

    @classmethod
    def of(cls, json: Dict[str, Any], notes: Tuple[str, ...]) -> "Replay":
        return cls(json, notes, json["decisions"], json["people"], json["epsilon"], json["delta"])

    def _table(self, suffix: str) -> pandas.DataFrame:
        ways = [(c["trust"], c) for c in self.json["channels"]] + [("without_privacy", self.json["without_privacy"])]
        rows = [] if suffix else [_valued({"way": way, "part": "all"}, self.json[way]) for way in ("logged", "uniform")]
        rows += [_valued({"way": way, "part": part}, of[part + suffix]) for way, of in ways
                 for part in ("while_learning", "last_policy")]
        return frame(rows).set_index(["way", "part"])

    @property
    def frame(self) -> pandas.DataFrame:
        return self._table("")

    @property
    def gain(self) -> pandas.DataFrame:
        return self._table("_over_logged")

    def plot(self, ax: Optional[matplotlib.axes.Axes] = None) -> matplotlib.axes.Axes:
        """Draws the gain of the last policy over what was played. Needs matplotlib."""
        return _plots.intervals(self.gain.xs("last_policy", level="part"), "value", "reward over what was played", ax)


def _valued(row: Dict[str, Any], of: Mapping[str, Any]) -> Dict[str, Any]:
    """A row with a value and its interval, where there is one."""
    within = of.get("interval") or {}
    return {**row, "value": of["value"], "standard_error": within.get("se"), "low": within.get("low"),
            "high": within.get("high")}


@dataclass(frozen=True)
class Simulation(Result):
    """What a whole deployment learnt from simulated people: see riffle.simulate.

    users, epochs        people and cohorts
    epsilon, delta       guarantee of each person, as it was measured
    seconds              that it took

    frame                a row for each way to decide, with the reward that it missed, of all people together
    processes            a row for each process, with what it used
    """

    users: int
    epochs: int
    epsilon: float
    delta: float
    seconds: float

    @classmethod
    def of(cls, json: Dict[str, Any], notes: Tuple[str, ...]) -> Simulation:
        return cls(json, notes, json["users"], json["epochs"], json["epsilon"], json["delta"], json["wall_seconds"])

    @property
    def frame(self) -> pandas.DataFrame:
        ways = {"riffle": "regret", "without privacy": "nonprivate_regret", "best constant": "constant_regret",
                "uniform": "uniform_regret"}
        return frame([{"decides": way, "regret": self.json[key], "regret_per_user": self.json[key] / self.users}
                      for way, key in ways.items() if self.json.get(key) is not None], "decides")

    @property
    def processes(self) -> pandas.DataFrame:
        return frame(self.json["processes"], "name")

    def plot(self, ax: Optional[matplotlib.axes.Axes] = None) -> matplotlib.axes.Axes:
        """Draws the reward that was missed. Needs matplotlib."""
        return _plots.bars(self.frame["regret"], "reward missed", ax)


@dataclass(frozen=True)
class Audit(Result):
    """What a deployment's signed logs show: see riffle.audit.

    ok                   nothing is wrong; else see breaches
    deployment, channel  which deployment
    epsilon_so_far       what was revealed of a person who reported once, at delta
    promise              largest epsilon that was promised

    frame                a row for each round, with what was promised and what was released
    breaches             a row for each thing that is wrong
    coefficients         a row for each round and coefficient, with the half width of its interval
    """

    ok: bool
    deployment: str
    channel: str
    epsilon_so_far: Optional[float]
    delta: float
    promise: float

    @classmethod
    def of(cls, json: Dict[str, Any], notes: Tuple[str, ...]) -> Audit:
        return cls(json, notes, json["ok"], json["deployment"], json["channel"], json.get("epsilon_so_far"),
                   json["delta"], json["promise"])

    @property
    def frame(self) -> pandas.DataFrame:
        return frame(flat(r) for r in self.json["rounds"]).drop(columns=["interval", "announced"], errors="ignore")

    @property
    def breaches(self) -> pandas.DataFrame:
        return frame(b if isinstance(b, Mapping) else {"breach": b} for b in self.json["breaches"])

    @property
    def coefficients(self) -> pandas.DataFrame:
        rows = []
        for r in self.json["rounds"]:
            widths = r.get("half_width") or []
            for i, c in enumerate(r.get("coefficients") or []):
                rows.append({"epoch": r["epoch"], "round": r["round"], "coefficient": i, "value": c,
                             "half_width": widths[i] if i < len(widths) else None})
        return frame(rows)


@dataclass(frozen=True)
class Certificate(Result):
    """What one cohort's certificate shows: see riffle.verify.

    ok                   it holds
    trusted              whose keys were taken
    epoch, channel       which cohort
    epsilon, delta       guarantee of each of its people
    rests_on             whom it trusts

    frame                a row for each observer: what is left of the guarantee towards them, and if whom is honest
    """

    ok: bool
    trusted: str
    epoch: int
    channel: str
    epsilon: float
    delta: float
    rests_on: str

    @classmethod
    def of(cls, json: Dict[str, Any], notes: Tuple[str, ...]) -> Certificate:
        c = json["certificate"]
        return cls(json, notes, json["ok"], json["trusted"], c["epoch"], c["channel"], c["epsilon"], c["delta"],
                   c["rests_on"])

    @property
    def frame(self) -> pandas.DataFrame:
        return frame(self.json["observers"], "sees")


@dataclass(frozen=True)
class Report(Result):
    """Whether the policy helps, compared with a control group: see riffle.report.

    ok                   the audit found nothing wrong
    verdict              whether it helps, in a sentence
    epsilon_so_far       what was revealed of a person who reported once, at delta

    frame                a row for each epoch, with the effect and its interval where there is a control group
    """

    ok: bool
    verdict: str
    epsilon_so_far: Optional[float]
    delta: float

    @classmethod
    def of(cls, json: Dict[str, Any], notes: Tuple[str, ...]) -> Report:
        return cls(json, notes, json["ok"], json["verdict"], json.get("epsilon_so_far"), json["delta"])

    @property
    def frame(self) -> pandas.DataFrame:
        return frame([flat(e) for e in self.json["epochs"]], "epoch")
