"""A time limit for the Spark work of one thread: jobs are cancelled, and threads that ignore that are stopped.

Spark's cancel only raises a flag. A task looks at it between rows of its first input, so a nested loop or a regular
expression goes on for hours and keeps its slot (tried: 4-fold joins over 2,000 rows). Such a task thread, and a driver
thread that is stuck in the optimiser, gets an exception thrown into it, which the JVM does at its next safepoint. That
needs a method that JDK 17 has and later ones may not: without it the process ends, and starts again without the query.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

from services.recompute.outbound.spark.session import Spark

# A cancelled task that checks the flag ends within this time, on a busy machine too.
GRACE_S = 1.0
# Work that has not ended after this time never will: only a new process helps.
STUCK_S = 15.0
LOOK_EVERY_S = 0.05
# The part of its limit that a job must have had as time of a processor, and how often the limit it may wait for that.
SHARE, STARVED = 0.5, 4.0
THROW_EVERY_S = 2.0
CLOSE_FRAMES = 8
_TASK = "Executor task launch worker for task "
# Whoever loads or links a class is not stuck, and what is thrown there ends as an error of the whole JVM.
_LINKING = ("java.lang.invoke.", "java.lang.ClassLoader", "java.lang.Class", "jdk.internal.")
_COMPUTING = ("org.apache.spark", "tidewire.")
_numbers = count()


class Overdue(Exception):
    """The work was ended, at its limit or because nobody wants it any more."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"it took longer than {limit_s:g} s")
        self.limit_s = limit_s


class Watch:
    """One piece of work under a limit; `end` ends it before its time."""

    def __init__(self, limit_s: float, cpu_s: Callable[[], float | None]) -> None:
        self.limit_s, self._cpu_s = limit_s, cpu_s
        self.is_ending = False
        self._wake, self.finished = threading.Event(), threading.Event()

    def end(self) -> None:
        self._wake.set()

    def wait(self) -> bool:
        """Whether it is to be ended: its time is over, or `end` was called; false if it finished before."""
        began_s, cpu_before_s = time.monotonic(), self._cpu_s()
        is_woken = self._wake.wait(self.limit_s)
        # On a machine that has no time for it, a job is not late before it had its time, within reason.
        while not is_woken and time.monotonic() - began_s < STARVED * self.limit_s:
            cpu_now_s = self._cpu_s()
            if cpu_before_s is None or cpu_now_s is None or cpu_now_s - cpu_before_s >= SHARE * self.limit_s:
                break
            is_woken = self._wake.wait(LOOK_EVERY_S)
        self.is_ending = not self.finished.is_set()
        return self.is_ending

    def done(self) -> None:
        self.finished.set()
        self._wake.set()


class Deadlines:
    """For the jobs of one Python thread, to which PySpark gives a JVM thread of its own."""

    def __init__(
        self,
        spark: Spark,
        *,
        on_stuck: Callable[[str], None],
        stuck_s: float = STUCK_S,
        throw: Callable[[Any, Any], None] | None = None,
    ) -> None:
        self._spark, self._on_stuck, self._stuck_s = spark, on_stuck, stuck_s
        self._throw = throw_in_thread if throw is None else throw
        self._tag = f"tidewire-{next(_numbers)}"
        self._driver_thread: Any = None
        self._watch: Watch | None = None

    @contextmanager
    def within(self, limit_s: float) -> Iterator[None]:
        """Raises Overdue if the limit is passed; nothing of the work runs any more by then."""
        context: Any = self._spark.session.sparkContext
        if self._driver_thread is None:
            context.addJobTag(self._tag)
            self._driver_thread = context._jvm.java.lang.Thread.currentThread()
        watch = self._watch = Watch(limit_s, self._spark.cpu_s)
        guard = threading.Thread(target=self._guard, args=(watch,), name="deadline", daemon=True)
        guard.start()
        try:
            yield
        except Exception as error:
            if watch.is_ending:
                raise Overdue(limit_s) from error
            raise
        finally:
            watch.done()
            self._watch = None
            if watch.is_ending:
                guard.join()
                # A thread that an exception was thrown at counts as interrupted until it is asked.
                context._jvm.java.lang.Thread.interrupted()

    def end(self) -> None:
        """End what is under way now; may be called from any thread."""
        watch = self._watch
        if watch is not None:
            watch.end()

    def _guard(self, watch: Watch) -> None:
        if not watch.wait():
            return
        began_s, stages, context = time.monotonic(), set[int](), self._spark.session.sparkContext
        # One exception is enough for a thread; a second one would hit it in the middle of telling of the first.
        next_throw_s = GRACE_S
        while True:
            stages |= self._stages(context)
            if not watch.finished.is_set():
                context.cancelJobsWithTag(self._tag)
            tasks = _tasks(context, stages)
            if watch.finished.is_set() and not tasks:
                return
            passed_s = time.monotonic() - began_s
            if passed_s > self._stuck_s:
                self._on_stuck(f"a job of Spark could not be ended within {self._stuck_s:g} s")
                return
            if passed_s > next_throw_s:
                next_throw_s = passed_s + THROW_EVERY_S
                stuck = [task for task in tasks if _is_stuck(task)]
                if not watch.finished.is_set() and not tasks and _is_stuck(self._driver_thread):
                    stuck.append(self._driver_thread)
                for thread in stuck:
                    with suppress(Exception):  # what does not end by that is stuck, and that is told
                        self._throw(context, thread)
                if not stuck:
                    next_throw_s = passed_s
            watch.finished.wait(LOOK_EVERY_S) if not watch.finished.is_set() else time.sleep(LOOK_EVERY_S)

    def _stages(self, context: Any) -> set[int]:
        tracker = context._jsc.sc().statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForTag(self._tag)]
        return {stage for job in jobs if job.isDefined() for stage in job.get().stageIds()}


def _tasks(context: Any, stages: set[int]) -> list[Any]:
    """The JVM's threads that run tasks of these stages."""
    if not stages:
        return []
    marks = tuple(f" in stage {stage}." for stage in stages)
    threads = context._jvm.java.lang.Thread.getAllStackTraces().keySet()
    return [thread for thread in threads if _TASK in (name := thread.getName()) and any(one in name for one in marks)]


def _is_stuck(thread: Any) -> bool:
    """Whether it computes for Spark, or for the incremental operators, at this moment."""
    frames = [str(frame.getClassName()) for frame in thread.getStackTrace()]
    is_linking = any(frame.startswith(_LINKING) for frame in frames[:CLOSE_FRAMES])
    return not is_linking and any(frame.startswith(_COMPUTING) for frame in frames)


def throw_in_thread(context: Any, thread: Any) -> None:
    """Throw TaskKilledException in the thread. Java's own Thread.stop would throw what ends the whole JVM."""
    jvm, gateway = context._jvm, context._gateway
    types = gateway.new_array(jvm.java.lang.Class, 1)
    types[0] = jvm.java.lang.Class.forName("java.lang.Object")
    given = gateway.new_array(jvm.java.lang.Object, 1)
    given[0] = jvm.org.apache.spark.TaskKilledException("its time is over")
    stop = jvm.java.lang.Class.forName("java.lang.Thread").getDeclaredMethod("stop0", types)
    stop.setAccessible(True)
    stop.invoke(thread, given)
