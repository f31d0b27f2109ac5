"""One device over the C library: certificate, ledger, noise and sealing are the library's."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import http.client
import json
import os
import secrets
import threading
import time
import urllib.error
import urllib.request
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Optional, Union

from . import _library
from ._library import DeviceError
from ._program import Error

if TYPE_CHECKING:
    Path_ = Union[str, os.PathLike[str]]

#: Milliseconds: least and most time from one sync to the next.
SOONEST, LATEST = 60_000, 3_600_000

#: Seconds: limit of one request.
TIMEOUT = 30.0


class Device:
    """One person's device, which takes part over HTTPS, as phones and web pages do.

    >>> device = riffle.Device({"ingress": "https://ingress.example", "issuer": "https://app.example/riffle",
    ...                         "mailbox": "https://app.example/riffle", "bundle": bundle, "limits": {"epsilon": 1}},
    ...                        folder="device", login="Bearer " + token)
    >>> device.sync()                  # now, and again when it says
    >>> d = device.decide(lambda: {"context": {"evening": True}, "arms": [{"id": "none"}, {"id": "reminder"}]})
    >>> device.reward(d, 1)

    configuration   ingress, issuer and perhaps mailbox: addresses; bundle: bundle.json of the deployment; limits: the
                    person's; perhaps witnesses, quorum, and begin: {"proof", "announcement"} by which it joins late
    folder          of this device alone, in no backup: a restored state would report for the person a second time
    login           the header Authorization by which issuer and mailbox know the person's account
    wrap, unwrap    encrypt what the device keeps on the disk, which holds its key and the open record; without them it
                    is in a file that only this user can read

    Whatever a request promises is on the disk before the request leaves. The time of sync must not depend on what the
    person does: have a timer call it. A report without a mailbox leaves from here, if this process runs when it is due.
    """

    def __init__(self, configuration: Mapping[str, Any], *, folder: Path_, login: str = "",
                 wrap: Optional[Callable[[bytes], bytes]] = None, unwrap: Optional[Callable[[bytes], bytes]] = None,
                 now: Callable[[], float] = time.time) -> None:
        if (wrap is None) != (unwrap is None):
            raise Error("of wrap and unwrap one is missing", "give both or neither")
        self._config, self._login = dict(configuration), login
        self._wrap, self._unwrap = wrap or bytes, unwrap or bytes
        self._clock = now
        self._folder = Path(folder)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = threading.RLock()
        self._handle = 0  # 0 before there is a credential
        self._process = os.getpid()
        self._owner = open(self._folder / "riffle.lock", "w", encoding="utf-8")
        try:
            fcntl.flock(self._owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._owner.close()
            raise Error(f"another device has {self._folder} open", "close it, or give a folder of its own") from None
        self._file = self._folder / "riffle.state"
        kept = self._unwrap(self._file.read_bytes()) if self._file.exists() else b"{}"
        self._state: Dict[str, Any] = json.loads(kept)
        if "credential" in self._state:
            self._open()

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Forgets the device in this process, and wipes its record in memory."""
        if self._process != os.getpid():
            return  # a fork, in which the library does not run
        with self._lock:
            if self._handle:
                _library.close(self._handle)
            self._handle = 0
            self._owner.close()

    def decide(self, question: Callable[[], Mapping[str, Any]]) -> Dict[str, Any]:
        """Decides.

        question is called once the device has a place in the cohort or none, as this must not depend on it. It returns
        {"context": {...}, "arms": [...], "default": index, "exclude": [index, ...]}. The result has "arm" and
        "sampled". Before the first policy, and after an opt-out, it is the default arm.
        """
        with self._lock:
            if self._takes_part() and self._arrival():
                self._unless_offline(self._enrol)
            q = question()
            asked = {"default": q.get("default", 0), "arms": q["arms"], "exclude": q.get("exclude", [])}
            by_default = {"arm": asked["default"], "sampled": False}
            if not self._takes_part():
                return by_default
            try:
                asked["arms"] = json.loads(self._call("encode", json.dumps(
                    {"context": q.get("context", {}), "arms": q["arms"]})))
            except DeviceError as err:
                if err.reason == "no_policy":
                    return by_default
                if err.reason != "no_schema":
                    raise  # without a schema the arms are vectors
            try:
                decided: Dict[str, Any] = json.loads(self._call("decide", json.dumps(asked)))
            finally:
                self._save()
            return decided

    def reward(self, decision: Mapping[str, Any], reward: float) -> Dict[str, Any]:
        """Takes the reward of a decision, which the app may keep over a restart. What comes late is not used."""
        with self._lock:
            if not self._takes_part() or not decision.get("sampled"):
                return {"accepted": False}
            try:
                answer: Dict[str, Any] = json.loads(
                    self._call("reward", decision["handle"], float(reward), self._now()))
                if "report" in self._state:  # else the report is made when it is due
                    self._state["report"]["body"] = _text(self._call("deposit", self._now()))
                    self._unless_offline(self._deposit)
                return answer
            except DeviceError as err:
                if err.reason != "late":
                    raise
                return {"accepted": False}
            finally:
                self._save()

    def status(self) -> Dict[str, Any]:
        """What the device knows of the deployment, with the guarantee as it computed it."""
        with self._lock:
            said: Dict[str, Any] = json.loads(self._call("status")) if self._handle else {}
            trouble = {"trouble": self._state["trouble"]} if "trouble" in self._state else {}
            return {**said, "opted_out": self._out(), **trouble}  # trouble is why the last sync came to an end

    def ledger(self) -> Dict[str, Any]:
        """What was promised and spent for this person."""
        said: Dict[str, Any] = self.status().get("ledger") or {}
        return said

    def opt_out(self, yes: bool = True) -> None:
        """Ends taking part, or begins again. A promised report still leaves, as one of nothing to report."""
        with self._lock:
            self._state["out"] = yes
            if "report" in self._state:
                self._state["report"]["body"] = self._state["report"]["null"]
            if self._handle:
                self._call("forget")
            self._save()

    def sync(self) -> Optional[float]:
        """Sends the report that is due, follows the deployment, and says when to call it again.

        That is a time as time.time() has it, or None where there is nothing to do until the person opts in again.
        """
        with self._lock:
            try:
                self._unless_offline(self._report)
                if not self._out():
                    self._unless_offline(self._follow)
                self._state.pop("trouble", None)
            except DeviceError as err:
                self._state["trouble"] = str(err)
            self._save()
            due = self._due()
            if due is None and self._out():
                return None
            now = self._now()
            return min(max(due if due is not None else now + LATEST, now + SOONEST), now + LATEST) / 1000

    def _follow(self) -> None:
        if not self._handle or (self.status()["epoch"] >= self._state["not_after"] and self._due() is None):
            self._credential()
        if self._round() == "0.0" and "begin" in self._config:
            begin = self._config["begin"]
            self._call("begin", begin["proof"], _bytes(begin["announcement"]))
        self._call("keys", _http("GET", self._url("ingress", "keys")))
        chain = _http("GET", self._url("ingress", "announcements?wait=0&after=" + self._round()))
        while chain:
            size = int.from_bytes(chain[:4], "big")
            self._call("follow", chain[4:4 + size], self._now())
            chain = chain[4 + size:]
        self._save()
        status = self.status()
        if self._arrival() or status.get("refused"):
            return
        if not status.get("registered"):
            self._ask(lambda: self._call("register"), lambda reply: self._call("registered", reply))
        self._ask(lambda: self._call("enrol", self._now()), lambda reply: self._call("answer", reply, self._now()))

    def _enrol(self) -> None:
        """Asks for a place, and keeps the null record's report, sealed, for the time at which it is due."""
        self._ask(lambda: self._call("enrol", self._now()), lambda reply: self._call("answer", reply, self._now()))
        due = self._due()
        if "report" in self._state or due is None:
            return
        self._keep(self._call("deposit", self._now()), due)
        self._deposit()

    def _ask(self, request: Callable[[], bytes], reply: Callable[[bytes], bytes]) -> None:
        try:
            sealed = request()
            self._save()
            reply(_http("POST", self._url("ingress", "enrolments"), sealed))
        except DeviceError as err:
            if err.reason not in ("no_place", "unopened"):
                raise  # else there is nothing to ask, or no answer
        self._save()

    def _deposit(self) -> None:
        """Has the mailbox hold the report, where there is one; else it is held here."""
        self._save()
        report = self._state["report"]
        if "mailbox" in self._config:
            _http("PUT", self._url("mailbox", f"deposits/{report['round']}/{report['slot']}"), _bytes(report["body"]),
                  {"Riffle-Ticket": report["ticket"], "Riffle-Due": str(report["due"]), "Authorization": self._login})
            report["held"] = report["body"]
        self._call("deposited")
        self._save()

    def _due(self) -> Optional[int]:
        if "report" in self._state:
            return int(self._state["report"]["due"])
        at = self.status().get("report_at")
        return _milliseconds(at) if at else None

    def _report(self) -> None:
        due, now = self._due(), self._now()
        if due is None:
            return
        if due <= now and "report" not in self._state:
            self._keep(self._call("report", now), due)
        report = self._state.get("report")
        if report is None:
            return
        if due > now:
            if "mailbox" in self._config and report.get("held") != report["body"]:
                self._deposit()
            return
        body = _bytes(report["body"])
        try:
            if "held" not in report:
                name = hashlib.sha256(body).hexdigest()
                _http("PUT", self._url("ingress", f"reports/{report['round']}/{name}"), body,
                      {"Riffle-Ticket": report["ticket"]})
        except _Answered as err:
            if not 400 <= err.status < 500 or err.status in (408, 429):
                raise  # the next sync tries again
        del self._state["report"]
        self._call("forget")  # what was not rewarded
        self._save()

    def _keep(self, body: bytes, due: int) -> None:
        """Makes a report durable together with the state in which the device cannot make it again."""
        place = self.status()["place"]
        ticket = base64.urlsafe_b64encode(_bytes(place["ticket"])).rstrip(b"=").decode() + f".{place['slot']}"
        self._state["report"] = {"round": self._round(), "slot": place["slot"], "ticket": ticket, "due": due,
                                 "null": _text(body), "body": _text(body)}
        self._save()

    def _credential(self) -> None:
        """Gets the installation's credential, or its next one. The key is on the disk before the issuer hears of it."""
        if "seed" not in self._state:
            self._state["seed"] = _text(secrets.token_bytes(32))
            self._save()
        public = _library.call("public", _bytes(self._state["seed"]))
        key = base64.urlsafe_b64encode(public).rstrip(b"=").decode()
        given = json.loads(_http("POST", self._url("issuer", "credentials"), json.dumps({"key": key}).encode(),
                                 {"Authorization": self._login, "Content-Type": "application/json"}))
        self._state.update(credential=given["credential"], not_after=given["not_after"])
        self._save()
        self._open()

    def _open(self) -> None:
        if self._handle:
            _library.close(self._handle)
            self._handle = 0
        bundle = self._config["bundle"]
        opening = {"deployment": bundle["deployment"], "number": 0, "analyzer": bundle["analyzer"] + "=",
                   "shuffler": bundle["shuffler"] + "=", "identity": self._state["seed"],
                   "credential": self._state["credential"],
                   **{k: self._config[k] for k in ("limits", "witnesses", "quorum") if k in self._config}}
        self._handle = _library.opened(json.dumps(opening), _bytes(self._state.get("saved", "")))

    def _call(self, name: str, *arguments: Any) -> bytes:
        if self._process != os.getpid():  # both would report for the person, and the library does not survive a fork
            raise Error("the device belongs to the process that opened it", "open it in the process that uses it")
        return _library.call(name, self._handle, *arguments)

    def _now(self) -> int:
        return int(self._clock() * 1000)

    def _out(self) -> bool:
        return bool(self._state.get("out"))

    def _takes_part(self) -> bool:
        return self._handle != 0 and not self._out()

    def _arrival(self) -> bool:
        return self.status().get("mode") == "arrival"

    def _round(self) -> str:
        status = self.status()
        return f"{status['epoch']}.{status['round']}"

    def _url(self, of: str, path: str) -> str:
        return f"{self._config[of]}/v1/{path}"

    def _save(self) -> None:
        """Replaces the file in one step."""
        if self._handle:
            self._state["saved"] = _text(self._call("save"))
        new = self._folder / "riffle.new"
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            out.write(self._wrap(json.dumps(self._state).encode()))
            out.flush()
            os.fsync(out.fileno())
        os.replace(new, self._file)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @staticmethod
    def _unless_offline(do: Callable[[], None]) -> None:
        """Without the network, or with a server that refuses, the next call tries again."""
        try:
            do()
        except (OSError, http.client.HTTPException):
            pass


