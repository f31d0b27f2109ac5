"""The commands of the program as functions."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from ._frames import category, file, is_table, lines, log_file, plain, written
from ._program import EXIT_BREACH, Error, flags, path_of, result, run
from ._policy import Policy
from ._results import Audit, Certificate, Evaluation, Fit, Ledger, Plan, Replay, Report, Simulation

if TYPE_CHECKING:
    import os

    import pandas

    Path_ = Union[str, os.PathLike[str]]
    Schema = Union[Mapping[str, Any], str, os.PathLike[str]]
    Table = Union[str, os.PathLike[str], pandas.DataFrame]


def plan(users: Optional[int] = None, *, dim: Optional[int] = None, options: Optional[int] = None,
         context: Optional[int] = None, epsilon: Optional[float] = None, delta: Optional[float] = None,
         trust: Optional[str] = None, effect: Optional[float] = None, baseline: Optional[float] = None,
         from_log: Optional[Table] = None, schema: Optional[Schema] = None,
         columns: Optional[Mapping[str, Any]] = None, predict: bool = True, **more: Any) -> Plan:
    """What will privacy cost, and what will be learnt, before anything runs?

    >>> p = riffle.plan(users=2000, dim=3, trust="shares", effect=0.2)
    >>> p.verdict, p.epsilon
    >>> p.frame                    # each cohort
    >>> p.channels                 # the four channels beside each other
    >>> p.prediction               # what is gained if the effect is small, medium, large, or as you say

    users      people, whom the learner divides into cohorts
    dim        numbers that describe an arm; or options and context: arms with weights of their own for each number
    epsilon    of each person's guarantee, at delta
    trust      the channel, which is whom people trust: shuffle, shares, local or central
    effect     by how much the option that is best for a person exceeds the best constant one, on average
    from_log   a log of decisions, with schema and columns as in riffle.evaluate, whose people stand for those to come
    more       every other flag of `riffle plan`, with underscores: riffle.plan(500, dishonest=0.1)

    Raises riffle.Error where no plan keeps the promise, with what would help.
    """
    given = flags({"users": users, "dim": dim, "options": options, "context": context, "epsilon": epsilon,
                   "delta": delta, "trust": trust, "effect": effect, "baseline": baseline, "predict": predict, **more})
    if from_log is None:
        return Plan.of(*result("plan", given))
    with log_file(from_log, schema, columns) as (log, read, fds):
        return Plan.of(*result("plan", [*given, f"--from-log={log}", *read], fds=fds))


def fit(data: Optional[Table], target: str, *, epsilon: float, bounds: Mapping[str, Tuple[float, float]],
        categories: Optional[Mapping[str, Sequence[Any]]] = None, features: Optional[Sequence[str]] = None,
        delta: Optional[float] = None, family: Optional[str] = None, trust: Optional[str] = None,
        by: Optional[str] = None, missing: Optional[str] = None, confidence: Optional[float] = None,
        ledger: Optional[Path_] = None, budget: Optional[float] = None, dry_run: bool = False,
        rows: Optional[int] = None, **more: Any) -> Fit:
    """Fits a private regression to a table that you hold. The coefficients may be published.

    >>> bounds = {"pressure": (80, 200), "age": (18, 90)}
    >>> riffle.fit(None, "pressure", epsilon=1, bounds=bounds, rows=5000, dry_run=True).frame   # spends nothing
    >>> f = riffle.fit(people, "pressure", epsilon=1, bounds=bounds, categories={"sex": ["f", "m"]})
    >>> f.frame                    # value, standard_error, low, high of each coefficient

    data         a path of CSV or JSON Lines, or a DataFrame, with a row for each person
    bounds       public bounds of each column, outside which values are clipped: from general knowledge, never from data
    categories   all values that a column can have; coefficients are against the first one
    features     columns to predict with; else all others that have bounds or categories, in that order
    family       linear, or logistic for a target of 0 and 1
    trust        central: whoever runs this sees the rows; shuffle, shares, local: what devices would have found
    by           a column of groups, declared in categories: rows, mean and a fit of each, for the price of one fit
    ledger       a file of what all fits of the same people spent; the first one begins it, with budget
    dry_run      say what such a fit will be able to show: spends nothing, and needs no data but rows
    more         every other flag of `riffle fit`

    Each call is a new draw of noise and spends epsilon again, so do not repeat it until you like the result. A ledger
    refuses what its budget does not allow. Rows of a DataFrame go to the program through a pipe, never to the disk, and
    only the columns that are named here. A "line 3" in an error is the third row.
    """
    target, by = str(target), None if by is None else str(by)
    said = _declared(bounds, categories)
    if features is None:
        features = [name for name in said if name not in (target, by)] or None
    given = flags({"target": target, "epsilon": epsilon, "delta": delta, "features": features, "family": family,
                   "trust": trust, "by": by, "missing": missing, "confidence": confidence, "ledger": ledger,
                   "budget": budget, "dry_run": dry_run or None, "rows": rows, **more})
    with tempfile.TemporaryDirectory(prefix="riffle-") as folder:
        given.append("--bounds-file=" + written(folder, "bounds.json", said))
        if data is None:
            return Fit.of(*result("fit", given))
        if is_table(data):
            _named(said)
            used = {target, *said, *map(str, features or []), *([by] if by is not None else [])}
            text = lines(data, only=used, numbers=[n for n, of in said.items() if not isinstance(of[0], str)],
                         texts=[n for n, of in said.items() if isinstance(of[0], str)])
            return Fit.of(*result("fit", ["-", *given], data=text))
        with file(data) as (path, _):
            return Fit.of(*result("fit", [path, *given]))


def _named(columns: Iterable[str]) -> None:
    for name in columns:
        if name.replace(".", "").isdigit():
            raise Error(f"a column is named by the number {name}", 'name it by a text: table.add_prefix("x")')


def _declared(bounds: Mapping[Any, Any], categories: Optional[Mapping[Any, Any]]) -> Dict[str, List[Any]]:
    """What is public about columns: [low, high] of numbers, and texts of categories."""
    said: Dict[str, List[Any]] = {}
    for what, given in (("bounds", bounds), ("categories", categories or {})):
        if not isinstance(given, Mapping):
            raise Error(f"{what} is of the type {type(given).__name__}", "give a dict with a key for each column")
        for column, values in given.items():
            values = plain(values)
            name = str(column)
            if name in said:
                raise Error(f"the column {name} has bounds and categories", "leave out one of the two")
            if not isinstance(values, list) or any(v is None or v == "" for v in values):
                raise Error(f"the {what} of the column {name} are no list, or one of them is missing or empty",
                            "a missing value is none of a category's: help(riffle.fit) has examples")
            if what == "bounds" and (len(values) != 2 or any(isinstance(v, str) for v in values)):
                raise Error(f"the bounds of the column {name} are not two finite numbers",
                            "give (low, high), from general knowledge and never from data")
            said[name] = values if what == "bounds" else [category(v) for v in values]
    return said


def ledger(path: Path_) -> Ledger:
    """What fits of the same people have spent, and what is left: the file that riffle.fit keeps with ledger=.

    >>> l = riffle.ledger("people.ledger")
    >>> l.spent_epsilon, l.left_epsilon
    >>> l.frame                    # each fit
    """
    if not Path(path_of("path", path)).is_file():
        raise Error(f"there is no ledger {path}", "begin it with a fit: riffle.fit(..., ledger=, budget=)")
    return Ledger.of(*result("fit", flags({"ledger": path})))


def evaluate(log: Table, *, schema: Optional[Schema] = None, columns: Optional[Mapping[str, Any]] = None,
             policy: Union[None, Policy, Path_] = None, theta: Optional[Sequence[float]] = None,
             prior: Optional[Path_] = None, write_prior: Optional[Path_] = None,
             confidence: Optional[float] = None, **more: Any) -> Evaluation:
    """What would a policy have earned on decisions that were logged, without playing it?

    >>> e = riffle.evaluate("log.jsonl", theta=[0.3, -1.2, 0.8])
    >>> e.frame                    # IPS, self-normalised IPS and doubly robust, with intervals

    log          a path or a DataFrame, with a row for each decision: arms, arm (the one played), propensity, reward
    schema       where arms and what was known of people have names, the schema that makes numbers of them
    columns      what other columns are: {"arm": "offer", "reward": "clicked"}; a number or a list stands for all rows:
                 {"propensity": 0.5, "arms": ["none", "reminder"]}
    policy       a riffle.Policy or its file; or theta, a parameter to play greedily by; or prior, a file of
                 write_prior; else uniform play
    write_prior  fit what a deployment may know before its first person, write it to this file, and judge it
    more         every other flag of `riffle evaluate`

    Neither the log nor the estimates are private.
    """
    given = flags({"theta": theta, "prior": prior, "write_prior": write_prior, "confidence": confidence, **more})
    with log_file(log, schema, columns) as (path, read, fds), tempfile.TemporaryDirectory(prefix="riffle-") as folder:
        if policy is not None:
            of = policy.json if isinstance(policy, Policy) else policy
            given.append("--policy=" + written(folder, "policy.json", of))
        return Evaluation.of(*result("evaluate", [path, *read, *given], fds=fds))


def replay(log: Table, *, schema: Optional[Schema] = None, columns: Optional[Mapping[str, Any]] = None,
           trust: Optional[Sequence[str]] = None, epsilon: Optional[float] = None, delta: Optional[float] = None,
           confidence: Optional[float] = None, **more: Any) -> Replay:
    """What would a deployment have brought on your own past decisions, before it begins?

    >>> columns = {"arms": ["none", "reminder"], "arm": "offer", "reward": "clicked", "propensity": "chance"}
    >>> r = riffle.replay("log.csv", schema=schema, columns=columns)
    >>> r.frame                    # what was played, uniform play, each channel, and learning without privacy
    >>> r.gain                     # over what was played, with intervals

    log, schema, columns   as in riffle.evaluate
    trust                  channels to replay: ["shares", "local"]; else all four
    more                   every other flag of `riffle replay`

    The learner in force draws an option for each person of the log. Where the log has the same option, the person
    counts with its reward. So the intervals are of live runs with as many people as .people. A log that could not play
    what the learner plays is refused. Neither the log nor these figures are private.
    """
    given = flags({"trust": trust, "epsilon": epsilon, "delta": delta, "confidence": confidence, **more})
    with log_file(log, schema, columns) as (path, read, fds):
        return Replay.of(*result("replay", [path, *read, *given], fds=fds))


def simulate(data: Optional[Table] = None, *, users: Optional[int] = None, trust: Optional[str] = None,
             epsilon: Optional[float] = None, delta: Optional[float] = None, seed: Optional[int] = None,
             export: Optional[Path_] = None, **more: Any) -> Simulation:
    """Runs a whole deployment on this machine with simulated people, and compares what they missed.

    >>> s = riffle.simulate(users=1000, trust="shares")          # some ten seconds
    >>> s.frame                    # regret with Riffle, without privacy, by the best constant arm, by chance

    data       "adult" for census records, or people with the reward of every arm (path or DataFrame with the columns
               arms and rewards); else people are synthetic
    export     new folder for the logs and certificates, which riffle.audit and riffle.verify read
    more       every other flag of `riffle demo`

    The seed is that of the people. Noise has none: two runs differ. For your own schema see riffle.Deployment.
    """
    given = flags({"users": users, "trust": trust, "epsilon": epsilon, "delta": delta, "seed": seed, "export": export,
                   **more})
    with tempfile.TemporaryDirectory(prefix="riffle-") as out:
        given += [] if "out" in more else [f"--out={out}"]
        if data is None or isinstance(data, str) and data == "adult":
            return Simulation.of(*result("demo", given + ([f"--data={data}"] if data else [])))
        with file(data) as (path, fds):
            return Simulation.of(*result("demo", [*given, f"--data={path}"], fds=fds))


def audit(folder: Optional[Path_] = None, *, trust: Optional[Path_] = None, keys: Optional[Path_] = None,
          broker_url: Optional[str] = None, **more: Any) -> Audit:
    """Did the servers do what they said? Recomputes everything that they announced, learned and spent.

    >>> a = riffle.audit("out/audit", trust="bundle.json")
    >>> a.ok, a.epsilon_so_far
    >>> a.breaches                 # empty if a.ok

    folder     an export; without it the streams of a running deployment are read, with keys and broker_url
    trust      bundle.json with the keys to trust, from elsewhere than the folder; else a riffle.Warning says that
               whoever made the logs can have made the keys
    more       every other flag of `riffle audit`

    A breach is no exception: see .ok. riffle.Error says that the audit could not be made.
    """
    return Audit.of(*_checked("audit", folder, trust=trust, keys=keys, broker_url=broker_url, **more))


def report(folder: Optional[Path_] = None, *, trust: Optional[Path_] = None, keys: Optional[Path_] = None,
           broker_url: Optional[str] = None, **more: Any) -> Report:
    """Does the policy help, compared with a control group, and what did that cost people's privacy?

    >>> r = riffle.report("out/audit", trust="bundle.json")
    >>> r.verdict

    It takes a control group (learner.control of the analyzer) and audits the logs first; see riffle.audit.
    """
    return Report.of(*_checked("report", folder, trust=trust, keys=keys, broker_url=broker_url, **more))


def _checked(command: str, folder: Optional[Path_], **options: Any) -> Tuple[Any, Tuple[str, ...]]:
    given: List[str] = flags(options)
    if folder is not None:
        given.insert(0, export(folder))
    return result(command, given, codes=(0, EXIT_BREACH))


def export(folder: Path_) -> str:
    """The path of an export."""
    path = path_of("folder", folder)
    if not Path(path).is_dir():
        raise Error(f"there is no folder {path}", "give an export: of Deployment.export, or of riffle.simulate")
    return path


def verify(certificate: Path_, *, trust: Optional[Path_] = None) -> Certificate:
    """Does the certificate of an epoch hold? Needs no connection.

    >>> c = riffle.verify("out/audit/certificates/epoch-1.json", trust="bundle.json")
    >>> c.ok, c.epsilon, c.rests_on
    >>> c.frame                    # what each observer can learn, and if whom is honest

    trust      bundle.json of the deployment, from somebody whom you trust; else the keys in the certificate are taken,
               which a riffle.Warning says
    """
    given = [path_of("certificate", certificate), *flags({"trust": trust})]
    return Certificate.of(*result("verify", given, codes=(0, EXIT_BREACH)))


def policy(source: Optional[Path_] = None, *, trust: Optional[Path_] = None, keys: Optional[Path_] = None,
           broker_url: Optional[str] = None, **more: Any) -> Policy:
    """The newest policy of a deployment, which is public: its coefficients by name, and a function that chooses.

    >>> p = riffle.policy("out/audit", trust="bundle.json")
    >>> p.frame                    # each coefficient with its interval
    >>> people["arm"] = p.choose(people, ["none", "reminder"])

    source     an export of the logs, or a file of a policy; without it a running deployment, with keys and broker_url
    trust      as in riffle.audit: logs are audited first, and of logs with a breach no policy is given
    """
    given = flags({"trust": trust, "keys": keys, "broker_url": broker_url, **more})
    if source is not None:
        given.insert(0, path_of("source", source))
    said = run("policy export", given)
    return Policy(json.loads(said.out), said.notes)
