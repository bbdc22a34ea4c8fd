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

  /** About how many bytes its own state takes. */
  long bytes() {
    return 0;
  }

  final long allBytes() {
    return bytes() + inputs.stream().mapToLong(Operator::allBytes).sum();
  }
}
