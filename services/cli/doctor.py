"""`tidewire doctor`: what a database lacks for being watched, what watching costs, and what to do."""

import sys

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from services.chassis.postgres import Postgres, connect
from services.cli.doctor_server import Finding, Level, examine_server
from services.cli.doctor_tables import TableFinding, examine_tables

_SIGNS = {Level.OK: "[green]✓[/]", Level.NOTE: "[yellow]![/]", Level.MUST: "[red]✗[/]"}
# A screen is for reading: the JSON form has every table.
_SHOWN_TABLES = 40


def run(dsn: str, as_json: bool) -> int:
    """Examine and print; 1 if something must be fixed."""
    with connect(Postgres(dsn=dsn), application_name="tidewire doctor") as connection:
        findings = examine_server(connection)
        tables = examine_tables(connection)
    if as_json:
        report = {"findings": findings, "tables": tables}
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(report)).decode() + "\n")
    else:
        _print(findings, tables)
    return 1 if any(finding.level is Level.MUST for finding in findings) else 0


def _print(findings: list[Finding], tables: list[TableFinding]) -> None:
    console = Console(highlight=False)
    console.print(_server_table(findings))
    worth_showing = [table for table in tables if table.level is not Level.OK]
    if worth_showing:
        console.print(_tables_table(worth_showing[:_SHOWN_TABLES]))
    if len(worth_showing) > _SHOWN_TABLES:
        console.print(f"… and {len(worth_showing) - _SHOWN_TABLES} more: `tidewire doctor --json` has them all.")
    console.print(
        f"{len(tables)} tables, {len(tables) - len(worth_showing)} of them captured by their keys at no extra cost."
    )
    wanting = sum(finding.level is Level.MUST for finding in findings)
    if wanting:
        console.print(f"[red]{wanting} of these must be fixed before Tidewire can watch this database.[/]")
    else:
        console.print("[green]This database can be watched.[/]")


def _server_table(findings: list[Finding]) -> Table:
    grid = Table("", "what", "found", "what to do", title="the server and the role", title_justify="left")
    for finding in findings:
        grid.add_row(_SIGNS[finding.level], *map(escape, (finding.subject, finding.found, finding.remedy)))
    return grid


def _tables_table(tables: list[TableFinding]) -> Table:
    grid = Table("", "table", "identity", "cost", "found", "what to do", title="tables", title_justify="left")
    for table in tables:
        cells = (table.table, table.identity, table.cost, table.found, table.remedy)
        grid.add_row(_SIGNS[table.level], *map(escape, cells))
    return grid
