"""A mark names what its command touched, so that nobody's own commands put everybody's queries in doubt."""

from collections.abc import Iterator

import psycopg

from tests.integration.watch.stream import Stream

DEEPEST = 40_000
# Each call takes some two kilobytes of the stack.
DEEP = """
create function own.deep(n int) returns void language plpgsql as $$
begin
    if n > 0 then
        perform own.deep(n - 1);
    else
        alter table own.t set (fillfactor = 50);
    end if;
end $$;
"""


def marks(stream: Stream) -> Iterator[dict]:
    return (mark for transaction in stream.read() for mark in transaction.marks)


def succeeds(owner: psycopg.Connection, depth: int) -> bool:
    try:
        owner.execute("select own.deep(%s)", [depth])
    except psycopg.errors.StatementTooComplex:
        return False
    return True


def deepest(owner: psycopg.Connection) -> int:
    """The deepest recursion at whose end the command still succeeds."""
    low, high = 1, DEEPEST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if succeeds(owner, middle) else (low, middle)
    return low


def test_a_command_at_any_depth_of_a_recursion_is_marked_with_its_objects(watched, schema_owner):
    owner = schema_owner(watched)
    owner.execute("create table own.t (a int)")
    owner.execute(DEEP)
    limit = deepest(owner)
    stream = Stream(watched)
    done = [depth for depth in range(limit - 60, limit + 3) if succeeds(owner, depth)]
    found = list(marks(stream))
    assert len(found) == len(done) > 50
    assert [mark for mark in found if not mark["objects"]] == []
    shown = owner.execute("show max_stack_depth").fetchone()
    assert shown == watched.execute("show max_stack_depth").fetchone()


def test_a_mark_of_rights_names_what_they_are_on_and_nothing_of_others(watched, schema_owner, login):
    owner, other = schema_owner(watched), login(watched)
    watched.execute("create table public.others (a int)")
    owner.execute("create table own.t (a int); create sequence own.s; create type own.y as enum ('a')")
    owner.execute("create function own.f() returns int language sql return 1")
    rights = {
        "select on own.t": "t",
        "select (a) on own.t": "t",
        "usage on sequence own.s": "s",
        "usage on schema own": "own",
        "execute on function own.f()": "f",
        "usage on type own.y": "y",
    }
    stream = Stream(watched)
    expected = []
    for right, name in rights.items():
        for tag, command in (("GRANT", f"grant {right} to"), ("REVOKE", f"revoke {right} from")):
            with owner.transaction(), owner.transaction():  # a row that a savepoint wrote has another xmin
                owner.execute(f"{command} {other.info.user}")
            expected.append((tag, [name]))
    found = list(marks(stream))
    assert [(mark["tag"], [one.get("name") for one in mark["objects"]]) for mark in found] == expected
    assert all(one["oid"] for mark in found for one in mark["objects"])
