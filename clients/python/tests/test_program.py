"""How the program is found, checked and run, and how what it says becomes errors."""

import os
import stat
import tempfile
import unittest
import warnings
from pathlib import Path
from unittest import mock

import riffle
from riffle import _program


def fake(folder: str, script: str) -> str:
    """A program that is a shell script."""
    path = Path(folder) / "riffle"
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


class Found(unittest.TestCase):
    def test_the_program_runs_here(self) -> None:
        self.assertTrue(os.access(riffle.program(), os.X_OK))

    def test_no_program_is_an_error_that_says_what_to_do(self) -> None:
        with mock.patch.dict(os.environ, {_program.VARIABLE: "/nowhere/riffle"}):
            with self.assertRaises(riffle.Error) as said:
                riffle.program()
        self.assertIn("/nowhere/riffle", said.exception.what)
        self.assertTrue(said.exception.remedy)

    def test_another_version_is_refused(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = fake(folder, """echo '{"version": "v1.0.0"}'""")
            with mock.patch.dict(os.environ, {_program.VARIABLE: path}):
                with mock.patch.object(_program, "made_with", lambda: "v2.0.0"):
                    with self.assertRaisesRegex(riffle.Error, "v2.0.0.*v1.0.0"):
                        riffle.program()
                with mock.patch.object(_program, "made_with", lambda: "v1.0.0"):
                    self.assertEqual(str(riffle.program()), path)

    def test_what_is_no_riffle_is_refused(self) -> None:
        for script in ("exit 1", "echo no JSON", "echo '{}'"):
            with tempfile.TemporaryDirectory() as folder:
                with mock.patch.dict(os.environ, {_program.VARIABLE: fake(folder, script)}):
                    with self.assertRaisesRegex(riffle.Error, "does not run here"):
                        riffle.program()


class Said(unittest.TestCase):
    def test_flags(self) -> None:
        given = {"min_cohort": 5, "predict": False, "cohort": [1, 2], "none": None, "x": 1e-06}
        self.assertEqual(_program.flags(given), ["--min-cohort=5", "--predict=false", "--cohort=1,2", "--x=1e-06"])

    def test_an_error_has_what_and_remedy(self) -> None:
        with self.assertRaises(riffle.Error) as said:
            _program.failed("plan", "", ["riffle plan: no plan: too few people; give more people"])
        self.assertEqual((said.exception.what, said.exception.remedy),
                         ("no plan: too few people", "give more people"))
        with self.assertRaises(riffle.Error) as said:
            _program.failed("plan", "", ["planning, 3%", "Warning: keys", "riffle plan: no; more"])
        self.assertEqual(said.exception.what, "no")
        with self.assertRaises(riffle.Error) as said:
            _program.failed("plan", "", ["riffle plan: unknown flag: --usrs"])
        self.assertIn("--usrs", said.exception.what)
        self.assertIn("--help", said.exception.remedy)
        with self.assertRaises(riffle.Error) as said:
            _program.failed("plan", '{"infeasible": {"reason": "too few", "remedy": "more"}}', ["riffle plan: x"])
        self.assertEqual((said.exception.what, said.exception.remedy), ("too few", "more"))

    def test_all_faults_are_kept(self) -> None:
        with self.assertRaisesRegex(riffle.Error, "epsilon(.|\n)*hosts"):
            _program.failed("demo", "", ["riffle demo: 2 faults:", "--epsilon = -1; x", "--hosts = 0; y"])

    def test_warnings_are_warnings_and_progress_is_logged(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = fake(folder, """[ "$1" = version ] && echo '{"version": "v1"}' && exit
echo 'planning, 10%' >&2; echo planning >&2; echo 'Warning: keys of nobody' >&2; echo '{"a": 1}'""")
            with mock.patch.dict(os.environ, {_program.VARIABLE: path}), \
                    mock.patch.object(_program, "made_with", lambda: None), \
                    self.assertLogs("riffle", "INFO") as logged, warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                self.assertEqual(_program.result("audit", []), ({"a": 1}, ("keys of nobody",)))
        self.assertEqual([str(w.message) for w in warned], ["keys of nobody"])
        self.assertIn("planning, 10%", logged.output[0])

    def test_a_program_that_reads_nothing_ends(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = fake(folder, """[ "$1" = version ] && echo '{"version": "v1"}' && exit
echo 'riffle fit: no' >&2; exit 1""")
            with mock.patch.dict(os.environ, {_program.VARIABLE: path}), \
                    mock.patch.object(_program, "made_with", lambda: None):
                with self.assertRaisesRegex(riffle.Error, "no"):
                    _program.result("fit", [], data="x" * (1 << 20))


if __name__ == "__main__":
    unittest.main()
