"""From a log of past decisions to a policy in pandas: log.csv is there (make_log.py), and nothing else."""

import random

import pandas
import riffle

arms = ["none", "reminder"]
schema = {"version": 1,
          "context": [{"name": "evening", "kind": "flag"}],
          "arms": [{"name": "id", "kind": "category", "values": arms, "baseline": True}],
          "terms": [["bias"], ["id"], ["id", "evening"]]}
columns = {"arms": arms, "arm": "offer", "reward": "exercised", "propensity": "chance"}

log = pandas.read_csv("log.csv")
replay = riffle.replay(log, schema=schema, columns=columns, trust=["shares"])
value, low, high = replay.gain.loc[("shares", "last_policy"), ["value", "low", "high"]]
print(f"A deployment would gain {value:+.3f} of reward in a decision (95 % interval {low:+.3f} to {high:+.3f}).")

plan = riffle.plan(users=2000, dim=3, trust="shares", effect=max(value, 0.05))
print("verdict:", plan.verdict)

people = pandas.DataFrame({"evening": [random.random() < 0.5 for _ in range(2000)]})
with riffle.Deployment(schema, people=2000) as deployment:
    deployment.simulate(people, arms, lambda context, arm: random.random() < (
        0.5 if arm == "none" else 0.8 if context["evening"] else 0.2))
    deployment.wait()
    policy = deployment.policy()

policy.save("policy.json")
print(policy)
log["policy"] = policy.choose(log, arms)
print(log.groupby(["evening", "policy"]).size())
