"""`tidewire explain`: how a query would be kept: tables, strategy, why no cheaper one, and what Spark would run."""

from services.chassis.postgres import Postgres
from services.recompute.tools.explain import Explained, explain
from services.sqlguard.refusal import Refused


def run(postgres: Postgres, asked: Explained) -> int:
    """Print the explanation; 1 for a query that cannot be subscribed to."""
    try:
        explanation = explain(postgres, asked)
    except Refused as refused:
        print(f"refused: {refused.message} (SQLSTATE {refused.sqlstate})")
        return 1
    print("\n".join(explanation))
    return 0
