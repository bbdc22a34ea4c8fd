"""Incremental operators give, after every tick, what the same query gives when it is run whole."""

import random
from collections import Counter

import pytest
from msgspec.structs import replace

from services.recompute.core.plan import Full
from services.recompute.core.row_changes import Changes
from services.recompute.outbound.spark.deadlines import Deadlines
from services.recompute.outbound.spark.evaluation import Evaluation
from services.recompute.outbound.spark.incremental import LostTable, Moved, Operators, Refused
from services.recompute.outbound.spark.session import Spark
from tests.integration.recompute.evaluation.tables import INT4, NUMERIC, TEXT, GivenTables, full, table

# Keyed: number, reference, amount, text. Keyless: reference, text.
ORDERS = table(101, INT4, INT4, NUMERIC, TEXT)
PEOPLE = table(102, INT4, TEXT, INT4)
NOTES = table(103, INT4, TEXT, key=())
ONE, TWO, THREE = "⟦t:101⟧", "⟦t:102⟧", "⟦t:103⟧"


def _query(select: str) -> str:
    return f"SELECT CAST(0 AS INT) AS q, CAST(NULL AS BIGINT) AS ord, array({select}"


def _ordered(columns: str, inner: str, order: str) -> str:
    place = f"SELECT CAST(row_number() OVER (ORDER BY {order}) AS BIGINT) AS ord, * FROM ({inner})"
    return f"SELECT CAST(0 AS INT) AS q, f.ord AS ord, array({columns}) AS r FROM ({place}) AS f"


