package tidewire;

import java.util.Map;

/** The changed rows of one tick by table; PARAMETERS are those of the template's tuples. */
final class Tick {
  static final long PARAMETERS = -1;
  /** A tick that compares more pairs is no small change: Spark's jobs, which have a deadline, do it instead. */
  static final long MOST_PAIRS = 20_000_000;

  final boolean isFirst;
  private final Map<Long, Delta> changes;
  private long pairs;

  Tick(Map<Long, Delta> changes, boolean isFirst) {
    this.changes = changes;
    this.isFirst = isFirst;
  }

  Delta changes(long table) {
    return changes.getOrDefault(table, Delta.NOTHING);
  }

  void spend(long count) {
    pairs += count;
    if (pairs > MOST_PAIRS) {
      throw new Refused("more than " + MOST_PAIRS + " pairs of rows in one tick");
    }
  }
}
