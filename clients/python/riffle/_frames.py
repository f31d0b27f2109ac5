"""Tables: pandas where it is installed, asked for only when a table is."""

from __future__ import annotations

import contextlib
import decimal
import importlib.util
import json
import math
import os
import tempfile
from pathlib import Path
from typing import (TYPE_CHECKING, Any, Collection, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple,
                    Union)

from ._program import Error, path_of

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


def has_pandas() -> bool:
    """Whether tables can be made."""
    return importlib.util.find_spec("pandas") is not None


def frame(rows: Iterable[Mapping[str, Any]], index: str = "") -> pandas.DataFrame:
    """A table with a row for each mapping. A column without any value is one of missing numbers."""
    made = pandas_module().DataFrame(list(rows))
    for name in made.columns:
        if made[name].isna().all():
            made[name] = made[name].astype(float)
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


def is_table(of: Any) -> bool:
    """Whether something is a DataFrame."""
    return hasattr(of, "columns") and hasattr(of, "iloc")


def lines(table: pandas.DataFrame, *, only: Optional[Collection[str]] = None, numbers: Collection[str] = (),
          texts: Collection[str] = ()) -> str:
    """A table as JSON Lines.

    only      names of the columns to write; None: all
    numbers   names of columns in which True is 1 and False is 0
    texts     names of columns of categories, which are written as category writes them

    Every number is written so that it is read as the same number, and what is missing (None, NaN, NA, NaT) is null.
    What JSON has no word for, as a time, is written as its text, which the program refuses where a number belongs.
    """
    places = [i for i, c in enumerate(table.columns) if only is None or str(c) in only]
    names = [str(table.columns[i]) for i in places]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise Error(f"two columns have the name {twice[0]}", "rename one of them")
    if not len(table):
        raise Error("the table has no rows", "give one with a row for each person or decision")
    if not names:
        raise Error(f"the table has none of the columns {', '.join(only or [])}", "see its .columns")
    columns: List[List[Any]] = []
    for place, name in zip(places, names):
        values = table.iloc[:, place].tolist()
        if name in texts:
            columns.append([None if plain(v) is None else category(v) for v in values])
        elif name in numbers:
            columns.append([int(p) if isinstance(p, bool) else p for p in (plain(v) for v in values)])
        else:
            columns.append([plain(v) for v in values])
    return "".join(json.dumps(dict(zip(names, row)), allow_nan=False) + "\n" for row in zip(*columns))


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if hasattr(value, "tolist") and not isinstance(value, (str, bytes)):  # of numpy or pandas
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, decimal.Decimal):
        value = float(value)
    if isinstance(value, float):
        return None if math.isnan(value) else value if math.isfinite(value) else "infinite"
    return None if _unknown(value) else str(value)


def _unknown(value: Any) -> bool:
    try:
        return bool(value != value)  # NaT
    except TypeError:  # NA
        return True
    except ValueError:
        return False


def category(value: Any) -> str:
    """The text of a value of a category: 1.0 is 1, as pandas makes numbers of whole numbers where one is missing."""
    if hasattr(value, "item"):  # of numpy
        value = value.item()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def contexts(fields: Sequence[Mapping[str, Any]], people: Any) -> List[Dict[str, Any]]:
    """What is known of people, as apps send it: of each row of a DataFrame, or mapping, the fields of a schema.

    A category may be a number, and a flag 1 or 0, as pandas has them.
    """
    if is_table(people):
        names = [str(c) for c in people.columns]
        absent = [str(f["name"]) for f in fields if f["name"] not in names]
        if absent:
            raise Error(f"people have no column {', '.join(absent)}", "rename a column, or add one of None")
        for f in fields:
            if names.count(f["name"]) > 1:
                raise Error(f"two columns of people have the name {f['name']}", "rename one of them")
        columns = [[_told(f, v) for v in people.iloc[:, names.index(f["name"])].tolist()] for f in fields]
        rows = zip(*columns) if fields else [()] * len(people)
        return [dict(zip([f["name"] for f in fields], row)) for row in rows]
    if isinstance(people, (str, Mapping)) or not isinstance(people, Iterable):
        raise Error(f"people are of the type {type(people).__name__}", "give a pandas.DataFrame, or a list of mappings")
    return [{f["name"]: _told(f, row[f["name"]]) for f in fields if f["name"] in row} for row in people]


