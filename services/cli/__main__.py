"""The command line of `tidewire`."""

import argparse
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from services.chassis.kafka import Kafka
from services.chassis.postgres import Postgres
from services.chassis.run import exit_code
from services.chassis.settings import BadSetting, load
from services.cli import doctor, tail, uninstall, watch

ENDPOINTS = Path(".tidewire") / "endpoints.json"
START_HELP = "the log's beginning, only what comes from now on (default), or the change with this seq"
# Of the command line only: a gateway does not know it.
GATEWAY = "GATEWAY_DSN"
CHECKOUT = Path(__file__).parents[2]


class KafkaOnly(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kafka: Kafka


class PostgresOnly(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    postgres: Postgres


def main() -> None:
    arguments = _parser().parse_args()
    try:
        code = arguments.run(arguments, _environment(os.environ))
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
    sys.exit(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tidewire",
        description="Look at a Tidewire and at the database that it watches.",
        epilog="Addresses come from TIDEWIRE_KAFKA_*, TIDEWIRE_POSTGRES_DSN and GATEWAY_DSN, else from a "
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

    doctor_parser = commands.add_parser("doctor", help="check a database and say what to do")
    doctor_parser.add_argument("--dsn", help="connection string; default: the database of the settings")
    doctor_parser.add_argument("--json", action="store_true")
    doctor_parser.set_defaults(run=_doctor)

    uninstall_parser = commands.add_parser("uninstall", help="take everything of Tidewire out of a database")
    uninstall_parser.add_argument("--dsn", help="connection string; default: the database of the settings")
    uninstall_parser.add_argument("--slot", default="tidewire", help="the replication slot to drop (default: tidewire)")
    uninstall_parser.set_defaults(run=_uninstall)
    return parser


def _start(text: str) -> str:
    if text in ("earliest", "latest") or text.isdecimal():
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is none of earliest, latest, a seq")


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
        "TIDEWIRE_POSTGRES_DSN": endpoints.get("postgres"),
        GATEWAY: endpoints.get("gateway_pg"),
    }
    return {**{name: value for name, value in found.items() if value}, **environ}


def _tail(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    kafka = load(KafkaOnly, environ).kafka
    colour = sys.stdout.isatty() and "NO_COLOR" not in environ
    return tail.run(
        kafka, start=arguments.start, exit_at_end=arguments.exit_at_end, as_json=arguments.json, colour=colour
    )


def _watch(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    dsn = arguments.dsn or environ.get(GATEWAY)
    if not dsn:
        raise BadSetting(f"no gateway is known: pass --dsn, set {GATEWAY}, or run `make up` first")
    wanted = watch.Watched(
        sql=arguments.sql,
        parameters=tuple(arguments.param),
        filter=arguments.filter,
        once=arguments.once,
        for_s=arguments.for_s,
    )
    return watch.run(dsn, wanted, json=arguments.json, colour=sys.stdout.isatty() and "NO_COLOR" not in environ)


def _doctor(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    return doctor.run(_dsn(arguments, environ), arguments.json)


def _uninstall(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    return uninstall.run(_dsn(arguments, environ), arguments.slot)


def _dsn(arguments: argparse.Namespace, environ: Mapping[str, str]) -> str:
    try:
        if arguments.dsn:
            return Postgres(dsn=str(arguments.dsn)).dsn
        return load(PostgresOnly, environ).postgres.dsn
    except ValueError as error:
        raise BadSetting("--dsn is not a connection string: write postgresql://user@host:port/database") from error
    except BadSetting as error:
        raise BadSetting(f"{error}, or pass --dsn, or run `make up` first") from error


if __name__ == "__main__":
    main()
