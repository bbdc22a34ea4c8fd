package tidewire;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/** The operators of one template, and the changes that came while their first state was being made. */
final class Template {
  /** So many changed rows while it is built cost more memory than a build that begins later. */
  static final int MOST_WAITING = 200_000;

  final Operator root;
  final Set<Long> tables;
  private Map<Long, Delta> first = new HashMap<>();
  private final List<Map<Long, Delta>> waiting = new ArrayList<>();
  private final boolean isPlace;
  private int waitingRows;
  private boolean isBegun;
  private Delta firstRows;
  /** Written by the thread that builds, read by the one that ticks. */
  private volatile boolean isBuilt;
  private boolean isTold;

  Template(Operator root, Set<Long> tables) {
    this.root = root;
    isPlace = root.output.apply(1).dataType() instanceof org.apache.spark.sql.types.LongType;
    this.tables = new HashSet<>(tables);
  }

  /** The rows have in them whatever changed before: only what changes from now on is to be made up for. */
  void begin(Map<Long, Delta> rows) {
    first = rows;
    waiting.clear();
    waitingRows = 0;
    isBegun = true;
  }

  /** Beside the loop: all rows of the tables as one change. */
  void build() {
    firstRows = root.pull(new Tick(first, true)).net();
    first = Map.of();
    isBuilt = true;
  }

  /** What the row is sorted by in the whole result: the bytes that it has, or its place as bytes. */
  byte[] sortKey(UnsafeRow row) {
    return isPlace ? SortKey.ofLong(row.getLong(1)) : row.getBinary(1);
  }

  boolean isFirst() {
    return isBuilt && !isTold;
  }

  /** How the result changes; the first time after it was built, the whole result. */
  Delta tick(Map<Long, Delta> changes) {
    if (!isBegun) {
      return Delta.NOTHING;
    }
    if (!isBuilt) {
      keep(changes);
      return Delta.NOTHING;
    }
    Delta out = new Delta();
    if (!isTold) {
      out.addAll(firstRows);
      firstRows = null;
      isTold = true;
      for (Map<Long, Delta> earlier : waiting) {
        out.addAll(root.pull(new Tick(earlier, false)));
      }
      waiting.clear();
    }
    out.addAll(root.pull(new Tick(changes, false)));
    return out.net();
  }

  private void keep(Map<Long, Delta> changes) {
    Map<Long, Delta> own = new HashMap<>();
    changes.forEach((oid, delta) -> {
      if (tables.contains(oid) || oid == Tick.PARAMETERS) {
        own.put(oid, delta);
      }
    });
    waitingRows += own.values().stream().mapToInt(Delta::size).sum();
    if (waitingRows > MOST_WAITING) {
      throw new Refused("more than " + MOST_WAITING + " rows changed while it was built");
    }
    waiting.add(own);
  }
}
