package tidewire;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import scala.collection.immutable.Seq;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/**
 * A join by equal keys and a further condition. Both sides are held by their keys; where the kind of join asks whether a
 * row has a partner, the row is held with the number of its partners. A key with a NULL has none.
 */
final class Join extends Operator {
  enum Kind { INNER, LEFT, RIGHT, FULL, SEMI, ANTI, EXISTENCE }

  /** A row of one side: how often it is there, and how many rows of the other side belong to it. */
  private static final class Held {
    int count;
    int partners;
    int partnersBefore = -1;
  }

  /** The rows of one side by their keys. */
  private static final class Side {
    final Map<UnsafeRow, Map<UnsafeRow, Held>> byKey = new HashMap<>();
    long bytes;

    Map<UnsafeRow, Held> of(UnsafeRow key) {
      return byKey.getOrDefault(key, Map.of());
    }

    Held change(UnsafeRow key, UnsafeRow row, int weight) {
      Map<UnsafeRow, Held> rows = byKey.computeIfAbsent(key, one -> new LinkedHashMap<>(2));
      Held held = rows.get(row);
      if (held == null) {
        held = new Held();
        rows.put(row, held);
        bytes += Code.bytes(row) + 64;
      }
      held.count += weight;
      if (held.count < 0) {
        throw new Refused("a row went from a join that was not in it");
      }
      if (held.count == 0) {
        rows.remove(row);
        bytes -= Code.bytes(row) + 64;
        if (rows.isEmpty()) {
          byKey.remove(key);
        }
      }
      return held;
    }
  }

  private final Operator left;
  private final Operator right;
  private final Kind kind;
  private final UnsafeProjection leftKey;
  private final UnsafeProjection rightKey;
  private final BasePredicate condition;
  private final UnsafeProjection both;
  private final Side leftRows = new Side();
  private final Side rightRows = new Side();
  private final GenericInternalRow noLeft;
  private final GenericInternalRow noRight;

  Join(
      Operator left,
      Operator right,
      Kind kind,
      List<Expression> leftKeys,
      List<Expression> rightKeys,
      Expression condition,
      Seq<Attribute> output) {
    super(output, left, right);
    this.left = left;
    this.right = right;
    this.kind = kind;
    leftKey = Code.projection(leftKeys, left.output);
    rightKey = Code.projection(rightKeys, right.output);
    // A projection writes no NULL for a column that cannot be one, and here either side may be missing.
    List<Attribute> columns = new ArrayList<>();
    Code.list(left.output).forEach(one -> columns.add(one.withNullability(true)));
    Code.list(right.output).forEach(one -> columns.add(one.withNullability(true)));
    Seq<Attribute> pair = Code.sequence(columns);
    this.condition = condition == null ? null : Code.predicate(condition, pair);
    both = kind == Kind.EXISTENCE ? Code.projection(Code.list(output), output) : Code.projection(columns, pair);
    noLeft = new GenericInternalRow(left.output.size());
    noRight = new GenericInternalRow(right.output.size());
  }

  @Override
  Delta pull(Tick tick) {
    Delta ofLeft = left.pull(tick).net();
    Delta ofRight = right.pull(tick).net();
    Delta out = new Delta();
    if (!ofLeft.isEmpty()) {
      leftChanged(ofLeft, out, tick);
    }
    if (!ofRight.isEmpty()) {
      rightChanged(ofRight, out, tick);
    }
    return out;
  }

  /** The changed rows of the left with the rows that the right had. */
  private void leftChanged(Delta changed, Delta out, Tick tick) {
    List<Held> touched = new ArrayList<>();
    List<UnsafeRow> touchedRows = new ArrayList<>();
    for (int at = 0; at < changed.size(); at++) {
      UnsafeRow row = changed.row(at);
      int weight = changed.weight(at);
      UnsafeRow key = Code.row(leftKey, row);
      if (key.anyNull()) {
        alone(row, weight, out);
        continue;
      }
      int partners = 0;
      Map<UnsafeRow, Held> others = rightRows.of(key);
      tick.spend(others.size());
      for (Map.Entry<UnsafeRow, Held> other : others.entrySet()) {
        if (!belongs(row, other.getKey())) {
          continue;
        }
        Held held = other.getValue();
        partners += held.count;
        if (hasPairs()) {
          out.add(pair(row, other.getKey()), weight * held.count);
        }
        if (keepsRight()) {
          touch(held, touched, touchedRows, other.getKey());
          held.partners += weight;
        }
      }
      leftRows.change(key, row, weight).partners = partners;
      standing(row, weight, partners, out);
    }
    for (int at = 0; at < touched.size(); at++) {
      Held held = touched.get(at);
      if ((held.partnersBefore == 0) != (held.partners == 0)) {
        out.add(both(touchedRows.get(at), false), held.partners == 0 ? held.count : -held.count);
      }
      held.partnersBefore = -1;
    }
  }

