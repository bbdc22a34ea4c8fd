package tidewire;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import scala.Option;
import scala.collection.immutable.Seq;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers$;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys;
import org.apache.spark.sql.catalyst.planning.PhysicalAggregation;
import org.apache.spark.sql.catalyst.plans.*;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.types.DataTypes;

/**
 * Operators out of the plan that Spark's own analyser and optimiser made of a template: subqueries are joins by then,
 * views and CTEs are put in, and every expression is the one that a job would evaluate. What is not listed is refused.
 */
final class Planned {
  /** In the metadata of a source's columns: which table it is. */
  static final String TABLE = "tidewire.table";

  private final Set<Long> tables;

  Planned(Set<Long> tables) {
    this.tables = tables;
  }

  /** The operators of a whole template: rows of q, ord (NULL, or bytes to sort by) and r. */
  Operator root(LogicalPlan plan) {
    if (plan instanceof Project top && top.output().size() == 3) {
      Operator ordered = ordered(top);
      if (ordered != null) {
        return ordered;
      }
    }
    return of(plan);
  }

  /** `ord` is the place in the whole order: bytes that sort the same way do not change when another row comes. */
  private Operator ordered(Project top) {
    if (!(top.projectList().apply(1) instanceof Alias ord && ord.child() instanceof Cast cast
        && cast.child() instanceof AttributeReference place)) {
      return null;
    }
    boolean isAlone = Code.list(top.projectList()).stream()
        .filter(one -> one != ord).noneMatch(one -> ((Expression) one).references().contains(place));
    if (!isAlone || !(top.child() instanceof Window window) || !isRowNumber(window, place)) {
      return null;
    }
    AttributeReference key = place.copy(
        place.name(), DataTypes.BinaryType, true, place.metadata(), place.exprId(), place.qualifier());
    Operator input = of(window.child());
    Operator placed = new Ordered(
        input, Code.list(window.partitionSpec()), Code.list(window.orderSpec()), 0, -1,
        List.of(Ordered.Beside.SORT_KEY), with(input.output, List.of(key)));
    List<Expression> shown = new ArrayList<>();
    List<Attribute> columns = new ArrayList<>();
    for (NamedExpression one : Code.list(top.projectList())) {
      shown.add(one == ord ? key : (Expression) one);
      columns.add(one == ord ? key : one.toAttribute());
    }
    return new Rowwise.Project(placed, List.of(shown), Code.sequence(columns));
  }

  private static boolean isRowNumber(Window window, AttributeReference place) {
    return window.windowExpressions().size() == 1
        && window.windowExpressions().head().exprId().equals(place.exprId())
        && besideOf(window.windowExpressions().head()) == Ordered.Beside.ROW_NUMBER
        && !(window.child() instanceof WindowGroupLimit);
  }

  private Operator of(LogicalPlan plan) {
    if (plan instanceof LogicalRDD source) {
      return source(source);
    }
    if (plan instanceof Project project) {
      Queries queries = new Queries(of(project.child()));
      List<Expression> shown = new ArrayList<>();
      Code.list(project.projectList()).forEach(one -> shown.add(queries.joined((Expression) one)));
      return new Rowwise.Project(queries.input, List.of(shown), project.output());
    }
    if (plan instanceof Filter filter) {
      Queries queries = new Queries(of(filter.child()));
      Expression condition = queries.joined(filter.condition());
      Operator kept = new Rowwise.Filter(queries.input, condition);
      return queries.isJoined ? new Rowwise.Project(kept, List.of(Code.list(filter.output())), filter.output()) : kept;
    }
    if (plan instanceof org.apache.spark.sql.catalyst.plans.logical.Join join) {
      return join(join);
    }
    if (plan instanceof org.apache.spark.sql.catalyst.plans.logical.Aggregate) {
      return aggregate(plan);
    }
    if (plan instanceof Window window) {
      return window(window);
    }
    if (plan instanceof Union union) {
      List<Operator> inputs = new ArrayList<>();
      Code.list(union.children()).forEach(one -> inputs.add(of(one)));
      return new Rowwise.Union(union.output(), inputs.toArray(new Operator[0]));
    }
    return rarer(plan);
  }

