"""What PostgreSQL owes: cases that the generated conversations have found, and those of the issue."""

import pytest

from proto.pgwire.owed import Owed

# By the letters of the messages: what the client says, then what PostgreSQL says.
SAYS = {"P": "extended", "Q": "asks", "S": "syncs", "c": "ends_copy", "X": "leaves"}
HEARS = {"z": "ready", "g": "copy_begins", "e": "fails"}


def after(story: str) -> Owed:
    """What is owed after a story, from a session that is at rest."""
    owed = Owed()
    owed.ready()
    for letter in story:
        getattr(owed, {**SAYS, **HEARS}[letter])()
    return owed


@pytest.mark.parametrize(
    "story",
    [
        "",
        "Qz",
        "QQzz",
        "PPSz",
        "PSPSzz",
        "PeSz",
        "PePQSz",
        "Qgcz",
        "Qcgz",
        "QScgz",
        "QgScz",
        "Qgez",
        "Qgecz",
        "Qccgz",
        "PgcSz",
        "PcSgz",
        "PScSgz",
        "PSgcSz",
        "PgecSz",
        "PScSezz",
        "QgcgczQz",
    ],
)
def test_nothing_is_owed(story):
    assert after(story).nothing


@pytest.mark.parametrize("story", ["", "Qz", "QQzz", "PSPSzz", "PSgcSz", "PScSgz", "QgScz", "QScgz", "PePQSz"])
def test_at_rest_the_place_is_that_of_the_last_answer(story):
    owed = after(story)
    assert owed.place == owed.answered


@pytest.mark.parametrize("story", ["Q", "QQz", "P", "PS", "PSzP", "PSPSz", "Pe", "PeQ", "Qg", "Qgc", "PgS", "PcgS"])
def test_something_is_owed(story):
    owed = after(story)
    assert not (owed.nothing or owed.unsure)


@pytest.mark.parametrize(
    "story",
    [
        "PQ",
        "PgSe",
        "QgSe",
        "PSge",
        "PcP",
        "QgQ",
        "QQg",
        "PgP",
        "X",
        "PSSScccgcQ",
        "PSccgQ",
        "PScgQ",
        "PScQg",
        "PSccPg",
        "z",
    ],
)
def test_what_cannot_be_known_stays_unknown(story):
    assert after(story).unsure
    assert after(story + "Sz").unsure
