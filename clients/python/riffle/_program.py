"""Finds the program that the package carries, checks its version, and runs it."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import threading
import warnings
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, NoReturn, Optional, Sequence, Tuple

log = logging.getLogger("riffle")

#: Environment variable that names another program than the package's own.
VARIABLE = "RIFFLE_BINARY"

#: Exit code of a command that looked, and found a breach.
EXIT_BREACH = 4


class Error(Exception):
    """What went wrong, and what to do about it.

    what     what is wrong, in a sentence
    remedy   what to do about it
    """

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(f"{what}; {remedy}" if remedy else what)
        self.what = what
        self.remedy = remedy


class Warning(UserWarning):  # noqa: A001  (it is riffle.Warning)
    """What a result must not be read without, such as keys that nobody vouches for."""


class Said(NamedTuple):
    """What a run of the program said."""

    code: int
    out: str
    notes: Tuple[str, ...]


def program() -> Path:
    """The path of the program: the package's own, or the one that RIFFLE_BINARY names. Its version is checked."""
    path = _located()
    _check(path)
    return path


def _located() -> Path:
    named = os.environ.get(VARIABLE)
    if named:
        found = shutil.which(named)
        if not found:
            raise Error(f"{VARIABLE} names {named}, which is no program", "name the file riffle, or unset it")
        return Path(found)
    own = Path(__file__).parent / "bin" / "riffle"
    if not own.is_file():
        raise Error("this copy of the package carries no program",
                    f"install a wheel for this platform, or set {VARIABLE} to the file riffle")
    return own


_checked: Dict[Tuple[str, float], None] = {}


def _check(path: Path) -> None:
    """Refuses a program of another version than the one that the package was built with."""
    key = (str(path), path.stat().st_mtime)
    if key in _checked:
        return
    try:
        ran = subprocess.run([str(path), "version", "--json"], capture_output=True, text=True, check=True)
        version = json.loads(ran.stdout)["version"]
    except (OSError, subprocess.CalledProcessError, ValueError, KeyError) as err:
        raise Error(f"{path} does not run here: {err}", "install the wheel for this platform") from err
    made = made_with()
    if made is not None and version != made:
        raise Error(f"this package was built with riffle {made}, and {path} is {version}",
                    f"install the package of that version, or unset {VARIABLE}")
    _checked[key] = None


def made_with() -> Optional[str]:
    """The version of the program that the package was built with; None in a clone of the sources."""
    try:
        from . import _built
    except ImportError:
        return None
    return str(_built.PROGRAM)


def flags(options: Mapping[str, Any]) -> List[str]:
    """Flags of the program: dashes for underscores, None left out, lists joined by commas."""
    out = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is None:
            continue
        if isinstance(value, bool):
            value = str(value).lower()
        elif isinstance(value, (list, tuple)):
            value = ",".join(str(v) for v in value)
        out.append(f"{flag}={value}")
    return out


def run(command: str, arguments: Sequence[str], *, data: Optional[str] = None, codes: Sequence[int] = (0,)) -> Said:
    """Runs a command of the program.

    What it says about progress goes to the logger "riffle" at level INFO. Any exit code that is not in codes is an
    Error.
    """
    words = [str(program()), *command.split(), *arguments]
    log.debug("%s", words)
    lines: List[str] = []
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, encoding="utf-8") as child:
        assert child.stdin and child.stdout and child.stderr

        def read() -> None:
            for line in child.stderr:  # type: ignore[union-attr]
                line = line.rstrip("\n")
                lines.append(line)
                if not line.startswith(_telling(command)):
                    log.info("%s", line)

        def write() -> None:
            try:
                with child.stdin as pipe:  # type: ignore[union-attr]
                    pipe.write(data or "")
            except BrokenPipeError:
                pass  # it has read enough, and says why

        threads = [threading.Thread(target=f, daemon=True) for f in (read, write)]
        for t in threads:
            t.start()
        try:
            out = child.stdout.read()
            child.wait()
        except BaseException:  # such as an interrupted cell
            child.terminate()
            raise
        for t in threads:
            t.join()
    if child.returncode not in codes:
        failed(command, out, lines)
    notes = tuple(_unprefixed(command, line) for line in lines if line.startswith(_telling(command)))
    for note in notes:
        warnings.warn(note, Warning, stacklevel=4)
    return Said(child.returncode, out, notes)


def _telling(command: str) -> Tuple[str, str]:
    """How lines begin that are not progress."""
    return f"riffle {command}: ", "Warning: "


def _unprefixed(command: str, line: str) -> str:
    for prefix in _telling(command):
        if line.startswith(prefix):
            return line[len(prefix):]
    return line


def failed(command: str, out: str, lines: Sequence[str]) -> NoReturn:
    """Raises what the program said went wrong, in its own words."""
    try:
        no = json.loads(out)["infeasible"]
        raise Error(str(no["reason"]), str(no["remedy"]))
    except (ValueError, KeyError, TypeError):
        pass
    first = next((i for i, line in enumerate(lines) if line.startswith("riffle")), 0)  # behind progress and warnings
    text = "\n".join(_unprefixed(command, line) for line in lines[first:]).strip()
    text = text or "the program failed and did not say why"
    what, separator, remedy = text.rpartition("; ")
    if not separator or "\n" in remedy:
        what, remedy = text, f"riffle {command} --help, or help(riffle), says what can be given"
    raise Error(what, remedy)


def result(command: str, arguments: Sequence[str], *, data: Optional[str] = None,
           codes: Sequence[int] = (0,)) -> Tuple[Dict[str, Any], Tuple[str, ...]]:
    """Runs a command with --json, and returns its object and what was said beside it."""
    said = run(command, [*arguments, "--json"], data=data, codes=codes)
    return json.loads(said.out), said.notes


def main() -> NoReturn:
    """The command riffle, as the wheel installs it."""
    import sys
    path = str(_located())
    os.execv(path, [path, *sys.argv[1:]])
