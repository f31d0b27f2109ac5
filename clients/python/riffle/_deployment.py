"""A deployment on this machine, with synthetic people or the requests of an app."""

from __future__ import annotations

import json
import queue
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Union

from ._client import Arm, Client
from ._commands import audit, policy, report
from ._frames import frame, written
from ._policy import Policy
from ._program import Error, failed, flags, program, run
from ._results import Audit, Report

if TYPE_CHECKING:
    import os

    import pandas

    Path_ = Union[str, os.PathLike[str]]

#: Seconds between two looks at whether learning goes on.
LOOK = 0.1

#: Threads that play people: most of their time is waiting for an answer.
THREADS = 8


class Deployment:
    """A whole deployment on this machine: broker, shuffler, analyzer and a host of devices, as processes of their own.

    >>> schema = {"version": 1,
    ...           "context": [{"name": "evening", "kind": "flag"}],
    ...           "arms": [{"name": "id", "kind": "category", "values": ["none", "reminder"], "baseline": True}],
    ...           "terms": [["bias"], ["id"], ["id", "evening"]]}
    >>> with riffle.Deployment(schema, people=500) as d:
    ...     log = d.simulate(people, ["none", "reminder"], reward)   # or requests of your app, to d.client.address
    ...     d.wait()                                                 # until the last cohort was learned from
    ...     d.audit().ok

    schema       what decisions depend on (docs/features.md), as an object or the path of a file
    people       to learn from, over all cohorts
    trust        the channel, which is whom people trust: shuffle, shares, local or central
    epsilon      of each person's guarantee, at delta
    family       logistic, probit, linear, poisson or gaussian rewards, up to max_reward
    window       seconds from a decision to its report, within which a reward counts
    settings     further settings of the analyzer, nested as in its YAML: {"learner": {"control": 0.1}}
    folder       a new folder to keep keys, logs and streams in; None: they are removed at the end

    Keys are new, and whoever owns the machine can read everything: it is for trying out, not for people. It ends with
    the with block, and with this process, however that ends.

    client       a riffle.Client of its API
    keys         the folder of its keys; broker_url is its broker
    pages        addresses of the status pages of analyzer and shuffler
    """

    client: Client
    keys: str
    broker_url: str
    pages: Dict[str, str]

    def __init__(self, schema: Union[Mapping[str, Any], Path_], *, people: int, trust: str = "shares",
                 epsilon: float = 1.0, delta: float = 1e-6, family: str = "logistic", max_reward: float = 1.0,
                 window: float = 2.0, settings: Optional[Mapping[str, Any]] = None,
                 folder: Optional[Path_] = None) -> None:
        self._schema, self._settings = schema, settings
        self._flags = flags({"people": people, "trust": trust, "epsilon": epsilon, "delta": delta, "family": family,
                             "max_reward": max_reward, "window": f"{window}s", "dir": folder})
        self._process: Optional[subprocess.Popen[str]] = None

    def __enter__(self) -> Deployment:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Starts it; the with statement does so, too."""
        if self._process is not None:
            raise Error("this deployment runs already", "close it first, or make another one")
        with tempfile.TemporaryDirectory(prefix="riffle-") as folder:
            given = [*self._flags, f"--features={written(folder, 'schema.json', self._schema)}"]
            if self._settings is not None:
                given.append(f"--config={written(folder, 'analyzer.yaml', self._settings)}")
            self._process = subprocess.Popen([str(program()), "trial", "--tied", "--json", *given], text=True,
                                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                             encoding="utf-8", start_new_session=True)
            try:
                said = self._said()
            except BaseException:
                self.close()
                raise
        self.client = Client(said["api"])
        self.keys, self.broker_url = said["keys"], said["broker_url"]
        self.pages = {role: said[role] + "/" for role in ("analyzer", "shuffler")}

    def _said(self) -> Dict[str, Any]:
        """Where everything is, once it runs."""
        assert self._process and self._process.stdout and self._process.stderr
        text = ""
        for line in self._process.stdout:
            text += line
            if line.startswith("}"):
                said: Dict[str, Any] = json.loads(text)
                return said
        self._process.wait()
        failed("trial", "", self._process.stderr.read().splitlines())

    def close(self) -> None:
        """Ends all of its processes, and removes what is not to be kept."""
        child, self._process = self._process, None
        if child is None:
            return
        child.communicate()  # closes its input, which ends it
        if hasattr(self, "client"):
            self.client.close()

    def _runs(self) -> None:
        if self._process is None:
            raise Error("this deployment does not run", "call its methods inside the with block")
        if self._process.poll() is not None:
            assert self._process.stderr
            failed("trial", "", self._process.stderr.read().splitlines())

    def simulate(self, people: Union[pandas.DataFrame, Iterable[Mapping[str, Any]]], arms: Sequence[Arm],
                 reward: Callable[[Mapping[str, Any], str], float], *, threads: int = THREADS) -> pandas.DataFrame:
        """Has synthetic people ask for decisions, through the API that an app would call.

        people    the context of each person: a DataFrame with a row for each, or mappings
        arms      what they choose among; each needs an id
        reward    a function of a person's context and the id of their arm; called by one thread at a time

        Each person asks until one of their decisions is sampled, or learning is over. While reports of a cohort are on
        their way nobody is sampled, and the next wait. Returns a row for each decision: device, the context, arm,
        propensity, reward, epoch, sampled, reason. This log has propensities, so riffle.evaluate can read it.
        """
        self._runs()
        todo: queue.SimpleQueue[tuple[int, Mapping[str, Any]]] = queue.SimpleQueue()
        for number, context in enumerate(people.to_dict("records") if hasattr(people, "to_dict") else people):
            todo.put((number, {str(name): None if v != v else v for name, v in context.items()}))  # NaN is missing
        rows: List[Dict[str, Any]] = []
        failures: List[BaseException] = []
        lock = threading.Lock()

        def play() -> None:
            with Client(self.client.address) as client:
                while not failures:
                    try:
                        number, context = todo.get_nowait()
                    except queue.Empty:
                        return
                    try:
                        self._live(client, number, context, arms, reward, rows, lock, failures)
                    except BaseException as err:  # for the caller
                        failures.append(err)

        playing = [threading.Thread(target=play, daemon=True) for _ in range(threads)]
        for t in playing:
            t.start()
        try:
            for t in playing:
                t.join()
        except BaseException as err:  # such as an interrupted cell
            failures.append(err)
            raise
        if failures:
            raise failures[0]
        return frame(sorted(rows, key=lambda row: int(row["epoch"])))

    def _live(self, client: Client, number: int, context: Mapping[str, Any], arms: Sequence[Arm],
              reward: Callable[[Mapping[str, Any], str], float], rows: List[Dict[str, Any]], lock: threading.Lock,
              failures: List[BaseException]) -> None:
        """One person, who asks until a decision is sampled."""
        device = f"person-{number}"
        while not failures:
            final = self._enrolling(client, failures)
            d = client.decide(device, arms, context=context)
            with lock:
                earned = float(reward(context, d.id))
                rows.append({"device": device, **context, "arm": d.id, "propensity": d.propensity, "reward": earned,
                             "epoch": d.epoch, "sampled": d.sampled, "reason": d.reason})
            if d.sampled:
                client.reward(d, earned)
            if d.sampled or final or d.reason not in ("rounds_under_way", "cohort_full", "shuffler_unreachable"):
                return

    def _enrolling(self, client: Client, failures: List[BaseException]) -> bool:
        """Waits until somebody who asks may be sampled, and says whether learning is over."""
        while not failures:
            self._runs()
            status = client.status()
            if status["enrolling"] or status["final"]:
                return bool(status["final"])
            if status.get("refused"):
                raise Error(f"the devices take no part: {status['refused']}", "give the plan what they ask for")
            time.sleep(LOOK)
        return True

    def wait(self, timeout: float = 120.0) -> None:
        """Waits until learning is over: the last cohort was learned from, and its policy stays in force."""
        end = time.monotonic() + timeout
        while True:
            self._runs()
            status = self.client.status()
            if status["final"]:
                return
            if time.monotonic() > end:
                raise Error(f"after {timeout:g} seconds the deployment is in epoch {status['epoch']}, whose cohort has "
                            f"{status['cohort']} people", "have more people decide, so that the cohort is complete")
            time.sleep(LOOK)

    def audit(self, **more: Any) -> Audit:
        """Audits it while it runs: see riffle.audit."""
        self._runs()
        return audit(keys=self.keys, broker_url=self.broker_url, **more)

    def policy(self) -> Policy:
        """The newest policy, of audited logs: see riffle.policy."""
        self._runs()
        return policy(keys=self.keys, broker_url=self.broker_url)

    def report(self, **more: Any) -> Report:
        """Says whether the policy helps, where settings have a control group: see riffle.report."""
        self._runs()
        return report(keys=self.keys, broker_url=self.broker_url, **more)

    def export(self, folder: Path_) -> Path:
        """Copies its signed logs and certificates to a new folder, which riffle.audit and riffle.verify read."""
        self._runs()
        run("audit export", [str(folder), f"--keys={self.keys}", f"--broker-url={self.broker_url}"])
        return Path(folder)
