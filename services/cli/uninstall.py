"""`tidewire uninstall`: leaves a database as if it had never been watched."""

from rich.console import Console

from services.capture.outbound.watch_removal import uninstall
from services.chassis.postgres import Postgres, connect


def run(dsn: str, slot: str) -> int:
    """Take everything of Tidewire out and print what was done."""
    console = Console(highlight=False)
    with connect(Postgres(dsn=dsn), application_name="tidewire uninstall") as connection:
        done = uninstall(connection, slot)
    for sentence in done:
        console.print(f"[green]✓[/] {sentence}" if console.is_terminal else sentence, soft_wrap=True)
    console.print(f"{len(done)} things undone." if done else "Nothing of Tidewire is in this database.")
    return 0
