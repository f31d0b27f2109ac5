"""The commands as functions, with the program itself."""

import random
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import riffle

try:
    import pandas
except ImportError:
    pandas = None

BOUNDS = {"pressure": (60, 200), "age": (18, 90)}
SCHEMA = {"version": 1, "context": [{"name": "evening", "kind": "flag"}],
          "arms": [{"name": "id", "kind": "category", "values": ["none", "reminder"], "baseline": True}],
          "terms": [["bias"], ["id"], ["id", "evening"]]}


def people(rows: int) -> "pandas.DataFrame":
    draw = random.Random(1)
    ages = [draw.uniform(18, 90) for _ in range(rows)]
    return pandas.DataFrame({"pressure": [80 + 0.6 * a + draw.gauss(0, 10) for a in ages], "age": ages,
                             "sex": [draw.choice("fm") for _ in ages]})


def log(rows: int) -> "pandas.DataFrame":
    """A reminder helps in the evening and annoys in the morning; it came by a coin."""
    draw, made = random.Random(2), []
    for _ in range(rows):
        evening, offer = draw.random() < 0.5, draw.choice(["none", "reminder"])
        works = 0.5 if offer == "none" else 0.8 if evening else 0.2
        made.append({"evening": evening, "offer": offer, "clicked": int(draw.random() < works), "day": "Monday"})
    return pandas.DataFrame(made)


LOG = log(2000) if pandas is not None else None
COLUMNS = {"arms": ["none", "reminder"], "arm": "offer", "reward": "clicked", "propensity": 0.5}


class WithoutPandas(unittest.TestCase):
    def test_a_plan_that_cannot_be_says_what_would_help(self) -> None:
        with self.assertRaises(riffle.Error) as said:
            riffle.plan(users=10, predict=False)
        self.assertIn("10 people", said.exception.what)
        self.assertIn("more people", said.exception.remedy)
        self.assertNotIn("more people", said.exception.what)

    def test_a_flag_that_is_none_is_named(self) -> None:
        with self.assertRaisesRegex(riffle.Error, "--usrs"):
            riffle.plan(usrs=10)

    def test_a_plan(self) -> None:
        p = riffle.plan(users=500, dim=3, trust="shares", epsilon=0.8, predict=False)
        self.assertLessEqual(p.epsilon, 0.8)
        self.assertEqual(sum(c["size"] for c in p.json["cohorts"]), 500)
        self.assertIsNone(p.verdict)
        if pandas is not None:
            self.assertEqual(p.frame["size"].sum(), 500)
            self.assertEqual(set(p.channels.index), {"shuffle", "shares", "local", "central"})
            self.assertEqual(len(p.releases), 2 * len(p.frame))
            self.assertIn("epsilon", str(p))

    def test_results_are_shown_without_tables_where_there_is_no_pandas(self) -> None:
        p = riffle.plan(users=500, dim=3, trust="shares", predict=False)
        with mock.patch("importlib.util.find_spec", lambda name: None):
            for shown in (str(p), p._repr_html_()):
                self.assertIn("epsilon: ", shown)
                self.assertNotIn("minimum", shown)
        with mock.patch.dict(sys.modules, {"pandas": None}):
            with self.assertRaisesRegex(riffle.Error, "pip install pandas"):
                p.frame

    def test_a_dry_run_needs_no_data(self) -> None:
        f = riffle.fit(None, "pressure", epsilon=1, bounds=BOUNDS, rows=5000, dry_run=True)
        self.assertTrue(f.dry_run)
        self.assertEqual(f.rows, 5000)

    def test_what_is_no_file_or_folder_is_said(self) -> None:
        for call in (lambda: riffle.evaluate("nowhere.jsonl"), lambda: riffle.audit("nowhere"),
                     lambda: riffle.verify("nowhere.json"), lambda: riffle.policy("nowhere.json")):
            with self.assertRaisesRegex(riffle.Error, "nowhere"):
                call()

    def test_public_names_are_explained(self) -> None:
        for name in riffle.__all__:
            self.assertTrue(getattr(riffle, name).__doc__, name)
            self.assertIn(name, (riffle.__doc__ or "") + str(riffle.__all__))


