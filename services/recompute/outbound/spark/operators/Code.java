package tidewire;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.BindReferences;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection$;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/**
 * Spark's own expressions, bound to the columns of an input. They are interpreted: compiling one costs more than
 * evaluating it over the few rows of a tick, and interpreted they mean the same.
 */
final class Code {
  private Code() {}

  static UnsafeProjection projection(Collection<? extends Expression> expressions, Seq<Attribute> input) {
    List<Expression> bound = new ArrayList<>();
    for (Expression one : expressions) {
      bound.add(bound(one, input));
    }
    return UnsafeProjection$.MODULE$.createInterpretedObject(sequence(bound));
  }

  static BasePredicate predicate(Expression condition, Seq<Attribute> input) {
    return Predicate$.MODULE$.createInterpretedObject(bound(condition, input));
  }

  static Expression bound(Expression expression, Seq<Attribute> input) {
    if (!expression.deterministic()) {
      throw new Refused("an expression that is not deterministic");
    }
    refuseQueries(expression);
    return bind(expression, input);
  }

  static <E extends Expression> E bind(E expression, Seq<Attribute> input) {
    return BindReferences.bindReference(
        expression, org.apache.spark.sql.catalyst.expressions.package$.MODULE$.AttributeSeq(input), false);
  }

  private static void refuseQueries(Expression expression) {
    if (expression instanceof PlanExpression) {
      throw new Refused("a subquery that is no join");
    }
    for (Expression child : list(expression.children())) {
      refuseQueries(child);
    }
  }

  static UnsafeRow row(UnsafeProjection projection, InternalRow input) {
    return projection.apply(input).copy();
  }

  static <T> List<T> list(scala.collection.Seq<T> sequence) {
    return CollectionConverters.asJava(sequence);
  }

  static <T> Seq<T> sequence(List<? extends T> items) {
    return CollectionConverters.<T>asScala(new ArrayList<T>(items)).toList();
  }

  /** An object with its header, and what a hash table keeps for it. */
  static long bytes(UnsafeRow row) {
    return row.getSizeInBytes() + 104L;
  }
}
