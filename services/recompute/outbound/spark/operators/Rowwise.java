package tidewire;

import java.util.ArrayList;
import java.util.List;
import scala.collection.immutable.Seq;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Generator;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;

/** Operators without a state: each row decides alone. */
final class Rowwise {
  private Rowwise() {}

  static final class Source extends Operator {
    final long table;

    Source(Seq<Attribute> output, long table) {
      super(output);
      this.table = table;
    }

    @Override
    Delta pull(Tick tick) {
      return tick.changes(table);
    }
  }

  /** Rows that are there from the beginning and stay: VALUES, or the one row of a query without FROM. */
  static final class Constant extends Operator {
    private final Delta rows;

    Constant(Seq<Attribute> output, Delta rows) {
      super(output);
      this.rows = rows;
    }

    @Override
    Delta pull(Tick tick) {
      return tick.isFirst ? rows : Delta.NOTHING;
    }
  }

  static final class Filter extends Operator {
    private final Operator input;
    private final BasePredicate condition;

    Filter(Operator input, Expression condition) {
      super(input.output, input);
      this.input = input;
      this.condition = Code.predicate(condition, input.output);
    }

    @Override
    Delta pull(Tick tick) {
      Delta came = input.pull(tick);
      Delta out = new Delta();
      for (int at = 0; at < came.size(); at++) {
        if (condition.eval(came.row(at))) {
          out.add(came.row(at), came.weight(at));
        }
      }
      return out;
    }
  }

  /** Each row as one other, or (for several projections) as several. */
  static final class Project extends Operator {
    private final Operator input;
    private final List<UnsafeProjection> projections = new ArrayList<>();

    Project(Operator input, List<? extends List<? extends Expression>> projections, Seq<Attribute> output) {
      super(output, input);
      this.input = input;
      for (List<? extends Expression> one : projections) {
        this.projections.add(Code.projection(one, input.output));
      }
    }

    @Override
    Delta pull(Tick tick) {
      Delta came = input.pull(tick);
      Delta out = new Delta();
      for (int at = 0; at < came.size(); at++) {
        for (UnsafeProjection projection : projections) {
          out.add(Code.row(projection, came.row(at)), came.weight(at));
        }
      }
      return out;
    }
  }

  /** Rows with each of the rows that a function gives for them: what INTERSECT ALL and EXCEPT ALL are made of. */
  static final class Generate extends Operator {
    private final Operator input;
    private final Generator generator;
    private final UnsafeProjection projection;

    Generate(Operator input, Generator generator, Seq<Attribute> generated, Seq<Attribute> shown) {
      super(shown, input);
      this.input = input;
      this.generator = (Generator) Code.bound((Expression) generator, input.output);
      List<Attribute> both = new ArrayList<>(Code.list(input.output));
      both.addAll(Code.list(generated));
      this.projection = Code.projection(Code.list(shown), Code.sequence(both));
    }

    @Override
    Delta pull(Tick tick) {
      Delta came = input.pull(tick);
      Delta out = new Delta();
      JoinedRow pair = new JoinedRow();
      for (int at = 0; at < came.size(); at++) {
        scala.collection.Iterator<InternalRow> found = generator.eval(came.row(at)).iterator();
        while (found.hasNext()) {
          out.add(Code.row(projection, pair.apply(came.row(at), found.next())), came.weight(at));
        }
      }
      return out;
    }
  }

  static final class Union extends Operator {
    Union(Seq<Attribute> output, Operator... inputs) {
      super(output, inputs);
    }

    @Override
    Delta pull(Tick tick) {
      Delta out = new Delta();
      for (Operator input : inputs) {
        out.addAll(input.pull(tick));
      }
      return out;
    }
  }
}
