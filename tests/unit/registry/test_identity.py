"""When two subscriptions are one query, and two queries one template."""

from proto.tidewire.v1.commands_pb2 import Owner, Parameter, ResolvedName, Subscribe, TextSettings
from services.registry.core.identity import query_of


def asked(sql="SELECT id FROM orders WHERE customer = 7", **fields):
    defaults = {
        "owner": Owner(role="r", connection_id="c"),
        "text_settings": TextSettings(time_zone="UTC"),
        "search_path": ["public"],
        "names": [ResolvedName(written_name="orders", oid=16384, schema="public", name="orders")],
    }
    return query_of(Subscribe(sql=sql, **{**defaults, **fields}))


def test_equal_queries_of_different_clients_are_one():
    other = asked("select ID\nfrom ORDERS -- mine\nwhere customer=7;", owner=Owner(role="r", connection_id="d"))
    assert (other.query_id, other.template_id) == (asked().query_id, asked().template_id)


def test_another_value_is_another_query_of_the_same_template():
    other = asked("SELECT id FROM orders WHERE customer = 8")
    assert (other.template_id == asked().template_id, other.query_id == asked().query_id) == (True, False)


def test_another_type_of_a_value_is_another_template():
    assert asked("SELECT id FROM orders WHERE customer = 7000000000").template_id != asked().template_id
    assert asked("SELECT id FROM orders WHERE customer = '7'").template_id != asked().template_id


def test_all_that_the_result_depends_on_is_part_of_the_template():
    others = [
        asked(owner=Owner(role="s", connection_id="c")),
        asked(filter="id > 5"),
        asked(text_settings=TextSettings(time_zone="CET")),
        asked(search_path=["mine", "public"]),
        asked(names=[ResolvedName(written_name="orders", oid=16999, schema="mine", name="orders")]),
        asked(settings_read={"app.tenant": "5"}),
        asked("SELECT id, 1 FROM orders WHERE customer = 7"),
    ]
    assert len({asked().template_id, *(one.template_id for one in others)}) == len(others) + 1


def test_names_in_another_order_and_a_filter_with_other_spaces_are_the_same():
    names = [ResolvedName(written_name=name, oid=oid) for name, oid in (("a", 1), ("b", 2))]
    some, other = asked(names=names, filter="ID>5"), asked(names=names[::-1], filter="id  > 5 -- five")
    assert (some.query_id, some.filter) == (other.query_id, "id > 5")


def test_the_query_tells_what_was_written_and_what_was_made_of_it():
    sql = "SELECT id FROM orders WHERE state = $1 AND customer = 7 AND day = $2"
    query = asked(sql, parameters=[Parameter(value=b"new"), Parameter()])
    assert query.sql == sql
    assert query.template_sql == "select id from orders where state = $1 and customer = $3 and day = $2"
    assert list(query.parameters) == [Parameter(value=b"new"), Parameter(), Parameter(value=b"7", type_oid=23)]


def test_null_and_the_empty_text_are_different_values():
    sql = "SELECT id FROM orders WHERE state = $1"
    assert asked(sql, parameters=[Parameter()]).query_id != asked(sql, parameters=[Parameter(value=b"")]).query_id
