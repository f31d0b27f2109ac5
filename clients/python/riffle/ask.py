"""Asks the panels of a running deployment for a mean, a histogram or a regression, private like all that it learns.

    schema = {"version": 1, "context": [{"name": "age", "kind": "number", "low": 18, "high": 90}],
              "arms": [{"name": "id", "kind": "category", "values": ["none", "reminder"], "baseline": True}],
              "terms": [["bias"], ["id"], ["age"]]}
    with riffle.Deployment(schema, people=600, panel=300, records=4, epsilon=4) as d:
        riffle.ask.mean(d, ["age", "reward"], name="who", dry_run=True).frame     # how precise it would be
        riffle.ask.mean(d, ["age", "reward"], name="who")
        riffle.ask.histogram(d, "age", name="ages", edges=[30, 50, 70])
        d.simulate(people, ["none", "reminder"], reward)
        riffle.ask.answers(d).frame

A question is about decisions of one epoch whose reward came in time, by the people who are drawn for its panel. It is
asked in an epoch that begins after it, in place of teaching the learner, and costs a person who is drawn one of the
epochs that they may report in (records). How many decisions there were is released beside it, since who had nothing to
report must not count as 0.

Instead of a riffle.Deployment give Broker(keys, broker_url, questions) of one that runs elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import _commands, _plots
from ._deployment import Deployment
from ._frames import frame
from ._program import EXIT_BREACH, Error, flags, result
from ._results import Result

if TYPE_CHECKING:
    import os

    import matplotlib.axes
    import pandas

    Path_ = Union[str, os.PathLike[str]]

__all__ = ["Answers", "Broker", "Question", "answers", "fit", "histogram", "mean"]

#: The row of how many decisions there were.
DECISIONS = "decisions with a reward"


class Broker(NamedTuple):
    """Where a deployment runs that riffle.Deployment did not start.

    keys         folder made by riffle keygen, of which the bundle and auditor/ are read
    broker_url   URL of its broker
    questions    folder that the analyzer reads questions from (its setting questions); empty: nothing can be asked
    """

    keys: Path_
    broker_url: str
    questions: Path_ = ""


@dataclass(frozen=True)
class Question(Result):
    """What a question costs, and how precise its answer will be: see riffle.ask.

    name, kind       of the question; kind is mean, histogram or fit
    asked            it waits to be asked; False after a dry run
    panel            people who are drawn for it
    epsilon          what the answer reveals of a person who is drawn, at delta; promise is the most that all of their
                     epochs may, of which this is one of records
    records          epochs that one person may report in

    frame            a row for each number: half_width of its 95 % interval, if each of the panel has one decision with
                     a reward; missing where there will be too much noise for any
    """

    name: str
    kind: str
    asked: bool
    panel: int
    epsilon: float
    delta: float
    promise: float
    records: int

    @classmethod
    def of(cls, json: Dict[str, Any], notes: Tuple[str, ...]) -> Question:
        return cls(json, notes, json["name"], json["kind"], "written" in json, json["panel"],
                   json["epsilon_question"], json["delta"], json["promise"], json["records"])

    @property
    def frame(self) -> pandas.DataFrame:
        return frame([{"of": e["of"], "half_width": None if e.get("unbounded") else e["half_width"]}
                      for e in self.json["expected"]], "of")


@dataclass(frozen=True)
class Answers(Result):
    """What panels answered: see riffle.ask.answers.

    ok               the audit of the logs found nothing wrong; else rely on nothing here
    deployment       which
    delta            of each epsilon

    frame            a row for each number of each question: value, low and high of its 95 % interval and, of means, the
                     standard deviation of the field itself; missing where the noise is too large to say anything. The
                     row "decisions with a reward" is the number of those who had something to report, whose interval
                     is of the noise alone
    questions        a row for each question: kind, epoch, outcome ("answered", or what became of its cohort), reports,
                     decisions, and epsilon, which it revealed of a person who was drawn
    """

    ok: bool
    deployment: str
    delta: float

    @classmethod
    def of(cls, json: Dict[str, Any], notes: Tuple[str, ...]) -> Answers:
        return cls(json, notes, json["ok"], json["deployment"], json["delta"])

    @property
    def frame(self) -> pandas.DataFrame:
        rows = [_row(a["name"], v) for a in self.json["answers"] for v in [a["count"], *a["values"]]]
        made = frame(rows)
        return made.set_index(["question", "of"]) if rows else made

    @property
    def questions(self) -> pandas.DataFrame:
        rows = [{**{k: a[k] for k in ("name", "kind", "epoch", "reports", "epsilon")}, "outcome": "answered",
                 "decisions": a["count"]["value"]} for a in self.json["answers"]]
        return frame(rows + self.json.get("unanswered", []), "name")

    def plot(self, ax: Optional[matplotlib.axes.Axes] = None, *, name: Optional[str] = None) -> matplotlib.axes.Axes:
        """Draws the numbers of a question, the last one if no name is given, with intervals. Needs matplotlib."""
        if not self.json["answers"]:
            raise Error("no panel has answered a question", "wait until the epoch of the question is over")
        name = self.json["answers"][-1]["name"] if name is None else name
        if name not in self.questions.index:
            raise Error(f"no panel has answered a question {name}", f"there are {', '.join(self.questions.index)}")
        kind = str(self.questions.loc[name, "kind"])
        label = {"mean": "mean", "histogram": "share of decisions", "fit": "coefficient"}[kind]
        return _plots.intervals(self.frame.loc[name].drop(DECISIONS), "value", f"{label} ({name})", ax,
                                zero=kind == "fit")


def _row(name: str, of: Mapping[str, Any]) -> Dict[str, Any]:
    shown = {} if of.get("unbounded") else of
    return {"question": name, "of": of["of"], "value": shown.get("value"), "low": shown.get("low"),
            "high": shown.get("high"), "standard_deviation": shown.get("deviation")}


def mean(of: Union[Deployment, Broker], fields: Union[str, Sequence[str]], *, name: str, dry_run: bool = False
         ) -> Question:
    """Asks for the mean of each field over decisions, its standard deviation, and the number of decisions.

    >>> riffle.ask.mean(d, ["age", "reward"], name="who", dry_run=True).frame
    >>> riffle.ask.mean(d, ["age", "reward"], name="who")

    of         a riffle.Deployment with a panel, or a Broker
    fields     numbers, flags, categories and buckets of the schema, or "reward". More of them in one question cost
               nobody more, but share the precision
    name       of the question, of a-z, 0-9 and -; each of a deployment has its own
    dry_run    ask nothing: say what it would cost, and how precise the answer would be

    A number that is missing counts as the middle of its range, as it does in what is learnt.
    """
    return _ask("mean", of, _list(fields), name, dry_run)


def histogram(of: Union[Deployment, Broker], field: str, *, name: str, bins: Optional[int] = None,
              edges: Optional[Sequence[float]] = None, dry_run: bool = False) -> Question:
    """Asks for the share of decisions with each value of a category or flag, or in each range of a number.

    >>> riffle.ask.histogram(d, "age", name="ages", edges=[30, 50, 70])

    of, name, dry_run   as in riffle.ask.mean
    bins                ranges of equal width of a number; default 8
    edges               or the values between its ranges

    A baseline value, a missing one, and one that is not listed are in the last cell, "any other".
    """
    return _ask("histogram", of, [field], name, dry_run, bins=bins, edges=edges)


def fit(of: Union[Deployment, Broker], outcome: str, fields: Union[str, Sequence[str]], *, name: str,
        dry_run: bool = False) -> Question:
    """Asks for the linear regression of an outcome on fields, with an intercept.

    >>> riffle.ask.fit(d, "reward", ["age", "evening"], name="gain")

    of, name, dry_run   as in riffle.ask.mean
    outcome, fields     of the schema, or "reward"

    Coefficients are of values clipped to their ranges, in their own units. Intervals take the outcome to spread equally
    around the prediction everywhere.
    """
    return _ask("fit", of, [outcome, *_list(fields)], name, dry_run)


def answers(of: Union[Deployment, Broker, Path_], *, name: Optional[str] = None, trust: Optional[Path_] = None
            ) -> Answers:
    """What panels answered so far, of audited logs: every number is recomputed from signed counts.

    >>> a = riffle.ask.answers(d)
    >>> a.ok
    >>> a.frame.loc["who"]         # value, low and high of each number
    >>> a.questions                # epsilon, reports and decisions of each question

    of       a riffle.Deployment, a Broker, or an export of a deployment's logs
    name     of one question
    trust    of an export: bundle.json with the keys to trust, as in riffle.audit

    An answer is there when its epoch is over. A breach is no exception: see .ok.
    """
    if isinstance(of, (Deployment, Broker)):
        given = _at(of)
    else:
        given = [_commands.export(of)]
    return Answers.of(*result("ask answers", [*given, *flags({"name": name, "trust": trust})],
                              codes=(0, EXIT_BREACH)))


def _ask(kind: str, of: Union[Deployment, Broker], fields: List[str], name: str, dry_run: bool, **more: Any
         ) -> Question:
    given = _at(of)
    if not dry_run and not of.questions:
        raise Error("nothing can be asked of this deployment",
                    "give a riffle.Deployment a panel=, or a Broker the analyzer's folder of questions")
    wrong = [f for f in fields if not isinstance(f, str)]
    if wrong:
        raise Error(f"a field is of the type {type(wrong[0]).__name__}", "name fields of the schema, or reward")
    given += flags({"name": name, "questions": None if dry_run else of.questions, **more})
    return Question.of(*result(f"ask {kind}", [*given, "--", *fields]))


def _at(of: Union[Deployment, Broker]) -> List[str]:
    """Flags that say where a deployment is."""
    if isinstance(of, Deployment):
        of._runs()
    elif not isinstance(of, Broker):
        raise Error(f"a {type(of).__name__} is no deployment", "give a riffle.Deployment or a riffle.ask.Broker")
    return flags({"keys": of.keys, "broker_url": of.broker_url})


def _list(fields: Union[str, Sequence[str]]) -> List[str]:
    return [fields] if isinstance(fields, str) else list(fields)
