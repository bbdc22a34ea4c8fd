"""Folders of a process that no other user of the machine can read, or make beforehand."""

import atexit
import shutil
from pathlib import Path
from tempfile import mkdtemp


def private_folder(chosen: str | None, *, service: str) -> Path:
    """The folder that the operator chose; else one with a name that nobody can guess, which goes with the process."""
    if chosen:
        folder = Path(chosen)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder
    folder = Path(mkdtemp(prefix=f"tidewire-{service}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
