"""Private decision learning: which decision works for whom, without collecting any person's data.

This package runs the program riffle, which it carries, and reads what it prints. All mathematics, noise and
cryptography are the program's; there is no second implementation in Python.

Before anything runs, and on data that you hold:

    riffle.plan(users=2000, dim=3)           what privacy costs, and what will be learnt
    riffle.evaluate("log.jsonl")             what a policy would have earned on logged decisions
    riffle.replay("log.csv", ...)            what a deployment would have brought on them
    riffle.fit(people, "pressure", ...)      a private regression, whose coefficients may be published
    riffle.simulate(users=1000)              a whole deployment, with simulated people

A deployment with your own schema, on this machine:

    with riffle.Deployment(schema, people=2000) as d:
        log = d.simulate(people, ["none", "reminder"], reward)
        d.wait()
        d.audit().ok
        policy = d.policy()
    people["arm"] = policy.choose(people, ["none", "reminder"])

What is a mean, a spread or a trend among its people: riffle.ask asks a panel of them.

    with riffle.Deployment(schema, people=900, panel=300, records=5) as d:
        riffle.ask.mean(d, ["age", "reward"], name="who")
        d.simulate(people, ["none", "reminder"], reward)
        riffle.ask.answers(d).frame

A client of a deployment that runs, for an app:

    client = riffle.Client("http://127.0.0.1:8400")
    decision = client.decide("person-7", arms=["none", "reminder"], context={"evening": True})
    client.reward(decision, 1)

A device of one person, which takes part over HTTPS as a phone does: riffle.Device.

To check what servers did:

    riffle.audit("out/audit", trust="bundle.json")
    riffle.verify("out/audit/certificates/epoch-1.json", trust="bundle.json")
    riffle.report("out/audit", trust="bundle.json")
    riffle.policy("out/audit", trust="bundle.json")     what was learnt, by name

Results have fields, tables as DataFrames (.frame and others; they need pandas), everything that the program said
(.json), and some draw (.plot(), which needs matplotlib). What goes wrong is a riffle.Error with .what and .remedy. A
riffle.Warning says what a result must not be read without. Progress goes to the logger "riffle":

    logging.basicConfig(level=logging.INFO)
"""

from . import ask
from ._client import Acceptance, Client, Decision, Refused
from ._commands import audit, evaluate, fit, ledger, plan, policy, replay, report, simulate, verify
from ._deployment import Deployment
from ._device import Device
from ._library import DeviceError
from ._policy import Policy
from ._program import Error, Warning, made_with, program
from ._results import Audit, Certificate, Evaluation, Fit, Ledger, Plan, Replay, Report, Result, Simulation

try:
    from ._built import VERSION as __version__
except ImportError:  # in a clone of the sources
    __version__ = "0.0.0"

__all__ = [
    "Acceptance", "Audit", "Certificate", "Client", "Decision", "Deployment", "Device", "DeviceError", "Error",
    "Evaluation", "Fit", "Ledger", "Plan", "Policy", "Refused", "Replay", "Report", "Result", "Simulation", "Warning",
    "ask", "audit", "evaluate", "fit", "ledger", "made_with", "plan", "policy", "program", "replay", "report",
    "simulate", "verify",
]

for _name in __all__:  # as help and tracebacks name them
    _of = globals()[_name]
    if getattr(_of, "__module__", "").startswith("riffle."):
        _of.__module__ = "riffle"
del _name, _of
