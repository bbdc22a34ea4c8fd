package tidewire;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/** Signed rows: each with how many more (or fewer) of it there are. Rows are never changed once they are in here. */
final class Delta {
  static final Delta NOTHING = new Delta();

  private final List<UnsafeRow> rows = new ArrayList<>();
  private int[] weights = new int[8];

  void add(UnsafeRow row, int weight) {
    if (weight == 0) {
      return;
    }
    if (rows.size() == weights.length) {
      weights = java.util.Arrays.copyOf(weights, weights.length * 2);
    }
    weights[rows.size()] = weight;
    rows.add(row);
  }

  void addAll(Delta other) {
    for (int at = 0; at < other.size(); at++) {
      add(other.row(at), other.weight(at));
    }
  }

  int size() {
    return rows.size();
  }

  boolean isEmpty() {
    return rows.isEmpty();
  }

  UnsafeRow row(int at) {
    return rows.get(at);
  }

  int weight(int at) {
    return weights[at];
  }

  /** The same change with each row once: what comes and goes within it is left out. */
  Delta net() {
    if (size() < 2) {
      return this;
    }
    Map<UnsafeRow, int[]> sums = new LinkedHashMap<>();
    for (int at = 0; at < size(); at++) {
      sums.computeIfAbsent(row(at), one -> new int[1])[0] += weight(at);
    }
    Delta net = new Delta();
    sums.forEach((row, sum) -> net.add(row, sum[0]));
    return net;
  }
}
