"""Tables: pandas where it is installed, asked for only when a table is."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple, Union

from ._program import Error

if TYPE_CHECKING:
    import pandas

    Schema = Union[Mapping[str, Any], str, os.PathLike[str]]
    Table = Union[str, os.PathLike[str], pandas.DataFrame]
else:
    Schema = Table = Any


def pandas_module() -> Any:
    """pandas, or an Error that says how to get it."""
    try:
        import pandas
    except ImportError as err:
        raise Error("tables need pandas, which is not installed",
                    "install it (pip install pandas; Debian: apt-get install python3-pandas), or read .json") from err
    return pandas


def frame(rows: Iterable[Mapping[str, Any]], index: str = "") -> pandas.DataFrame:
    """A table with a row for each mapping."""
    made = pandas_module().DataFrame(list(rows))
    return made.set_index(index) if index and len(made) else made


def flat(of: Mapping[str, Any], prefix: str = "") -> Dict[str, Any]:
    """A row of nested objects: {"gain": {"mean": 1}} has the column gain_mean. Lists are left out."""
    row: Dict[str, Any] = {}
    for name, value in of.items():
        if isinstance(value, Mapping):
            row.update(flat(value, f"{prefix}{name}_"))
        elif not isinstance(value, list):
            row[prefix + name] = value
    return row


def lines(table: pandas.DataFrame) -> str:
    """A table as JSON Lines. Every number is written so that it is read as the same number; what is missing is null."""
    pandas = pandas_module()
    names = [str(c) for c in table.columns]
    if len(set(names)) != len(names):
        raise Error(f"two columns have one name: {sorted(names)}", "rename one of them")
    columns: List[List[Any]] = []
    for i, name in enumerate(names):
        column = table.iloc[:, i]
        if pandas.api.types.is_datetime64_any_dtype(column) or pandas.api.types.is_timedelta64_dtype(column):
            raise Error(f"the column {name} has times", "make numbers of them, such as the hour of the day, or drop it")
        columns.append([_plain(name, v, pandas) for v in column.astype(object).tolist()])
    return "".join(json.dumps(dict(zip(names, row)), allow_nan=False) + "\n" for row in zip(*columns))


def _plain(name: str, value: Any, pandas: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(name, v, pandas) for v in value]
    if isinstance(value, dict):
        return {str(k): _plain(name, v, pandas) for k, v in value.items()}
    if hasattr(value, "tolist"):  # of numpy
        return _plain(name, value.tolist(), pandas)
    if value is None or pandas.isna(value):
        return None
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise Error(f"the column {name} has an infinite number", "replace it: no command reads it")
    if isinstance(value, (bool, int, float, str)):
        return value
    raise Error(f"the column {name} has a value of the type {type(value).__name__}", "make it a number or a text")


def written(folder: Union[str, os.PathLike[str]], name: str, of: Union[Mapping[str, Any], str, os.PathLike[str]],
            ) -> str:
    """The path of a file: the one that is given, or one in a folder, of an object as JSON, which is YAML, too."""
    if not isinstance(of, Mapping):
        return os.fspath(of)
    path = Path(folder) / name
    path.write_text(json.dumps(of), encoding="utf-8")
    return str(path)


@contextlib.contextmanager
def log_file(table: Table, schema: Optional[Schema], columns: Optional[Mapping[str, Any]]
             ) -> Iterator[Tuple[str, List[str]]]:
    """The path of a log of decisions, and the flags that say how it is to be read.

    columns gives each role a column by its name, or a value for all rows: a number, or a list.
    """
    with file(table) as path, tempfile.TemporaryDirectory(prefix="riffle-") as folder:
        given = []
        if schema is not None:
            given.append("--features=" + written(folder, "schema.json", schema))
        if columns is not None:
            roles = {role: of if isinstance(of, (str, Mapping)) else {"value": _plain(role, of, pandas_module())}
                     for role, of in columns.items()}
            given.append("--columns=@" + written(folder, "columns.yaml", roles))
        yield path, given


@contextlib.contextmanager
def file(table: Table) -> Iterator[str]:
    """The path of a table. A DataFrame is meanwhile in a temporary file that only this user can read."""
    if isinstance(table, (str, os.PathLike)):
        if not Path(table).is_file():
            raise Error(f"there is no file {os.fspath(table)}", "give the path of a log, or a DataFrame")
        yield os.fspath(table)
        return
    with tempfile.TemporaryDirectory(prefix="riffle-") as folder:
        path = Path(folder) / "table.jsonl"
        path.touch(mode=0o600)
        path.write_text(lines(table), encoding="utf-8")
        yield str(path)
