"""Templates on Spark: what comes back for each tuple, and that a failure is one template's alone."""

from random import Random

import pytest

from proto.tidewire.v1.commands_pb2 import TextSettings
from services.recompute.core.job import Failed, Signed
from services.recompute.core.plan import Narrowing
from tests.integration.recompute.evaluation.tables import (
    BOOL,
    INT4,
    INT8,
    NUMERIC,
    TEXT,
    TIMESTAMPTZ,
    full,
    row_local,
    table,
)

ACCOUNTS = table(1, INT4, INT4, TEXT, NUMERIC, TIMESTAMPTZ)
OUTPUTS = {
    "CAST(c0 AS STRING)": INT4,
    "c2": TEXT,
    "CAST(c3 AS STRING)": NUMERIC,
    "CAST(c4 AS STRING)": TIMESTAMPTZ,
}
COUNT = (
    "SELECT q, CAST(NULL AS BIGINT) AS ord, array(CAST(count(*) AS STRING)) AS r "
    "FROM ⟦params⟧ JOIN ⟦t:1⟧ ON c1 = p1 GROUP BY q"
)
TEXTS = (
    "plain",
    "",
    "it's",
    'a "b"',
    "back\\slash \\n",
    "two\nlines",
    "${x} $1 {y}",
    "⟦p1⟧ ⟦now⟧",
    "żółć 😀",
    "\t\r%_",
)
TOKYO = TextSettings(
    time_zone="Asia/Tokyo", date_style="ISO, MDY", interval_style="postgres", bytea_output="hex", extra_float_digits=1
)


def account(number, group=None, moment=b"2024-01-01 00:00:00+00"):
    amount = f"{number}.50".encode()
    return (b"%d" % number, None if group is None else b"%d" % group, b"n%d" % number, amount, moment)


def jobs_run(spark):
    """How many jobs Spark has run so far."""
    return spark.session.sparkContext._jsc.sc().dagScheduler().numTotalJobs()


ROWS = [account(number, number % 3 if number % 5 else None) for number in range(20)]


def test_changed_rows_come_with_their_key_their_weight_and_the_logs_own_text(tables, evaluation):
    tables.hold(ACCOUNTS, [], [(ROWS[1], 1), (ROWS[2], 1), (ROWS[5], 1)])
    assert evaluation.changed([row_local(1, "c1 = 1", OUTPUTS), row_local(1, "", {"c2": TEXT})]) == [
        Signed(([((b"1",), (b"1", b"n1", b"1.50", b"2024-01-01 00:00:00+00"), 1)],)),
        Signed(([((b"1",), (b"n1",), 1), ((b"2",), (b"n2",), 1), ((b"5",), (b"n5",), 1)],)),
    ]


def test_what_the_subscriber_prints_otherwise_or_computes_is_printed_by_his_settings(tables, evaluation):
    tables.hold(ACCOUNTS, [], [(ROWS[1], 1)])
    outputs = {"CAST(c4 AS STRING)": TIMESTAMPTZ, "c2": TEXT, "CAST(c0 + 1 > 1 AS STRING)": BOOL}
    found = [((b"1",), (b"2024-01-01 09:00:00+09", b"n1", b"t"), 1)]
    assert evaluation.changed([row_local(1, "c0 = 1", outputs, settings=TOKYO)]) == [Signed((found,))]


def test_rows_of_a_table_without_a_key_come_and_go_by_weight(tables, evaluation):
    tables.hold(table(2, INT4, TEXT, key=()), [], [((b"1", b"old"), -1), ((b"1", b"new"), 1)])
    assert evaluation.changed([row_local(2, "c0 = 1", {"c1": TEXT})]) == [
        Signed(([((), (b"old",), -1), ((), (b"new",), 1)],))
    ]


def test_templates_of_many_tables_are_answered_together(tables, evaluation):
    jobs = []
    for oid in range(10, 15):
        tables.hold(table(oid, INT4, TEXT), [], [((b"%d" % oid, b"t"), 1)])
        jobs.append(row_local(oid, "c0 > ⟦p1⟧", {"c1": TEXT}, parameters=(INT4,), tuples=((b"12",), (b"0",))))
    answers = evaluation.changed(jobs)
    assert [[len(found) for found in answer.found] for answer in answers] == [[0, 1], [0, 1], [0, 1], [1, 1], [1, 1]]


def test_templates_that_compute_and_templates_that_do_not_are_answered_together(tables, evaluation, spark):
    jobs = []
    for oid, output in ((20, "c1"), (21, "concat(c1, 'x')")):
        tables.hold(table(oid, INT4, TEXT), [], [((b"1", b"t"), 1)])
        jobs.append(row_local(oid, "c0 = 1", {output: TEXT}))
        jobs.append(row_local(oid, "c0 = ⟦p1⟧", {output: TEXT}, parameters=(INT4,), tuples=((b"1",),) * 9))
    before = jobs_run(spark)
    answers = evaluation.changed(jobs)
    assert [answer.found[0] for answer in answers] == [[((b"1",), (text,), 1)] for text in (b"t", b"t", b"tx", b"tx")]
    # Had they not fitted together, each would have been run again alone.
    assert jobs_run(spark) - before <= 5


