"""`tidewire topics`: the topics as they are declared, made before any service needs them."""

from rich.console import Console

from proto.topics import FLOW
from services.chassis.kafka import Kafka, ensure_topics


def run(kafka: Kafka) -> int:
    """Create what is missing, and list all; a topic that is not as declared is refused with a sentence."""
    ensure_topics(kafka, FLOW, timeout_s=60.0)
    console = Console(highlight=False)
    for topic in FLOW:
        console.print(f"{kafka.broker_name(topic.name)}: {topic.partitions} partitions", soft_wrap=True)
    return 0
