package tidewire;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection$;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.StructType;

/** The rows of a table, once for all templates: by key, since the log names an old row by its key alone. */
final class HeldTable {
  final StructType columns;
  private final UnsafeProjection keyOf;
  private final UnsafeProjection copied;
  private final Map<UnsafeRow, UnsafeRow> byKey = new HashMap<>();
  private final Map<UnsafeRow, Integer> bag = new HashMap<>();
  private long bytes;

  /** `key`: the places of the key's columns; none: the same row may be there more than once. */
  HeldTable(StructType columns, int[] key) {
    this.columns = columns;
    copied = UnsafeProjection$.MODULE$.create(columns);
    List<Expression> parts = new ArrayList<>();
    for (int place : key) {
      parts.add(new BoundReference(place, columns.fields()[place].dataType(), true));
    }
    keyOf = parts.isEmpty() ? null : UnsafeProjection$.MODULE$.createInterpretedObject(Code.sequence(parts));
  }

  void load(scala.collection.Iterator<InternalRow> rows, long mostBytes) {
    while (rows.hasNext()) {
      InternalRow row = rows.next();
      put(row instanceof UnsafeRow is ? is : Code.row(copied, row), 1);
      if (bytes > mostBytes) {
        throw new Refused("[recompute] incremental_mb is reached");
      }
    }
  }

  /** The change of the rows: `keys` have the rows that came, or none; a table without a key has signed rows. */
  Delta change(List<UnsafeRow> keys, Delta came, boolean isEmptied) {
    Delta out = new Delta();
    if (isEmptied) {
      Delta gone = all();
      for (int at = 0; at < gone.size(); at++) {
        out.add(gone.row(at), -gone.weight(at));
      }
      byKey.clear();
      bag.clear();
      bytes = 0;
    }
    for (UnsafeRow key : keys) {
      UnsafeRow old = byKey.remove(key);
      if (old != null) {
        bytes -= Code.bytes(old) + key.getSizeInBytes() + 48;
        out.add(old, -1);
      }
    }
    for (int at = 0; at < came.size(); at++) {
      put(came.row(at), came.weight(at));
      out.add(came.row(at), came.weight(at));
    }
    return out.net();
  }

  private void put(UnsafeRow row, int weight) {
    if (keyOf == null) {
      int before = bag.size();
      Integer left = bag.merge(row, weight, (one, other) -> one + other == 0 ? null : one + other);
      bytes += (bag.size() - before) * Code.bytes(row);
      if (left != null && left < 0) {
        throw new Refused("a row went that is not in the table");
      }
      return;
    }
    UnsafeRow key = Code.row(keyOf, row);
    if (byKey.put(key, row) != null) {
      throw new Refused("two rows of a table with one key");
    }
    bytes += Code.bytes(row) + key.getSizeInBytes() + 48;
  }

  Delta all() {
    Delta out = new Delta();
    byKey.values().forEach(row -> out.add(row, 1));
    bag.forEach(out::add);
    return out;
  }

  long bytes() {
    return bytes;
  }
}
