package tidewire;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import scala.collection.immutable.Seq;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate;
import org.apache.spark.sql.catalyst.expressions.aggregate.TypedImperativeAggregate;

/** An aggregate that cannot take a row back: Spark's own code goes over all rows of the group again. */
final class Again implements Gathered {
  /** What is made once for a query: how one run over the rows of a group goes. */
  private interface Run {
    Object over(Map<UnsafeRow, Integer> rows);
  }

  private final Run run;
  private final Map<UnsafeRow, Integer> rows = new LinkedHashMap<>();

  private Again(Run run) {
    this.run = run;
  }

  static Supplier<Gathered> maker(AggregateFunction function, Seq<Attribute> input) {
    Run run;
    if (function instanceof DeclarativeAggregate declarative) {
      run = declarative(declarative, input);
    } else if (function instanceof TypedImperativeAggregate<?> imperative) {
      run = imperative(imperative, input);
    } else {
      throw new Refused("aggregate " + function.prettyName());
    }
    return () -> new Again(run);
  }

  @Override
  public long take(UnsafeRow row, int weight) {
    boolean wasThere = rows.containsKey(row);
    Integer left = rows.merge(row, weight, (one, other) -> one + other == 0 ? null : one + other);
    return wasThere == (left != null) ? 0 : left != null ? Code.bytes(row) : -Code.bytes(row);
  }

  @Override
  public Object value(Tick tick) {
    tick.spend(rows.size());
    return run.over(rows);
  }

  private static Run declarative(DeclarativeAggregate function, Seq<Attribute> input) {
    Seq<Attribute> buffer = Code.sequence(Code.list(function.aggBufferAttributes()));
    List<Attribute> both = new ArrayList<>(Code.list(buffer));
    both.addAll(Code.list(input));
    List<Expression> first = bound(Code.list(function.initialValues()), Code.sequence(List.of()));
    List<Expression> next = bound(Code.list(function.updateExpressions()), Code.sequence(both));
    Expression last = Code.bind(function.evaluateExpression(), buffer);
    return rows -> {
      InternalRow held = values(first, null);
      for (Map.Entry<UnsafeRow, Integer> row : rows.entrySet()) {
        for (int copy = 0; copy < row.getValue(); copy++) {
          held = values(next, new JoinedRow(held, row.getKey()));
        }
      }
      return last.eval(held);
    };
  }

  private static <B> Run imperative(TypedImperativeAggregate<B> function, Seq<Attribute> input) {
    @SuppressWarnings("unchecked")
    TypedImperativeAggregate<B> bound = (TypedImperativeAggregate<B>) Code.bind((Expression) function, input);
    return rows -> {
      B buffer = bound.createAggregationBuffer();
      for (Map.Entry<UnsafeRow, Integer> row : rows.entrySet()) {
        for (int copy = 0; copy < row.getValue(); copy++) {
          buffer = bound.update(buffer, row.getKey());
        }
      }
      return bound.eval(buffer);
    };
  }

  private static List<Expression> bound(List<Expression> expressions, Seq<Attribute> input) {
    return expressions.stream().map(one -> Code.bind(one, input)).toList();
  }

  private static GenericInternalRow values(List<Expression> expressions, InternalRow input) {
    Object[] values = new Object[expressions.size()];
    for (int at = 0; at < values.length; at++) {
      values[at] = expressions.get(at).eval(input);
    }
    return new GenericInternalRow(values);
  }
}
