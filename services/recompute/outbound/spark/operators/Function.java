package tidewire;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import scala.collection.immutable.Seq;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.catalyst.util.TypeUtils$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.LongType;

/**
 * An aggregate of a query. Counts and exact sums take rows back; least and greatest keep the values in order; all others
 * are computed again by Spark's own code over the rows of the group.
 */
record Function(String name, BasePredicate filter, UnsafeProjection distinctOn, java.util.function.Supplier<Gathered> made) {
  static Function of(AggregateExpression expression, Seq<Attribute> input) {
    AggregateFunction function = expression.aggregateFunction();
    BasePredicate filter =
        expression.filter().isEmpty() ? null : Code.predicate(expression.filter().get(), input);
    UnsafeProjection distinctOn =
        expression.isDistinct() ? Code.projection(Code.list(function.children()), input) : null;
    return new Function(function.prettyName(), filter, distinctOn, maker(function, input));
  }

  Gathered begin() {
    Gathered gathered = made.get();
    if (distinctOn != null) {
      gathered = new Distinct(gathered, distinctOn);
    }
    return filter == null ? gathered : new Filtered(gathered, filter);
  }

  private static java.util.function.Supplier<Gathered> maker(AggregateFunction function, Seq<Attribute> input) {
    if (function instanceof Count count) {
      List<Expression> counted = Code.list(count.children()).stream().map(one -> Code.bound(one, input)).toList();
      return () -> new Counted(counted);
    }
    if (function instanceof Sum sum && isExact(sum.child().dataType()) && isExact(sum.dataType())) {
      Expression summed = Code.bound(sum.child(), input);
      return () -> new Summed(summed, sum.dataType());
    }
    if (function instanceof Min || function instanceof Max) {
      Expression child = Code.bound(function.children().head(), input);
      Comparator<Object> order = TypeUtils$.MODULE$.getInterpretedOrdering(child.dataType());
      return () -> new Extreme(child, order, function instanceof Min);
    }
    return Again.maker(function, input);
  }

  private static boolean isExact(DataType type) {
    return type instanceof DecimalType || type instanceof IntegralType;
  }

  private record Filtered(Gathered of, BasePredicate filter) implements Gathered {
    @Override
    public long take(UnsafeRow row, int weight) {
      return filter.eval(row) ? of.take(row, weight) : 0;
    }

    @Override
    public Object value(Tick tick) {
      return of.value(tick);
    }
  }

  /** Each value once: passed on when the first of its rows comes, and taken back when the last one goes. */
  private static final class Distinct implements Gathered {
    private final Gathered of;
    private final UnsafeProjection values;
    private final Map<UnsafeRow, Integer> counts = new HashMap<>();
    /** The row that a value was passed on with: the same must be taken back. */
    private final Map<UnsafeRow, UnsafeRow> passed = new HashMap<>();

    Distinct(Gathered of, UnsafeProjection values) {
      this.of = of;
      this.values = values;
    }

    @Override
    public long take(UnsafeRow row, int weight) {
      UnsafeRow value = Code.row(values, row);
      int before = counts.getOrDefault(value, 0);
      int after = before + weight;
      long grown = 0;
      if (after == 0) {
        counts.remove(value);
      } else {
        counts.put(value, after);
      }
      if (before <= 0 && after > 0) {
        passed.put(value, row);
        grown += Code.bytes(value) + of.take(row, 1);
      } else if (before > 0 && after <= 0) {
        grown += of.take(passed.remove(value), -1) - Code.bytes(value);
      }
      return grown;
    }

    @Override
    public Object value(Tick tick) {
      return of.value(tick);
    }
  }

  private static final class Counted implements Gathered {
    private final List<Expression> counted;
    private long count;

    Counted(List<Expression> counted) {
      this.counted = counted;
    }

    @Override
    public long take(UnsafeRow row, int weight) {
      for (Expression one : counted) {
        if (one.eval(row) == null) {
          return 0;
        }
      }
      count += weight;
      return 0;
    }

    @Override
    public Object value(Tick tick) {
      return count;
    }
  }

  private static final class Summed implements Gathered {
    private final Expression summed;
    private final DataType type;
    private BigDecimal sum = BigDecimal.ZERO;
    private long count;

    Summed(Expression summed, DataType type) {
      this.summed = summed;
      this.type = type;
    }

    @Override
    public long take(UnsafeRow row, int weight) {
      Object value = summed.eval(row);
      if (value != null) {
        BigDecimal one = value instanceof Decimal decimal
            ? decimal.toJavaBigDecimal()
            : BigDecimal.valueOf(((Number) value).longValue());
        sum = sum.add(one.multiply(BigDecimal.valueOf(weight)));
        count += weight;
      }
      return 0;
    }

    @Override
    public Object value(Tick tick) {
      if (count == 0) {
        return null;
      }
      if (type instanceof LongType) {
        return sum.longValueExact();
      }
      DecimalType wanted = (DecimalType) type;
      BigDecimal scaled = sum.setScale(wanted.scale());
      if (scaled.precision() > wanted.precision()) {
        throw new ArithmeticException("a sum of more digits than " + wanted.simpleString());
      }
      return Decimal.apply(scaled, wanted.precision(), wanted.scale());
    }
  }

  private static final class Extreme implements Gathered {
    private final Expression child;
    private final boolean isLeast;
    private final TreeMap<Object, Integer> values;

    Extreme(Expression child, Comparator<Object> order, boolean isLeast) {
      this.child = child;
      this.isLeast = isLeast;
      values = new TreeMap<>(order);
    }

    @Override
    public long take(UnsafeRow row, int weight) {
      Object value = child.eval(row);
      if (value == null) {
        return 0;
      }
      int size = values.size();
      values.merge(value, weight, (one, other) -> one + other == 0 ? null : one + other);
      return (values.size() - size) * 96L;
    }

    @Override
    public Object value(Tick tick) {
      if (values.isEmpty()) {
        return null;
      }
      return isLeast ? values.firstKey() : values.lastKey();
    }
  }
}
