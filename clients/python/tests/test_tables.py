"""Tables as people have them: what arrives at the program is what was in the DataFrame, or it is refused."""

import datetime
import decimal
import json
import os
import tempfile
import unittest
import warnings
from pathlib import Path

import riffle
from riffle import _frames

try:
    import numpy
    import pandas
except ImportError:
    pandas = None

BOUNDS = {"y": (0, 10), "x": (0, 5)}
SCHEMA = {"version": 1, "context": [{"name": "evening", "kind": "flag"},
                                    {"name": "age", "kind": "number", "low": 18, "high": 90},
                                    {"name": "site", "kind": "category", "values": ["north", "1"]}],
          "arms": [{"name": "id", "kind": "category", "values": ["none", "reminder"], "baseline": True}],
          "terms": [["bias"], ["id"], ["id", "evening"], ["age"], ["site"]]}
COLUMNS = {"arms": ["none", "reminder"], "arm": "my offer, =1", "reward": "clicked", "propensity": "p"}


def table(**more: object) -> "pandas.DataFrame":
    """Rows whose target is 2 x, so that a fit with much epsilon tells whether x arrived."""
    x = [i % 50 / 10 for i in range(2000)]
    return pandas.DataFrame({"y": [2 * v for v in x], "x": x, **more})


def slope(data: "pandas.DataFrame", **more: object) -> float:
    return float(riffle.fit(data, "y", epsilon=50, bounds={**BOUNDS, **more.pop("bounds", {})}, **more)
                 .frame.loc["x", "value"])


def log(rows: int = 400) -> "pandas.DataFrame":
    return pandas.DataFrame({"evening": [i % 2 == 0 for i in range(rows)], "age": [20 + i % 60 for i in range(rows)],
                             "site": "north", "my offer, =1": [["none", "reminder"][i % 3 % 2] for i in range(rows)],
                             "clicked": [i % 4 == 0 for i in range(rows)], "p": 0.5})


def read(data: "pandas.DataFrame", **columns: object) -> dict:
    return riffle.evaluate(data, schema=SCHEMA, columns={**COLUMNS, **columns}, theta=numpy.arange(6.0)).json


