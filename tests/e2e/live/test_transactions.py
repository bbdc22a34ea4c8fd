"""Subscribing never touches the client's own transaction: whatever is subscribed to, and wherever between two messages
the Subscribe stands, PostgreSQL's frames are to the letter those of the same client without it.

V21–V23, V36–V41, V54–V56; decisions 4 and 5.
"""

import os
from collections.abc import Iterator

import psycopg
import pytest

from proto.pgwire.live import NO_SUBSCRIPTION, Ack, Data, Refused, Subscribe, Update
from tests.e2e.live.scaled_stack import ScaledStack
from tests.e2e.live.script import (
    FLUSH,
    SYNC,
    Step,
    answered,
    bind,
    describe,
    execute,
    parse,
    play,
    query,
    quiet,
)
from tests.fixtures.wire import WireClient, rows

pytestmark = pytest.mark.slow
CLERK = f"clerk_{os.getpid()}"
GOOD = Subscribe("SELECT id, balance FROM accounts WHERE balance > $1", (b"5",), "id < 100")
# What is wrong, the words that say so, and whether they come under an id of their own (decision 5).
NONSENSE = {
    "syntax": (Subscribe("SELEKT 1"), "Parse error: ", False),
    "two statements": (Subscribe("SELECT 1; ROLLBACK"), "Parse error: ", False),
    "missing table": (Subscribe("SELECT * FROM nowhere"), "Execution error: table 'nowhere' does not exist", True),
    "missing column": (Subscribe("SELECT nothing FROM accounts"), "Execution error: ", True),
    "no permission": (Subscribe("SELECT * FROM secrets"), "Execution error: permission denied for table", True),
    "an insert": (Subscribe("INSERT INTO accounts VALUES (99, 1)"), "Only SELECT queries", True),
    "an insert in a CTE": (
        Subscribe("WITH w AS (DELETE FROM accounts RETURNING id) SELECT * FROM w"),
        "Only SELECT queries",
        True,
    ),
    "a lock": (Subscribe("SELECT * FROM accounts FOR UPDATE"), "Only SELECT queries", True),
    "transaction control": (Subscribe("ROLLBACK"), "Only SELECT queries", True),
    "an effect": (Subscribe("SELECT nextval('numbers')"), "", True),
    "an error at planning": (Subscribe("SELECT 1 / 0"), "Execution error: division by zero", True),
    "too few parameters": (Subscribe("SELECT id FROM accounts WHERE id = $1"), "Execution error: ", True),
    "a bad value": (Subscribe("SELECT id FROM accounts WHERE id = $1", (b"x",)), "Execution error: ", True),
    "filter syntax": (Subscribe("SELECT id FROM accounts", (), "id = = 1"), "Filter parse error: ", False),
    "filter column": (Subscribe("SELECT id FROM accounts", (), "nothing = 1"), "Execution error: ", True),
}
COUNT = query("SELECT count(*), sum(balance) FROM accounts")
# Nothing of what follows depends on the moment or the session, so that both clients are told the same.
SCRIPTS = {
    "between queries": [
        Step((COUNT,), "TDCZ"),
        Step((GOOD,), ""),
        Step((COUNT,), "TDCZ"),
    ],
    "in an open transaction": [
        Step((query("BEGIN"),), "CZ"),
        Step((query("INSERT INTO accounts VALUES (50, 500)"),), "CZ"),
        Step((GOOD, query("SAVEPOINT s"), GOOD), "CZ"),
        Step((query("UPDATE accounts SET balance = 1 WHERE id = 50"),), "CZ"),
        Step((GOOD, query("ROLLBACK TO s"), COUNT), "CZTDCZ"),
        Step((query("DECLARE c CURSOR FOR SELECT id FROM accounts ORDER BY id"), query("FETCH 2 FROM c")), "CZTDDCZ"),
        Step((GOOD,), ""),
        Step((query("FETCH 2 FROM c"), query("COMMIT"), COUNT), "TDDCZCZTDCZ"),
    ],
    "without taking a snapshot or a transaction id": [
        Step((query("BEGIN ISOLATION LEVEL REPEATABLE READ"),), "CZ"),
        Step((GOOD,), ""),
        Step((query("SET TRANSACTION READ WRITE"), GOOD), "CZ"),
        # Committed by somebody else after the Subscribe: the first query of the transaction still sees it.
        Step((COUNT,), "TDCZ", meanwhile="INSERT INTO accounts VALUES (60, 600)"),
        Step((GOOD,), ""),
        # And this one it does not.
        Step((COUNT,), "TDCZ", meanwhile="INSERT INTO accounts VALUES (61, 610)"),
        Step((query("SELECT pg_current_xact_id_if_assigned() IS NULL"), GOOD), "TDCZ"),
        Step((query("COMMIT"), COUNT), "CZTDCZ"),
    ],
    "before the isolation level is chosen": [
        Step((query("BEGIN"), GOOD), "CZ"),
        Step((query("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE"),), "CZ"),
        Step((COUNT, GOOD, query("INSERT INTO accounts VALUES (70, 1)")), "TDCZEZ"),
        Step((GOOD, query("ROLLBACK")), "CZ"),
    ],
    "in an aborted transaction": [
        Step((query("BEGIN; SAVEPOINT s"), query("SELECT 1 / 0")), "CCZEZ"),
        Step((GOOD,), ""),
        Step((GOOD, COUNT, GOOD), "EZ"),
        Step((query("ROLLBACK TO s"), GOOD, COUNT), "CZTDCZ"),
        Step((query("SELECT nothing"), GOOD, query("COMMIT")), "EZCZ"),
    ],
    "between Parse and Sync": [
        Step((parse("SELECT 7 AS seven"), GOOD, bind(), GOOD, describe("P"), GOOD, execute(), GOOD, SYNC), "12TDCZ"),
        Step((GOOD,), ""),
        # The unnamed statement is still there.
        Step((bind(), execute(), SYNC), "2DCZ"),
        Step((parse("SELECT id FROM accounts ORDER BY id", "named"), GOOD, SYNC, GOOD), "1Z"),
        Step((bind(statement="named"), GOOD, execute(rows=2), GOOD, SYNC), "2DDsZ"),
    ],
    "in a pipeline that waits": [
        Step((parse("INSERT INTO accounts VALUES (80, 800)"), GOOD, bind(), execute(), GOOD, FLUSH), "12C"),
        Step((GOOD,), ""),
        # Nothing is committed before the Sync.
        Step((parse("SELECT count(*) FROM accounts"), bind(), execute(), GOOD, FLUSH), "12DC"),
        Step((GOOD, SYNC), "Z"),
        Step((COUNT,), "TDCZ"),
    ],
    "in a pipeline that failed": [
        Step((parse("INSERT INTO accounts VALUES (81, 810)"), bind(), execute(), FLUSH), "12C"),
        Step((parse("SELECT nothing"), GOOD, bind(), execute(), FLUSH, GOOD), "E"),
        Step((GOOD, parse("SELECT 1"), bind(), execute(), GOOD), ""),
        Step((SYNC, GOOD, COUNT), "ZTDCZ"),
    ],
    "with a portal half read": [
        Step((query("BEGIN"), parse("SELECT id FROM accounts ORDER BY id"), bind(portal="p"), SYNC), "CZ12Z"),
        Step((execute("p", rows=1), GOOD, SYNC), "DsZ"),
        Step((GOOD,), ""),
        Step((execute("p", rows=2), SYNC, GOOD, query("COMMIT")), "DDsZCZ"),
    ],
    "while rows are copied": [
        Step((query("COPY accounts FROM STDIN"), GOOD), "G"),
        Step((("d", b"90\t900\n"), GOOD, ("d", b"91\t9")), ""),
        Step((GOOD, ("d", b"10\n"), ("c", b"")), "CZ"),
        Step((query("COPY (SELECT id FROM accounts ORDER BY id LIMIT 3) TO STDOUT"), GOOD), "HdddcCZ"),
        Step((query("COPY accounts FROM STDIN"), ("d", b"x\t1\n"), ("c", b""), GOOD), "GEZ"),
        Step((COUNT,), "TDCZ"),
    ],
    "with what the session keeps": [
        Step((query("PREPARE p AS SELECT $1::int + 1"), query("CREATE TEMP TABLE mine (n int)"), GOOD), "CZCZ"),
        Step((query("SET search_path = pg_temp, public; SET bytea_output = escape"), GOOD), "CCSZ"),
        Step((query("EXECUTE p(4)"), query("SHOW search_path"), query(r"SELECT '\x6100'::bytea")), "TDCZTDCZTDCZ"),
        Step((query("SELECT count(*) FROM pg_prepared_statements"), GOOD), "TDCZ"),
        Step((query("SELECT count(*) FROM pg_cursors"), query("DISCARD ALL"), GOOD), "TDCZCSZ"),
    ],
}


