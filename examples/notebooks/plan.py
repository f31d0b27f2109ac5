# %% [markdown]
# # What will privacy cost, and what will be learnt?
#
# Before anything runs. Run this cell by cell in an editor that knows `# %%`, or whole: `python plan.py`.

# %%
import riffle

p = riffle.plan(users=2000, dim=3, effect=0.1)
print(f"verdict: {p.verdict}; each person's guarantee: epsilon {p.epsilon:.3f} at delta {p.delta:g}")
print(p.frame[["size", "minimum", "epsilon", "messages_per_user"]])

# %% [markdown]
# Whom people must trust, what each of them sends, and how much noise there is (1 is a trusted curator's):

# %%
print(p.channels[["recommended", "epsilon", "variance_ratio", "messages", "bytes"]])
for reason in p.reasons:
    print("-", reason)

# %% [markdown]
# What is gained over the best constant option if the effect is as large as you say, and if it is smaller or larger:

# %%
columns = ["assumed_effect", "gain_last_mean", "gain_last_standard_error", "share_last_mean"]
print(p.prediction[columns].to_string())
try:
    p.plot().figure.savefig("plan.png")
except riffle.Error as err:  # no matplotlib
    print(err)

# %% [markdown]
# More people, another promise, or a plan that cannot be:

# %%
for users in (500, 2000, 8000):
    print(users, riffle.plan(users=users, dim=3, trust="shares", epsilon=0.5, predict=False).epsilon)
try:
    riffle.plan(users=30, dim=3)
except riffle.Error as err:
    print(err.what)
    print("What helps:", err.remedy)
