"""Topic SQL by the vectors of the document and of upstream, its errors, and what can never be made of it."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.pgwire.topic_statements import OURS
from services.gateway.core.topics.parse import parse
from services.gateway.core.topics.rewrite import MOST_ANSWER_BYTES, literal, rewritten
from services.gateway.core.topics.rewrite import shown as shown_rows
from services.gateway.core.topics.statements import Ack, Consume, Define, Reset, ShowTopics, Statement, TopicSqlError
from tests.conformance.kalamdb import TOPIC_VECTORS, of_topics

STATEMENTS = (
    "k.create",
    "k.create.part",
    "k.route.key",
    "k.route.full",
    "k.route.where",
    "k.route.partby",
    "k.consume.basic",
    "k.consume.latest",
    "k.consume.earliest",
    "k.consume.offset",
    "k.consume.offsetkw.upstreamrejects",
    "k.consume.alias",
    "k.ack",
    "k.ack.part2",
    "k.clear",
    "k.drop",
)
ERRORS = ("k.err.17", "k.err.18", "k.err.19", "k.err.20")


def shown(statement: Statement) -> dict[str, Any]:
    """A statement in the words of the vectors."""
    if isinstance(statement, Define):
        asked = dict(statement.asked)
        names = {"source_table": asked.get("source_table"), "source_schema": asked.get("source_schema")}
        return {
            **asked,
            "stmt": statement.do,
            "topic": statement.topic,
            "table": f"{names['source_schema']}.{names['source_table']}",
            "partition_key_expr": asked.get("partition_key"),
        }
    if isinstance(statement, Consume):
        start = {"Offset": statement.start} if isinstance(statement.start, int) else statement.start
        return {"topic": statement.topic, "group": statement.group, "start": start, "limit": statement.limit}
    assert isinstance(statement, Ack)
    return {
        "topic": statement.topic,
        "group": statement.group,
        "partition": statement.partition,
        "upto_offset": statement.upto,
    }


@of_topics(*STATEMENTS)
def test_k7_k8_k10_k11_statements_of_the_vectors(vector: dict[str, Any]) -> None:
    expected = {
        key: value for key, value in vector["expect"].items() if key not in ("resolve", "upstream_error", "ours")
    }
    assert expected.items() <= shown(parse(vector["sql"])).items()
    assert OURS.match(vector["sql"].encode())


@of_topics(*ERRORS)
def test_k12_errors_of_the_vectors(vector: dict[str, Any]) -> None:
    with pytest.raises(TopicSqlError, match=re.escape(vector["expect"]["error"])):
        parse(vector["sql"])


def test_these_are_all_statements_of_the_vectors() -> None:
    assert {each["id"] for each in TOPIC_VECTORS if each["kind"] == "sql_parse"} == {*STATEMENTS, *ERRORS}


def test_k9_the_payload_that_is_not_said_is_key() -> None:
    statement = parse("ALTER TOPIC a.t ADD SOURCE b.c ON DELETE")
    assert isinstance(statement, Define) and statement.asked["payload_mode"] == "Key"


@pytest.mark.parametrize(
    ("sql", "words", "at"),
    [
        ("CREATE TOPIC t", "Topic name must be namespace-qualified: <namespace>.<topic>", "t"),
        ("CREATE TOPIC a.t PARTITIONS 0", "Invalid partition count '0'. Must be from 1 to 128", "0"),
        ("CREATE TOPIC a.t PARTITIONS many", "Invalid partition count 'many'. Must be a number", "many"),
        (
            "CREATE TOPIC a.t WITH (retention_seconds = 0)",
            "retention_seconds must be greater than 0, or NULL for no limit",
            "0",
        ),
        ("CREATE TOPIC a.t WITH (color = 1)", 'unrecognized topic option "color"', "color"),
        ("CREATE TOPIC a.t EXTRA", 'syntax error at or near "EXTRA"', "EXTRA"),
        (
            "ALTER TOPIC a.t ADD SOURCE b.c ON INSERT WHERE (x IN (SELECT 1))",
            "a route's WHERE cannot contain a subquery",
            "SELECT",
        ),
        ("ALTER TOPIC a.t ADD SOURCE b.c ON INSERT WHERE (x = 1", "syntax error at end of input", ""),
        ("ALTER TOPIC a.t ADD SOURCE b.c ON INSERT WHERE x = 1) OR (true", 'syntax error at or near ")"', ") OR"),
        (
            "ALTER TOPIC a.t ADD SOURCE b.c ON INSERT WHERE (true); DROP TABLE x",
            'syntax error at or near "DROP"',
            "DROP",
        ),
        ("CONSUME FROM a.t LIMIT x", "Invalid limit 'x'. Must be a number", "x"),
        ("DROP TOPIC a.b.c", "improper qualified name (too many dotted names): a.b.c", "a.b.c"),
        ("ACK a.t GROUP 'g' UPTO OFFSET -1", "Invalid offset '-'. Must be a number", "-1"),
    ],
)
def test_errors_point_at_the_offending_word(sql: str, words: str, at: str) -> None:
    with pytest.raises(TopicSqlError) as refused:
        parse(sql)
    assert (refused.value.words, refused.value.place) == (words, sql.rindex(at) + 1 if at else len(sql) + 1)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("show topics;", ShowTopics()),
        ("consume from A.T group svc start earliest", Consume(topic="a.t", group="svc", start="Earliest", place=14)),
        ('CONSUME FROM "A"."T" GROUP "g" FROM 7', Consume(topic="A.T", group="g", start=7, place=14)),
        (
            "RESET CONSUMER GROUP 'g' ON a.t PARTITION 2 TO 0",
            Reset(topic="a.t", group="g", partition=2, to=0, place=29),
        ),
    ],
)
def test_decision_27_other_spellings(sql: str, expected: Statement) -> None:
    assert parse(sql) == expected


def test_retention_null_is_no_limit_and_absent_is_the_default() -> None:
    """K28: 7 days, 1 GiB."""
    statement = parse("CREATE TOPIC IF NOT EXISTS a.t WITH (retention_seconds = NULL)")
    assert isinstance(statement, Define)
    assert (statement.asked["retention_seconds"], statement.asked["retention_max_bytes"]) == (None, 1_073_741_824)
    assert statement.asked["if_not_exists"] is True


@pytest.mark.parametrize(
    "sql", [b"SELECT 1", b"CREATE TABLE topic ()", b"RESET ALL", b"SHOW all", b"acknowledge", b"DROP TABLE t"]
)
def test_other_statements_are_not_ours(sql: bytes) -> None:
    assert OURS.match(sql) is None


NAMES = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), min_size=1, max_size=30)


@given(NAMES)
def test_no_text_leaves_its_literal(text: str) -> None:
    """Only letters that mean nothing in a string, and escapes of ours, stand between the two quotes."""
    made = literal(text)
    assert re.fullmatch(r"E'(?:[A-Za-z0-9 _.,:{}\[\]()<>=+/\"-]|\\u[0-9A-F]{4}|\\U[0-9A-F]{8})*'", made)
    assert re.sub(r"\\u(.{4})|\\U(.{8})", lambda found: chr(int(found[1] or found[2], 16)), made[2:-1]) == text


@given(NAMES, NAMES, NAMES)
def test_whatever_names_say_one_call_is_made_of_them(topic: str, group: str, tail: str) -> None:
    quoted = '"' + topic.replace('"', '""') + '"'
    for sql in (
        f"CREATE TOPIC a.{quoted} {tail}",
        f"ALTER TOPIC a.{quoted} ADD SOURCE b.c ON INSERT WHERE ({tail}) WITH (payload = '{group}')",
        f"ACK a.{quoted} GROUP '{group}' UPTO OFFSET {tail}",
    ):
        made, statement = rewritten(sql.encode())
        assert statement is not None or re.fullmatch(
            r"CALL _tidewire_topics\.(statement|refuse)\((?:E'[^']*'(?:, )?)+\)", made
        )


def test_what_was_carried_out_is_shown_once_and_within_bounds() -> None:
    rows = [["a.t", 0, 5, "it's", "e30+/w==", 1, "o'b", "insert"]]
    made = shown_rows(Consume(topic="a.t"), rows, "n")
    assert (
        made.startswith("SELECT * FROM _tidewire_topics.consumed(E'") and made.endswith("')") and made.count("'") == 2
    )
    told = re.sub(r"\\u(.{4})", lambda found: chr(int(found[1], 16)), made[made.index("E'") + 2 : -2])
    assert json.loads(told) == {"rows": rows, "once": "n"}
    with pytest.raises(TopicSqlError, match="more than one answer can hold"):
        shown_rows(Consume(topic="a.t"), [["x" * MOST_ANSWER_BYTES]], "n")


def test_what_the_procedure_is_told_is_what_was_said() -> None:
    made, _ = rewritten(b"""CREATE TOPIC app."a'b\\c" PARTITIONS 4""")
    escaped = re.sub(r"\\u(.{4})", lambda found: chr(int(found[1], 16)), made[made.index("E'") + 2 : -2])
    assert json.loads(escaped)["topic"] == "app.a'b\\c" and json.loads(escaped)["at"] == {"topic": "14"}
