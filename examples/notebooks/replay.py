# %% [markdown]
# # What would a deployment have brought on our past decisions?
#
# The log holds decisions that were made by a coin, with its chance. `make_log.py log.csv` makes one; yours may have
# other columns. A log with contexts and rewards is personal data in the clear, and so are the figures here.

# %%
import pandas
import riffle

log = pandas.read_csv("log.csv")
print(log.head())
schema = {"version": 1,
          "context": [{"name": "evening", "kind": "flag"}],
          "arms": [{"name": "id", "kind": "category", "values": ["none", "reminder"], "baseline": True}],
          "terms": [["bias"], ["id"], ["id", "evening"]]}
about = {"schema": schema,
         "columns": {"arms": ["none", "reminder"], "arm": "offer", "reward": "exercised", "propensity": "chance"}}

# %% [markdown]
# What a policy would have earned, by four estimators. A parameter of 2 for the third number, which is
# `id = reminder × evening`, reminds in the evening alone:

# %%
e = riffle.evaluate(log, theta=[0, 0, 2], **about)
print(e.frame)
print("as good as", round(e.effective_size), "decisions of that policy")

# %% [markdown]
# What the private learner would have found by itself, in two of the channels, beside one without privacy:

# %%
r = riffle.replay(log, trust=["shares", "local"], **about)
print(f"each run has the {r.people} people of {r.decisions} who happened to get what it drew")
print(r.frame)
print(r.gain)
try:
    r.plot().figure.savefig("replay.png")
except riffle.Error as err:  # no matplotlib
    print(err)

# %% [markdown]
# A log in which nobody was ever reminded cannot say what reminders do, and is refused:

# %%
try:
    riffle.replay(log[log["offer"] == "none"], **about)
except riffle.Error as err:
    print(err)
