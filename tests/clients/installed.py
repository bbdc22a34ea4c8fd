"""What a client needs besides Python, brought once by its own package manager and kept below `.tidewire/clients`."""

import fcntl
import hashlib
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
HOME = PROJECT / ".tidewire" / "clients"


def installed(name: str, inputs: Iterable[Path | str], make: Callable[[Path], None]) -> Path:
    """The folder that `make` filled from these files and words; it is made anew when one of them has changed."""
    HOME.mkdir(parents=True, exist_ok=True)
    words = (each.read_bytes() if isinstance(each, Path) else each.encode() for each in inputs)
    digest = hashlib.sha256(b"\0".join(words)).hexdigest()
    folder, stamp = HOME / name, HOME / f"{name}.stamp"
    with (HOME / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (stamp.exists() and stamp.read_text() == digest):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            print(f"clients: preparing {name} in {folder}", flush=True)
            make(folder)
            stamp.write_text(digest)
    return folder


def run(*command: str | Path, cwd: Path, environ: dict[str, str] | None = None) -> None:
    """Run a step of an installation; its output is the error where it fails."""
    print(f"clients:   {' '.join(str(word) for word in command[:4])} …", flush=True)
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(str(word) for word in command)} failed:\n{done.stdout[-4000:]}")
