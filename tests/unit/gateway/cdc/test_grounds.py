"""What a right rests on: the same name for the same rows, and where it is in doubt when they differ."""

from services.gateway.core.cdc.grounds import MOST_SIGHTS, Grounds, Sight, sighted, sights_since
from services.gateway.core.cdc.marks import NOWHERE, Doubt

A, B, C = frozenset({"7 roles a"}), frozenset({"7 roles b"}), frozenset({"7 direct c"})


def test_the_same_rows_have_the_same_name_in_any_order():
    one, other = Grounds(frozenset({"member 1 2 700", "owner"})), Grounds(frozenset({"owner", "member 1 2 700"}))
    assert one.named(7) == other.named(7) != one.named(8)


def test_a_row_that_was_written_anew_or_is_gone_makes_another_name():
    before = Grounds(frozenset({"member 1 2 700", "member 1 3 650"}))
    again, gone = Grounds(frozenset({"member 1 2 701", "member 1 3 650"})), Grounds(frozenset({"member 1 3 650"}))
    assert len({before.named(7), again.named(7), gone.named(7), before.named(7, "unseen")}) == 4


def test_the_first_sight_leaves_open_what_was_before_and_the_same_again_adds_nothing():
    first = sighted((), A, Doubt(5, 6))
    assert first == (Sight(A),)
    assert sighted(first, A, Doubt(7, 8)) is first


def test_only_what_came_since_the_known_grounds_is_in_doubt():
    sights = (Sight(A), Sight(B, Doubt(3, 5)), Sight(C, Doubt(8, 9)))
    assert sights_since(sights, C) == ()
    assert sights_since(sights, B) == sights[2:]
    assert sights_since(sights, A) == sights[1:]
    assert sights_since(sights, frozenset({"7 roles never seen here"})) == sights
    assert sights_since(sights, frozenset()) == sights


def test_a_table_that_a_query_came_to_read_is_in_doubt_only_by_roles():
    by_grant, by_roles = (Sight(A | {"8 direct d"}),), (Sight(A | {"8 roles d"}),)
    assert sights_since(by_grant, A) == ()
    assert sights_since(by_roles, A) == by_roles


def test_what_is_dropped_for_want_of_room_stays_in_doubt():
    sights = (Sight(frozenset({"7 roles 0"})),)
    for number in range(1, MOST_SIGHTS + 3):
        sights = sighted(sights, frozenset({f"7 roles {number}"}), Doubt(10 * number, 10 * number + 5))
    assert len(sights) == MOST_SIGHTS
    assert sights[0] == Sight(frozenset({"7 roles 3"}), Doubt(NOWHERE, 35))
    assert sights[-1] == Sight(frozenset({f"7 roles {MOST_SIGHTS + 2}"}), Doubt(100, 105))
