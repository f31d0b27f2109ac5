"""The sources themselves."""

import ast
import base64
import csv
import doctest
import hashlib
import importlib.util
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent.parent

_spec = importlib.util.spec_from_file_location("build", HERE / "build.py")
build = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(build)


class Sources(unittest.TestCase):
    def test_files_are_short_and_for_python_3_9(self) -> None:
        files = [*HERE.glob("*.py"), *HERE.glob("riffle/*.py"), *HERE.glob("tests/*.py"),
                 *HERE.glob("../../examples/notebooks/*.py")]
        self.assertGreater(len(files), 10)
        for path in files:
            text = path.read_text(encoding="utf-8")
            ast.parse(text, feature_version=(3, 9))
            lines = text.splitlines()
            self.assertLessEqual(len(lines), 400, path)
            self.assertLessEqual(max(map(len, lines)), 120, path)

    def test_a_wheel_has_what_its_record_says_and_the_same_bytes_twice(self) -> None:
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(build, "stamped", lambda _: "v1.2.3"), \
                mock.patch("builtins.print"):
            program = Path(folder) / "program"
            program.write_bytes(b"program")
            out = Path(folder) / "out"
            out.mkdir()
            made = build.wheel(out, "arm64", program, None)
            self.assertEqual(made.name, "riffle-1.2.3-py3-none-manylinux_2_17_aarch64.whl")
            first = made.read_bytes()
            self.assertEqual(build.wheel(out, "arm64", program, None).read_bytes(), first)
            with zipfile.ZipFile(made) as wheel:
                record = wheel.read("riffle-1.2.3.dist-info/RECORD").decode()
                listed = {name: (digest, size) for name, digest, size in csv.reader(record.splitlines())}
                self.assertEqual(set(listed), set(wheel.namelist()))
                for entry in wheel.infolist():
                    digest, size = listed[entry.filename]
                    if digest:
                        content = wheel.read(entry)
                        made_digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
                        self.assertEqual((digest, int(size)), ("sha256=" + made_digest, len(content)))
                self.assertEqual(wheel.getinfo("riffle/bin/riffle").external_attr >> 16, 0o100755)
                self.assertIn("riffle/py.typed", listed)
                self.assertIn(b'PROGRAM = "v1.2.3"', wheel.read("riffle/_built.py"))

    def test_the_glibc_that_a_file_needs_is_read(self) -> None:
        needed = build.glibc(Path(sys.executable))  # which is linked with it, as no other on Linux is
        self.assertGreaterEqual(needed, build.OLDEST)
        self.assertLess(needed, (3, 0))

    def test_versions_of_go_are_versions_of_python(self) -> None:
        ran = doctest.testmod(build)
        self.assertEqual((ran.failed, ran.attempted), (0, 2))
        for bad in ("v1.2", "1.2.3", "(devel)", "v1.2.3-nightly.1"):
            with self.assertRaises(SystemExit):
                build.python_version(bad)


if __name__ == "__main__":
    unittest.main()
