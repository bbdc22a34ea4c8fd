"""What a right rests on: the same name for the same rows, and where it is in doubt when they differ."""

from services.gateway.core.cdc.grounds import MOST_SIGHTS, Grounds, Sight, sighted, sights_since
from services.gateway.core.cdc.marks import NOWHERE, Doubt


def test_the_same_rows_have_the_same_name_in_any_order():
    one, other = Grounds(frozenset({"member 1 2 700", "direct"})), Grounds(frozenset({"direct", "member 1 2 700"}))
    assert one.named() == other.named()


def test_a_row_that_was_written_anew_or_is_gone_makes_another_name():
    before = Grounds(frozenset({"member 1 2 700", "member 1 3 650"}))
    again, gone = Grounds(frozenset({"member 1 2 701", "member 1 3 650"})), Grounds(frozenset({"member 1 3 650"}))
    assert len({before.named(), again.named(), gone.named(), before.named("unseen")}) == 4


def test_the_first_sight_leaves_open_what_was_before_and_the_same_again_adds_nothing():
    first = sighted((), "a", Doubt(5, 6))
    assert first == (Sight("a"),)
    assert sighted(first, "a", Doubt(7, 8)) is first


def test_only_what_came_since_the_known_grounds_is_in_doubt():
    sights = (Sight("a"), Sight("b", Doubt(3, 5)), Sight("c", Doubt(8, 9)))
    assert sights_since(sights, "c") == ()
    assert sights_since(sights, "b") == sights[2:]
    assert sights_since(sights, "a") == sights[1:]
    assert sights_since(sights, "never seen here") == sights


def test_what_is_dropped_for_want_of_room_stays_in_doubt():
    sights = (Sight("0"),)
    for number in range(1, MOST_SIGHTS + 3):
        sights = sighted(sights, str(number), Doubt(10 * number, 10 * number + 5))
    assert len(sights) == MOST_SIGHTS
    assert sights[0] == Sight("3", Doubt(NOWHERE, 35))
    assert sights[-1] == Sight(str(MOST_SIGHTS + 2), Doubt(100, 105))
