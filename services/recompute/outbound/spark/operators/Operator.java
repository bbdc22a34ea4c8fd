package tidewire;

import java.util.List;
import scala.collection.immutable.Seq;
import org.apache.spark.sql.catalyst.expressions.Attribute;

/** Turns the signed rows of its inputs into signed rows of its own; what it keeps in between is its state. */
abstract class Operator {
  /** The columns of its rows. */
  final Seq<Attribute> output;
  final List<Operator> inputs;

  Operator(Seq<Attribute> output, Operator... inputs) {
    this.output = output;
    this.inputs = List.of(inputs);
  }

  /** How its rows change by the changes of this tick; called once a tick, or the state is wrong from then on. */
  abstract Delta pull(Tick tick);

  /** Rows that exist before any row came: those of an aggregate without GROUP BY. */
  Delta begin() {
    return Delta.NOTHING;
  }

  /** About how many bytes its own state takes. */
  long bytes() {
    return 0;
  }

  /** How many rows, groups or partitions its own state has. */
  long entries() {
    return 0;
  }

  abstract String describe();

  final long allBytes() {
    return bytes() + inputs.stream().mapToLong(Operator::allBytes).sum();
  }

  final String tree(String indent) {
    StringBuilder text = new StringBuilder(indent).append(describe());
    if (entries() > 0) {
      text.append(" [").append(entries()).append(" held, ").append(bytes() / 1024).append(" KB]");
    }
    for (Operator input : inputs) {
      text.append('\n').append(input.tree(indent + "  "));
    }
    return text.toString();
  }
}