# How many Subscribes of a script stand where it cannot be proven who the client is (a failed transaction, an open
# batch, a running copy) and nothing behind them in the same step ends that: they are refused, and disturb nothing.
UNPROVABLE = {
    "before the isolation level is chosen": 1,
    "in an aborted transaction": 3,
    "in a pipeline that waits": 4,
    "in a pipeline that failed": 4,
    "while rows are copied": 2,
}
DISCARDED = "Subscription ended: the session was reset by DISCARD ALL"
NOT_PROVEN = "Execution error: who you are cannot be proven on this connection now: "


@pytest.fixture(scope="module")
def others(made_stack: ScaledStack) -> Iterator[psycopg.Connection]:
    """Somebody else, who also makes the tables."""
    with made_stack.connect() as connection:
        connection.execute("CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL)")
        connection.execute("CREATE TABLE secrets (id int PRIMARY KEY)")
        connection.execute("CREATE SEQUENCE numbers")
        connection.execute(f"CREATE ROLE {CLERK} LOGIN PASSWORD 'clerk'")
        connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON accounts TO {CLERK}")
        connection.execute(f"GRANT USAGE ON SEQUENCE numbers TO {CLERK}")
        yield connection
        connection.execute(f"DROP TABLE accounts, secrets; DROP SEQUENCE numbers; DROP OWNED BY {CLERK}")
        connection.execute(f"DROP ROLE {CLERK}")


