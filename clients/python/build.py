#!/usr/bin/env python3
"""Makes wheels of the Python package, which carry the program riffle and the C library.

    clients/python/build.py                                    for this machine
    clients/python/build.py --platform linux/arm64 --out dist

It needs Go and Python, and for the C library a C compiler for the platform (Debian: gcc, gcc-aarch64-linux-gnu with
libc6-dev-arm64-cross). Nothing is fetched but Go modules. The same commit, toolchain and zlib give the same bytes. Of
a platform for which there is no C compiler the wheel has no library, which is said, and --library required refuses it.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import io
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent

#: Time of every file in a wheel: the first that a zip can have.
TIME = (1980, 1, 1, 0, 0, 0)

#: What pip calls a platform's processor, and the C compiler for it, by the names that Debian gives them.
MACHINES = {"amd64": ("x86_64", "x86_64-linux-gnu-gcc"), "arm64": ("aarch64", "aarch64-linux-gnu-gcc")}

#: glibc of the oldest system that is served where nothing needs a newer one: the program needs none at all.
OLDEST = (2, 17)


def fail(text: str) -> "NoReturn":  # type: ignore[name-defined]  # noqa: F821
    sys.exit(f"build.py: {text}")


def run(command: "list[str]", **environment: str) -> bytes:
    """Runs a command in the repository, and returns what it prints. No setting of the machine changes what Go does."""
    fixed = {"GOFLAGS": "-mod=readonly", "GOWORK": "off", "GOEXPERIMENT": "", "GOFIPS140": "off", "GOAMD64": "v1",
             "GOARM64": "v8.0", "GODEBUG": "", "LC_ALL": "C"}
    ran = subprocess.run(command, cwd=REPOSITORY, env={**os.environ, **fixed, **environment}, stdout=subprocess.PIPE)
    if ran.returncode:
        fail(f"{' '.join(command)} failed")
    return ran.stdout


def go(arguments: "list[str]", **environment: str) -> str:
    """Runs go."""
    return run(["go", *arguments], **environment).decode()


def program_of(folder: Path, arch: str) -> Path:
    """The program, as deploy/release builds it: static, and stamped with version and commit."""
    path = folder / "riffle"
    go(["build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", str(path), "./cmd/riffle"],
       CGO_ENABLED="0", GOOS="linux", GOARCH=arch)
    return path


def library_of(folder: Path, arch: str, required: bool) -> "Path | None":
    """The C library, or None where there is no compiler for the platform."""
    own = subprocess.run(["go", "env", "GOHOSTARCH"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    wanted = MACHINES[arch][1]
    compiler = shutil.which(wanted) or (shutil.which("gcc") if arch == own else None)
    if compiler is None:
        said = f"there is no {wanted} (Debian: apt-get install gcc-{wanted[:-4].replace('_', '-')} " \
            f"libc6-dev-{arch}-cross)"
        if required:
            fail(said)
        print(f"{said}: the wheel for {arch} has no C library, and riffle.Device says so")
        return None
    path = folder / "libriffle.so"
    # Go trims paths from what it compiles; a build id of the linker would be of the temporary folder.
    go(["build", "-trimpath", "-buildvcs=true", "-buildmode=c-shared",
        "-ldflags=-s -w -extldflags=-Wl,--build-id=none", "-o", str(path), "./cmd/libriffle"],
       CGO_ENABLED="1", GOOS="linux", GOARCH=arch, CC=compiler, CGO_CFLAGS="-O2", CGO_LDFLAGS="-O2")
    return path


def glibc(library: "Path | None") -> "tuple[int, int]":
    """The glibc that a library needs: the highest version among the names that it imports."""
    needed = [OLDEST]
    if library is not None:
        for major, minor in re.findall(rb"\x00GLIBC_(\d+)\.(\d+)(?:\.\d+)?(?=\x00)", names(library.read_bytes())):
            needed.append((int(major), int(minor)))
    return max(needed)


def names(elf: bytes) -> bytes:
    """The names that the dynamic linker reads of a 64-bit little-endian ELF file: its section .dynstr."""
    table, = struct.unpack_from("<Q", elf, 40)
    size, count, index = struct.unpack_from("<HHH", elf, 58)
    sections = [struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(count)]
    at = sections[index][4]
    for name, _, _, _, offset, length in sections:
        if elf[at + name:elf.index(b"\x00", at + name)] == b".dynstr":
            return b"\x00" + elf[offset:offset + length]
    fail("the C library has no section .dynstr")


def stamped(program: Path) -> str:
    """The version that Go stamped into a program."""
    version = re.search(r"\n\s*mod\tgithub.com/riffle-dp/riffle\t(\S+)", go(["version", "-m", str(program)]))
    if version is None or version[1] == "(devel)":
        fail(f"{program} does not say its version: build it in a clone with git")
    return version[1]


def python_version(version: str) -> str:
    """A version of Go as Python has it (PEP 440).

    >>> [python_version(v) for v in ("v0.2.0", "v0.2.0-rc.1", "v0.0.0-20261127083809-0a459b7d1b30")]
    ['0.2.0', '0.2.0rc1', '0.0.0.dev20261127083809+g0a459b7d1b30']
    >>> python_version("v0.2.1-0.20261127083809-0a459b7d1b30+dirty")
    '0.2.1.dev20261127083809+g0a459b7d1b30.dirty'
    """
    plain, _, local = version.partition("+")
    pseudo = re.fullmatch(r"v(\d+\.\d+\.\d+)-(?:.*\.)?(\d{14})-([0-9a-f]{12})", plain)
    tagged = re.fullmatch(r"v(\d+\.\d+\.\d+)(?:-(rc|alpha|beta)\.?(\d+))?", plain)
    more = [local] if local else []
    if pseudo:
        return f"{pseudo[1]}.dev{pseudo[2]}+" + ".".join([f"g{pseudo[3]}", *more])
    if not tagged:
        fail(f"{version} is no version that Python can have: v1.2.3 or v1.2.3-rc.1 are")
    pre = {"rc": "rc", "alpha": "a", "beta": "b", None: ""}[tagged[2]] + (tagged[3] or "")
    return tagged[1] + pre + ("+" + local if local else "")


def licences(arch: str, library: bool) -> "dict[str, bytes]":
    """The texts of the licences of Riffle, and of what the program and the library hold of others."""
    texts = {name: (REPOSITORY / name).read_bytes() for name in ("LICENSE", "NOTICE")}
    command = [str(REPOSITORY / "deploy/licences"), "./cmd/riffle", *(["./cmd/libriffle"] if library else [])]
    texts["third-party-licences.txt"] = run(command, CGO_ENABLED="1" if library else "0", GOOS="linux", GOARCH=arch)
    return texts


def wheel(out: Path, arch: str, program: Path, library: "Path | None") -> Path:
    """Writes a wheel."""
    made = stamped(program)
    version = python_version(made)
    major, minor = glibc(library)
    tag = f"py3-none-manylinux_{major}_{minor}_{MACHINES[arch][0]}"
    files = {f"riffle/{p.name}": p.read_bytes() for p in sorted((HERE / "riffle").iterdir())
             if p.suffix == ".py" or p.name == "py.typed"}
    files["riffle/_built.py"] = (f'"""Written by build.py."""\n\nVERSION = "{version}"\nPROGRAM = "{made}"\n').encode()
    files["riffle/bin/riffle"] = program.read_bytes()
    if library is not None:
        files["riffle/bin/libriffle.so"] = library.read_bytes()
    info = f"riffle-{version}.dist-info"
    texts = licences(arch, library is not None)
    files[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.4\nName: riffle\nVersion: {version}\n"
        "Summary: Private decision learning: which decision works for whom, without collecting any person's data\n"
        "Home-page: https://github.com/riffle-dp/riffle\nRequires-Python: >=3.9\n"
        "License-Expression: Apache-2.0\n" + "".join(f"License-File: {name}\n" for name in texts) +
        "Provides-Extra: tables\nRequires-Dist: pandas>=1.5; extra == 'tables'\n"
        "Provides-Extra: plots\nRequires-Dist: pandas>=1.5; extra == 'plots'\n"
        "Requires-Dist: matplotlib>=3.6; extra == 'plots'\n"
        "Description-Content-Type: text/markdown\n\n").encode() + (HERE / "README.md").read_bytes()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: riffle\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    files[f"{info}/entry_points.txt"] = b"[console_scripts]\nriffle = riffle._program:main\n"
    files.update({f"{info}/licenses/{name}": text for name, text in texts.items()})
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.writerow([name, f"sha256={digest}", len(content)])
    rows.writerow([f"{info}/RECORD", "", ""])
    files[f"{info}/RECORD"] = record.getvalue().encode()
    path = out / f"riffle-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as zip:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix: the mode counts
            entry.external_attr = (0o100755 if name.startswith("riffle/bin/") else 0o100644) << 16
            zip.writestr(entry, content)
    print(f"{path}: {path.stat().st_size} bytes")
    return path


def main() -> None:
    own = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, "amd64")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--platform", action="append", choices=[f"linux/{arch}" for arch in MACHINES],
                        help="may be repeated (default: this machine's)")
    parser.add_argument("--out", type=Path, default=HERE / "dist", help="folder to write to (default: dist)")
    parser.add_argument("--program", type=Path, help="a built riffle of the one platform, in place of building it")
    parser.add_argument("--library", choices=["required", "none"], default="",
                        help="required: fail where the C library cannot be built; none: leave it out")
    given = parser.parse_args()
    platforms = given.platform or [f"linux/{own}"]
    if given.program and len(platforms) > 1:
        parser.error("--program is of one platform")
    given.out.mkdir(parents=True, exist_ok=True)
    for platform in platforms:
        arch = platform.split("/")[1]
        with tempfile.TemporaryDirectory(prefix="riffle-wheel-") as folder:
            program = given.program or program_of(Path(folder), arch)
            library = None
            if given.library != "none":
                library = library_of(Path(folder), arch, given.library == "required")
            wheel(given.out, arch, program, library)


if __name__ == "__main__":
    main()