FIRST = "row_number() OVER (PARTITION BY c3 ORDER BY c2, c0)"
JOINED = "CAST(o.c0 AS STRING), o.c3, p.c1) AS r FROM"
TEXTS = "CAST(c0 AS STRING), CAST(c1 AS STRING), c3"
QUERIES = {
    "filter": _query(f"CAST(c0 AS STRING), c3) AS r FROM {ONE} WHERE c1 > 1 OR c3 IS NULL"),
    "inner join": _query(f"{JOINED} {ONE} o JOIN {TWO} p ON o.c1 = p.c0"),
    "join with a condition": _query(f"{JOINED} {ONE} o JOIN {TWO} p ON o.c1 = p.c0 AND o.c0 < p.c2"),
    "left join": _query(f"{JOINED} {ONE} o LEFT JOIN {TWO} p ON o.c1 = p.c0"),
    "left join with a condition": _query(f"{JOINED} {ONE} o LEFT JOIN {TWO} p ON o.c1 = p.c0 AND o.c0 < p.c2"),
    "right join": _query(f"{JOINED} {ONE} o RIGHT JOIN {TWO} p ON o.c1 = p.c0 AND o.c0 <> p.c2"),
    "full join": _query(f"{JOINED} {ONE} o FULL JOIN {TWO} p ON o.c1 = p.c0"),
    "full join with a condition": _query(f"{JOINED} {ONE} o FULL JOIN {TWO} p ON o.c1 = p.c0 AND o.c0 <> p.c2"),
    "join of a table with itself": _query(
        f"CAST(a.c0 AS STRING), CAST(b.c0 AS STRING)) AS r FROM {ONE} a JOIN {ONE} b ON a.c1 = b.c1 AND a.c0 < b.c0"
    ),
    "join of a table without a key": _query(f"o.c3, n.c1) AS r FROM {ONE} o JOIN {THREE} n ON o.c1 = n.c0"),
    "product": _query(f"o.c3, n.c1) AS r FROM {TWO} p, {ONE} o, {THREE} n WHERE p.c0 = 1".replace("o.c3, ", "o.c3, ")),
    "exists": _query(f"CAST(c0 AS STRING)) AS r FROM {TWO} p WHERE EXISTS (SELECT 1 FROM {ONE} o WHERE o.c1 = p.c0)"),
    "not exists": _query(
        f"CAST(c0 AS STRING)) AS r FROM {TWO} p WHERE NOT EXISTS (SELECT 1 FROM {ONE} o WHERE o.c1 = p.c0)"
    ),
    "in": _query(f"CAST(c0 AS STRING)) AS r FROM {TWO} WHERE c0 IN (SELECT c1 FROM {ONE} WHERE c3 <> 'b')"),
    "not in": _query(f"CAST(c0 AS STRING)) AS r FROM {TWO} WHERE c2 NOT IN (SELECT c0 FROM {THREE})"),
    "in or else": _query(f"CAST(c0 AS STRING)) AS r FROM {TWO} WHERE c0 IN (SELECT c1 FROM {ONE}) OR c2 = 1"),
    "groups": _query(
        "c3, CAST(count(*) AS STRING), CAST(count(c1) AS STRING), CAST(sum(c2) AS STRING), CAST(sum(c1) AS STRING), "
        f"CAST(min(c2) AS STRING), CAST(max(c0) AS STRING)) AS r FROM {ONE} GROUP BY c3"
    ),
    "one group": _query(f"CAST(count(*) AS STRING), CAST(sum(c2) AS STRING), min(c3)) AS r FROM {ONE}"),
    "left join of groups": _query(
        f"p.c1, CAST(g.n AS STRING)) AS r FROM {TWO} p LEFT JOIN (SELECT c1, count(*) AS n FROM {ONE} GROUP BY c1) g "
        "ON g.c1 = p.c0"
    ),
    "groups of a join": _query(
        f"p.c1, CAST(count(o.c0) AS STRING), CAST(sum(o.c2) AS STRING)) AS r FROM {TWO} p "
        f"LEFT JOIN {ONE} o ON o.c1 = p.c0 GROUP BY p.c0, p.c1"
    ),
    "having": _query(f"c3, CAST(count(*) AS STRING)) AS r FROM {ONE} GROUP BY c3 HAVING count(*) > 2"),
    "filtered and distinct aggregates": _query(
        "c3, CAST(count(*) FILTER (WHERE c1 = 1) AS STRING), CAST(count(DISTINCT c1) AS STRING)) AS r "
        f"FROM {ONE} GROUP BY c3"
    ),
    "sum of distinct values": _query(f"c3, CAST(sum(DISTINCT c2) AS STRING)) AS r FROM {ONE} GROUP BY c3"),
    "lists": _query(f"c3, CAST(sort_array(collect_list(c0)) AS STRING)) AS r FROM {ONE} GROUP BY c3"),
    "averages": _query(f"c3, CAST(avg(c2) AS STRING), CAST(bool_and(c0 > 3) AS STRING)) AS r FROM {ONE} GROUP BY c3"),
    "distinct": _query(f"a, b) AS r FROM (SELECT DISTINCT c3 AS a, CAST(c1 AS STRING) AS b FROM {ONE})"),
    **{
        word: _query(
            f"a, b) AS r FROM (SELECT CAST(c1 AS STRING) a, c3 b FROM {ONE} {word} "
            f"SELECT CAST(c0 AS STRING), c1 FROM {THREE})"
        )
        for word in ("UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL")
    },
    "scalar subqueries": _query(
        f"(SELECT CAST(count(*) AS STRING) FROM {ONE}), (SELECT max(c1) FROM {TWO} WHERE c2 > 100)) AS r"
    ),
    "correlated scalar subquery": _query(
        f"c1, CAST((SELECT sum(c2) FROM {ONE} o WHERE o.c1 = p.c0) AS STRING)) AS r FROM {TWO} p"
    ),
    "order": _ordered(TEXTS, f"SELECT * FROM {ONE}", "c3 DESC NULLS LAST, c2, c0"),
    "first rows": _ordered(
        TEXTS, f"SELECT * FROM {ONE} ORDER BY c2 DESC NULLS LAST, c0 LIMIT 3", "c2 DESC NULLS LAST, c0"
    ),
    "rows behind others": _ordered(TEXTS, f"SELECT * FROM {ONE} ORDER BY c3, c0 LIMIT 3 OFFSET 2", "c3, c0"),
    "first rows of groups": _ordered(
        "c3, CAST(n AS STRING)",
        f"SELECT c3, count(*) AS n FROM {ONE} GROUP BY c3 ORDER BY n DESC, c3 LIMIT 2",
        "n DESC, c3",
    ),
    "first of each": _query(f"c3, CAST(c0 AS STRING)) AS r FROM (SELECT *, {FIRST} AS n FROM {ONE}) WHERE n = 1"),
    "ranks": _query(
        "c3, CAST(c0 AS STRING), CAST(a AS STRING), CAST(b AS STRING)) AS r FROM (SELECT *, "
        "rank() OVER (PARTITION BY c3 ORDER BY c1) AS a, "
        f"dense_rank() OVER (PARTITION BY c3 ORDER BY c1) AS b FROM {ONE})"
    ),
}
SHARED = "SELECT v.q AS q, CAST(NULL AS BIGINT) AS ord, array(p.c1, CAST(count(o.c0) AS STRING)) AS r FROM ⟦params⟧ v "
SHARED += f"JOIN {TWO} p ON p.c0 = v.p1 LEFT JOIN {ONE} o ON o.c1 = p.c0 GROUP BY v.q, p.c1"


