"""How the program is found, checked and run, and how what it says becomes errors."""

import os
import pickle
import re
import signal
import stat
import subprocess
import tempfile
import unittest
import warnings
from importlib import metadata
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


class Licences(unittest.TestCase):
    def test_every_module_in_the_program_and_the_library_has_its_licence(self) -> None:
        package = metadata.distribution("riffle")
        named = package.metadata.get_all("License-File")
        texts = {p.name: p.read_text(encoding="utf-8") for p in package.files if ".dist-info/licenses/" in str(p)}
        self.assertEqual(set(named), set(texts))
        self.assertIn("Apache License", texts["LICENSE"])
        held = set()
        for path in (Path(riffle.__file__).parent / "bin").iterdir():
            said = subprocess.run(["go", "version", "-m", path], stdout=subprocess.PIPE, text=True, check=True).stdout
            modules = re.findall(r"(?m)^\tdep\t(\S+)\t(\S+)", said)
            self.assertTrue(modules, path)
            held.update(modules)
        for module in held:
            self.assertIn("\n==== %s %s: " % module, texts["third-party-licences.txt"])


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

    def test_numbers_and_lists_of_other_libraries(self) -> None:
        class Array(list):
            def tolist(self) -> list:
                return list(self)
        self.assertEqual(_program.flags({"users": 2000.0, "theta": Array([0.5, 1.0]), "features": ["a,b", "c"]}),
                         ["--users=2000", "--theta=0.5,1", '--features="a,b",c'])

    def test_what_is_no_value_of_a_flag_is_not_shown_to_the_machine(self) -> None:
        for value in ({"secret": 1}, object(), [{"secret": 1}], b"secret"):
            with self.assertRaisesRegex(riffle.Error, "export is of the type") as said:
                _program.flags({"export": value})
            self.assertNotIn("secret", str(said.exception))

    def test_an_error_has_what_and_remedy(self) -> None:
        for lines, what, remedy in (
                (["planning, 3%", '{"error": {"command": "riffle plan", "what": "a; b", "remedy": "more"}}'],
                 "a; b", "more"),
                (["Warning: keys", '{"error": {"command": "riffle plan", "what": "2 faults:\\n x; y\\n z"}}'],
                 "2 faults:\n x; y\n z", ""),
                (["planning, 3%", "Warning: keys", "riffle plan: no: more; or less"], "no: more; or less", ""),
                (["riffle plan: 2 faults:", "--epsilon = -1; x"], "2 faults:\n--epsilon = -1; x", ""),
                (["panic: x"], "panic: x", ""), ([], "riffle plan ended with code 2, and did not say why", "")):
            with self.assertRaises(riffle.Error) as said:
                _program.failed("plan", 2, lines)
            self.assertEqual((said.exception.what, said.exception.remedy), (what, remedy))
        with self.assertRaisesRegex(riffle.Error, "signal 9"):
            _program.failed("plan", -9, [])

    def test_an_error_passes_between_processes(self) -> None:
        for err in (riffle.Error("a", "b"), riffle.Refused(410, "late", "c"), riffle.DeviceError("late", "d")):
            same = pickle.loads(pickle.dumps(err))
            self.assertEqual((type(same), str(same), same.__dict__), (type(err), str(err), err.__dict__))

    def test_a_breach_is_a_warning_and_what_is_no_result_an_error(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = fake(folder, """[ "$1" = version ] && echo '{"version": "v1"}' && exit
[ "$1" = plan ] && echo 'Usage: x' && exit
echo '{"error":{"command":"riffle audit","what":"3 breaches"}}' >&2; echo '{"ok": false}'; exit 4""")
            with mock.patch.dict(os.environ, {_program.VARIABLE: path}), \
                    mock.patch.object(_program, "made_with", lambda: None):
                with self.assertWarnsRegex(riffle.Warning, "^3 breaches$"):
                    self.assertEqual(_program.result("audit", [], codes=(0, 4)), ({"ok": False}, ("3 breaches",)))
                with self.assertRaisesRegex(riffle.Error, "printed no result"):
                    _program.result("plan", [])

    def test_an_interrupted_cell_leaves_no_process(self) -> None:
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background job ignores
        self.addCleanup(signal.signal, signal.SIGINT, before)
        with tempfile.TemporaryDirectory() as folder:
            path = fake(folder, f"""[ "$1" = version ] && echo '{{"version": "v1"}}' && exit
cat; echo $$ >{folder}/pid; kill -INT $PPID; exec sleep 60""")  # once its input ends, which it does after it began
            with mock.patch.dict(os.environ, {_program.VARIABLE: path}), \
                    mock.patch.object(_program, "made_with", lambda: None):
                with self.assertRaises(KeyboardInterrupt):
                    _program.result("demo", [])
            with self.assertRaises(ProcessLookupError):  # it has ended, and was waited for
                os.kill(int((Path(folder) / "pid").read_text()), 0)

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
