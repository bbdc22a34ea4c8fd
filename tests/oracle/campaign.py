"""How many cases run, out of which seeds, and what is kept of them: a line of figures, and a file for what is wrong."""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from zlib import crc32

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from services.devstack.settings import PROJECT
from tests.oracle.case import FOUND, Case, Place, write
from tests.oracle.places import PLACES
from tests.oracle.road import Found, Report

RECORDS = PROJECT / ".tidewire" / "oracle"
QUESTIONS_A_CASE = 40
# pytest's own limit for a test; a long run has none.
TIMEOUT_S = 0 if "ORACLE_EXAMPLES" in os.environ else 900
# Reducing costs as much as finding: the first ones tell most.
REDUCED = 4


def chosen(short: Mapping[Place, int]) -> dict[Place, int]:
    """How many questions run where: `short` in `make test`, else N of them, half at the usual place.

    ORACLE_PLACES=15-icu,18-libc chooses.
    """
    if "ORACLE_EXAMPLES" not in os.environ:
        return dict(short)
    named = os.environ.get("ORACLE_PLACES", "")
    places = [place for place in PLACES if not named or str(place) in named.split(",")]
    total = int(os.environ["ORACLE_EXAMPLES"])
    shares = {place: 5 if place == Place() else 1 for place in places}
    return {place: -(-total * share // sum(shares.values())) for place, share in shares.items()}


def each_random(cases: int, label: str, run: Callable[[Random], None]) -> None:
    """Hypothesis draws a source of chance for every case: the same ones in every `make test`, others for every seed.

    `label` keeps the cases of one level and place apart from those of the others, which have the same draws.

    A case is too large for Hypothesis to shrink; tests/oracle/reducing.py makes it small. ORACLE_SECONDS ends a run.
    """
    until_s = time.monotonic() + float(os.environ.get("ORACLE_SECONDS", "inf"))

    @settings(
        max_examples=cases,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.randoms(use_true_random=True))
    def drawn(random: Random) -> None:
        if time.monotonic() < until_s:
            # Hypothesis begins every run with the same simplest draw; the seed makes it another case.
            run(Random(f"{os.environ.get('ORACLE_SEED', '')} {label} {random.random()}"))

    if "ORACLE_SEED" in os.environ:
        drawn = hypothesis.seed(int(os.environ["ORACLE_SEED"]))(drawn)
    drawn()


class Campaign:
    """The sum of many cases of one level, planned or road, at one place."""

    def __init__(self, level: str, place: str) -> None:
        self._level, self._place, self._began_s = level, place, time.monotonic()
        self.files: list[str] = []
        self.cases = self.questions = self.states = self.commits = 0
        self.strategies: Counter[str] = Counter()

    def add(self, case: Case, report: Report, reduced: Callable[[Case, Found], Case]) -> None:
        self.cases += 1
        self.questions += report.strategies.total()
        self.states += report.states
        self.commits += report.commits
        self.strategies += report.strategies
        for found in report.wrong:
            alone = replace(case, questions=(found.question,), note=found.words[:2000], level=self._level)
            small = reduced(alone, found) if len(self.files) < REDUCED else alone
            name = f"{self._level}-{case.place}-{crc32(found.question.sql.encode()):08x}.json"
            self.files.append(f"{write(small, FOUND / name)}: {found.words}")

    def close(self) -> None:
        """One line of JSON in .tidewire/oracle, and what was wrong as an error."""
        figures = {
            "level": self._level,
            "place": self._place,
            "seed": os.environ.get("ORACLE_SEED", "make test"),
            "cases": self.cases,
            "questions": self.questions,
            "commits": self.commits,
            "states": self.states,
            "strategies": dict(self.strategies),
            "wrong": len(self.files),
            "seconds": round(time.monotonic() - self._began_s, 1),
        }
        RECORDS.mkdir(parents=True, exist_ok=True)
        line = json.dumps(figures)
        Path(RECORDS / f"{self._level}-{self._place}-{os.getpid()}.json").write_text(line + "\n")
        print(line)
        assert not self.files, "\n".join(self.files)
