"""A whole deployment on this machine."""

import gc
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import riffle

try:
    import pandas
except ImportError:
    pandas = None

SCHEMA = {"version": 1, "context": [{"name": "evening", "kind": "flag"}],
          "arms": [{"name": "id", "kind": "category", "values": ["none", "reminder"], "baseline": True}],
          "terms": [["bias"], ["id"], ["id", "evening"]]}
ARMS = ["none", "reminder"]


def reward(context: dict, arm: str) -> bool:
    return random.random() < (0.5 if arm == "none" else 0.9 if context["evening"] else 0.1)


class Lives(unittest.TestCase):
    def test_a_wrong_plan_is_an_error_and_nothing_is_left(self) -> None:
        for wrong, says in (({"people": 10}, "more people"), ({"people": 500, "epsilon": -1}, "epsilon"),
                            ({"people": 500, "settings": {"learner": {"nothing": 1}}}, "nothing")):
            with self.assertRaisesRegex(riffle.Error, says):
                riffle.Deployment(SCHEMA, **wrong).start()
        with self.assertRaisesRegex(riffle.Error, "term 0"):
            riffle.Deployment({**SCHEMA, "terms": [["nothing"]]}, people=500).start()

    def test_methods_need_a_running_deployment(self) -> None:
        with self.assertRaisesRegex(riffle.Error, "with block"):
            riffle.Deployment(SCHEMA, people=100).wait()

    def test_it_ends_with_this_process(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            script = ("import os, riffle, sys\n"
                      f"d = riffle.Deployment({SCHEMA!r}, people=100, folder={folder + '/kept'!r})\n"
                      "d.start()\nprint(d.client.address, flush=True)\nos.kill(os.getpid(), 9)\n")
            ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=os.environ)
            address = ran.stdout.strip()
            self.assertTrue(address.startswith("http://127.0.0.1:"), ran.stderr)
            with self.assertRaisesRegex(riffle.Error, "no randomizer"):
                client = riffle.Client(address, give_up=0)
                while True:  # until it has ended
                    client.status()

    def test_nothing_is_left_of_one_that_nobody_refers_to(self) -> None:
        d = riffle.Deployment(SCHEMA, people=100)
        d.start()
        process, keys = d._process.pid, d.keys
        del d
        gc.collect()
        with self.assertRaises(ProcessLookupError):
            os.kill(process, 0)
        self.assertFalse(Path(keys).exists())

    def test_a_fork_may_use_it_and_does_not_end_it(self) -> None:
        ask, answer = os.pipe()
        with riffle.Deployment(SCHEMA, people=100, window=600) as d:
            first = d.client.decide("a", ARMS, context={"evening": True})  # over a connection that the fork inherits
            child = os.fork()
            if child == 0:
                try:
                    d.close()
                    same = d.client.decide("b", ARMS, context={"evening": True})
                    os.write(answer, b"same" if same.token == first.token else b"other")
                    signal.pause()  # it lives on, with all that it inherited
                finally:
                    os._exit(0)
            os.close(answer)
            self.assertEqual(os.read(ask, 10), b"other")
            self.assertFalse(d.client.reward(first, 1).clipped)
            process = d._process.pid
        with self.assertRaises(ProcessLookupError):  # although the fork holds its input open
            os.kill(process, 0)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ask)

    def test_one_that_was_killed_is_an_error(self) -> None:
        with riffle.Deployment(SCHEMA, people=100) as d, riffle.Deployment(SCHEMA, people=100) as other:
            os.kill(d._process.pid, signal.SIGKILL)
            d._process.wait()
            for call in (lambda: d.wait(), lambda: d.audit(), lambda: d.simulate([{"evening": True}], ARMS, reward)):
                with self.assertRaisesRegex(riffle.Error, "signal 9"):
                    call()
            self.assertIn("epoch", other.client.status())  # the other one lives

    @unittest.skipIf(pandas is None, "no pandas")
    def test_people_are_learnt_from(self) -> None:
        people = pandas.DataFrame({"evening": [i % 2 == 0 for i in range(150)]})
        with riffle.Deployment(SCHEMA, people=150, epsilon=4, delta=1e-4, window=1,
                               settings={"learner": {"control": 0.1}}) as d:
            with self.assertRaisesRegex(riffle.Error, "runs already"):
                d.start()
            log = d.simulate(people, ARMS, reward)
            d.wait()
            self.assertEqual(log["device"].nunique(), 150)
            sampled = log["device"][log["sampled"]]
            unheard = log["device"][log["reason"] == "shuffler_unreachable"]
            self.assertTrue(sampled.is_unique)
            self.assertEqual(set(sampled) | set(unheard), set(log["device"]))
            self.assertEqual(set(log["arm"]), set(ARMS))
            self.assertTrue(((log["propensity"] > 0) & (log["propensity"] <= 1)).all())
            audit = d.audit()
            self.assertTrue(audit.ok)
            self.assertEqual(len(audit.breaches), 0)
            self.assertLessEqual(audit.epsilon_so_far, 4)
            self.assertEqual(len(audit.coefficients), 3 * len(audit.frame))
            self.assertTrue(d.report().ok)
            self.assertEqual(d.client.ledger("person-3")["ledger"]["entries"][0]["state"], "spent")
            policy = d.policy()
            for evening in (True, False):  # the policy in Python plays what devices play
                person = pandas.DataFrame({"evening": [evening], "city": ["Bonn"]})
                asked = (d.client.decide(f"new-{i}", ARMS, context={"evening": evening}) for i in range(100))
                played = next(of.id for of in asked if of.propensity > 0.5)  # else it is of the control group
                self.assertEqual(policy.choose(person, ARMS).tolist(), [played])
                self.assertEqual(policy.probabilities(person, ARMS)[played].tolist(), [1])
            with tempfile.TemporaryDirectory() as folder:
                logs = d.export(Path(folder) / "export")
                with self.assertWarnsRegex(riffle.Warning, "keys"):
                    same = riffle.audit(logs)
                self.assertEqual(same.json["rounds"], audit.json["rounds"])
                certificate = riffle.verify(logs / "certificates" / "epoch-1.json", trust=Path(d.keys) / "bundle.json")
                self.assertTrue(certificate.ok)
                self.assertIn("analyzer", certificate.frame.index)
                policy.save(Path(folder) / "policy.json")
                self.assertEqual(riffle.policy(Path(folder) / "policy.json").digest, policy.digest)
        explored = log[log["propensity"] < 1]  # who comes between two cohorts gets the best arm: nothing to compare
        valued = riffle.evaluate(explored, schema=SCHEMA, columns={"arms": ARMS}, policy=policy)
        self.assertEqual(valued.decisions, len(explored))
        with self.assertRaisesRegex(riffle.Error, "no column evening"):
            policy.choose(pandas.DataFrame({"city": ["Bonn"]}), ARMS)
        self.chooses(policy)
        self.assertTrue(policy.final)
        self.assertEqual(list(policy.frame.index), ["bias", "id = reminder", "id = reminder × evening"])
        self.assertFalse(Path(d.keys).exists())

    def chooses(self, policy: riffle.Policy) -> None:
        """A policy decides alike for all kinds of columns, and for what devices would refuse it says so."""
        people = pandas.DataFrame({"evening": [True, False, True]}, index=["a", "a", "b"])
        played = policy.choose(people, ARMS)
        self.assertEqual(played.index.tolist(), ["a", "a", "b"])
        for kind in ("int8", "float", "boolean", "object", "category", "Int64"):
            self.assertTrue(policy.choose(people.astype(kind), ARMS).equals(played), kind)
        self.assertTrue(pickle.loads(pickle.dumps(policy)).choose(people, ARMS).equals(played))
        self.assertEqual(list(policy.probabilities(people.iloc[:0], ARMS).columns), ARMS)
        for bad, says in ((people.assign(evening=["x", True, True]), "row 1: .*evening must be"),
                          (pandas.concat([people, people], axis=1), "two columns"),
                          ({"evening": True}, "type dict"), (people["evening"], "type Series")):
            with self.assertRaisesRegex(riffle.Error, says):
                policy.choose(bad, ARMS)
        for arms in (["sms"], [1], []):
            with self.assertRaisesRegex(riffle.Error, "arm"):
                policy.choose(people, arms)

    @unittest.skipIf(pandas is None, "no pandas")
    def test_a_reward_that_comes_too_late_is_said(self) -> None:
        def late(context: dict, arm: str) -> float:
            time.sleep(1.2)
            return 1
        panel = {"people": 200, "panel": 100, "epsilon": 20, "delta": 1e-3}
        for people, more in ((3, {"people": 100}), (100, panel)):  # of a panel, the others decide too late
            with riffle.Deployment(SCHEMA, window=1, **more) as d:
                with self.assertWarnsRegex(riffle.Warning, r"^(\d+) of \1 reports have no reward.* window=$"):
                    log = d.simulate([{"evening": True}] * people, ARMS, late, threads=1, epochs=1)
                self.assertLessEqual(set(log.get("reward", [])), {1})

    @unittest.skipIf(pandas is None, "no pandas")
    def test_a_reward_that_fails_ends_the_simulation(self) -> None:
        def fails(context: dict, arm: str) -> float:
            raise ZeroDivisionError
        with riffle.Deployment(SCHEMA, people=100, window=1) as d:
            with self.assertRaises(ZeroDivisionError):
                d.simulate([{"evening": True}] * 100, ARMS, fails)
            for people, arms, says in ((pandas.DataFrame({"city": ["Bonn"]}), ARMS, "no column evening"),
                                       ([{"evening": True, "arm": "none"}], ARMS, "column arm"),
                                       ([{"evening": True}], [[0.5]], "no id"),
                                       (pandas.DataFrame([[1, 2]], columns=["evening"] * 2), ARMS, "two columns")):
                with self.assertRaisesRegex(riffle.Error, says):
                    d.simulate(people, arms, reward)
            odd = pandas.DataFrame({"evening": pandas.array([True, None], dtype="boolean"), "city": "Bonn",
                                    "day": pandas.Timestamp("2026-01-01")}, index=["a", "a"])
            log = d.simulate(odd, ARMS, lambda person, arm: person["day"].year - 2025)
            self.assertEqual(set(log["reward"]), {1})
            self.assertEqual(set(log["evening"]), {None, True})
            with self.assertRaisesRegex(riffle.Refused, "evening|id|field"):
                d.client.decide("a", ["nothing"], context={"evening": True})


if __name__ == "__main__":
    unittest.main()
