# %% [markdown]
# # A private regression on a table that you hold
#
# The coefficients may be published: nobody can tell from them whether any one person was in the table.

# %%
import random

import pandas
import riffle

draw = random.Random(1)
people = pandas.DataFrame({"age": [draw.uniform(18, 90) for _ in range(5000)],
                           "sex": [draw.choice(["f", "m"]) for _ in range(5000)]})
people["pressure"] = [80 + 0.6 * age + (5 if sex == "m" else 0) + draw.gauss(0, 10)
                      for age, sex in zip(people["age"], people["sex"])]

# %% [markdown]
# Bounds and categories are public: take them from general knowledge, never from the data. A dry run reads no value and
# spends nothing. It says how precise such a fit will be.

# %%
about = {"bounds": {"pressure": (60, 200), "age": (18, 90)}, "categories": {"sex": ["f", "m"]}}
dry = riffle.fit(people, "pressure", epsilon=1, dry_run=True, **about)
print(dry.frame["standard_error"])

# %% [markdown]
# The fit spends the budget. Each run draws new noise and spends it again.

# %%
f = riffle.fit(people, "pressure", epsilon=1, **about)
print(f"epsilon {f.epsilon:.3f} at delta {f.delta:g}, {f.rests_on}")
print(f.frame[["value", "standard_error", "low", "high"]])
try:
    f.plot().figure.savefig("fit.png")
except riffle.Error as err:  # no matplotlib
    print(err)