  private Operator rarer(LogicalPlan plan) {
    if (plan instanceof Expand expand) {
      List<List<Expression>> projections = new ArrayList<>();
      Code.list(expand.projections()).forEach(one -> projections.add(Code.list(one)));
      return new Rowwise.Project(of(expand.child()), projections, expand.output());
    }
    if (plan instanceof Generate generate && !generate.outer()) {
      return new Rowwise.Generate(
          of(generate.child()), generate.generator(), generate.generatorOutput(), generate.output());
    }
    if (plan instanceof GlobalLimit || plan instanceof Offset || plan instanceof LocalLimit) {
      return cut(plan);
    }
    if (plan instanceof Sort sort) {
      return of(sort.child()); // an order that nothing cuts, and that is not the result's
    }
    if (plan instanceof LocalRelation || plan instanceof OneRowRelation) {
      return constant(plan);
    }
    if (plan instanceof SubqueryAlias alias) {
      return of(alias.child());
    }
    throw new Refused("operator " + plan.nodeName());
  }

  private Operator source(LogicalRDD source) {
    if (source.output().isEmpty() || !source.output().head().metadata().contains(TABLE)) {
      throw new Refused("rows that are no table's");
    }
    long table = source.output().head().metadata().getLong(TABLE);
    if (table != Tick.PARAMETERS) {
      tables.add(table);
    }
    return new Rowwise.Source(source.output(), table);
  }

  private Operator constant(LogicalPlan plan) {
    Delta rows = new Delta();
    if (plan instanceof LocalRelation local) {
      UnsafeProjection copied = Code.projection(Code.list(local.output()), local.output());
      Code.list(local.data()).forEach(row -> rows.add(Code.row(copied, row), 1));
    } else {
      rows.add(Code.row(Code.projection(List.of(), Code.sequence(List.of())), new GenericInternalRow(0)), 1);
    }
    return new Rowwise.Constant(plan.output(), rows);
  }

  private Operator join(org.apache.spark.sql.catalyst.plans.logical.Join plan) {
    Operator left = of(plan.left());
    Operator right = of(plan.right());
    List<Expression> leftKeys = new ArrayList<>();
    List<Expression> rightKeys = new ArrayList<>();
    Expression condition = plan.condition().isEmpty() ? null : plan.condition().get();
    var keyed = ExtractEquiJoinKeys.unapply(plan);
    if (!keyed.isEmpty()) {
      Code.list(keyed.get()._2()).forEach(one -> leftKeys.add(NormalizeFloatingNumbers$.MODULE$.normalize(one)));
      Code.list(keyed.get()._3()).forEach(one -> rightKeys.add(NormalizeFloatingNumbers$.MODULE$.normalize(one)));
      Option<Expression> rest = keyed.get()._4();
      condition = rest.isEmpty() ? null : rest.get();
    }
    return new Join(left, right, kind(plan.joinType()), leftKeys, rightKeys, condition, plan.output());
  }

  private static Join.Kind kind(JoinType type) {
    if (type instanceof InnerLike) {
      return Join.Kind.INNER;
    }
    if (type instanceof ExistenceJoin) {
      return Join.Kind.EXISTENCE;
    }
    return switch (type.sql()) {
      case "LEFT OUTER" -> Join.Kind.LEFT;
      case "RIGHT OUTER" -> Join.Kind.RIGHT;
      case "FULL OUTER" -> Join.Kind.FULL;
      case "LEFT SEMI" -> Join.Kind.SEMI;
      case "LEFT ANTI" -> Join.Kind.ANTI;
      default -> throw new Refused("a join of kind " + type.sql());
    };
  }

  private Operator aggregate(LogicalPlan plan) {
    var found = PhysicalAggregation.unapply(plan);
    if (found.isEmpty()) {
      throw new Refused("an aggregate of another kind");
    }
    List<AggregateExpression> functions = Code.list(found.get()._2());
    return new Aggregate(
        of(found.get()._4()), Code.list(found.get()._1()), functions, Code.list(found.get()._3()), plan.output());
  }