def _told(field: Mapping[str, Any], value: Any) -> Any:
    value = plain(value)
    if field["kind"] == "category" and isinstance(value, (bool, int, float)):
        return category(value)
    if field["kind"] == "flag" and isinstance(value, (int, float)) and value in (0, 1):
        return bool(value)
    return value


def written(folder: Union[str, os.PathLike[str]], name: str, of: Union[Mapping[str, Any], str, os.PathLike[str]],
            ) -> str:
    """The path of a file: the one that is given, or one in a folder, of an object as JSON, which is YAML, too."""
    if not isinstance(of, Mapping):
        given = path_of(name.partition(".")[0], of)
        if not Path(given).is_file():
            raise Error(f"there is no file {given}", f"give the path of the {name.partition('.')[0]}, or a dict")
        return given
    path = Path(folder) / name
    path.write_text(json.dumps(plain(of)), encoding="utf-8")
    return str(path)


@contextlib.contextmanager
def log_file(table: Table, schema: Optional[Schema], columns: Optional[Mapping[str, Any]]
             ) -> Iterator[Tuple[str, List[str], List[int]]]:
    """The path of a log of decisions, the flags that say how it is to be read, and open files that it needs.

    columns gives each role a column by its name, or a value for all rows: a number, or a list.
    """
    with file(table) as (path, fds), tempfile.TemporaryDirectory(prefix="riffle-") as folder:
        given = []
        if schema is not None:
            given.append("--features=" + written(folder, "schema.json", schema))
        if columns is not None:
            if not isinstance(columns, Mapping):
                raise Error(f"columns is of the type {type(columns).__name__}",
                            'give a dict of roles, such as {"arm": "offer", "reward": "clicked"}')
            roles = {role: of if isinstance(of, (str, Mapping)) else {"value": _shared(role, of)}
                     for role, of in columns.items()}
            given.append("--columns=@" + written(folder, "columns.yaml", roles))
        yield path, given, fds


def _shared(role: str, value: Any) -> Any:
    """A value for all rows."""
    value = plain(value)
    if value is None or isinstance(value, (bool, int, float, list)):
        return value
    raise Error(f"{role} of columns is no column and no value", "give the name of a column, a number, or a list")


@contextlib.contextmanager
def file(table: Table) -> Iterator[Tuple[str, List[int]]]:
    """The path of a table, and the open files that whoever reads it needs.

    A DataFrame is meanwhile in a file that has no name, so that nobody can find it, and nothing is left of it however
    this process ends.
    """
    if isinstance(table, (str, os.PathLike)):
        given = path_of("table", table)
        if not Path(given).is_file():
            raise Error(f"there is no file {given}", "give the path of a table, or a DataFrame")
        with open(given, "rb") as opened:
            if opened.read(4) == b"PAR1":
                raise Error(f"{given} is Parquet", "give the DataFrame that pandas.read_parquet makes of it")
        yield given, []
        return
    if not is_table(table):
        raise Error(f"the table is of the type {type(table).__name__}", "give a path, or a pandas.DataFrame")
    with tempfile.TemporaryFile() as nameless:
        nameless.write(lines(table).encode())
        nameless.flush()
        path = f"/dev/fd/{nameless.fileno()}"
        try:
            yield path, [nameless.fileno()]
        except Error as err:
            told = type(err)(err.what.replace(path, "the table"), err.remedy) if type(err) is Error else err
            raise told from None
