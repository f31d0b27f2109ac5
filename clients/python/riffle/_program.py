"""Finds the program that the package carries, checks its version, and runs it."""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import shutil
import subprocess
import threading
import warnings
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, NoReturn, Optional, Sequence, Tuple, Type

log = logging.getLogger("riffle")

#: Environment variable that names another program than the package's own.
VARIABLE = "RIFFLE_BINARY"

#: Exit code of a command that looked, and found a breach.
EXIT_BREACH = 4

#: Seconds that a program which was asked to end may take, before it is killed.
PATIENCE = 30.0


class Error(Exception):
    """What went wrong, and what to do about it.

    what     what is wrong
    remedy   what to do about it; empty where .what says it, as most of the program's own sentences do

    Where the program speaks of a flag, as in "--missing middle", give the argument: missing="middle". A "line 3" of a
    DataFrame is its third row.
    """

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(f"{what}; {remedy}" if remedy else what)
        self.what = what
        self.remedy = remedy

    def __reduce__(self) -> Tuple[Any, ...]:  # else a pool of processes could not hand it on
        return _again, (type(self), self.args, self.__dict__)


def _again(kind: Type[Error], arguments: Tuple[Any, ...], fields: Mapping[str, Any]) -> Error:
    made = kind.__new__(kind, *arguments)
    made.__dict__.update(fields)
    return made


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
    """Flags of the program: dashes for underscores, None left out, lists joined by commas.

    A value of another type is refused: its text could be a whole table, and arguments are seen by all of the machine.
    """
    out = []
    for name, value in options.items():
        if value is None:
            continue
        if hasattr(value, "tolist"):  # of numpy or pandas
            value = value.tolist()
        if isinstance(value, (list, tuple)):
            cells = io.StringIO()
            csv.writer(cells, lineterminator="").writerow([_word(name, v) for v in value])
            text = cells.getvalue()
        else:
            text = _word(name, value)
        out.append(f"--{name.replace('_', '-')}={text}")
    return out


def _word(name: str, value: Any) -> str:
    if hasattr(value, "item"):  # of numpy
        value = value.item()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))  # 2e3 people
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, os.PathLike):
        return path_of(name, value)
    raise Error(f"{name} is of the type {type(value).__name__}", "give a number, a text, a path, or a list of them")


def path_of(name: str, value: Any) -> str:
    """The text of a path."""
    if isinstance(value, (str, os.PathLike)):
        path = os.fspath(value)
        if isinstance(path, str):
            return path
    raise Error(f"{name} is of the type {type(value).__name__}", "give a path, as a text or a pathlib.Path")


def run(command: str, arguments: Sequence[str], *, data: Optional[str] = None, codes: Sequence[int] = (0,),
        fds: Sequence[int] = ()) -> Said:
    """Runs a command of the program, which gets data on its standard input, and the open files fds.

    What it says about progress goes to the logger "riffle" at level INFO. Any exit code that is not in codes is an
    Error. An exception, such as an interrupted cell, ends the program before it goes on.
    """
    words = [str(program()), *command.split(), *arguments]
    log.debug("%s", words)
    lines: List[str] = []
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             encoding="utf-8", errors="replace", pass_fds=fds)
    assert child.stdin and child.stdout and child.stderr

    def read() -> None:
        with child.stderr as said:  # type: ignore[union-attr]
            for line in said:
                lines.append(line.rstrip("\n"))
                if not _telling(command, line):
                    log.info("%s", lines[-1])

    def write() -> None:
        try:
            with child.stdin as pipe:  # type: ignore[union-attr]
                pipe.write(data or "")
        except BrokenPipeError:
            pass  # it has read enough, and says why

    threads = [threading.Thread(target=f, daemon=True) for f in (read, write)]
    try:
        for t in threads:
            t.start()
        with child.stdout as printed:
            out = printed.read()
        child.wait()
    except BaseException:
        end(child)
        raise
    for t in threads:
        t.join()
    if child.returncode not in codes:
        failed(command, child.returncode, lines)
    notes = tuple(filter(None, (_telling(command, line) for line in lines)))
    for note in notes:
        warnings.warn(note, Warning, stacklevel=4)
    return Said(child.returncode, out, notes)


def end(child: "subprocess.Popen[str]") -> None:
    """Asks a process to end, kills it if it does not, and waits for it, so that none is left."""
    child.terminate()
    try:
        child.wait(PATIENCE)
    except BaseException as err:
        child.kill()
        child.wait()
        if not isinstance(err, subprocess.TimeoutExpired):
            raise


def _telling(command: str, line: str) -> str:
    """What a line of standard error says that is not progress: a warning, or an error."""
    for prefix in (f"riffle {command}: ", "Warning: "):
        if line.startswith(prefix):
            return line[len(prefix):].strip()
    return _error(line).get("what", "")


def _error(line: str) -> Dict[str, str]:
    """The error in a line of standard error of a command with --json."""
    if not line.startswith('{"error":'):
        return {}
    try:
        said: Dict[str, str] = json.loads(line)["error"]
    except ValueError:
        return {}
    return said


def failed(command: str, code: int, lines: Sequence[str]) -> NoReturn:
    """Raises what the program said went wrong, in its own words."""
    for line in lines:
        said = _error(line)
        if said:
            raise Error(said["what"], said.get("remedy", ""))
    first = next((i for i, line in enumerate(lines) if line.startswith("riffle")), 0)  # behind progress and warnings
    text = "\n".join([_telling(command, line) or line for line in lines[first:]]).strip()
    how = f"code {code}" if code >= 0 else f"signal {-code}"
    raise Error(text or f"riffle {command} ended with {how}, and did not say why")


def result(command: str, arguments: Sequence[str], *, data: Optional[str] = None, codes: Sequence[int] = (0,),
           fds: Sequence[int] = ()) -> Tuple[Dict[str, Any], Tuple[str, ...]]:
    """Runs a command with --json, and returns its object and what was said beside it."""
    said = run(command, ["--json", *arguments], data=data, codes=codes, fds=fds)
    try:
        of: Dict[str, Any] = json.loads(said.out)
    except ValueError:
        raise Error(f"riffle {command} printed no result",
                    "leave out flags that have it print something else") from None
    return of, said.notes


def main() -> NoReturn:
    """The command riffle, as the wheel installs it."""
    import sys
    path = str(_located())
    os.execv(path, [path, *sys.argv[1:]])
