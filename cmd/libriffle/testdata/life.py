"""A phone's life with the Python package, as in Life.kt: life.py FOLDER CONFIGURATION [out]."""

import json
import sys
from pathlib import Path

import riffle

folder, configuration = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
time = 1767268800  # 2026-01-01 12:00 UTC


def wrap(kept: bytes) -> bytes:
    return bytes(b ^ 7 for b in kept)


def open_() -> riffle.Device:
    return riffle.Device(configuration, folder=folder, login="Bearer person", wrap=wrap, unwrap=wrap, now=lambda: time)


def text(of: dict) -> str:
    return json.dumps(of, separators=(",", ":"))


def question() -> dict:
    return {"arms": [{"id": "a", "on": True}]}


def asked() -> dict:
    print("asked for the arms")
    return question()


device = open_()
print("before a policy:", text(device.decide(question)))
again = device.sync()
print(f"followed: {device.status()['mode']} {device.status()['epoch']} wakes in {(again - time) * 1000:.0f}")
decision = device.decide(asked)
print("decided:", decision["arm"], str(decision["sampled"]).lower())
device.close()  # the process ends, and the app keeps the decision
device = open_()
print("restarted")
print("reward:", text(device.reward(decision, 1)))
print("again:", text(device.reward(decision, 1)))
try:
    open_()
except riffle.Error as err:
    print("twice:", err)
if len(sys.argv) > 3:
    device.opt_out()
device.close()  # the process ends
device = open_()
print("late:", text(device.reward(decision, 0.5)))
print(f"before the report: wakes in {(device.sync() - time) * 1000:.0f}")
time += 60
device.sync()  # the server has no room
device.sync()
print("after the report:", str("report" in json.loads(wrap((folder / "riffle.state").read_bytes()))).lower())
print("ledger:", device.ledger()["entries"][0]["state"])
device.opt_out()
print("out:", text(device.decide(question)), str(device.status()["opted_out"]).lower())
device.close()
