"""A redis-server that speaks TLS: the machine's own, or Debian's, unpacked below .tidewire without installing it."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from msgspec import Struct

CACHE = Path(__file__).parents[3] / ".tidewire" / "tools" / "redis-tls"
ONLY_DEPENDS = [f"--no-{kind}" for kind in ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")]


class RedisProgram(Struct, frozen=True):
    """A program and where its libraries are."""

    path: Path
    environ: dict[str, str]


def redis_program() -> RedisProgram:
    """Find or fetch it; a machine that has neither it nor apt skips the test."""
    own = shutil.which("redis-server")
    if own and _speaks_tls(RedisProgram(Path(own), {})):
        return RedisProgram(Path(own), {})
    if not shutil.which("apt-get"):
        pytest.fail("needs a redis-server with TLS: install one, or have apt-get to fetch Debian's")
    if not CACHE.exists():
        _unpack_debians()
    program = _unpacked(CACHE)
    assert _speaks_tls(program)
    return program


def _speaks_tls(program: RedisProgram) -> bool:
    libraries = subprocess.run(
        ["ldd", program.path], env=os.environ | program.environ, capture_output=True, text=True
    ).stdout
    return "libssl" in libraries and "not found" not in libraries


def _unpacked(folder: Path) -> RedisProgram:
    libraries = sorted({str(path.parent) for path in folder.rglob("*.so*")})
    return RedisProgram(folder / "usr/bin/redis-server", {"LD_LIBRARY_PATH": ":".join(libraries)})


def _unpack_debians() -> None:
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE.parent) as work:
        try:
            archives = _download(Path(work), [])
        except (
            subprocess.CalledProcessError
        ):  # no package lists, or old ones: fetch our own, the system's stay untouched
            private = _private_lists(Path(work))
            _apt(["apt-get", *private, "update"], work)
            archives = _download(Path(work), private)
        tree = Path(work) / "tree"
        for archive in archives:
            subprocess.run(["dpkg", "-x", archive, tree], check=True)
        with contextlib.suppress(FileExistsError, OSError):  # another run was first
            tree.rename(CACHE)


def _download(work: Path, options: list[str]) -> list[Path]:
    closure = _apt(["apt-cache", *options, "depends", "--recurse", *ONLY_DEPENDS, "redis-server"], work)
    names = {line for line in closure.splitlines() if line and not line.startswith((" ", "<", "|"))}
    missing = sorted(name for name in names if not _installed(name))
    _apt(["apt-get", *options, "download", *missing], work)
    return sorted(work.glob("*.deb"))


def _private_lists(work: Path) -> list[str]:
    for folder in ("lists/partial", "cache/archives/partial"):
        (work / folder).mkdir(parents=True)
    return ["-o", f"Dir::State::lists={work}/lists", "-o", f"Dir::Cache={work}/cache", "-o", "APT::Sandbox::User="]


def _installed(name: str) -> bool:
    query = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status}", name], capture_output=True, text=True)
    return query.stdout.startswith("installed")


def _apt(command: list[str], work: Path | str) -> str:
    return subprocess.run(command, cwd=work, check=True, capture_output=True, text=True, timeout=200).stdout
