package tidewire;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import scala.collection.immutable.Seq;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;

/**
 * GROUP BY: for each group how many rows it has, what its aggregates have gathered, and the row that it gave last.
 * Without GROUP BY there is one group, which is there without rows too.
 */
final class Aggregate extends Operator {
  private static final class Group {
    long rows;
    final Gathered[] gathered;
    UnsafeRow shown;

    Group(Gathered[] gathered) {
      this.gathered = gathered;
    }
  }

  private final Operator input;
  private final boolean isWhole;
  private final UnsafeProjection groupOf;
  private final List<Function> functions = new ArrayList<>();
  private final UnsafeProjection result;
  private final Map<UnsafeRow, Group> groups = new HashMap<>();
  private long bytes;

  Aggregate(
      Operator input,
      List<NamedExpression> grouping,
      List<AggregateExpression> aggregates,
      List<NamedExpression> results,
      Seq<Attribute> output) {
    super(output, input);
    this.input = input;
    isWhole = grouping.isEmpty();
    List<Expression> keys = new ArrayList<>();
    List<Attribute> columns = new ArrayList<>();
    for (NamedExpression one : grouping) {
      keys.add(org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers$.MODULE$.normalize((Expression) one));
      columns.add(one.toAttribute());
    }
    groupOf = Code.projection(keys, input.output);
    for (AggregateExpression one : aggregates) {
      functions.add(Function.of(one, input.output));
      columns.add(one.resultAttribute());
    }
    List<Expression> shown = new ArrayList<>();
    results.forEach(one -> shown.add((Expression) one));
    result = Code.projection(shown, Code.sequence(columns));
  }

  @Override
  Delta pull(Tick tick) {
    Delta changed = input.pull(tick).net();
    Set<UnsafeRow> touched = new LinkedHashSet<>();
    if (isWhole && tick.isFirst) {
      UnsafeRow key = Code.row(groupOf, new GenericInternalRow(input.output.size()));
      groups.put(key, newGroup());
      touched.add(key);
    }
    for (int at = 0; at < changed.size(); at++) {
      UnsafeRow row = changed.row(at);
      UnsafeRow key = Code.row(groupOf, row);
      Group group = groups.get(key);
      if (group == null) {
        groups.put(key, group = newGroup());
        bytes += Code.bytes(key) + 96;
      }
      touched.add(key);
      group.rows += changed.weight(at);
      for (Gathered gathered : group.gathered) {
        bytes += gathered.take(row, changed.weight(at));
      }
    }
    Delta out = new Delta();
    for (UnsafeRow key : touched) {
      show(key, groups.get(key), out, tick);
    }
    return out;
  }

  private void show(UnsafeRow key, Group group, Delta out, Tick tick) {
    if (group.rows < 0) {
      throw new Refused("a row went from a group that was not in it");
    }
    boolean isThere = isWhole || group.rows > 0;
    UnsafeRow now = isThere ? Code.row(result, new JoinedRow(key, values(group, tick))) : null;
    if (!isThere) {
      groups.remove(key);
      bytes -= Code.bytes(key) + 96;
    }
    if (now != null && now.equals(group.shown)) {
      return;
    }
    if (group.shown != null) {
      out.add(group.shown, -1);
      bytes -= group.shown.getSizeInBytes();
    }
    if (now != null) {
      out.add(now, 1);
      bytes += now.getSizeInBytes();
    }
    group.shown = now;
  }

  private GenericInternalRow values(Group group, Tick tick) {
    Object[] values = new Object[functions.size()];
    for (int at = 0; at < values.length; at++) {
      values[at] = group.gathered[at].value(tick);
    }
    return new GenericInternalRow(values);
  }

  private Group newGroup() {
    Gathered[] gathered = new Gathered[functions.size()];
    for (int at = 0; at < gathered.length; at++) {
      gathered[at] = functions.get(at).begin();
    }
    return new Group(gathered);
  }

  @Override
  long bytes() {
    return bytes;
  }
}
