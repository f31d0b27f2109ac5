"""A deployment on this machine, with synthetic people or the requests of an app."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
import weakref
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Callable, Dict, Mapping, NoReturn, Optional, Sequence, Union

from ._client import Arm, Client
from ._commands import audit, policy, report
from ._frames import frame, pandas_module, written
from ._people import LOOK, THREADS, Simulated
from ._policy import Policy
from ._program import Error, end, failed, flags, program, run
from ._results import Audit, Report

if TYPE_CHECKING:
    import pandas

    from ._people import People

    Path_ = Union[str, os.PathLike[str]]


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
    window       seconds from a decision to its report, within which a reward counts; with a panel, from its epoch's
                 beginning, so that all of the panel must decide in it
    panel        people of each cohort, drawn from the registered ones before anybody decides, so that riffle.ask can
                 ask them; 0: who decides first takes part
    records      with a panel: epochs that one person may report in
    settings     further settings of the analyzer, nested as in its YAML: {"learner": {"control": 0.1}}
    folder       a new folder to keep keys, logs and streams in; None: they are removed at the end

    Keys are new, and whoever owns the machine can read everything: it is for trying out, not for people. It ends with
    the with block, and with this process, however that ends.

    client       a riffle.Client of its API
    keys         the folder of its keys; broker_url is its broker
    pages        addresses of the status pages of analyzer and shuffler
    questions    with a panel: the folder from which it is asked
    """

    client: Client
    keys: str
    broker_url: str
    pages: Dict[str, str]
    questions: str

    def __init__(self, schema: Union[Mapping[str, Any], Path_], *, people: int, trust: str = "shares",
                 epsilon: float = 1.0, delta: float = 1e-6, family: str = "logistic", max_reward: float = 1.0,
                 window: float = 2.0, panel: int = 0, records: int = 1,
                 settings: Optional[Mapping[str, Any]] = None, folder: Optional[Path_] = None) -> None:
        self._schema, self._settings, self._panel = schema, settings, panel
        self._flags = flags({"people": people, "trust": trust, "epsilon": epsilon, "delta": delta, "family": family,
                             "max_reward": max_reward, "window": f"{window}s", "panel": panel, "records": records,
                             "dir": folder})
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
                given.append(f"--config={written(folder, 'settings.yaml', self._settings)}")
            told = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
            child = subprocess.Popen([str(program()), "trial", "--json", "--tied", *given], text=True,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=told, encoding="utf-8",
                                     start_new_session=True)
            self._process, self._told, self._owner = child, told, os.getpid()
            self._end = weakref.finalize(self, _end, child, told, os.getpid())
            try:
                said = self._said()
            except BaseException:
                self.close()
                raise
        self.client = Client(said["api"])
        self.keys, self.broker_url, self.questions = said["keys"], said["broker_url"], said.get("questions", "")
        self.pages = {role: said[role] + "/" for role in ("analyzer", "shuffler")}

    def _said(self) -> Dict[str, Any]:
        """Where everything is, once it runs."""
        assert self._process and self._process.stdout
        text = ""
        for line in self._process.stdout:
            text += line
            if line.startswith("}"):
                said: Dict[str, Any] = json.loads(text)
                return said
        self._process.wait()
        self._fail()

    def _fail(self) -> NoReturn:
        """Raises why the program ended."""
        assert self._process
        self._told.seek(0)
        failed("trial", self._process.wait(), self._told.read().splitlines())

    def close(self) -> None:
        """Ends all of its processes, and removes what is not to be kept. In a fork of the process it does nothing."""
        if self._process is None or self._forked():
            return
        self._end()
        self._process = None
        if hasattr(self, "client"):
            self.client.close()

    def _forked(self) -> bool:
        return self._owner != os.getpid()

    def _runs(self) -> None:
        if self._process is None:
            raise Error("this deployment does not run", "call its methods inside the with block")
        if not self._forked() and self._process.poll() is not None:
            self._fail()

    def simulate(self, people: People, arms: Sequence[Arm], reward: Callable[[Mapping[str, Any], str], float], *,
                 threads: int = THREADS, epochs: Optional[int] = None) -> pandas.DataFrame:
        """Has synthetic people ask for decisions, through the API that an app would call.

        >>> def reward(person, arm):
        ...     return person["evening"] if arm == "reminder" else 0.5
        >>> log = d.simulate(people, ["none", "reminder"], reward)

        people    a row for each: a DataFrame, or mappings. Columns that the schema does not name are not sent
        arms      what they choose among: ids, or mappings with an id
        reward    a function of a person's row and the id of their arm; called by one thread at a time
        epochs    with a panel: how many to play; None: until learning is over

        Each person asks until one of their decisions is sampled, or learning is over. While reports of a cohort are on
        their way nobody is sampled, and the next wait. With a panel all are registered, and those who are drawn decide
        once in the epoch. Row n is the same person in every call. A reward that comes after its window, on a slow
        machine, is in the log, but is not learnt from; a riffle.Warning says how many did, or would have.

        Returns a row for each decision: device, the person's row, arm, propensity, reward, epoch, sampled, reason. With
        a panel these are the sampled ones. This log has propensities, so riffle.evaluate can read it.
        """
        self._runs()
        pandas_module()  # for the log, before anybody plays
        playing = Simulated(self.client, self._runs, people, arms, reward)
        if self._panel:
            playing.follow(threads, epochs)
        else:
            playing.arrive(threads)
        return frame(sorted(playing.log, key=lambda row: int(row["epoch"])))

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


def _end(child: subprocess.Popen[str], told: IO[str], owner: int) -> None:
    """Ends a deployment: when it is closed, when nothing refers to it any more, or when Python ends."""
    if owner != os.getpid():
        return
    assert child.stdin and child.stdout
    child.stdin.close()
    end(child)  # a fork of this process may hold its input open
    child.stdout.close()
    told.close()
