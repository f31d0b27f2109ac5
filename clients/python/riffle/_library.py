"""The C library that is one device per handle (cmd/libriffle), by ctypes."""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path
from typing import Any, List

from ._program import Error

#: Environment variable that names another library than the package's own.
VARIABLE = "RIFFLE_LIBRARY"


class DeviceError(Error):
    """What the device refuses.

    reason   one of the words that cmd/libriffle lists; empty where there is none
    """

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


class _Result(ctypes.Structure):
    """riffle_result."""

    _fields_ = [("handle", ctypes.c_int64), ("data", ctypes.c_void_p), ("size", ctypes.c_size_t),
                ("error", ctypes.c_char_p), ("reason", ctypes.c_char_p)]


@functools.lru_cache(maxsize=None)
def _library() -> Any:
    path = os.environ.get(VARIABLE) or str(Path(__file__).parent / "bin" / "libriffle.so")
    if not Path(path).is_file():
        raise Error(f"this copy of the package carries no C library: there is no {path}",
                    f"install a wheel that has it, or build cmd/libriffle and name it in {VARIABLE}")
    try:
        library = ctypes.CDLL(path)
    except OSError as err:
        raise Error(f"the C library does not load here: {err}", "use a system with a newer glibc") from err
    library.riffle_free.argtypes, library.riffle_free.restype = [_Result], None
    library.riffle_close.argtypes, library.riffle_close.restype = [ctypes.c_int64], None
    return library


def _of(argument: Any) -> List[Any]:
    """An argument as C takes it: bytes are followed by their size."""
    if isinstance(argument, bytes):
        return [ctypes.c_char_p(argument), ctypes.c_size_t(len(argument))]
    if isinstance(argument, str):
        return [ctypes.c_char_p(argument.encode())]
    if isinstance(argument, float):
        return [ctypes.c_double(argument)]
    return [ctypes.c_int64(argument)]


def _taken(result: _Result) -> bytes:
    """The bytes of a result, which goes back to the library."""
    try:
        if result.error is not None:
            raise DeviceError((result.reason or b"").decode(), result.error.decode())
        return ctypes.string_at(result.data, result.size) if result.data else b""
    finally:
        _library().riffle_free(result)


def call(name: str, *arguments: Any) -> bytes:
    """Calls riffle_NAME: whole numbers are handles or milliseconds, floats are rewards."""
    function = getattr(_library(), "riffle_" + name)
    function.restype = _Result
    return _taken(function(*[c for a in arguments for c in _of(a)]))


def opened(configuration: str, saved: bytes) -> int:
    """Opens a device, and returns its handle."""
    function = _library().riffle_open
    function.restype = _Result
    result = function(*_of(configuration), *_of(saved))
    handle = int(result.handle)
    _taken(result)
    return handle


def close(handle: int) -> None:
    """Forgets a device and wipes its record."""
    _library().riffle_close(handle)
