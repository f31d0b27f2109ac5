"""A client of the local API, which apps call."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union
from urllib.parse import quote, urlsplit

from ._frames import plain
from ._program import Error

#: Seconds: limit of one attempt, pause between two, and time after which a failed one is not repeated.
TIMEOUT, PAUSE, GIVE_UP = 10.0, 0.2, 60.0

#: Most bytes of an answer: whatever answers with more is no randomizer.
MAX_ANSWER = 4 << 20

#: Reasons that pass by themselves, so that the request is repeated.
PASSING = frozenset({"busy", "no_policy", "rewound"})

#: What an arm is: a vector of numbers, an id, or {"id": ..., feature: value, ...}.
Arm = Union[str, Sequence[float], Mapping[str, Any]]


class Refused(Error):
    """The API refuses a request.

    status   of HTTP
    reason   a word for programs: docs/api.md lists them all
    what     a sentence for people
    """

    def __init__(self, status: int, reason: str, detail: str) -> None:
        super().__init__(detail or reason or f"HTTP status {status}")
        self.status = status
        self.reason = reason


@dataclass(frozen=True)
class Decision:
    """Which arm a person gets.

    arm          index into the arms that were given; id is its id, empty where arms are vectors
    token        names the decision when its reward is told
    epoch        whose policy decided
    propensity   probability with which the policy plays this arm: keep it, if decisions are logged
    sampled      whether it can be learned from; if not, reason and detail say why
    reward_by    end of the reward window, as text; None if it was not sampled
    json         all of the answer
    """

    arm: int
    id: str
    token: str = field(repr=False)
    epoch: int
    propensity: float
    sampled: bool
    reason: str
    detail: str
    reward_by: Optional[str]
    json: Dict[str, Any] = field(repr=False)

    @classmethod
    def of(cls, json: Dict[str, Any]) -> Decision:
        return cls(json["arm"], json.get("id", ""), json["token"], json["epoch"], json["propensity"], json["sampled"],
                   json["reason"], json.get("detail", ""), json.get("reward_by"), json)


@dataclass(frozen=True)
class Acceptance:
    """A reward was accepted.

    clipped      it lies outside the deployment's range, and used, the nearest value in it, counts in its place
    """

    clipped: bool
    used: Optional[float]
    json: Dict[str, Any] = field(repr=False)


class _LocalConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Client:
    """Calls a randomizer, which decides for people on their side.

    >>> client = riffle.Client("http://127.0.0.1:8400")
    >>> d = client.decide("person-7", arms=["none", "reminder"], context={"evening": True})
    >>> d.arm, d.id, d.sampled
    >>> client.reward(d, 1)

    address   its base URL, or "unix:/run/riffle/api"
    token     the bearer token that it asks for; None: none
    tls       an ssl.SSLContext for https; None: the system's authorities vouch for it

    It repeats a call while the randomizer is away or busy, for up to give_up seconds; that enrols nobody twice. Threads
    may share one client. The name of a device never leaves the randomizer, which keeps it under a keyed hash only.
    """

    def __init__(self, address: str, *, token: Optional[str] = None, tls: Optional[ssl.SSLContext] = None,
                 timeout: float = TIMEOUT, give_up: float = GIVE_UP) -> None:
        if not address.startswith(("http://", "https://", "unix:")):
            raise Error(f"{address!r} is no address of a randomizer",
                        "give http://host:port, https://host:port or unix:/path")
        self.address = address.rstrip("/")
        self._token, self._tls, self._timeout, self._give_up = token, tls, timeout, give_up
        self._local = threading.local()

    def decide(self, device: str, arms: Sequence[Arm], *, context: Optional[Mapping[str, Any]] = None,
               default: Union[None, int, str] = None, exclude: Sequence[Union[int, str]] = ()) -> Decision:
        """Decides which of the arms a person gets.

        device    names the person among those of this randomizer
        arms      ids, {"id": ..., feature: value} or, without a schema, vectors of length 1 at most
        context   features of the person now, as the deployment's schema names them; NaN is missing, as None is
        default   the arm that is played today, by index or id; else the first
        exclude   arms that must not be played now
        """
        return Decision.of(self._repeat("POST", _of(device, "decisions"), _question(arms, context, default, exclude)))

    def reward(self, decision: Union[Decision, str], reward: float) -> Acceptance:
        """Tells the reward of a decision (or of a token), within its window. Telling it again is harmless."""
        token = decision if isinstance(decision, str) else decision.token
        said = self._repeat("POST", "/v1/rewards", {"token": token, "reward": float(reward)})
        return Acceptance(said.get("clipped", False), said.get("used"), said)

    def register(self, device: str) -> Dict[str, Any]:
        """Names a person's device, so that panels can be drawn of it; elsewhere it does nothing."""
        return self._repeat("POST", _of(device))

    def ledger(self, device: str) -> Dict[str, Any]:
        """What was promised and spent for a person; "explanation" says it in sentences."""
        return self._attempt("GET", _of(device, "ledger"))

    def opt_out(self, device: str) -> None:
        """Has a person never be sampled. A promised report leaves as that of somebody with nothing to report."""
        self._repeat("PUT", _of(device, "opt-out"))

    def opt_in(self, device: str) -> None:
        """Lifts an opt-out."""
        self._repeat("DELETE", _of(device, "opt-out"))

    def erase(self, device: str) -> None:
        """Forgets a person, but for what was spent and an opt-out."""
        self._repeat("DELETE", _of(device))

    def status(self) -> Dict[str, Any]:
        """The epoch, its guarantee as this randomizer computed it, and why it is refused."""
        return self._attempt("GET", "/v1/status")

    def schema(self) -> Dict[str, Any]:
        """The announced features."""
        return self._repeat("GET", "/v1/schema")

    def check(self, arms: Sequence[Arm], *, context: Optional[Mapping[str, Any]] = None,
              default: Union[None, int, str] = None, exclude: Sequence[Union[int, str]] = ()) -> Dict[str, Any]:
        """What is wrong with a request for a decision; only a randomizer in dry run answers."""
        return self._attempt("POST", "/v1/check", _question(arms, context, default, exclude))

    def description(self) -> Dict[str, Any]:
        """The API's own description (OpenAPI)."""
        return self._attempt("GET", "/v1/openapi.json")

    def close(self) -> None:
        """Closes the connection of this thread."""
        kept = self._kept()
        if kept is not None:
            kept.close()
        self._local.connection = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _repeat(self, method: str, path: str, body: Optional[Mapping[str, Any]] = None) -> Dict[str, Any]:
        end = time.monotonic() + self._give_up
        while True:
            try:
                return self._attempt(method, path, body)
            except Refused as refused:
                if refused.reason not in PASSING or time.monotonic() > end:
                    raise
            except Error:
                if time.monotonic() > end:
                    raise
            time.sleep(PAUSE)

    def _connect(self) -> http.client.HTTPConnection:
        if self.address.startswith("unix:"):
            return _LocalConnection(self.address[len("unix:"):], self._timeout)
        url = urlsplit(self.address)
        if url.scheme == "https":
            return http.client.HTTPSConnection(url.netloc, timeout=self._timeout, context=self._tls)
        return http.client.HTTPConnection(url.netloc, timeout=self._timeout)

    def _attempt(self, method: str, path: str, body: Optional[Mapping[str, Any]] = None) -> Dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        text = None
        if method == "POST":
            headers["Content-Type"] = "application/json"
            try:
                text = json.dumps(body, allow_nan=False) if body is not None else ""
            except (TypeError, ValueError) as err:
                raise Refused(0, "bad_request", f"the request cannot be written as JSON: {err}") from None
        status, answer = self._exchange(method, urlsplit(self.address).path * self.address.startswith("http") + path,
                                        text, headers)
        try:
            said = json.loads(answer) if answer else {}
        except ValueError:
            said = None
        if status in (200, 204):
            if not isinstance(said, dict):
                raise Error(f"what answers at {self.address} is no randomizer", "give the address of its API")
            return said
        problem = said if isinstance(said, dict) else {}
        raise Refused(status, str(problem.get("reason", "")), str(problem.get("detail", "")))

    def _kept(self) -> Optional[http.client.HTTPConnection]:
        """This thread's connection. One from before a fork is the other process's: answers would get mixed up."""
        kept: Optional[http.client.HTTPConnection] = getattr(self._local, "connection", None)
        if getattr(self._local, "process", None) != os.getpid():
            if kept is not None:
                kept.close()  # of this process's copy alone
            self._local.process, self._local.connection = os.getpid(), None
        return kept if self._local.connection is not None else None

    def _exchange(self, method: str, path: str, text: Optional[str], headers: Dict[str, str]) -> Tuple[int, bytes]:
        """One request and its answer, over this thread's connection."""
        connection = self._kept()
        kept = connection is not None
        if connection is None:
            connection = self._local.connection = self._connect()
        try:
            connection.request(method, path, text, headers)
            response = connection.getresponse()
            answer = response.read(MAX_ANSWER + 1)
            if len(answer) > MAX_ANSWER:
                raise http.client.HTTPException("an answer of too many bytes")
            return response.status, answer
        except (OSError, http.client.HTTPException) as err:
            self.close()
            if kept and isinstance(err, (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError)):
                return self._exchange(method, path, text, headers)  # it had closed an idle connection
            raise Error(f"no randomizer answers at {self.address}: {err}",
                        "see whether it runs, and whether the address is that of its API") from err


def _of(device: str, what: str = "") -> str:
    return "/v1/devices/" + quote(device, safe="") + ("/" + what if what else "")


def _question(arms: Sequence[Arm], context: Optional[Mapping[str, Any]], default: Union[None, int, str],
              exclude: Sequence[Union[int, str]]) -> Dict[str, Any]:
    """The body of a request for a decision."""
    body: Dict[str, Any] = {"arms": [{"id": a} if isinstance(a, str) else _numbers(a) for a in arms]}
    if context is not None:
        body["context"] = plain(context)
    if default is not None:
        body["default"] = default
    if exclude:
        body["exclude"] = list(exclude)
    return body


def _numbers(value: Any) -> Any:
    """Numbers of numpy and pandas as JSON has them."""
    if isinstance(value, Mapping):
        return {name: _numbers(v) for name, v in value.items()}
    if isinstance(value, (list, tuple)):
        out: List[Any] = [_numbers(v) for v in value]
        return out
    return value.tolist() if hasattr(value, "tolist") else value
