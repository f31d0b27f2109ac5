"""Synthetic people, who ask a deployment for decisions through the API that an app would call."""

from __future__ import annotations

import threading
import time
import warnings
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Union

from ._client import Arm, Client, Decision, Refused
from ._frames import contexts, is_table, plain
from ._program import Error, Warning

if TYPE_CHECKING:
    import pandas

    People = Union[pandas.DataFrame, Iterable[Mapping[str, Any]]]

#: Threads that play people: most of their time is waiting for an answer.
THREADS = 8

#: Seconds between two looks at how far a deployment is.
LOOK = 0.1

#: Names of columns of a simulation's log, which no column of people may have.
TAKEN = ("device", "arm", "propensity", "reward", "epoch", "sampled", "reason")

#: Reasons for which somebody is not sampled, and asks again.
AGAIN = frozenset({"rounds_under_way", "cohort_full", "shuffler_unreachable"})

#: The reasons of a reward that comes after its window, and of a panel's decision that does.
LATE, OVER = "expired_token", "window_over"


class Simulated:
    """People who are simulated. alive raises an Error when the deployment has ended."""

    def __init__(self, client: Client, alive: Callable[[], None], people: People, arms: Sequence[Arm],
                 reward: Callable[[Mapping[str, Any], str], float]) -> None:
        self._client = client
        self._alive, self._reward, self._arms = alive, reward, list(arms)
        if not all(isinstance(a, str) or isinstance(a, Mapping) and "id" in a for a in self._arms):
            raise Error("an arm has no id", 'give ids, such as ["none", "reminder"], or mappings with an id')
        people = people if is_table(people) else list(people)
        self._contexts = contexts(client.schema().get("context") or [], people)
        if is_table(people):
            if len(set(map(str, people.columns))) < len(people.columns):  # type: ignore[union-attr]
                raise Error("two columns of people have one name", "rename one of them")
            people = people.to_dict("records")  # type: ignore[union-attr]
        rows = [{str(k): None if plain(v) is None else v for k, v in of.items()} for of in people]
        for name in TAKEN:
            if any(name in row for row in rows):
                raise Error(f"people have a column {name}, and so has the log of decisions", "rename the column")
        self._people = rows
        self._lock = threading.Lock()
        self._failures: List[BaseException] = []
        self._sampled = self._late = 0
        self.log: List[Dict[str, Any]] = []

    def arrive(self, threads: int) -> None:
        """Has each ask until one of their decisions is sampled, or learning is over."""
        self._all(range(len(self._people)), self._until_sampled, threads)
        self._warn()

    def follow(self, threads: int, epochs: Optional[int]) -> None:
        """Registers all, and has those who are drawn for an epoch's panel decide in it, until learning is over."""
        everybody = range(len(self._people))
        self._all(everybody, lambda client, number: client.register(_device(number)), threads)
        played = 0
        while (epochs is None or played < epochs) and not self._until(
                self._client, lambda status: status["enrolling"] or status["final"]):
            status = self._client.status()
            if self._epoch(int(status["epoch"]), int(status["cohort"]), threads):
                played += 1
        self._warn()

    def _epoch(self, epoch: int, panel: int, threads: int) -> bool:
        """Has the people of an epoch's panel decide once each, and says whether anybody did."""
        waiting = set(range(len(self._people)))
        spent: Set[int] = set()
        drawn: Set[int] = set()

        def ask(client: Client, number: int) -> None:
            decided = self._decide(client, number, only=True)
            with self._lock:
                if decided.sampled:
                    drawn.add(number)
                elif decided.reason == OVER:
                    drawn.add(number)
                    self._sampled += 1
                    self._late += 1
                elif decided.reason == "record_used":
                    spent.add(number)

        while len(drawn) < panel and waiting:
            status = self._client.status()
            if status["epoch"] != epoch or status["final"]:
                break
            self._all(sorted(waiting), ask, threads)
            waiting -= spent | drawn
            if not drawn and len(self._people) - len(spent) < panel:
                raise Error(f"{len(spent)} or more of {len(self._people)} people may report in no further epoch, and a "
                            f"panel has {panel}", "simulate more people, or let each report in more epochs: records=")
            time.sleep(LOOK)
        self._until(self._client, lambda status: status["epoch"] != epoch or status["final"])
        return bool(drawn)

    def _until_sampled(self, client: Client, number: int) -> None:
        while not self._failures:
            final = self._until(client, lambda status: status["enrolling"] or status["final"])
            d = self._decide(client, number)
            if d.sampled or final or d.reason not in AGAIN:
                return

    def _until(self, client: Client, reached: Callable[[Mapping[str, Any]], Any]) -> bool:
        """Waits for a status, and says whether learning is over."""
        while not self._failures:
            self._alive()
            status = client.status()
            if reached(status):
                return bool(status["final"])
            if status.get("refused"):
                raise Error(f"the devices take no part: {status['refused']}", "give the plan what they ask for")
            time.sleep(LOOK)
        return True

    def _decide(self, client: Client, number: int, only: bool = False) -> Decision:
        """One decision, and its reward if it is sampled. It is in the log; with only, if it is sampled."""
        device = _device(number)
        d = client.decide(device, self._arms, context=self._contexts[number])
        if only and not d.sampled:
            return d
        with self._lock:
            earned = float(self._reward(self._people[number], d.id))
            self._sampled += d.sampled
            self.log.append({"device": device, **self._people[number], "arm": d.id, "propensity": d.propensity,
                             "reward": earned, "epoch": d.epoch, "sampled": d.sampled, "reason": d.reason})
        if d.sampled:
            try:
                client.reward(d, earned)
            except Refused as refused:
                if refused.reason != LATE:
                    raise
                with self._lock:
                    self._late += 1
        return d

    def _warn(self) -> None:
        """Says of how many reports the reward did not come in time to be learnt from."""
        if self._late:
            warnings.warn(f"{self._late} of {self._sampled} reports have no reward, since it came after its window, on "
                          "a machine too slow for it; give the deployment a longer window=", Warning, stacklevel=4)

    def _all(self, numbers: Iterable[int], do: Callable[[Client, int], Any], threads: int) -> None:
        """Does something for each person, several at a time. What goes wrong for one ends it for all."""
        todo = list(numbers)[::-1]

        def work() -> None:
            with Client(self._client.address) as client:
                while not self._failures:
                    with self._lock:
                        if not todo:
                            return
                        number = todo.pop()
                    try:
                        do(client, number)
                    except BaseException as err:  # for the caller
                        self._failures.append(err)

        working = [threading.Thread(target=work, daemon=True) for _ in range(threads)]
        for t in working:
            t.start()
        try:
            for t in working:
                t.join()
        except BaseException as err:  # such as an interrupted cell
            self._failures.append(err)
            raise
        if self._failures:
            raise self._failures[0]


def _device(number: int) -> str:
    return f"person-{number}"