def test_nothing_changed_is_no_rows(tables, evaluation):
    tables.hold(ACCOUNTS, ROWS, [])
    assert evaluation.changed([row_local(1, "", {"c2": TEXT})]) == [Signed(([],))]


@pytest.mark.parametrize("predicate", ["c1 = ⟦p1⟧", "c0 < ⟦p1⟧", "⟦p1⟧ IS NULL OR c2 = ⟦p2⟧"])
def test_many_tuples_are_answered_as_each_of_them_alone(tables, evaluation, predicate):
    tables.hold(ACCOUNTS, ROWS, [(row, 1) for row in ROWS])
    tuples = (*((b"%d" % number, b"n%d" % number) for number in range(999)), (None, b"n1"))
    outputs = {"CAST(c0 AS STRING)": INT4, "concat(c2, ⟦p2⟧)": TEXT}

    def job(of):
        return row_local(1, predicate, outputs, parameters=(INT4, TEXT), tuples=of)

    places = [0, 1, 2, 17, 500, 999]
    alone = [job((tuples[at],)) for at in places]
    (together,) = evaluation.changed([job(tuples)])
    assert [sorted(together.found[at]) for at in places] == [sorted(one.found[0]) for one in evaluation.changed(alone)]
    (whole,) = evaluation.whole([job(tuples)])
    assert [sorted(whole.found[at]) for at in places] == [sorted(one.found[0]) for one in evaluation.whole(alone)]