class World:
    """The tables: as they are, and as the operators know them."""

    def __init__(self, spark: Spark, seed: int) -> None:
        self.given, self.operators, self._dice = GivenTables(spark), Operators(spark, spark.folder), random.Random(seed)
        self.evaluation = Evaluation(spark, self.given)
        self._spark = spark
        self.rows = {one.oid: [] for one in (ORDERS, PEOPLE, NOTES)}

    def step(self, size: int) -> dict:
        """Some random changes of all tables; returns them net, as the overlays do."""
        changes = {}
        for oid, key in ((101, 12), (102, 5), (103, 0)):
            before = list(self.rows[oid])
            emptied = self._dice.random() < 0.04
            if emptied:
                self.rows[oid].clear()
            for _ in range(self._dice.randint(0, size)):
                self._change(oid, key)
            changes[oid] = self._net(oid, before, emptied)
        return changes

    def _change(self, oid: int, keys: int) -> None:
        rows = self.rows[oid]
        if not keys:
            if rows and self._dice.random() < 0.45:
                rows.remove(self._dice.choice(rows))
            else:
                rows.append((self._number(), self._text()))
            return
        key = str(self._dice.randint(0, keys)).encode()
        rows[:] = [row for row in rows if row[0] != key]
        if self._dice.random() < 0.7:
            amount = self._dice.choice((None, b"1.50", b"2.00", b"-3.25", b"10.00"))
            last = (self._number(), amount, self._text()) if oid == 101 else (self._text(), self._number())
            rows.append((key, *last))

    def _net(self, oid, before, emptied):
        after = self.rows[oid]
        table = {101: ORDERS, 102: PEOPLE, 103: NOTES}[oid]
        if table.key:
            old = {} if emptied else {row[0]: row for row in before}
            new = {row[0]: row for row in after}
            keys = [(key,) for key in {**old, **new} if old.get(key) != new.get(key)]
            return table, Changes(keys, [(new[key[0]], 1) for key in keys if key[0] in new], emptied)
        net = Counter(after)
        net.subtract([] if emptied else before)
        return table, Changes([], [(row, weight) for row, weight in net.items() if weight], emptied)

    def _number(self):
        return self._dice.choice((None, b"0", b"1", b"2", b"3"))

    def _text(self):
        return self._dice.choice((None, b"", b"a", b"b", b"c"))

    def hold(self) -> None:
        for one in (ORDERS, PEOPLE, NOTES):
            self.given.hold(one, self.rows[one.oid])

    def load(self) -> None:
        for one in (ORDERS, PEOPLE, NOTES):
            self.operators.load(one, self._spark.session.table(self.given.view(one.oid)), 1 << 30)

    def build(self, jobs) -> None:
        plan_all(self, jobs)
        for number in range(len(jobs)):
            self.operators.pin(number)
            self.operators.build(number)


