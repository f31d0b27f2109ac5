"""What a deployment learnt."""

from __future__ import annotations

import json as jsonlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _plots
from ._frames import contexts, flat, frame, is_table, pandas_module, written
from ._program import Error, run
from ._results import Result

if TYPE_CHECKING:
    import os

    import matplotlib.axes
    import pandas


@dataclass(frozen=True)
class Policy(Result):
    """The policy of a deployment: see riffle.policy.

    deployment, epoch    whose it is, and the epoch in which it is in force
    final                learning is over
    certificate          what learning it revealed, and whom that trusts
    digest               of the policy; devices that follow it have the same

    frame                a row for each coefficient, by name, with its interval
    source               the standalone module, as text, with which choose() decides; it needs nothing but Python
    """

    _module: List[Any] = field(default_factory=list, repr=False, compare=False)

    def __reduce__(self) -> Tuple[Any, ...]:  # functions that were made of a text cannot be pickled
        return Policy, (self.json, self.notes)

    @property
    def deployment(self) -> str:
        return str(self.json["deployment"])

    @property
    def epoch(self) -> int:
        return int(self.json["epoch"])

    @property
    def final(self) -> bool:
        return bool(self.json["final"])

    @property
    def certificate(self) -> Dict[str, Any]:
        return dict(self.json["certificate"])

    @property
    def digest(self) -> str:
        return str(self.json["digest"])

    @property
    def frame(self) -> pandas.DataFrame:
        return frame([flat(t) for t in self.json["terms"]], "name")

    def _head(self) -> str:
        over = "the last one" if self.final else "in force"
        return f"Policy of epoch {self.epoch} of {self.deployment}, {over}"

    def __repr__(self) -> str:
        return f"<{self._head()}>"

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the policy as a file, which riffle.policy, riffle.evaluate and the setting learner.prior read."""
        Path(path).write_text(jsonlib.dumps(self.json, indent=2) + "\n", encoding="utf-8")

    @property
    def source(self) -> str:
        import tempfile
        with tempfile.TemporaryDirectory(prefix="riffle-") as folder:
            return run("policy export", [written(folder, "policy.json", self.json), "--format=python"]).out

    def _choose(self) -> Callable[..., Tuple[Any, Dict[Any, float]]]:
        if not self._module:
            space: Dict[str, Any] = {"__name__": "riffle_policy"}
            exec(compile(self.source, "policy", "exec"), space)  # the program's own text of a checked policy
            self._module.append(space["choose"])
        made: Callable[..., Tuple[Any, Dict[Any, float]]] = self._module[0]
        return made

    def choose(self, people: pandas.DataFrame, arms: Sequence[Any], **more: Any) -> pandas.Series[Any]:
        """Which arm each person gets, as a column beside people.

        >>> p = riffle.policy("out/audit", trust="bundle.json")
        >>> p.choose(people, ["none", "reminder"]).value_counts()
        >>> p.probabilities(people, ["none", "reminder"], learning=True)

        people    a row for each, with the context's features as columns; other columns are left out
        arms      ids, or {"id": ..., feature: value}
        more      default and exclude, as in riffle.Client.decide; learning=True plays as devices that explore do
        """
        rows = [played for played, _ in self._decided(people, arms, more)]
        return pandas_module().Series(rows, index=people.index, name="arm", dtype=object)

    def probabilities(self, people: pandas.DataFrame, arms: Sequence[Any], **more: Any) -> pandas.DataFrame:
        """With what probability each person gets each arm: a column for each arm. Arguments are those of choose."""
        rows = [chances for _, chances in self._decided(people, arms, more)]
        ids = [a["id"] if isinstance(a, Mapping) else a for a in arms]
        return pandas_module().DataFrame(rows, index=people.index, columns=None if rows else ids)

    def _decided(self, people: pandas.DataFrame, arms: Sequence[Any], more: Mapping[str, Any]
                 ) -> List[Tuple[Any, Dict[Any, float]]]:
        """What is decided for each row."""
        schema: Optional[Mapping[str, Any]] = self.json.get("schema")
        if schema is None:
            raise Error("the policy has no schema, so that people's columns mean nothing",
                        "give vectors of arms to the module that .source is")
        if not is_table(people):
            raise Error(f"people are of the type {type(people).__name__}", "give a pandas.DataFrame")
        choose, among = self._choose(), [{"id": a} if isinstance(a, str) else a for a in arms]
        made = []
        for number, context in enumerate(contexts(schema.get("context") or [], people), start=1):
            try:
                made.append(choose(context, among, **more))
            except (TypeError, ValueError) as err:
                where = f"row {number}: " if str(err).startswith("the context") else ""
                raise Error(f"{where}{err}") from None
        return made

    def plot(self, ax: Optional[matplotlib.axes.Axes] = None) -> matplotlib.axes.Axes:
        """Draws the coefficients with their intervals. Needs matplotlib."""
        return _plots.intervals(self.frame, "coefficient", "coefficient", ax)
