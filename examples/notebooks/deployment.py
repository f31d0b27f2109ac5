# %% [markdown]
# # A deployment, from the schema to the audit
#
# Broker, shuffler, analyzer and devices run on this machine, each as a process of its own with its own keys. An app may
# remind people to exercise. In truth that helps in the evening and annoys in the morning. No server sees what any
# person did.

# %%
import random

import pandas
import riffle

schema = {"version": 1,
          "context": [{"name": "evening", "kind": "flag"}],
          "arms": [{"name": "id", "kind": "category", "values": ["none", "reminder"], "baseline": True}],
          "terms": [["bias"], ["id"], ["id", "evening"]]}
arms = ["none", "reminder"]
people = pandas.DataFrame({"evening": [random.random() < 0.5 for _ in range(600)]})


def reward(context, arm):
    return random.random() < (0.5 if arm == "none" else 0.9 if context["evening"] else 0.1)


# %% [markdown]
# Start it, have 600 people use the app, and wait until the last cohort was learned from. A real app would call
# `d.client.address` instead. A tenth of the decisions are a control group.

# %%
d = riffle.Deployment(schema, people=600, settings={"learner": {"control": 0.1}})
d.start()  # or: with riffle.Deployment(...) as d
print("watch it:", d.pages["analyzer"])
log = d.simulate(people, arms, reward)
d.wait()
print(log.groupby("epoch").agg(decisions=("reward", "size"), reward=("reward", "mean"), sampled=("sampled", "sum")))

# %% [markdown]
# What was learnt, by name and with intervals; whether it helps, compared with the control group; and what it cost a
# person.

# %%
policy = d.policy()
print(policy)
print(d.report().verdict)
print("\n".join(d.client.ledger("person-7")["explanation"]))

# %% [markdown]
# Anyone can check it. The audit computes every sum, policy and guarantee again, from signed logs.

# %%
audit = d.audit()
print("nothing is wrong:", audit.ok, "; revealed so far: epsilon", round(audit.epsilon_so_far, 3))
logs = d.export("logs")
certificate = riffle.verify(logs / "certificates" / "epoch-1.json", trust=f"{d.keys}/bundle.json")
print(certificate.frame)
d.close()
