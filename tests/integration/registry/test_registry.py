"""The registry on a real broker: batches, restarts, hand-overs, leases."""

from proto.topics import QUERIES, SUBSCRIPTIONS
from tests.fixtures.waiting import wait_until


def crowd(gateway, count, queries=20):
    """Many clients at once, each with a few subscriptions to one of a few queries."""
    ids = [
        gateway.subscribe(f"SELECT a FROM t WHERE b = {number % queries}", owner=str(number // 10))
        for number in range(count)
    ]
    gateway.flush()
    return ids


def test_500_subscribes_at_once_are_written_in_batches(bench):
    bench.registry().wait_ready()
    ids = crowd(bench.gateway(), 500)
    bench.wait_for_subscriptions(ids)
    queries = bench.queries()
    assert (len(queries), len({query.template_id for query in queries.values()})) == (20, 1)
    assert {one.request_id for query in queries.values() for one in query.snapshots} == set(ids)
    assert len(bench.written(QUERIES)) < len(ids) / 2
    assert len(bench.written(SUBSCRIPTIONS)) == len(ids)


def test_kill_9_at_any_point_and_a_new_start_lose_nothing(bench):
    first, gateway = bench.registry(subscribes_per_s=1000).wait_ready(), bench.gateway()
    ids = crowd(gateway, 200)
    wait_until(bench.subscriptions, "nothing was written")
    first.kill()
    ids += crowd(gateway, 200)
    bench.registry(subscribes_per_s=1000, owner_limit=41)
    bench.wait_for_subscriptions(ids)
    # What is restored counts: both crowds had the same owners, 20 subscriptions each.
    for _ in range(21):
        ids.append(gateway.subscribe("SELECT a FROM t WHERE b = 1", owner="0"))
    refused = gateway.subscribe("SELECT a FROM t WHERE b = 1", owner="0")
    gateway.unsubscribe(ids.pop(0))
    gateway.flush()
    bench.wait_for_subscriptions(ids)
    words = [one.refused for _, one in bench.written(SUBSCRIPTIONS) if one and one.subscription_id == refused]
    assert [one.message for one in words] == ["Connection limit exceeded: 41 subscriptions (max: 41)"]


def test_a_registry_that_slept_leaves_what_its_successor_wrote(bench):
    first, gateway = bench.registry(subscribes_per_s=1000).wait_ready(), bench.gateway()
    ids = crowd(gateway, 100)
    wait_until(bench.subscriptions, "nothing was written")
    first.freeze()
    ids += crowd(gateway, 100)
    second = bench.registry(subscribes_per_s=1000).wait_ready()
    bench.wait_for_subscriptions(ids)
    for one in ids[:150]:
        gateway.unsubscribe(one)
    gateway.flush()
    bench.wait_for_subscriptions(ids[150:])
    first.wake()
    ids += crowd(gateway, 20)
    bench.wait_for_subscriptions(ids[150:])
    # In good order the other one takes over at once, with all that there is.
    wait_until(lambda: not (first.ready and second.ready), "both think that they own the commands")
    (second if second.ready else first).stop()
    ids += crowd(gateway, 20)
    bench.wait_for_subscriptions(ids[150:])


def test_the_subscriptions_of_a_gateway_that_died_end_and_it_is_told(bench):
    registry = bench.registry(lease_check_s=0.3).wait_ready()
    living, dead = bench.gateway("living"), bench.gateway("dead")
    kept = living.subscribe("SELECT 1", lease_ms=60_000)
    dead.subscribe("SELECT 2", lease_ms=2_000)
    for gateway in (living, dead):
        gateway.flush()

    def ended():
        living.renew()
        living.flush()
        return [one.refused for _, one in bench.written(SUBSCRIPTIONS) if one and one.HasField("refused")]

    (told,) = wait_until(ended, registry.tail)
    assert told.message == "Subscription ended: its lease was not renewed"
    bench.wait_for_subscriptions([kept])


def test_commands_without_the_seal_are_dropped_and_counted(bench):
    registry, gateway = bench.registry().wait_ready(), bench.gateway()
    forged = gateway.forge("SELECT a FROM t", role="postgres")
    good = gateway.subscribe("SELECT a FROM t")
    gateway.flush()
    bench.wait_for_subscriptions([good])
    assert forged not in bench.subscriptions()
    assert "command_dropped" in registry.tail()
