"""Questions to the panels of a whole deployment."""

import random
import tempfile
import unittest
from pathlib import Path

import riffle

try:
    import pandas
except ImportError:
    pandas = None

SCHEMA = {"version": 1, "context": [{"name": "age", "kind": "number", "low": 18, "high": 90},
                                    {"name": "site", "kind": "category", "values": ["north", "south"]}],
          "arms": [{"name": "id", "kind": "category", "values": ["none", "reminder"], "baseline": True}],
          "terms": [["bias"], ["id"], ["age"], ["site"]]}
ARMS = ["none", "reminder"]


def reward(person: dict, arm: str) -> float:
    return person["liking"]


class Questions(unittest.TestCase):
    @unittest.skipIf(pandas is None, "no pandas")
    def test_a_panel_is_asked(self) -> None:
        draw = random.Random(1)
        people = pandas.DataFrame({"age": [draw.uniform(18, 90) for _ in range(220)]})
        people["site"] = ["north" if age < 50 else "south" for age in people["age"]]
        people["liking"] = people["age"] / 90  # which is not sent: no column of the schema
        with riffle.Deployment(SCHEMA, people=400, panel=200, records=6, epsilon=20, delta=1e-3, family="linear",
                               window=8) as d:  # within which 220 people decide on a slow machine too
            first = riffle.ask.mean(d, ["age", "reward"], name="a", dry_run=True)
            self.assertEqual((first.asked, first.panel, first.records, first.kind), (False, 200, 6, "mean"))
            self.assertEqual(len(riffle.ask.answers(d).frame), 0)
            with self.assertRaisesRegex(riffle.Error, "no panel was asked a question"):
                riffle.ask.answers(d, name="a")
            self.assertTrue(riffle.ask.mean(d, ["age", "reward"], name="a").asked)
            with self.assertRaisesRegex(riffle.Error, "another name"):
                riffle.ask.mean(d, "age", name="a")
            with self.assertRaisesRegex(riffle.Error, "there are age, site, id and reward"):
                riffle.ask.mean(d, "weight", name="b")
            riffle.ask.histogram(d, "site", name="b")
            riffle.ask.fit(d, "reward", "age", name="c")
            log = d.simulate(people, ARMS, reward)
            there = log.groupby("epoch").size()  # fewer than the panel where somebody was late
            self.assertEqual(there.index.tolist(), [1, 2, 3, 4, 5])  # two of which taught the learner
            self.assertLessEqual(there.max(), 200)
            said = riffle.ask.answers(d)
            self.assertTrue(said.ok)
            self.assertEqual(said.questions[["kind", "epoch", "reports"]].values.tolist(),
                             [["mean", 2, 200], ["histogram", 3, 200], ["fit", 4, 200]])
            self.assertTrue((said.questions["epsilon"] < 20).all() and (said.questions["epsilon"] > 1).all())
            # Within three times the 95 % interval's half width, which one in ten million honest runs is not.
            for name, of, truth in (
                    ("a", "age", people["age"].mean()), ("a", "reward", people["liking"].mean()),
                    ("b", "site = north", (people["site"] == "north").mean()), ("c", "reward per age", 1 / 90),
                    *((name, "decisions with a reward", there[epoch]) for epoch, name in enumerate("abc", 2))):
                row = said.frame.loc[(name, of)]
                within = 1.5 * (row["high"] - row["low"])
                late = 8 * (of == "decisions with a reward")  # at most one of each thread, as the window ends
                self.assertLess(abs(row["value"] - truth), within + late, (name, of))
            self.assertLess(within, 60)
            self.assertAlmostEqual(said.frame.loc[("a", "age"), "standard_deviation"], people["age"].std(), delta=8)
            lost = {**said.json, "unanswered": [{"name": "d", "epoch": 9, "outcome": "destroyed"}]}
            self.assertEqual(riffle.ask.Answers.of(lost, ()).questions["outcome"].tolist(),
                             ["answered"] * 3 + ["destroyed"])
            with tempfile.TemporaryDirectory() as folder:
                logs = d.export(Path(folder) / "export")
                same = riffle.ask.answers(logs, name="b", trust=logs / "bundle.json")
            self.assertEqual(same.json["answers"], said.json["answers"][1:2])
            with self.assertRaisesRegex(riffle.Error, "is over"):
                riffle.ask.mean(d, "age", name="d")
            try:
                import matplotlib  # noqa: F401
            except ImportError:
                return
            self.assertEqual(said.plot(name="b").get_xlabel(), "share of decisions (b)")

    @unittest.skipIf(pandas is None, "no pandas")
    def test_people_who_do_not_suffice_for_a_panel_are_said(self) -> None:
        people = [{"age": 30, "site": "north", "liking": 1.0}] * 100
        with riffle.Deployment(SCHEMA, people=200, panel=100, epsilon=20, delta=1e-3, family="linear") as d:
            with self.assertRaisesRegex(riffle.Error, "or more of 100 people .*records="):
                d.simulate(people, ARMS, reward)

    def test_what_cannot_be_asked_is_said(self) -> None:
        d = riffle.Deployment(SCHEMA, people=100)
        with self.assertRaisesRegex(riffle.Error, "with block"):
            riffle.ask.mean(d, "age", name="a")
        with self.assertRaisesRegex(riffle.Error, "panel="):
            riffle.ask.mean(riffle.ask.Broker("keys", "nats://127.0.0.1:1"), "age", name="a")
        with self.assertRaisesRegex(riffle.Error, "a dict is no deployment"):
            riffle.ask.mean({}, "age", name="a")
        with self.assertRaisesRegex(riffle.Error, "no folder"):
            riffle.ask.answers("nowhere")


if __name__ == "__main__":
    unittest.main()