def plan_all(world: World, jobs) -> None:
    tables = {one.oid: one for one in (ORDERS, PEOPLE, NOTES)}
    for number, job in enumerate(jobs):
        world.operators.plan(number, job, tables)


def job_of(sql: str, **more):
    job = full(sql, *[TEXT] * 9, ordered="f.ord" in sql, **more)
    return replace(job, plan=replace(job.plan, live=Full(sql, by_tuple=False)))


def taken(state: Counter, order: Counter, moved) -> None:
    assert not moved.failure, moved.failure
    for q, weight, key, values in moved.rows:
        state[q, tuple(values)] += weight
        order[q, key, tuple(values)] += weight
        assert order[q, key, tuple(values)] >= 0


@pytest.mark.parametrize("seed", range(2))
def test_operators_follow_what_the_query_says(spark, seed):
    world, names = World(spark, seed), list(QUERIES)
    jobs = [job_of(QUERIES[name]) for name in names]
    for _ in range(2):
        world.step(6)
    world.hold()
    world.load()
    world.build(jobs)
    states, orders = [Counter() for _ in jobs], [Counter() for _ in jobs]
    for moved in world.operators.tick({}, {}):
        taken(states[moved.number], orders[moved.number], moved)
    for tick in range(13):
        for moved in world.operators.tick(world.step(4), {}):
            taken(states[moved.number], orders[moved.number], moved)
        if tick % 4 == 0:
            compare(world, names, jobs, states, orders)


def test_what_changes_before_the_first_rows_are_fixed_is_in_them(spark):
    """Ticks between plan and pin, pin and build, build and the first answer: each change counts once."""
    world, names = World(spark, 4), ["inner join", "groups", "one group", "first rows", "UNION ALL"]
    jobs = [job_of(QUERIES[name]) for name in names]
    world.step(9)
    world.hold()
    world.load()
    plan_all(world, jobs)
    states, orders = [Counter() for _ in jobs], [Counter() for _ in jobs]
    for work in (None, world.operators.pin, world.operators.build):
        for number in range(len(jobs) if work else 0):
            work(number)
        for _ in range(2):
            for moved in world.operators.tick(world.step(5), {}):
                taken(states[moved.number], orders[moved.number], moved)
    compare(world, names, jobs, states, orders)


def compare(world, names, jobs, states, orders) -> None:
    world.hold()
    for name, job, state, order, whole in zip(names, jobs, states, orders, world.evaluation.whole(jobs), strict=True):
        (found,) = whole.found
        expected = Counter((0, _canonical(row)) for _, row in found)
        assert +state == expected, name
        if job.plan.ordered:
            sorted_rows = [
                row for key, row in sorted((key, row) for (_, key, row), n in order.items() for _ in range(n))
            ]
            assert sorted_rows == [_canonical(row) for _, row in found], name


def _canonical(row):
    return tuple(row)


def test_tuples_share_operators_and_come_and_go(spark):
    world = World(spark, 7)
    world.step(9)
    world.hold()
    world.load()
    tuples = ((b"0",), (b"1",), (b"2",), (None,))
    job = job_of(SHARED, parameters=(INT4,), tuples=tuples)
    world.build([job])
    state, order = Counter(), Counter()
    list(world.operators.tick({}, {}))
    for number, values in enumerate(tuples):
        for moved in world.operators.tick({}, {0: ((INT4,), [(number, values, 1)])}):
            taken(state, order, moved)
    for _ in range(10):
        for moved in world.operators.tick(world.step(4), {}):
            taken(state, order, moved)
        world.hold()
        (whole,) = world.evaluation.whole([job])
        assert +state == Counter((q, tuple(row)) for q, rows in enumerate(whole.found) for _, row in rows)
    for moved in world.operators.tick(
        {}, {0: ((INT4,), [(number, values, -1) for number, values in enumerate(tuples)])}
    ):
        for q, weight, _, values in moved.rows:
            state[q, tuple(values)] += weight
    assert not +state and not -state


