"""The command line of `tidewire`."""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from psycopg.conninfo import conninfo_to_dict
from tidewire.cdc import Cdc
from tidewire.topics import Topics

from services.chassis.kafka import Kafka
from services.chassis.postgres import Postgres
from services.chassis.run import exit_code
from services.chassis.settings import BadSetting, load
from services.cli import cdc, check, doctor, install, notify, tail, topic, topics, uninstall, watch
from services.retention import __main__ as retention
from services.retention.settings import Settings as RetentionSettings

ENDPOINTS = Path(".tidewire") / "endpoints.json"
START_HELP = "the log's beginning, only what comes from now on (default), or the change with this seq"
# Of the command line only: a gateway does not know it.
GATEWAY = "GATEWAY_DSN"
GATEWAY_URL, GATEWAY_TOKEN = "GATEWAY_URL", "GATEWAY_TOKEN"
# Of `tidewire install` only: an argument would show it to every user of the machine.
PASSWORD = "SERVICES_PASSWORD"
CHECKOUT = Path(__file__).parents[2]


class KafkaOnly(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kafka: Kafka


class PostgresOnly(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    postgres: Postgres


def main() -> None:
    sys.exit(run(sys.argv[1:], os.environ))


def run(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Carry out one command; returns the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        code = int(arguments.run(arguments, _environment(environ)))
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        # The reader of our output has gone, as `head` does; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        planned = exit_code(error)
        if planned is None:
            raise
        print(f"tidewire: {error}", file=sys.stderr)
        code = planned
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tidewire",
        description="Look at a Tidewire and at the database that it watches.",
        epilog="Addresses come from TIDEWIRE_KAFKA_*, TIDEWIRE_POSTGRES_DSN, GATEWAY_DSN and GATEWAY_URL, else from a "
        "stack started by `make up` in this folder, one above, or the checkout that the command was installed from.",
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    tail_parser = commands.add_parser("tail", help="print the committed changes as they come")
    tail_parser.add_argument(
        "--from", dest="start", default="latest", type=_start, metavar="earliest|latest|SEQ", help=START_HELP
    )
    tail_parser.add_argument("--exit-at-end", action="store_true", help="stop at what is now the end of the log")
    tail_parser.add_argument("--json", action="store_true", help="a JSON object a change; notes go to standard error")
    tail_parser.set_defaults(run=_tail)

    watch_parser = commands.add_parser("watch", help="show the live result of a query")
    watch_parser.add_argument("sql", metavar="SELECT", help="the query; $1 … are given by --param")
    watch_parser.add_argument("--dsn", help="connection string of a gateway; default: GATEWAY_DSN, or the stack's")
    watch_parser.add_argument("--param", action="append", default=[], metavar="VALUE", help="$1, $2, … in their order")
    watch_parser.add_argument("--filter", metavar="CONDITION", help="over the columns of the result, as after WHERE")
    watch_parser.add_argument("--once", action="store_true", help="print the first result and exit")
    watch_parser.add_argument("--for", dest="for_s", type=float, metavar="SECONDS", help="exit after this time")
    watch_parser.add_argument("--json", action="store_true", help="a JSON object a change, the first result first")
    watch_parser.set_defaults(run=_watch)

    cdc_parser = commands.add_parser("cdc", help="the CDC door")
    cdc_commands = cdc_parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    cdc_tail = cdc_commands.add_parser("tail", help="print a table's events, and ack them")
    cdc_tail.add_argument("table", help="a name on the search path, or schema.name")
    cdc_tail.add_argument("--db", help="the database; default: that of the stack")
    cdc_tail.add_argument("--sub", metavar="SUB_ID", help="go on with this subscription instead of making one")
    cdc_tail.add_argument("--events", type=int, metavar="N", help="exit after so many")
    cdc_tail.add_argument("--json", action="store_true", help="each event as the door gives it")
    cdc_tail.set_defaults(run=_cdc_tail)
    notify_parser = commands.add_parser("notify", help="the NOTIFY door")
    notify_commands = notify_parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    notify_tail = notify_commands.add_parser("tail", help="print the messages of a registered query")
    notify_tail.add_argument("query_id", help="as it was given to pgr.subscribe")
    notify_tail.add_argument("--messages", type=int, metavar="N", help="exit after so many, the welcome counted")
    notify_tail.set_defaults(run=_notify_tail)

    topic.add_parsers(commands, ls=_topic_ls, tail=_topic_tail, reset=_topic_reset)

    explain_parser = commands.add_parser("explain", help="say how a query would be kept, and why not more cheaply")
    explain_parser.add_argument("sql", metavar="SELECT", help="the query; $1 … are given by --param")
    explain_parser.add_argument("--dsn", help="connection string of a gateway or of PostgreSQL; default: as for watch")
    explain_parser.add_argument("--param", action="append", default=[], metavar="VALUE", help="$1, $2, … in order")
    explain_parser.add_argument("--filter", default="", metavar="CONDITION", help="over the columns of the result")
    explain_parser.add_argument("--role", help="the subscriber's role (default: your own)")
    explain_parser.add_argument("--search-path", metavar="SCHEMA,…", help="the subscriber's (default: your own)")
    explain_parser.add_argument(
        "--setting", action="append", default=[], type=_pair, metavar="NAME=VALUE", help="of the subscriber's session"
    )
    explain_parser.set_defaults(run=_explain)

    retention_parser = commands.add_parser("retention", help="say what retention would trim now, and trim nothing")
    retention_parser.set_defaults(run=_retention)

    doctor_parser = commands.add_parser("doctor", help="check a database and say what to do")
    doctor_parser.add_argument("--dsn", help="connection string; default: the database of the settings")
    doctor_parser.add_argument("--json", action="store_true")
    doctor_parser.set_defaults(run=_doctor)

    install_parser = commands.add_parser("install", help="as a superuser, once, so that no service needs to be one")
    install_parser.add_argument("--dsn", help="connection string; default: the database of the settings")
    for duty in install.Duty:
        words = f"the role of {duty.value}, which gets the rights it needs; made if {PASSWORD} is set"
        install_parser.add_argument(f"--{duty.value}", metavar="ROLE", help=words)
    install_parser.set_defaults(run=_install)

    topics_parser = commands.add_parser("topics", help="create the topics that are missing in Kafka, and list all")
    topics_parser.set_defaults(run=_topics)

    check_parser = commands.add_parser("check", help="subscribe to a table of its own, insert, and wait for the delta")
    check_parser.add_argument("--dsn", help="connection string of a gateway; default: GATEWAY_DSN, or the stack's")
    check_parser.add_argument("--within", type=float, default=60.0, metavar="SECONDS", help="how long it may take (60)")
    check_parser.set_defaults(run=_check)

    uninstall_parser = commands.add_parser("uninstall", help="take everything of Tidewire out of a database")
    uninstall_parser.add_argument("--dsn", help="connection string; default: the database of the settings")
    uninstall_parser.add_argument("--slot", default="tidewire", help="the replication slot to drop (default: tidewire)")
    uninstall_parser.set_defaults(run=_uninstall)
    return parser


def _start(text: str) -> str:
    if text in ("earliest", "latest") or text.isdecimal():
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is none of earliest, latest, a seq")


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _environment(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The environment, with the addresses of the running stack where it names none."""
    endpoints: dict[str, Any] = {}
    candidates = [folder / ENDPOINTS for folder in (Path.cwd(), *Path.cwd().parents, CHECKOUT)]
    if "TIDEWIRE_DEVSTACK_HOME" in environ:
        candidates = [Path(environ["TIDEWIRE_DEVSTACK_HOME"]) / ENDPOINTS.name]
    for path in candidates:
        if path.is_file():
            endpoints = json.loads(path.read_text())
            break
    found = {
        "TIDEWIRE_KAFKA_BOOTSTRAP": endpoints.get("kafka"),
        "TIDEWIRE_KAFKA_TOPIC_PREFIX": endpoints.get("kafka_topic_prefix"),
        "TIDEWIRE_POSTGRES_DSN": endpoints.get("postgres"),
        "TIDEWIRE_REDIS_URL": endpoints.get("redis"),
        GATEWAY: endpoints.get("gateway_pg"),
        GATEWAY_URL: endpoints.get("gateway_http"),
        GATEWAY_TOKEN: endpoints.get("admin_token"),
    }
    return {**{name: value for name, value in found.items() if value}, **environ}


def _tail(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    kafka = load(KafkaOnly, environ).kafka
    colour = sys.stdout.isatty() and "NO_COLOR" not in environ
    return tail.run(
        kafka, start=arguments.start, exit_at_end=arguments.exit_at_end, as_json=arguments.json, colour=colour
    )


def _topics(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    return topics.run(load(KafkaOnly, environ).kafka)


def _check(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    return check.run(_gateway(arguments, environ), within_s=arguments.within)


def _gateway(arguments: argparse.Namespace, environ: Mapping[str, str]) -> str:
    dsn: str | None = arguments.dsn or environ.get(GATEWAY)
    if not dsn:
        raise BadSetting(f"no gateway is known: pass --dsn, set {GATEWAY}, or run `make up` first")
    return dsn


def _watch(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    dsn = _gateway(arguments, environ)
    wanted = watch.Watched(
        sql=arguments.sql,
        parameters=tuple(arguments.param),
        filter=arguments.filter,
        once=arguments.once,
        for_s=arguments.for_s,
    )
    return watch.run(dsn, wanted, json=arguments.json, colour=sys.stdout.isatty() and "NO_COLOR" not in environ)


def _cdc_tail(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    url, token = environ.get(GATEWAY_URL), environ.get(GATEWAY_TOKEN)
    if not url or not token:
        raise BadSetting(f"no gateway is known: set {GATEWAY_URL} and {GATEWAY_TOKEN}, or run `make up` first")
    database = arguments.db or conninfo_to_dict(environ.get("TIDEWIRE_POSTGRES_DSN", "")).get("dbname")
    if not database:
        raise BadSetting("no database is known: pass --db")
    door = Cdc(url, token=token)
    wanted = arguments.events
    return cdc.run(door, str(database), arguments.table, sub_id=arguments.sub, most=wanted, as_json=arguments.json)


def _topic_ls(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    return topic.ls(_gateway(arguments, environ), _topics_door(environ), as_json=arguments.json)


def _topic_tail(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    return topic.tail(_topics_door(environ), arguments)


def _topic_reset(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    door = _topics_door(environ)
    return topic.reset(door, arguments.topic, arguments.group, arguments.to, arguments.partition)


def _topics_door(environ: Mapping[str, str]) -> Topics:
    url, token = environ.get(GATEWAY_URL), environ.get(GATEWAY_TOKEN)
    if not url or not token:
        raise BadSetting(f"no gateway is known: set {GATEWAY_URL} and {GATEWAY_TOKEN}, or run `make up` first")
    return Topics(url, token=token)


def _notify_tail(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    url, token = environ.get(GATEWAY_URL), environ.get(GATEWAY_TOKEN)
    if not url or not token:
        raise BadSetting(f"no gateway is known: set {GATEWAY_URL} and {GATEWAY_TOKEN}, or run `make up` first")
    return notify.tail(url, arguments.query_id, token, limit=arguments.messages)


def _explain(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    # Planning brings a SQL parser and Arrow's types, which no other command waits for.
    try:
        from services.cli import explain
        from services.recompute.tools.explain import Explained
    except ModuleNotFoundError as error:
        raise BadSetting(f"{error.name} is not installed: `pip install 'tidewire[explain]'` brings it") from error

    # A gateway passes ordinary SQL on to PostgreSQL, so that whoever can watch a query can have it explained.
    postgres = _postgres(arguments.dsn or environ.get(GATEWAY), environ)
    asked = Explained(
        sql=arguments.sql,
        parameters=tuple(arguments.param),
        filter=arguments.filter,
        role=arguments.role,
        search_path=tuple(arguments.search_path.split(",")) if arguments.search_path else None,
        settings=dict(arguments.setting),
    )
    return explain.run(postgres, asked)


def _retention(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    wanted = ("TIDEWIRE_KAFKA_", "TIDEWIRE_REDIS_", "TIDEWIRE_RETENTION_")
    settings = {name: value for name, value in environ.items() if name.startswith(wanted)}
    retention.main(load(RetentionSettings, settings), is_dry=True)
    return 0


def _doctor(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    return doctor.run(_postgres(arguments.dsn, environ).dsn, arguments.json)


def _install(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    chosen = {duty: role for duty in install.Duty if (role := getattr(arguments, duty.value))}
    return install.run(_postgres(arguments.dsn, environ).dsn, chosen, environ.get(PASSWORD))


def _uninstall(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    return uninstall.run(_postgres(arguments.dsn, environ).dsn, arguments.slot)


def _postgres(dsn: str | None, environ: Mapping[str, str]) -> Postgres:
    """The [postgres] section, with this connection string instead of its own if one is given."""
    try:
        if dsn:
            Postgres(dsn=dsn)
        return load(PostgresOnly, {**environ, "TIDEWIRE_POSTGRES_DSN": dsn} if dsn else environ).postgres
    except ValueError as error:
        raise BadSetting("--dsn is not a connection string: write postgresql://user@host:port/database") from error
    except BadSetting as error:
        raise BadSetting(f"{error}, or pass --dsn, or run `make up` first") from error


if __name__ == "__main__":
    main()
