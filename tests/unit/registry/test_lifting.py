"""Which literals become parameters, and what stays as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.registry.core.lexing import Kind, Unlexed, same, tokens, written
from services.registry.core.lifting import Lifted, lifted, normalised


def test_queries_that_differ_in_a_compared_value_alone_are_one_template():
    some = lifted("SELECT id FROM orders WHERE customer = 7 AND state = 'new'", 0)
    assert some == Lifted("select id from orders where customer = $1 and state = $2", (b"7", b"new"), (23, 705))
    assert lifted("select ID from Orders where customer=8 and state='old'", 0).sql == some.sql


def test_parameters_of_the_client_keep_their_numbers():
    assert lifted("SELECT * FROM t WHERE b = 5 AND a = $2 AND c = $1", 2).sql == (
        "select * from t where b = $3 and a = $2 and c = $1"
    )


@pytest.mark.parametrize(
    ("literal", "value", "oid"),
    [
        ("2147483647", b"2147483647", 23),
        ("2147483648", b"2147483648", 20),
        ("-2147483648", b"-2147483648", 23),
        ("- 2147483649", b"-2147483649", 20),
        ("9223372036854775807", b"9223372036854775807", 20),
        ("9223372036854775808", b"9223372036854775808", 1700),
        ("-9223372036854775808", b"-9223372036854775808", 20),
        ("1.50", b"1.50", 1700),
        (".5", b".5", 1700),
        ("-1e3", b"-1e3", 1700),
        ("'it''s'", b"it's", 705),
        ("''", b"", 705),
    ],
)
def test_a_lifted_literal_keeps_the_type_that_postgres_gives_it(literal, value, oid):
    assert lifted(f"SELECT a FROM t WHERE a = {literal}", 0) == Lifted("select a from t where a = $1", (value,), (oid,))


@pytest.mark.parametrize(
    "sql",
    [
        "select a from t limit 5 offset 3",
        "select a from t fetch first 5 rows only",
        "select a, b from t group by 1, 2 order by 2, 1",
        "select 'x', 5, a = 5 from t",
        "select a + 1 from t group by a + 1 having a + 1 > 3",
        "select a from t where d = date '2020-01-01' and e > now() - interval '1 day'",
        "select a from t where a = 5::int8 and b = cast('x' as text) and c = '5'::int",
        "select a from t where e > 'now' or e > 'Today' or e > ' tomorrow '",
        "select a from t where b like 'x%' and substr(b, 1, 2) = lower('AB')",
        "select a from t where b = E'x\\'y' or b = U&'d\\0061t' or b = $q$it$q$ or b = B'101'",
        "select a from t where b = 'x'\n'y'",
        "select a from t where a + 5 = b and a % 3 = b",
        "select a from t where (a, b) = (1, 2)",
        "select a from t where 5 = any(c)",
        "select a from t where 1 = 1",
        "select a from t where b = 'x' collate \"C\"",
        "select a from t where a = 0x1F or a = 1_000",
        "select count(*) filter (where a = 5) from t",
        "select (select b from u where u.a = 5) from t group by (select b from u where u.a = 5)",
        "select distinct on (a = 5) a from t order by a = 5",
        "select a from t where case when a = 5 then b = 6 else true end",
        "values (1, 'x'), (2, 'y')",
        "select a from f(5) as a",
        "select a from t where a operator(pg_catalog.=) 5",
    ],
)
def test_a_literal_stays_where_a_parameter_might_mean_another_thing(sql):
    assert lifted(sql, 0).values == ()


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("select a from t where a between 1 and 5", (b"1", b"5")),
        ("select a from t where a not in (1, -2, '3')", (b"1", b"-2", b"3")),
        ("select a from t where not (a <> 4 or 5 >= b)", (b"4", b"5")),
        ("select a from t where a is distinct from 6", (b"6",)),
        ("select t.a from t left join u on t.a = u.a and u.b = 'x'", (b"x",)),
        ("select a from (select a from t where b = 1) s where a > 2", (b"1", b"2")),
        ("with w as (select a from t where b = 1) select a from w union all select a from u where c = 2", (b"1", b"2")),
        ("select a from t where exists (select 1 from u where u.a = t.a and u.b = 7)", (b"7",)),
        ("select b, count(*) from t where a = 1 group by b having count(*) > 2", (b"1", b"2")),
        ("select a from t where b ->> 'k' = 'v'", (b"v",)),
    ],
)
def test_compared_values_are_lifted_wherever_they_decide_rows(sql, values):
    assert lifted(sql, 0).values == values


def test_a_long_list_is_not_lifted():
    members = ", ".join(map(str, range(100)))
    assert lifted(f"select a from t where a in ({members}) and b = 1", 0).values == (b"1",)


def test_what_our_parser_does_not_read_is_one_query_all_the_same():
    odd = "select  a from t where a @@@ 5 and (b = 3) is unknown tablesample"
    assert lifted(odd, 0) == lifted(odd.upper(), 0)
    assert lifted("select 'open", 0) == Lifted("select 'open")
    assert lifted(" select /* open", 0) == Lifted(" select /* open")


def test_a_parameter_that_was_not_given_leaves_everything_as_it_is():
    assert lifted("select a from t where a = $3 and b = 5", 1).values == ()


def test_spaces_comments_and_case_have_no_meaning():
    assert normalised("SELECT  /* a /* nested */ b */ Count (*)-- end\n FROM T ;") == "select count(*) from t ;"
    assert normalised('SELECT "A b", É') == 'select "A b", É'


@pytest.mark.parametrize(
    ("sql", "texts"),
    [
        ("a<-1", ["a", "<", "-", "1"]),
        ("a@-1", ["a", "@-", "1"]),
        ("a->>'k'", ["a", "->>", "'k'"]),
        ("a--x\n+1", ["a", "+", "1"]),
        ("a+/*x*/1", ["a", "+", "1"]),
        ("x[1:2]", ["x", "[", "1", ":", "2", "]"]),
        ("a.b::numeric(10,2)", ["a", ".", "b", "::", "numeric", "(", "10", ",", "2", ")"]),
        ("1..2", ["1", "..", "2"]),
        ("a$1 $1 $x$ $1 $x$", ["a$1", "$1", "$x$ $1 $x$"]),
        ("N'x' e 'y'", ["N'x'", "e", "'y'"]),
        ("f(a=>1)", ["f", "(", "a", "=>", "1", ")"]),
    ],
)
def test_the_text_is_cut_as_postgres_cuts_it(sql, texts):
    cut = tokens(sql)
    assert [token.text for token in cut] == texts
    assert [token.text for token in tokens(written(cut))] == texts


def test_strings_on_two_lines_stay_on_two_lines():
    cut = tokens("'a' -- and\n 'b' 'c'")
    assert [token.kind for token in cut] == [Kind.STRING] * 3
    assert written(cut) == "'a'\n'b' 'c'"


SCRAPS = (
    """select from where a b 1 2.5 .5 'x' '' "Q" $1 $$ $a$ ( ) [ ] . .. , ; : :: := => = <- @- - + * -- /* */ e' é"""
)
PIECES = st.sampled_from([*SCRAPS.split(), "\n"])


@given(st.lists(PIECES, max_size=12).map("".join) | st.lists(PIECES, max_size=12).map(" ".join) | st.text(max_size=30))
def test_no_text_stops_us_and_its_one_form_is_cut_the_same(text):
    form = lifted(text, 9).sql
    assert lifted(form, 9).sql == form
    try:
        cut = tokens(text)
    except Unlexed:
        assert form == text
    else:
        assert same(tokens(written(cut)), cut)


def test_a_text_of_a_megabyte_or_of_a_thousand_brackets_is_taken_as_it_is():
    long = f"select a from t where b in ({', '.join(map(str, range(100_000)))})"
    deep = f"select a from t where {'(' * 2000}a = 5{')' * 2000}"
    assert (lifted(long, 0), lifted(deep, 0).values) == (Lifted(long), ())