@pytest.fixture
def accounts(others: psycopg.Connection) -> psycopg.Connection:
    refill(others)
    return others


def refill(connection: psycopg.Connection) -> None:
    """The same rows for both plays."""
    connection.execute("TRUNCATE accounts; INSERT INTO accounts SELECT n, 10 * n FROM generate_series(1, 8) n")


def clerk(stack: ScaledStack, port: int | None = None) -> WireClient:
    parts = {"user": CLERK, "password": "clerk"}
    if port is None:
        return WireClient(psycopg.conninfo.make_conninfo(stack.dsn, **parts))
    return WireClient(stack.dsn_at(port, **parts))


def both(stack: ScaledStack, accounts: psycopg.Connection, steps: list[Step]):
    """The steps without Subscribes on PostgreSQL, and as they are through the gateway."""
    with clerk(stack) as direct:
        plain = play(direct, steps, accounts, subscribing=False)
        assert quiet(direct) == []
    refill(accounts)
    with clerk(stack, stack.gateway_port) as client:
        watched = play(client, steps, accounts, subscribing=True)
        assert [frame for frame in quiet(client) if frame.type < 0xF0] == []
    return plain, watched


def subscribes(steps: list[Step]) -> int:
    return sum(isinstance(one, Subscribe) for step in steps for one in step.messages)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_good_query_is_subscribed_to_and_the_session_notices_nothing(stack: ScaledStack, accounts, name: str):
    plain, watched = both(stack, accounts, SCRIPTS[name])
    assert ["".join(chr(frame.type) for frame in step) for step in plain.frames] == [s.kinds for s in SCRIPTS[name]]
    assert watched.frames == plain.frames
    told = [one.message for one in watched.live if isinstance(one, Refused)]
    assert sum(one == DISCARDED for one in told) == (3 if name == "with what the session keeps" else 0)
    refused = [one for one in told if one != DISCARDED]
    assert len(refused) == UNPROVABLE.get(name, 0) and all(one.startswith(NOT_PROVEN) for one in refused), refused
    acked = [one.subscription for one in watched.live if isinstance(one, Ack)]
    whole = [one for one in watched.live if isinstance(one, Data) and one.update is Update.FULL]
    asked = subscribes(SCRIPTS[name])
    assert (len(acked), answered(watched.live)) == (asked - len(refused), asked)
    assert len(whole) == len(acked)


