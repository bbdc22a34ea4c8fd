"""The Java classes of the incremental operators, compiled when a worker first starts with them.

They are compiled here and not by the build, because they are bound to the very Spark that is installed: another one is
another folder. An image compiles them when it is made: `python -m services.recompute.outbound.spark.operator_classes`.
"""

import os
import shutil
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path

import pyspark

SOURCES = Path(__file__).parent / "operators"
_PACKAGE = Path(pyspark.__file__).parent
COMPILE_WITHIN_S = 120.0


def class_folder() -> Path:
    """The folder of the compiled classes."""
    sources = sorted(SOURCES.glob("*.java"))
    digest = blake2b(pyspark.__version__.encode(), digest_size=8)
    for source in sources:
        digest.update(source.read_bytes())
    # Of the user alone: whoever may write there runs code in the worker.
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidewire-operators"
    cache.mkdir(parents=True, mode=0o700, exist_ok=True)
    if cache.stat().st_uid != os.getuid() or cache.stat().st_mode & 0o022:
        raise RuntimeError(f"{cache} can be written by others: remove it, or set [recompute] incremental = false")
    folder = cache / digest.hexdigest()
    if not folder.exists():
        _compile(sources, folder)
    return folder


def _compile(sources: list[Path], folder: Path) -> None:
    """Into a folder of its own first: another worker may be at it, and either result is good."""
    compiler = shutil.which("javac")
    if compiler is None:
        raise RuntimeError("javac is missing: install a JDK 17, or set [recompute] incremental = false")
    made = folder.with_name(f"{folder.name}.{os.getpid()}")
    made.mkdir()
    command = [compiler, "-proc:none", "-nowarn", "-d", str(made), "-cp", f"{_PACKAGE / 'jars'}/*", *map(str, sources)]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=COMPILE_WITHIN_S)
        made.rename(folder)
    except OSError:
        if not folder.exists():
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


if __name__ == "__main__":
    sys.stdout.write(f"{class_folder()}\n")
