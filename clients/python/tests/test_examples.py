"""What help() teaches runs: the examples of all public names, in an empty folder with what they speak of."""

import doctest
import inspect
import os
import random
import tempfile
import unittest
import warnings
from pathlib import Path

import riffle

try:
    import pandas
except ImportError:
    pandas = None

SCHEMA = {"version": 1, "context": [{"name": "evening", "kind": "flag"},
                                    {"name": "age", "kind": "number", "low": 18, "high": 90}],
          "arms": [{"name": "id", "kind": "category", "values": ["none", "reminder"], "baseline": True}],
          "terms": [["bias"], ["id"], ["id", "evening"], ["age"], ["evening"]]}
ARMS = ["none", "reminder"]

#: What cannot run here: it needs servers on the network, and is run by cmd/libriffle.
ELSEWHERE = {riffle.Device}

#: Fewer people, so that it takes seconds.
SMALLER = [("users=1000", "users=300"), ("people=500", "people=150")]

#: In this order, since a deployment is asked before it learns, and says what it learnt afterwards.
FIRST = [riffle.ask.mean, riffle.ask.histogram, riffle.ask.fit, riffle.Client, riffle.Deployment.simulate]


class Shown(doctest.OutputChecker):
    """An example that shows no output may print anything."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return not want or super().check_output(want, got, optionflags)


def explained() -> list:
    """Everything public that has a text of its own."""
    found = [getattr(riffle, name) for name in riffle.__all__ if name != "ask"]
    found += [getattr(riffle.ask, name) for name in riffle.ask.__all__]
    found += [member for of in found if inspect.isclass(of) for name, member in vars(of).items()
              if inspect.isfunction(member) and not name.startswith("_")]
    return FIRST + [of for of in found if of not in FIRST]


class Examples(unittest.TestCase):
    def test_all_that_is_public_is_explained(self) -> None:
        for of in explained():
            if of.__name__ != "of":  # results from JSON
                self.assertTrue((of.__doc__ or "").strip(), of)

    @unittest.skipIf(pandas is None, "no pandas")
    def test_examples_run(self) -> None:
        draw = random.Random(1)
        people = pandas.DataFrame({"evening": [i % 2 == 0 for i in range(500)],
                                   "age": [18 + i % 72 for i in range(500)],
                                   "sex": [draw.choice("fm") for _ in range(500)]})
        people["pressure"] = 80 + 0.6 * people["age"]
        log = pandas.DataFrame({**people[["evening", "age"]].to_dict("list"), "chance": 0.5,
                                "offer": [draw.choice(ARMS) for _ in range(500)],
                                "clicked": [i % 3 % 2 for i in range(500)]})
        log = pandas.concat([log] * 2)
        here = os.getcwd()
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            os.chdir(folder)
            self.addCleanup(os.chdir, here)
            log.to_csv("log.csv", index=False)
            pandas.DataFrame({"arms": [[[1, 0, 0], [0, 0.5, 0.5]]] * 400, "arm": [i % 2 for i in range(400)],
                              "reward": [i % 3 % 2 for i in range(400)], "propensity": 0.5}
                             ).to_json("log.jsonl", orient="records", lines=True)
            riffle.fit(people, "pressure", epsilon=1, bounds={"pressure": (80, 200), "age": (18, 90)},
                       ledger="people.ledger", budget=3)
            known = {"riffle": riffle, "people": people, "schema": SCHEMA,
                     "reward": lambda person, arm: float(person["evening"] == (arm == "reminder"))}
            with riffle.Deployment(SCHEMA, people=200, panel=100, records=9, epsilon=20, delta=1e-4, window=5,
                                   settings={"learner": {"control": 0.1}}) as d:
                ran = [self.run_examples(of, {**known, "d": d, "people": people[:150]}) for of in FIRST]
                self.assertTrue(all(ran))
                Path("out").mkdir()
                d.export("out/audit")
                Path("bundle.json").write_bytes((Path(d.keys) / "bundle.json").read_bytes())
                for of in explained()[len(FIRST):]:
                    if of not in ELSEWHERE:
                        ran.append(self.run_examples(of, {**known, "d": d}))
            self.assertGreater(sum(map(bool, ran)), 15)
            os.chdir(here)

    def run_examples(self, of: object, known: dict) -> int:
        """Runs the examples of a text, and returns how many there were."""
        test = doctest.DocTestParser().get_doctest(inspect.getdoc(of) or "", known, repr(of), None, None)
        for example in test.examples:
            for text, here in (("http://127.0.0.1:8400", known["d"].client.address), *SMALLER):
                example.source = example.source.replace(text, here)
        said = []
        result = doctest.DocTestRunner(checker=Shown()).run(test, out=said.append)
        self.assertEqual(result.failed, 0, "".join(said))
        return result.attempted


if __name__ == "__main__":
    unittest.main()