  /** The rows that the left has now with the changed rows of the right. */
  private void rightChanged(Delta changed, Delta out, Tick tick) {
    List<Held> touched = new ArrayList<>();
    List<UnsafeRow> touchedRows = new ArrayList<>();
    for (int at = 0; at < changed.size(); at++) {
      UnsafeRow row = changed.row(at);
      int weight = changed.weight(at);
      UnsafeRow key = Code.row(rightKey, row);
      if (key.anyNull()) {
        if (keepsRight()) {
          out.add(both(row, false), weight);
        }
        continue;
      }
      int partners = 0;
      Map<UnsafeRow, Held> others = leftRows.of(key);
      tick.spend(others.size());
      for (Map.Entry<UnsafeRow, Held> other : others.entrySet()) {
        if (!belongs(other.getKey(), row)) {
          continue;
        }
        Held held = other.getValue();
        partners += held.count;
        if (hasPairs()) {
          out.add(pair(other.getKey(), row), weight * held.count);
        }
        if (kind != Kind.INNER && kind != Kind.RIGHT) {
          touch(held, touched, touchedRows, other.getKey());
          held.partners += weight;
        }
      }
      rightRows.change(key, row, weight).partners = partners;
      if (keepsRight() && partners == 0) {
        out.add(both(row, false), weight);
      }
    }
    for (int at = 0; at < touched.size(); at++) {
      Held held = touched.get(at);
      standing(touchedRows.get(at), -held.count, held.partnersBefore, out);
      standing(touchedRows.get(at), held.count, held.partners, out);
      held.partnersBefore = -1;
    }
  }

  private static void touch(Held held, List<Held> touched, List<UnsafeRow> rows, UnsafeRow row) {
    if (held.partnersBefore < 0) {
      held.partnersBefore = held.partners;
      touched.add(held);
      rows.add(row);
    }
  }

  /** What a left row that has no key gives. */
  private void alone(UnsafeRow row, int weight, Delta out) {
    standing(row, weight, 0, out);
  }

  /** What a left row gives beside its pairs. */
  private void standing(UnsafeRow row, int weight, int partners, Delta out) {
    switch (kind) {
      case LEFT, FULL -> {
        if (partners == 0) {
          out.add(both(row, true), weight);
        }
      }
      case SEMI -> out.add(row, partners > 0 ? weight : 0);
      case ANTI -> out.add(row, partners == 0 ? weight : 0);
      case EXISTENCE -> {
        GenericInternalRow exists = new GenericInternalRow(new Object[] {partners > 0});
        out.add(Code.row(both, new JoinedRow(row, exists)), weight);
      }
      default -> { }
    }
  }

  private boolean hasPairs() {
    return kind == Kind.INNER || kind == Kind.LEFT || kind == Kind.RIGHT || kind == Kind.FULL;
  }

  private boolean keepsRight() {
    return kind == Kind.RIGHT || kind == Kind.FULL;
  }

  private boolean belongs(UnsafeRow one, UnsafeRow other) {
    return condition == null || condition.eval(new JoinedRow(one, other));
  }

  private UnsafeRow pair(UnsafeRow one, UnsafeRow other) {
    return Code.row(both, new JoinedRow(one, other));
  }

  /** A row without a partner: the other side's columns are NULL. */
  private UnsafeRow both(UnsafeRow row, boolean isLeft) {
    return Code.row(both, isLeft ? new JoinedRow(row, noRight) : new JoinedRow(noLeft, row));
  }

  @Override
  long bytes() {
    return leftRows.bytes + rightRows.bytes;
  }
}
