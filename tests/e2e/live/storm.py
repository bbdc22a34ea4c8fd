"""What befalls clients and services while transactions go on: all of it out of one seed."""

import select
import time
from collections.abc import Callable, Sequence
from random import Random

from tests.e2e.live.scaled_stack import ScaledStack
from tests.e2e.live.subscriber import Subscriber
from tests.e2e.live.subscription import Phase, Subscription
from tests.oracle.dice import Dice

PATIENCE_S = 150.0
VICTIMS = ("gateway", "fanout", "registry", "recompute")
SOMETIMES = ("capture", "gateway-2", "fanout-2")
# One of these stands still for longer than Kafka waits for a member of a group, and then goes on as if nothing were.
FROZEN = ("gateway", "fanout", "fanout-2", "registry", "recompute")
FROZEN_S = 9.0


class Storm:
    """Owns the clients: it reads for them, disturbs them, and kills what they depend on."""

    def __init__(self, stack: ScaledStack, random: Random, *, commits: int) -> None:
        self._stack, self._dice = stack, Dice(random)
        self.clients: list[Subscriber] = []
        self.pulses: list[Subscription] = []
        self.commits = 0
        self.done: list[str] = []
        victims = [*VICTIMS, random.choice(SOMETIMES)]
        random.shuffle(victims)
        places = sorted(random.sample(range(1, max(commits, len(victims) + 1)), len(victims)))
        self._kills = dict(zip(places, victims, strict=True))
        # What is to be killed and what was, and when that is done and undone.
        self._doomed: dict[str, float] = {}
        self._dead: dict[str, float] = {}
        self._freezes_at, self._freezes = random.randrange(1, commits), random.choice(FROZEN)
        self._thaws_s: float | None = None
        self._ends_at = commits

    def add(self, client: Subscriber, pulse: Subscription) -> None:
        self.clients.append(client)
        self.pulses.append(pulse)
        client.want(pulse)

    def after_commit(self, beats: int) -> None:
        """Called when a transaction has committed and PostgreSQL was asked."""
        self.commits += 1
        if self.commits in self._kills:
            # Somewhere on the way of this commit to the clients, or behind it.
            self._doomed[self._kills.pop(self.commits)] = time.monotonic() + self._dice.number(0, 1000) / 1000
        if self.commits == self._freezes_at:
            self._freeze()
        if self.commits + 2 >= self._ends_at:
            self.calm()
        else:
            for _ in range(self._dice.number(1, 4)):
                self._disturb(self._dice.one(self.clients))
        if self._dice.chance(45):
            self.until(lambda: self._pulse_reached(beats), lambda: f"the pulse at {beats}")
        else:
            self.pump(self._dice.number(0, 400) / 1000)

    def calm(self) -> None:
        """Everyone reads and nobody is paused from now on."""
        for client in self.clients:
            if not client.reading:
                client.read_again()
                self._note(f"{client.name} reads again")
        paused = [(client, one) for client in self.clients for one in client.subscriptions if one.paused]
        self.until(lambda: all(one.is_silent or not one.paused for _, one in paused), lambda: "the pauses")
        for client, one in paused:
            if one.paused:
                client.resume(one)

    def bring_back(self) -> None:
        self._doomed.clear()
        if self._thaws_s is not None:
            self._thaw()
        for name in list(self._dead):
            self._start(name)

    def until(self, holds: Callable[[], bool], words: Callable[[], str], within_s: float = PATIENCE_S) -> None:
        deadline_s = time.monotonic() + within_s
        while not holds():
            self.pump(0.05)
            if time.monotonic() > deadline_s:
                raise AssertionError(f"not within {within_s} s: {words()}; {self._silent()}; {self.done}")

    def pump(self, for_s: float) -> None:
        """Let everyone do what it wants for so long."""
        deadline_s = time.monotonic() + for_s
        while True:
            now_s = time.monotonic()
            for name in [name for name, due_s in self._doomed.items() if due_s <= now_s]:
                self._kill(name)
            for name in [name for name, due_s in self._dead.items() if due_s <= now_s]:
                self._start(name)
            if self._thaws_s is not None and self._thaws_s <= now_s:
                self._thaw()
            for client in self.clients:
                client.turn()
            reading = [client for client in self.clients if client.connected and client.reading]
            left_s = max(0.0, min(deadline_s - now_s, 0.05))
            for client in select.select(reading, [], [], left_s)[0]:
                client.read()
            if time.monotonic() >= deadline_s:
                return

    def _disturb(self, client: Subscriber) -> None:
        chosen = self._dice.number(1, 10)
        if not client.connected:
            return
        if not client.reading:
            if chosen <= 5:
                client.read_again()
                self._note(f"{client.name} reads again")
            return
        live = [one for one in client.subscriptions if one.phase is Phase.LIVE and one not in self.pulses]
        if chosen <= 5 and live:
            one = self._dice.one(live)
            if not one.paused:
                self._note(f"{client.name} pauses {one.at}")
                client.pause(one)
            elif one.is_silent:
                self._note(f"{client.name} resumes {one.at}")
                client.resume(one)
        elif chosen == 6 and live:
            one = self._dice.one(live)
            client.begin_anew(one)
            self._note(f"{client.name} begins {one.at} anew")
        elif chosen <= 8:
            client.stop_reading()
            self._note(f"{client.name} stops reading")
        elif chosen == 9:
            client.leave(politely=self._dice.chance(50))
            self._note(f"{client.name} leaves")

    def _kill(self, name: str) -> None:
        del self._doomed[name]
        self._stack.kill(name)
        self._dead[name] = time.monotonic() + self._dice.number(0, 1500) / 1000
        self._note(f"{name} is killed")

    def _freeze(self) -> None:
        self._stack.freeze(self._freezes)
        self._thaws_s = time.monotonic() + FROZEN_S
        self._note(f"{self._freezes} is frozen")

    def _thaw(self) -> None:
        """Of one that was killed meanwhile, the next life does not mind."""
        self._thaws_s = None
        self._stack.thaw(self._freezes)
        self._note(f"{self._freezes} is thawed")

    def _start(self, name: str) -> None:
        del self._dead[name]
        self._stack.start(name)

    def _pulse_reached(self, beats: int) -> bool:
        reached = (str(beats).encode(),)
        attentive = zip(self.clients, self.pulses, strict=True)
        return all(not client.reading or list(pulse.rows) == [reached] for client, pulse in attentive)

    def _silent(self) -> Sequence[str]:
        return [
            f"{client.name}: {one.question.sql[:60]} is {one.phase.value} {one.words} with {list(one.rows)[:3]}"
            for client, pulse in zip(self.clients, self.pulses, strict=True)
            for one in client.subscriptions
            if one is pulse or one.phase is not Phase.LIVE
        ]

    def _note(self, words: str) -> None:
        self.done.append(f"[{self.commits}] {words}")
