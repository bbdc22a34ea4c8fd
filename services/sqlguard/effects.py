"""What calling a function does besides giving a value: whether it may be called, and what its value depends on."""

from enum import Enum

from msgspec import Struct

from services.sqlguard.refusal import Refused


class Function(Struct, frozen=True, kw_only=True):
    """A function that a query calls, by name, operator or cast."""

    schema: str
    name: str
    # pg_proc.provolatile: i immutable, s stable, v volatile.
    volatility: str
    # It takes a cstring or an internal value: made to be called by PostgreSQL, not by people.
    is_inner: bool = False
    oid: int = 0
    # With its arguments, as ALTER FUNCTION takes it.
    signature: str = ""

    @property
    def is_foreign(self) -> bool:
        return self.schema != "pg_catalog"


class Dependence(Enum):
    """What else than its arguments and the session's settings a value depends on."""

    NOTHING = "nothing"
    CLOCK = "clock"
    # A state that the log does not show.
    UNLOGGED = "unlogged"
    # It may be another one at each call.
    UNSTEADY = "unsteady"


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_UNSTEADY = _names(
    "random random_normal gen_random_uuid uuidv4 uuidv7 clock_timestamp timeofday array_sample array_shuffle bernoulli "
    "system"
)
_CLOCK = _names("now transaction_timestamp statement_timestamp")
# Volatile by declaration, yet they only look.
_LOOKING = _names(
    "pg_database_size pg_relation_size pg_table_size pg_indexes_size pg_total_relation_size pg_tablespace_size "
    "pg_partition_tree pg_partition_ancestors pg_is_in_recovery pg_current_wal_lsn pg_current_wal_insert_lsn "
    "pg_current_wal_flush_lsn pg_last_wal_receive_lsn pg_last_wal_replay_lsn pg_last_xact_replay_timestamp "
    "pg_lock_status pg_blocking_pids pg_collation_actual_version pg_database_collation_actual_version "
    "pg_xact_commit_timestamp pg_sequence_last_value pg_get_sequence_data pg_prepared_xact pg_jit_available "
    "pg_notification_queue_usage pg_get_wait_events pg_stat_get_io pg_stat_get_backend_io pg_stat_get_backend_wal "
    "pg_stat_have_stats pg_show_replication_origin_status pg_get_multixact_members amvalidate"
)
# They give out an xid, or run a statement or the checks of a type that is named in a text, which nobody has examined.
_EFFECTS = _names("txid_current pg_current_xact_id pg_input_is_valid pg_input_error_info")
_RUNNING = (
    "table_to_xml",
    "schema_to_xml",
    "database_to_xml",
    "query_to_xml",
    "cursor_to_xml",
    "ts_stat",
    "ts_rewrite",
)
# Their value belongs to one session: ours is not the subscriber's.
_SESSION = _names(
    "session_user system_user pg_backend_pid inet_client_addr inet_client_port inet_server_addr inet_server_port "
    "current_query pg_listening_channels pg_cursor pg_prepared_statement pg_trigger_depth "
    "pg_conf_load_time txid_current_if_assigned pg_current_xact_id_if_assigned"
)
# Stable for the sake of a setting that belongs to the query's identity (TimeZone, DateStyle …), or of a type's name.
_BY_SETTING = _names(
    "array_to_json array_to_string concat concat_ws convert convert_from convert_to current_database current_schema "
    "current_schemas current_setting current_user date date_add date_part date_subtract date_trunc enum_first "
    "enum_last enum_range extract format generate_series getdatabaseencoding in_range interval_pl_timestamptz "
    "json_agg json_agg_strict json_build_array json_build_object json_object_agg json_object_agg_strict "
    "json_object_agg_unique json_object_agg_unique_strict json_populate_record json_populate_recordset json_to_record "
    "json_to_recordset jsonb_agg jsonb_agg_strict jsonb_build_array jsonb_build_object jsonb_object_agg "
    "jsonb_object_agg_strict jsonb_object_agg_unique jsonb_object_agg_unique_strict jsonb_path_exists_tz "
    "jsonb_path_match_tz jsonb_path_query_array_tz jsonb_path_query_first_tz jsonb_path_query_tz jsonb_populate_record "
    "jsonb_populate_recordset jsonb_to_record jsonb_to_recordset make_timestamptz overlaps pg_client_encoding "
    "pg_typeof quote_literal quote_nullable row_to_json time timestamp timestamptz timestamptz_mi_interval "
    "timestamptz_pl_interval timetz timezone to_char to_date to_json to_jsonb to_number to_timestamp anytextcat "
    "textanycat version xml xml_is_well_formed money cash_words"
)


def refuse_effects(function: Function) -> None:
    """Raise Refused if calling it changes something, or tells of our session instead of the subscriber's."""
    name = function.name
    if function.is_foreign:
        if function.volatility == "v":
            raise Refused(
                "0A000",
                f"function {name}() is volatile and may have effects: it cannot be subscribed to. If it has none, "
                f"say so: ALTER FUNCTION {function.signature} STABLE",
            )
        return
    if name in _SESSION:
        raise Refused("0A000", f"function {name}() tells of a session of its own: it cannot be subscribed to")
    harmless = function.volatility != "v" or name in _UNSTEADY or name in _LOOKING or name.startswith("pg_stat_get_")
    dangerous = function.is_inner or name in _EFFECTS or name.startswith(_RUNNING) or name.endswith("_validator")
    if not harmless or dangerous:
        raise Refused("0A000", f"function {name}() has effects: it cannot be subscribed to")


def dependence(function: Function) -> Dependence:
    name = function.name
    if function.is_foreign:
        return Dependence.NOTHING if function.volatility == "i" else Dependence.UNLOGGED
    if name in _UNSTEADY:
        return Dependence.UNSTEADY
    if name in _CLOCK:
        return Dependence.CLOCK
    # age(timestamp) counts from the current date.
    if name == "age" and function.volatility == "s":
        return Dependence.CLOCK
    by_setting = name in _BY_SETTING or "_timestamptz" in name or name.startswith("timestamptz_")
    return Dependence.NOTHING if function.volatility == "i" or by_setting else Dependence.UNLOGGED