class _Answered(OSError):
    """A server refused a request."""

    def __init__(self, status: int, url: str) -> None:
        super().__init__(f"{url} answers {status}")
        self.status = status


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A login page is no answer."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _http(method: str, url: str, body: Optional[bytes] = None, headers: Optional[Mapping[str, str]] = None) -> bytes:
    request = urllib.request.Request(url, data=body, headers=dict(headers or {}), method=method)
    if body is not None and not request.has_header("Content-type"):
        request.add_header("Content-Type", "application/octet-stream")
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=TIMEOUT) as response:
            status, answer = response.status, response.read()
    except urllib.error.HTTPError as err:
        err.close()
        raise _Answered(err.code, url) from None
    if status != (204 if method == "PUT" else 200):  # such as a login page
        raise _Answered(status, url)
    return bytes(answer)


def _text(of: bytes) -> str:
    return base64.b64encode(of).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)


def _milliseconds(time_: str) -> int:
    """RFC 3339, with any number of digits behind the second."""
    second, _, zone = time_.partition("Z")
    if zone or not time_.endswith("Z"):
        raise Error(f"{time_} is no time in UTC")
    whole, _, part = second.partition(".")
    seconds = datetime.fromisoformat(whole + "+00:00").timestamp()
    return int(seconds) * 1000 + int((part + "000")[:3])