@unittest.skipIf(pandas is None, "no pandas")
class WithPandas(unittest.TestCase):
    def test_a_fit_of_a_table(self) -> None:
        f = riffle.fit(people(4000), "pressure", epsilon=4, bounds=BOUNDS, categories={"sex": ["f", "m"]})
        self.assertEqual(list(f.frame.index), ["(intercept)", "age", "sex=m"])
        self.assertAlmostEqual(f.frame.loc["age", "value"], 0.6, delta=0.3)  # many standard errors
        self.assertEqual(f.rows, 4000)

    def test_people_of_a_table_are_simulated(self) -> None:
        draw = random.Random(3)
        made = pandas.DataFrame([{"arms": [[0.5, 0], [0, 0.5]], "rewards": [int(draw.random() < 0.1), 1]}
                                 for _ in range(200)])
        with tempfile.TemporaryDirectory() as folder:
            s = riffle.simulate(made, holdout=0, trust="shares", epsilon=4, delta=1e-4, hosts=1,
                                export=Path(folder) / "export")
            self.assertEqual((s.users, s.epsilon <= 4), (200, True))
            self.assertLess(s.frame.loc["riffle", "regret"], s.frame.loc["uniform", "regret"])
            self.assertIn("analyzer", s.processes.index)
            self.assertTrue(riffle.audit(Path(folder) / "export", trust=Path(folder) / "export" / "bundle.json").ok)

    def test_fits_of_groups_under_a_ledger(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            kept = Path(folder) / "people.ledger"
            about = {"bounds": BOUNDS, "categories": {"sex": ["f", "m"]}, "by": "sex", "ledger": kept}
            f = riffle.fit(people(4000), "pressure", epsilon=2, budget=3, **about)
            self.assertEqual(list(f.groups.index), ["f", "m"])
            self.assertEqual(list(f.frame.loc["m"].index), ["(intercept)", "age"])
            self.assertLess(f.left_epsilon, 3)
            with self.assertRaisesRegex(riffle.Error, "ledger|budget|left"):
                riffle.fit(people(4000), "pressure", epsilon=2.9, **about)
            left = riffle.ledger(kept)
            self.assertEqual((left.left_epsilon, len(left.frame)), (f.left_epsilon, 1))
        with self.assertRaisesRegex(riffle.Error, "no ledger"):
            riffle.ledger(kept)

    def test_a_fit_names_the_line_and_no_value(self) -> None:
        table = people(100)
        table.loc[7, "sex"] = "secret"
        with self.assertRaisesRegex(riffle.Error, "line 8") as said:
            riffle.fit(table, "pressure", epsilon=1, bounds=BOUNDS, categories={"sex": ["f", "m"]})
        self.assertNotIn("secret", str(said.exception))

    def test_a_log_of_named_arms_is_evaluated(self) -> None:
        e = riffle.evaluate(LOG, schema=SCHEMA, columns=COLUMNS, theta=[0, 0, 2])
        self.assertEqual(e.decisions, 2000)
        of = e.frame.loc[["ips", "snips", "doubly_robust", "switch"]]
        self.assertTrue((of["low"] < 0.65).all() and (of["high"] > 0.65).all(), e.frame)  # what is true
        self.assertEqual(e.frame.loc["logged", "value"], LOG["clicked"].mean())
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log.csv"
            LOG.assign(evening=LOG["evening"].map({True: "true", False: "false"})).to_csv(path, index=False)
            same = riffle.evaluate(path, schema=SCHEMA, columns=COLUMNS, theta=[0, 0, 2])
        self.assertEqual(e.json, same.json)
        with self.assertRaisesRegex(riffle.Error, "offered"):
            riffle.evaluate(LOG, schema=SCHEMA, columns={**COLUMNS, "arm": "offered"})

    def test_a_log_is_replayed(self) -> None:
        r = riffle.replay(LOG, schema=SCHEMA, columns=COLUMNS, trust=["shares"], rounds=5)
        self.assertEqual(r.decisions, 2000)
        self.assertLess(r.people, 2000)
        self.assertEqual(r.frame.loc[("logged", "all"), "value"], LOG["clicked"].mean())
        gain = r.gain.loc[("without_privacy", "last_policy")]
        self.assertTrue(gain["low"] < 0.15 < gain["high"], gain)  # what is true
        with self.assertRaisesRegex(riffle.Error, "overlap|does not hold|propensit"):
            riffle.replay(LOG[LOG["offer"] == "none"], schema=SCHEMA, columns=COLUMNS, trust=["shares"], rounds=5)

    def test_a_plan_for_the_people_of_a_log(self) -> None:
        p = riffle.plan(users=500, from_log=LOG, schema=SCHEMA, columns=COLUMNS, trust="shares")
        self.assertEqual(p.json["dimension"], 3)
        self.assertGreater(len(p.prediction), 0)


if __name__ == "__main__":
    unittest.main()