def test_what_is_not_known_is_refused(spark):
    world = World(spark, 1)
    tables = {one.oid: one for one in (ORDERS, PEOPLE, NOTES)}
    window = _query(f"CAST(sum(c0) OVER (PARTITION BY c3 ORDER BY c0) AS STRING)) AS r FROM {ONE}")
    with pytest.raises(Refused, match="window function"):
        world.operators.plan(0, job_of(window), tables)


def test_an_error_is_the_templates_alone(spark):
    world = World(spark, 1)
    world.hold()
    world.load()
    world.build([job_of(_query(f"CAST(1 / c1 AS STRING)) AS r FROM {ONE}")), job_of(QUERIES["filter"])])
    list(world.operators.tick({}, {}))
    changes = {101: (ORDERS, Changes([(b"1",)], [((b"1", b"0", None, None), 1)]))}
    one, other = world.operators.tick(changes, {})
    assert "zero" in one.failure.lower()
    assert other.rows == [(0, 1, None, [b"1", None])]


def test_a_table_that_does_not_take_its_changes_takes_its_templates_with_it(spark):
    """Its own templates are evaluated whole, those of other tables go on, and the next tick is as any."""
    world = World(spark, 1)
    world.hold()
    world.load()
    of_notes = _query(f"c1) AS r FROM {THREE}")
    world.build([job_of(of_notes), job_of(QUERIES["filter"])])
    list(world.operators.tick({}, {}))
    changes = {
        101: (ORDERS, Changes([(b"1",)], [((b"1", b"2", None, None), 1)])),
        103: (NOTES, Changes([], [((b"1", b"never there"), -1)])),
    }
    lost, moved = world.operators.tick(changes, {})
    assert lost == LostTable(103, "a row went that is not in the table")
    assert moved == Moved(1, False, [(0, 1, None, [b"1", None])])
    with pytest.raises(Refused):
        world.operators.pin(0)
    (gone,) = world.operators.tick({101: (ORDERS, Changes([(b"1",)], []))}, {})
    assert gone.rows == [(0, -1, None, [b"1", None])]


def test_a_tick_that_takes_too_long_ends_with_the_template_that_takes_it(spark):
    """The regular expression would take years: Java remembers no failed place where a group is referred to."""
    deadlines = Deadlines(spark, on_stuck=pytest.fail)
    world = World(spark, 1)
    world.operators = Operators(spark, spark.folder, limit=lambda: deadlines.within(2.0))
    world.hold()
    world.load()
    world.build([job_of(_query(f"c3) AS r FROM {ONE} WHERE c3 RLIKE r'(x+x+)+\\1y'")), job_of(QUERIES["filter"])])
    list(world.operators.tick({}, {}))
    changes = {101: (ORDERS, Changes([(b"1",)], [((b"1", b"2", None, b"x" * 60), 1)]))}
    one, other = world.operators.tick(changes, {})
    assert one.number == 0 and "its time is over" in one.failure
    assert other.rows == [(0, 1, None, [b"1", b"x" * 60])]
    (back,) = world.operators.tick({101: (ORDERS, Changes([(b"1",)], []))}, {})
    assert back.number == 1


def test_a_load_ends_where_memory_does(spark):
    world = World(spark, 1)
    for _ in range(3):
        world.step(9)
    world.hold()
    with pytest.raises(Refused, match="incremental_mb is reached"):
        world.operators.load(ORDERS, spark.session.table(world.given.view(101)), 300)
    assert world.operators.bytes() == 0
