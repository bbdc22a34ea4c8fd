package tidewire;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import scala.collection.immutable.Seq;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/**
 * Rows of each partition in their order: those behind `skip` up to `count`, with their ranks or their sort key beside
 * them where these are asked for. All rows are held, so that the next one is at hand when one of the first goes.
 */
final class Ordered extends Operator {
  enum Beside { ROW_NUMBER, RANK, DENSE_RANK, SORT_KEY }

  private static final class Partition {
    final TreeMap<byte[], Map<UnsafeRow, int[]>> rows = new TreeMap<>(Arrays::compareUnsigned);
    List<UnsafeRow> shown = List.of();
  }

  private final Operator input;
  private final UnsafeProjection partitionOf;
  private final SortKey sortKey;
  private final long skip;
  private final long count;
  private final List<Beside> beside;
  private final UnsafeProjection shownAs;
  private final boolean isWhole;
  private final Map<UnsafeRow, Partition> partitions = new HashMap<>();
  private long bytes;

  /** `count` is -1 for all rows. */
  Ordered(
      Operator input,
      List<Expression> partition,
      List<SortOrder> order,
      long skip,
      long count,
      List<Beside> beside,
      Seq<Attribute> output) {
    super(output, input);
    this.input = input;
    this.skip = skip;
    this.count = count;
    this.beside = beside;
    partitionOf = Code.projection(partition, input.output);
    sortKey = new SortKey(order, input.output);
    shownAs = Code.projection(Code.list(output), output);
    isWhole = skip == 0 && count < 0 && beside.stream().allMatch(one -> one == Beside.SORT_KEY);
  }

  @Override
  Delta pull(Tick tick) {
    Delta changed = input.pull(tick).net();
    Delta out = new Delta();
    if (isWhole) {
      for (int at = 0; at < changed.size(); at++) {
        UnsafeRow row = changed.row(at);
        out.add(shown(row, sortKey.of(row), 0, 0, 0), changed.weight(at));
      }
      return out;
    }
    Set<UnsafeRow> touched = new LinkedHashSet<>();
    for (int at = 0; at < changed.size(); at++) {
      UnsafeRow row = changed.row(at);
      UnsafeRow key = Code.row(partitionOf, row);
      touched.add(key);
      change(partitions.computeIfAbsent(key, one -> new Partition()), row, changed.weight(at));
    }
    for (UnsafeRow key : touched) {
      Partition partition = partitions.get(key);
      List<UnsafeRow> now = shownOf(partition, tick);
      partition.shown.forEach(row -> out.add(row, -1));
      now.forEach(row -> out.add(row, 1));
      partition.shown = now;
      if (partition.rows.isEmpty()) {
        partitions.remove(key);
      }
    }
    return out.net();
  }

  private void change(Partition partition, UnsafeRow row, int weight) {
    byte[] key = sortKey.of(row);
    Map<UnsafeRow, int[]> equal = partition.rows.computeIfAbsent(key, one -> new LinkedHashMap<>(2));
    int[] held = equal.get(row);
    if (held == null) {
      held = new int[1];
      equal.put(row, held);
      bytes += Code.bytes(row) + key.length + 128;
    }
    held[0] += weight;
    if (held[0] < 0) {
      throw new Refused("a row went from an order that was not in it");
    }
    if (held[0] == 0) {
      equal.remove(row);
      bytes -= Code.bytes(row) + key.length + 128;
      if (equal.isEmpty()) {
        partition.rows.remove(key);
      }
    }
  }

  private List<UnsafeRow> shownOf(Partition partition, Tick tick) {
    List<UnsafeRow> shown = new ArrayList<>();
    long before = 0;
    int dense = 0;
    long end = count < 0 ? Long.MAX_VALUE : skip + count;
    for (Map.Entry<byte[], Map<UnsafeRow, int[]>> equal : partition.rows.entrySet()) {
      int rank = (int) before + 1;
      dense++;
      for (Map.Entry<UnsafeRow, int[]> row : equal.getValue().entrySet()) {
        for (int copy = 0; copy < row.getValue()[0]; copy++, before++) {
          if (before >= end) {
            tick.spend(shown.size());
            return shown;
          }
          if (before >= skip) {
            shown.add(shown(row.getKey(), equal.getKey(), (int) before + 1, rank, dense));
          }
        }
      }
    }
    tick.spend(shown.size());
    return shown;
  }

  private UnsafeRow shown(UnsafeRow row, byte[] key, int number, int rank, int dense) {
    if (beside.isEmpty()) {
      return row;
    }
    Object[] values = new Object[beside.size()];
    for (int at = 0; at < values.length; at++) {
      values[at] = switch (beside.get(at)) {
        case ROW_NUMBER -> number;
        case RANK -> rank;
        case DENSE_RANK -> dense;
        case SORT_KEY -> key;
      };
    }
    return Code.row(shownAs, new JoinedRow(row, new GenericInternalRow(values)));
  }

  @Override
  long bytes() {
    return bytes;
  }
}