  private Operator window(Window window) {
    List<Ordered.Beside> beside = new ArrayList<>();
    for (NamedExpression one : Code.list(window.windowExpressions())) {
      Ordered.Beside found = besideOf(one);
      if (found == null) {
        throw new Refused("a window function other than a rank");
      }
      beside.add(found);
    }
    LogicalPlan child = window.child();
    long count = -1;
    if (child instanceof WindowGroupLimit limit) {
      child = limit.child();
      boolean isByNumber = limit.rankLikeFunction() instanceof RowNumber;
      count = isByNumber && beside.equals(List.of(Ordered.Beside.ROW_NUMBER)) ? limit.limit() : -1;
    }
    Operator input = of(child);
    return new Ordered(
        input, Code.list(window.partitionSpec()), Code.list(window.orderSpec()), 0, count, beside, window.output());
  }

  private static Ordered.Beside besideOf(NamedExpression named) {
    if (!(named instanceof Alias alias) || !(alias.child() instanceof WindowExpression window)) {
      return null;
    }
    Expression function = window.windowFunction();
    if (function instanceof RowNumber) {
      return Ordered.Beside.ROW_NUMBER;
    }
    if (function instanceof Rank) {
      return Ordered.Beside.RANK;
    }
    return function instanceof DenseRank ? Ordered.Beside.DENSE_RANK : null;
  }

  /** ORDER BY with LIMIT and OFFSET. */
  private Operator cut(LogicalPlan plan) {
    long skip = 0;
    long count = Long.MAX_VALUE;
    while (!(plan instanceof Sort)) {
      if (plan instanceof Offset offset) {
        // A limit further down counts the rows that are skipped here too.
        skip += number(offset.offsetExpr());
        plan = offset.child();
      } else if (plan instanceof GlobalLimit limit) {
        count = Math.min(count, number(limit.limitExpr()) - skip);
        plan = limit.child();
      } else if (plan instanceof LocalLimit limit) {
        plan = limit.child();
      } else if (plan instanceof Project project && isNarrowing(project)) {
        List<Expression> shown = new ArrayList<>();
        Code.list(project.projectList()).forEach(one -> shown.add((Expression) one));
        return new Rowwise.Project(cutBelow(project.child(), skip, count), List.of(shown), project.output());
      } else {
        throw new Refused("LIMIT without an order");
      }
    }
    return cutBelow(plan, skip, count);
  }

  private static boolean isNarrowing(Project project) {
    return project.child() instanceof Sort;
  }

  private Operator cutBelow(LogicalPlan plan, long skip, long count) {
    if (!(plan instanceof Sort sort) || !sort.global()) {
      throw new Refused("LIMIT without an order");
    }
    Operator input = of(sort.child());
    return new Ordered(
        input, List.of(), Code.list(sort.order()), skip, count == Long.MAX_VALUE ? -1 : count, List.of(), input.output);
  }


  private static long number(Expression expression) {
    Object value = expression.eval(null);
    if (!(value instanceof Number number) || number.longValue() < 0) {
      throw new Refused("LIMIT by what is no number");
    }
    return number.longValue();
  }

  static Seq<Attribute> with(Seq<Attribute> columns, List<? extends Attribute> more) {
    List<Attribute> all = new ArrayList<>(Code.list(columns));
    all.addAll(more);
    return Code.sequence(all);
  }

  /** Scalar subqueries of an expression, which become joins with the one row that they have at most. */
  private final class Queries {
    Operator input;
    boolean isJoined;

    Queries(Operator input) {
      this.input = input;
    }

    Expression joined(Expression expression) {
      if (expression instanceof ScalarSubquery query) {
        Option<Object> most = query.plan().maxRows();
        if (!query.outerAttrs().isEmpty() || most.isEmpty() || (Long) most.get() > 1) {
          throw new Refused("a subquery that may have several rows");
        }
        Operator found = of(query.plan());
        List<Attribute> nullable = new ArrayList<>();
        Code.list(found.output).forEach(one -> nullable.add(one.withNullability(true)));
        Seq<Attribute> columns = with(input.output, nullable);
        input = new Join(input, found, Join.Kind.LEFT, List.of(), List.of(), null, columns);
        isJoined = true;
        return nullable.get(0);
      }
      List<Expression> children = new ArrayList<>();
      boolean isOther = false;
      for (Expression child : Code.list(expression.children())) {
        Expression now = joined(child);
        isOther |= now != child;
        children.add(now);
      }
      return isOther ? expression.withNewChildren(Code.sequence(children)) : expression;
    }
  }
}