@unittest.skipIf(pandas is None, "no pandas")
class Tables(unittest.TestCase):
    def test_numbers_arrive_as_they_are(self) -> None:
        numbers = [0.1, 1 / 3, 1e-300, 1.7976931348623157e308, 123456789.123456789, 5e-324, -0.0]
        lines = _frames.lines(pandas.DataFrame({"x": numbers, "id": [2**60 + i for i in range(len(numbers))]}))
        told = [json.loads(line) for line in lines.splitlines()]
        self.assertEqual([(repr(t["x"]), t["id"]) for t in told],
                         [(repr(x), 2**60 + i) for i, x in enumerate(numbers)])

    def test_what_is_missing_is_null(self) -> None:
        made = pandas.DataFrame({"a": [1.5, float("nan")], "b": ["x", None], "c": [True, pandas.NA],
                                 "d": pandas.array([1, None], dtype="Int64"), "e": pandas.Categorical(["u", None]),
                                 "f": pandas.to_datetime(["2026-01-01", None]), "g": ["None", ""],
                                 "h": [decimal.Decimal("0.5"), decimal.Decimal("nan")],
                                 "i": pandas.arrays.SparseArray([0.0, float("nan")]),
                                 "j": pandas.array(["NA", None], dtype="string")})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            first, second = map(json.loads, _frames.lines(made).splitlines())
        self.assertEqual(first, {"a": 1.5, "b": "x", "c": True, "d": 1, "e": "u", "f": "2026-01-01 00:00:00",
                                 "g": "None", "h": 0.5, "i": 0, "j": "NA"})
        self.assertEqual(second, {**dict.fromkeys("abcdefhij"), "g": ""})

    def test_columns_that_are_not_used_do_not_matter_and_do_not_travel(self) -> None:
        self.assertAlmostEqual(slope(table(day=pandas.Timestamp("2026-01-01"), what=[object()] * 2000,
                                           how=float("inf"), **{"0": 1})), 2, delta=0.1)
        odd = log().assign(day=pandas.Timestamp("2026-01-01"), what=[object()] * 400, how=float("inf"))
        self.assertEqual(read(odd.set_index("p", drop=False)), read(log()))
        self.assertNotIn("day", _frames.lines(odd, only=["age"]))

    def test_what_is_no_value_is_refused_by_its_column(self) -> None:
        for bad in (float("inf"), pandas.Timestamp("2026-01-01"), datetime.date(2026, 1, 1), 1j, b"1", object(),
                    pandas.Period("2026-01"), [1]):
            with self.assertRaisesRegex(riffle.Error, '"?z"?.*line 1') as said:
                slope(table(z=[bad] * 2000), bounds={"z": (0, 1)})
            self.assertNotIn("2026", str(said.exception))

    def test_kinds_of_columns(self) -> None:
        for x in (table()["x"].astype("float32"), table()["x"].astype("Float64"), table()["x"].map(str),
                  table()["x"].map(decimal.Decimal), pandas.arrays.SparseArray(table()["x"])):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                self.assertAlmostEqual(slope(table().assign(x=x)), 2, delta=0.1)
        half = table(x=[i % 2 == 0 for i in range(2000)])
        half["y"] = half["x"] * 5.0
        for x in (half["x"], half["x"].astype("boolean"), half["x"].astype(int)):
            self.assertAlmostEqual(slope(half.assign(x=x), bounds={"x": (0, 1)}), 5, delta=0.3)

    def test_categories_are_declared_as_they_are(self) -> None:
        for values, names in (([1, 2], ["2"]), ([False, True], ["True"]), (["a,b", "c=d"], ["c=d"]),
                              (["NA", "None"], ["None"]), ([2**60, 2**60 + 1], [str(2**60 + 1)]),
                              (["größe 🙂", " x "], ["x"]), (pandas.Series(["a", "b"]).unique(), ["b"])):
            for kind in (object, "category"):
                c = pandas.Series([values[i % 2] for i in range(2000)], dtype=kind)
                f = riffle.fit(table(c=c), "y", epsilon=50, bounds=BOUNDS, categories={"c": values})
                self.assertEqual(list(f.frame.index), ["(intercept)", "x", *(f"c={n}" for n in names)])
        whole = pandas.Series([1, 2] * 999 + [1, None])  # which pandas makes floats
        self.assertAlmostEqual(slope(table(c=whole), categories={"c": [1, 2]}, missing="middle"), 2, delta=0.1)
        with self.assertRaisesRegex(riffle.Error, "line 2000"):
            slope(table(c=whole), categories={"c": [1, 2]})

    def test_names_of_columns(self) -> None:
        for name in ("a b", "a=b", "a,b", 'a"b', "größe", "--json"):
            f = riffle.fit(table().rename(columns={"x": name}), "y", epsilon=50, bounds={"y": (0, 10), name: (0, 5)},
                           features=[name])
            self.assertAlmostEqual(f.frame.loc[name, "value"], 2, delta=0.1)
        with self.assertRaisesRegex(riffle.Error, "number 0.*add_prefix"):
            riffle.fit(table().set_axis([0, 1], axis=1), 0, epsilon=1, bounds={0: (0, 10), 1: (0, 5)})
        with self.assertRaisesRegex(riffle.Error, "two columns have the name x"):
            slope(pandas.concat([table(), table()[["x"]]], axis=1))

    def test_what_is_no_table_or_declaration_is_said(self) -> None:
        for bad in (table()["x"], {"x": [1]}, [1], table().to_numpy(), 7):
            with self.assertRaisesRegex(riffle.Error, type(bad).__name__):
                slope(bad)
        for empty in (table().iloc[:0], pandas.DataFrame()):
            with self.assertRaisesRegex(riffle.Error, "no rows"):
                slope(empty)
        for bounds in ({"x": (1, 2, 3)}, {"x": ("0", "1")}, {"x": (0, float("inf"))}, {"x": 1}, {"x": (0, None)}):
            with self.assertRaisesRegex(riffle.Error, "column x"):
                slope(table(), bounds=bounds)
        for values in (["a", None], ["a", ""], "ab", [float("nan"), 1]):
            with self.assertRaisesRegex(riffle.Error, "column c"):
                slope(table(c="a"), categories={"c": values})
        for given in ({"columns": ["arm"]}, {"schema": [SCHEMA]}, {"schema": "nowhere"}, {"columns": {"arm": {1, 2}}}):
            with self.assertRaises(riffle.Error):
                riffle.evaluate(log(), **{"schema": SCHEMA, "columns": COLUMNS, **given})

    def test_a_table_is_never_an_argument_of_the_program(self) -> None:
        for call in (riffle.policy, riffle.verify, riffle.audit, riffle.ledger, riffle.report,
                     lambda t: riffle.plan(t), lambda t: riffle.evaluate(log(), prior=t)):
            with self.assertRaisesRegex(riffle.Error, "DataFrame"):
                call(table())

    def test_logs_of_other_kinds_are_the_same_log(self) -> None:
        same = read(log())
        for kinds in ({"clicked": float}, {"clicked": "Int64"}, {"evening": int}, {"site": "category"},
                      {"my offer, =1": "string"}, {"age": "float32"}, {"evening": "boolean"}):
            self.assertEqual(read(log().astype(kinds)), same, kinds)
        self.assertEqual(read(log(), propensity=numpy.float32(0.5), arms=numpy.array(["none", "reminder"])), same)
        self.assertEqual(read(log().assign(p=decimal.Decimal("0.5"))), same)
        packed = log().assign(arms=[numpy.array(["none", "reminder"], dtype=object)] * 400)  # as Parquet is read
        self.assertEqual(read(packed, arms="arms"), same)
        gaps = log().assign(age=pandas.array([None, 30] * 200, dtype="Int64"))
        self.assertEqual(read(gaps), read(gaps.astype({"age": float})))
        with self.assertRaisesRegex(riffle.Error, "^the table: .*line 2.*clicked"):
            read(log().assign(clicked=[1, None] * 200))

    def test_nothing_is_left_of_a_table(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            before, tempfile.tempdir = tempfile.tempdir, folder
            try:
                with _frames.file(log()) as (path, fds):
                    self.assertEqual(os.listdir(folder), [])  # not even meanwhile
                    self.assertEqual(os.fstat(fds[0]).st_mode & 0o77, 0)
                    self.assertEqual(len(Path(path).read_text().splitlines()), 400)
                for fails in (KeyboardInterrupt, riffle.Error):
                    with self.assertRaises(fails), _frames.file(log()) as (_, fds):
                        raise fails("x")
                    with self.assertRaises(OSError):
                        os.fstat(fds[0])
                read(log())
                self.assertEqual(os.listdir(folder), [])
            finally:
                tempfile.tempdir = before

    def test_parquet_is_for_pandas(self) -> None:
        with tempfile.NamedTemporaryFile(suffix=".parquet") as made:
            made.write(b"PAR1")
            made.flush()
            with self.assertRaisesRegex(riffle.Error, "read_parquet"):
                riffle.replay(made.name)

    def test_a_place_with_odd_names(self) -> None:
        here = os.getcwd()
        with tempfile.TemporaryDirectory(suffix=" ü '\"") as folder:
            os.chdir(folder)
            try:
                log().to_csv("my log;ö.csv", index=False, sep=";", decimal=",")
                self.assertEqual(read("my log;ö.csv"), read(log()))
                self.assertEqual(read(Path(folder) / "my log;ö.csv"), read(log()))
            finally:
                os.chdir(here)

    def test_columns_without_values_are_numbers(self) -> None:
        f = riffle.fit(table(), "y", epsilon=0.01, bounds=BOUNDS)  # too much noise for any interval
        self.assertEqual({str(t) for t in f.frame.dtypes}, {"float64"})


if __name__ == "__main__":
    unittest.main()
