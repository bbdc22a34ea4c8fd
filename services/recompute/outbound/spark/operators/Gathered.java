package tidewire;

import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/** What one aggregate knows of one group. */
interface Gathered {
  /** Take a row in, or (for a negative weight) back; returns by how many bytes the state grew. */
  long take(UnsafeRow row, int weight);

  Object value(Tick tick);
}