@pytest.mark.parametrize("name", SCRIPTS)
def test_nonsense_is_refused_and_the_session_notices_nothing(stack: ScaledStack, accounts, name: str):
    """Each Subscribe of the script is another nonsense, so that all kinds stand somewhere."""
    places = sorted(SCRIPTS).index(name)
    kinds = [*NONSENSE][places:] + [*NONSENSE][:places]
    turn = iter(kinds * 3)
    chosen: list[str] = []

    def swapped(message):
        if not isinstance(message, Subscribe):
            return message
        chosen.append(next(turn))
        return NONSENSE[chosen[-1]][0]

    steps = [Step(tuple(map(swapped, step.messages)), step.kinds, step.meanwhile) for step in SCRIPTS[name]]
    plain, watched = both(stack, accounts, steps)
    assert watched.frames == plain.frames
    assert [type(one) for one in watched.live] == [Refused] * len(chosen), watched.live


@pytest.mark.parametrize("transaction", ["BEGIN", "BEGIN; SELECT nothing"], ids=["open", "aborted"])
@pytest.mark.parametrize("name", NONSENSE)
def test_every_nonsense_is_refused_by_name(stack: ScaledStack, accounts, transaction: str, name: str):
    message, words, numbered = NONSENSE[name]
    if transaction != "BEGIN":
        words, numbered = NOT_PROVEN, True  # so far nobody has looked at it
    steps = [
        Step((query(transaction),), "CZ" if transaction == "BEGIN" else "CEZ"),
        Step((message,), ""),
        Step((COUNT, query("COMMIT")), "TDCZCZ" if transaction == "BEGIN" else "EZCZ"),
    ]
    plain, watched = both(stack, accounts, steps)
    assert watched.frames == plain.frames
    (refused,) = watched.live
    assert isinstance(refused, Refused) and refused.message.startswith(words), refused
    assert (refused.subscription != NO_SUBSCRIPTION) is numbered


def test_too_many_subscribes_inside_a_transaction_are_told_to_come_again(stack: ScaledStack, accounts):
    """V55, V56."""
    steps = [
        Step((query("BEGIN"), query("INSERT INTO accounts VALUES (50, 500)")), "CZCZ"),
        Step((GOOD,) * 30, ""),
        Step((COUNT, query("ROLLBACK"), COUNT), "TDCZCZTDCZ"),
    ]
    plain, watched = both(stack, accounts, steps)
    assert watched.frames == plain.frames
    refused = [one for one in watched.live if isinstance(one, Refused)]
    assert len(refused) == 20
    assert all(one.subscription == NO_SUBSCRIPTION and one.message.startswith("Rate limited: ") for one in refused)


def test_what_the_own_transaction_has_locked_or_made_is_not_waited_for_forever(stack: ScaledStack, accounts):
    """The check runs elsewhere: it sees only what is committed, and gives up on what it cannot read."""
    with clerk(stack, stack.gateway_port) as client:
        accounts.execute(f"GRANT CREATE ON SCHEMA public TO {CLERK}")
        client.query("BEGIN; CREATE TABLE unborn (id int PRIMARY KEY); LOCK TABLE accounts IN SHARE ROW EXCLUSIVE MODE")
        client.send(Subscribe("SELECT * FROM unborn"))
        refused = client.live()
        assert isinstance(refused, Refused) and "does not exist" in refused.message, refused
        client.send(GOOD)
        assert isinstance(client.live(), Ack)
        assert isinstance(client.live(), Data)
        assert client.query("ROLLBACK")[-1].body == b"I"
    with stack.connect() as owner, WireClient(stack.gateway_dsn) as client:
        client.query("BEGIN; LOCK TABLE accounts IN ACCESS EXCLUSIVE MODE; INSERT INTO accounts VALUES (55, 1)")
        client.send(GOOD)
        refused = client.live()
        assert isinstance(refused, Refused) and "timeout" in refused.message, refused
        assert client.query("COMMIT")[-1].body == b"I"
        assert owner.execute("SELECT balance FROM accounts WHERE id = 55").fetchone() == (1,)
        client.send(GOOD)
        assert isinstance(client.live(), Ack)
        assert b"55" not in [row[0] for row in rows(client.query("SELECT id FROM accounts WHERE balance > 5"))]