@pytest.mark.parametrize("operator", ["=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("count", [9, 16, 150])
def test_tuples_that_are_looked_up_are_those_that_each_would_find(tables, evaluation, operator, count):
    """Values repeat, are missing on both sides, and lie before, between and behind those of the tuples."""
    chance = Random(count)
    rows = [account(number, chance.choice([None, *range(-2, 23)])) for number in range(60)]
    tables.hold(ACCOUNTS, rows, [(row, 1) for row in rows])
    values = [None if chance.random() < 0.1 else b"%d" % chance.randrange(0, 20) for _ in range(count)]
    predicate, of_tuple = f"(c1 {operator} (⟦p1⟧ + 1) AND c0 <> 7)", "(⟦p1⟧ + 1)"

    def job(narrowing):
        tuples, outputs = tuple((value,) for value in values), {"CAST(c0 AS STRING)": INT4}
        return row_local(1, predicate, outputs, parameters=(INT4,), tuples=tuples, narrowing=narrowing)

    (looked_up,) = evaluation.changed([job(Narrowing(operator, "c1", of_tuple))])
    (each,) = evaluation.changed([job(None)])
    assert [sorted(found) for found in looked_up.found] == [sorted(found) for found in each.found]
    assert any(each.found)


@pytest.mark.parametrize("width", [1, 9], ids=["inline", "joined"])
def test_a_text_parameter_means_itself_whatever_it_holds(tables, evaluation, width):
    things = [(b"%d" % at, text.encode()) for at, text in enumerate(TEXTS)]
    tables.hold(table(3, INT4, TEXT), things, [(thing, 1) for thing in things])
    jobs = [
        row_local(3, "c1 = ⟦p1⟧", {"⟦p1⟧": TEXT}, parameters=(TEXT,), tuples=((text,),) * width) for _, text in things
    ]
    found = [tuple([[((number,), (text,))]] * width) for number, text in things]
    assert [answer.found for answer in evaluation.whole(jobs)] == found
    by_tuple = "SELECT ⟦q⟧ AS q, CAST(NULL AS BIGINT) AS ord, array(c1, ⟦p1⟧) AS r FROM ⟦t:3⟧ WHERE c1 = ⟦p1⟧"
    jobs = [
        full(by_tuple, TEXT, TEXT, by_tuple=True, parameters=(TEXT,), tuples=((text,),) * width) for _, text in things
    ]
    expected = [([((), (text, text))],) * width for _, text in things]
    assert [answer.found for answer in evaluation.whole(jobs)] == expected


def test_a_template_that_fails_fails_alone_and_recovers_with_the_data(tables, evaluation):
    def jobs():
        return [row_local(1, f"c0 = {at}" if at != 13 else "1 div (c0 - 3) < 9", {"c2": TEXT}) for at in range(20)]

    tables.hold(ACCOUNTS, ROWS, [(row, 1) for row in ROWS])
    for answers in (evaluation.changed(jobs()), evaluation.whole(jobs()), evaluation.changed(jobs())):
        assert isinstance(answers[13], Failed)
        assert "DIVIDE_BY_ZERO" in answers[13].reason
        others = [answer.found[0] for at, answer in enumerate(answers) if at != 13]
        assert [found[0][1] for found in others] == [(b"n%d" % at,) for at in range(20) if at != 13]
    tables.hold(ACCOUNTS, ROWS, [(ROWS[7], 1)])
    assert [len(answer.found[0]) for answer in evaluation.changed(jobs())] == [int(at in (7, 13)) for at in range(20)]


def test_a_tuple_that_fails_fails_alone(tables, evaluation):
    tables.hold(ACCOUNTS, ROWS, [(ROWS[3], 1)])
    tuples = tuple((b"%d" % number,) for number in range(50))
    job = row_local(1, "10 div (c0 - ⟦p1⟧) > 4", {"c2": TEXT}, parameters=(INT4,), tuples=tuples)
    (answer,) = evaluation.changed([job])
    assert [at for at, found in enumerate(answer.found) if isinstance(found, Failed)] == [3]
    assert [at for at, found in enumerate(answer.found) if found and not isinstance(found, Failed)] == [1, 2]


def test_a_full_template_that_fails_fails_alone(tables, evaluation):
    tables.hold(ACCOUNTS, ROWS)
    broken = COUNT.replace("count(*)", "sum(1 div c1)")
    jobs = [full(broken if at == 9 else COUNT, INT8, parameters=(INT4,), tuples=((b"0",), (b"1",))) for at in range(20)]
    answers = evaluation.whole(jobs)
    others = [answer.found for at, answer in enumerate(answers) if at != 9]
    assert others == [([((), (b"5",))], [((), (b"6",))])] * 19
    assert isinstance(answers[9].found[0], Failed)
    assert answers[9].found[1] == [((), (b"6",))]


def test_tuples_of_a_full_template_share_a_job(tables, evaluation):
    tables.hold(ACCOUNTS, ROWS)
    tuples = tuple((b"%d" % number,) for number in range(1000))
    (answer,) = evaluation.whole([full(COUNT, INT8, parameters=(INT4,), tuples=tuples)])
    assert answer.found == ([((), (b"5",))], [((), (b"6",))], [((), (b"5",))], *([] for _ in range(997)))


def test_an_ordered_result_comes_in_its_order(tables, evaluation):
    tables.hold(ACCOUNTS, ROWS)
    sql = (
        "SELECT ⟦q⟧ AS q, CAST(row_number() OVER (ORDER BY c0 DESC) AS BIGINT) AS ord, array(c2, CAST(⟦now⟧ AS STRING))"
        " AS r FROM ⟦t:1⟧ WHERE c1 = ⟦p1⟧"
    )
    job = full(sql, TEXT, TIMESTAMPTZ, by_tuple=True, ordered=True, parameters=(INT4,), tuples=((b"1",), (b"2",)))
    (answer,) = evaluation.whole([job])
    assert answer.found == tuple(
        [((), (b"n%d" % at, b"2027-01-15 08:00:00+00")) for at in places]
        for places in ((19, 16, 13, 7, 4, 1), (17, 14, 11, 8, 2))
    )


def test_a_whole_row_local_result_has_the_logs_text_of_its_keys(tables, evaluation):
    moments = (b"2024-01-01 00:00:00.5+00", b"infinity")
    keyed = table(4, INT4, TIMESTAMPTZ, TEXT, key=(1, 0))
    tables.hold(keyed, [(b"-1", moment, b"x") for moment in moments])
    (answer,) = evaluation.whole([row_local(4, "", {"c2": TEXT}, settings=TOKYO)])
    assert [answer.found] == [([((moment, b"-1"), (b"x",)) for moment in moments],)]


def test_a_result_of_too_many_rows_is_refused(tables, evaluation):
    tables.hold(ACCOUNTS, [account(number) for number in range(1001)])
    few, many = row_local(1, "c0 < 1000", {"c2": TEXT}), row_local(1, "", {"c2": TEXT})
    answers = evaluation.whole([few, many])
    assert len(answers[0].found[0]) == 1000
    assert answers[1] == Failed("more than 1000 rows")


def test_a_parameter_that_its_type_does_not_hold_fails_its_tuple(tables, evaluation):
    tables.hold(ACCOUNTS, ROWS, [(ROWS[1], 1)])
    tuples = ((b"1",), (b"one",))
    (answer,) = evaluation.changed([row_local(1, "c0 = ⟦p1⟧", {"c2": TEXT}, parameters=(INT4,), tuples=tuples)])
    assert answer.found[0] == [((b"1",), (b"n1",), 1)]
    assert isinstance(answer.found[1], Failed)
