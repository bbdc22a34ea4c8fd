package tidewire;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection$;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Keeps tables and templates; `tick` takes what changed and returns how results change, both in one block of bytes.
 * `load`, `plan` and `build` are called from a thread beside the loop, everything else from the loop.
 */
public final class Engine {
  private final SparkSession session;
  private final Map<Long, HeldTable> tables = new ConcurrentHashMap<>();
  private final Map<Integer, Template> templates = new ConcurrentHashMap<>();

  private java.nio.file.Path answers;
  private int direct = Integer.MAX_VALUE;

  public Engine(Object session) {
    this.session = (SparkSession) session;
  }

  /** Answers of more bytes than py4j carries without a stall are written to a file. */
  public void answerIn(String path, int direct) {
    this.answers = java.nio.file.Path.of(path);
    this.direct = direct;
  }

  /** A view that stands for a table in a plan: no rows, and nothing that the optimiser could conclude from. */
  public void source(String name, long oid, List<String> names, List<String> types) {
    org.apache.spark.sql.types.Metadata metadata =
        new org.apache.spark.sql.types.MetadataBuilder().putLong(Planned.TABLE, oid).build();
    StructType columns = new StructType();
    for (int at = 0; at < names.size(); at++) {
      columns = columns.add(names.get(at), DataType.fromDDL(types.get(at)), true, metadata);
    }
    org.apache.spark.rdd.RDD<InternalRow> nothing = session.sparkContext()
        .emptyRDD(scala.reflect.ClassTag$.MODULE$.apply(InternalRow.class));
    session.internalCreateDataFrame(nothing, columns, false).createOrReplaceTempView(name);
  }

  /** Holds the rows of a table from now on; changes that came since the frame was made follow by `tick`. */
  public void load(long oid, List<Integer> key, Object frame, long mostBytes) {
    Dataset<?> dataset = (Dataset<?>) frame;
    HeldTable table = new HeldTable(dataset.schema(), key.stream().mapToInt(Integer::intValue).toArray());
    table.load(dataset.queryExecution().executedPlan().executeToIterator(), mostBytes);
    tables.put(oid, table);
  }

  public void forget(long oid) {
    tables.remove(oid);
  }

  /** The operators of a query; returns the tables that it reads, or throws Refused. */
  public List<Long> plan(int id, String sql) {
    LogicalPlan optimised = ((Dataset<?>) session.sql(sql)).queryExecution().optimizedPlan();
    Set<Long> read = new LinkedHashSet<>();
    Operator root = new Planned(read).root(optimised);
    templates.put(id, new Template(root, read));
    return new ArrayList<>(read);
  }

  /** Fixes the rows that `build` begins with; what changes from now on is kept for it. */
  public void pin(int id) {
    Template template = templates.get(id);
    Map<Long, Delta> rows = new HashMap<>();
    for (long oid : template.tables) {
      rows.put(oid, tables.get(oid).all());
    }
    template.begin(rows);
  }

  public void build(int id) {
    SparkSession.setActiveSession(session);
    templates.get(id).build();
  }

  public void drop(int id) {
    templates.remove(id);
  }

  /** About how many bytes tables and operators take. */
  public long bytes() {
    return tables.values().stream().mapToLong(HeldTable::bytes).sum()
        + templates.values().stream().mapToLong(one -> one.root.allBytes()).sum();
  }

  /** Changes of tables and tuples in, changes of results out; see outbound/spark/incremental.py for the bytes. */
  public byte[] tick(byte[] request) throws IOException {
    SparkSession.setActiveSession(session);
    DataInputStream in = new DataInputStream(new ByteArrayInputStream(request));
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(bytes);
    Map<Long, Delta> changes = new HashMap<>();
    for (int left = in.readInt(); left > 0; left--) {
      long oid = in.readLong();
      boolean isEmptied = in.readBoolean();
      List<UnsafeRow> keys = new ArrayList<>();
      Delta ofKeys = rows(block(in), false);
      for (int at = 0; at < ofKeys.size(); at++) {
        keys.add(ofKeys.row(at));
      }
      Delta came = rows(block(in), true);
      try {
        changes.put(oid, tables.get(oid).change(keys, came, isEmptied));
      } catch (RuntimeException error) {
        lose(oid, error, out);
      }
    }
    Map<Integer, Delta> tuples = new HashMap<>();
    for (int left = in.readInt(); left > 0; left--) {
      tuples.put(in.readInt(), rows(block(in), true));
    }
    for (Map.Entry<Integer, Template> one : templates.entrySet()) {
      told(one.getKey(), one.getValue(), changes, tuples.get(one.getKey()), out);
    }
    if (bytes.size() <= direct) {
      return bytes.toByteArray();
    }
    java.nio.file.Files.write(answers, bytes.toByteArray());
    return null;
  }

  private void told(
      int id, Template template, Map<Long, Delta> changes, Delta tuples, DataOutputStream out) throws IOException {
    boolean isFirst = template.isFirst();
    boolean isConcerned = isFirst || tuples != null
        || template.tables.stream().anyMatch(oid -> !changes.getOrDefault(oid, Delta.NOTHING).isEmpty());
    if (!isConcerned) {
      return;
    }
    Map<Long, Delta> own = new HashMap<>(changes);
    if (tuples != null) {
      own.put(Tick.PARAMETERS, tuples);
    }
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try {
      Delta told = template.tick(own);
      if (isFirst || !told.isEmpty()) {
        DataOutputStream answer = new DataOutputStream(bytes);
        answer.writeInt(id);
        answer.writeByte(isFirst ? 1 : 0);
        write(template, told, answer);
      }
    } catch (Exception | StackOverflowError | LinkageError error) {
      // Spark throws checked exceptions without saying so. Whatever it is, it is this template's alone.
      templates.remove(id);
      bytes.reset();
      out.writeInt(id);
      out.writeByte(2);
      write(reason(error), out);
    }
    bytes.writeTo(out);
  }

  /** A change that does not fit: the rows are not those of the table any more, nor are results that come of them. */
  private void lose(long oid, RuntimeException error, DataOutputStream out) throws IOException {
    tables.remove(oid);
    templates.values().removeIf(one -> one.tables.contains(oid));
    out.writeInt((int) oid);
    out.writeByte(3);
    write(reason(error), out);
  }

  private static byte[] reason(Throwable error) {
    String said = error.getMessage() == null ? error.toString() : error.getMessage();
    return said.getBytes(StandardCharsets.UTF_8);
  }

  private static void write(Template one, Delta told, DataOutputStream out) throws IOException {
    out.writeInt(told.size());
    for (int at = 0; at < told.size(); at++) {
      UnsafeRow row = told.row(at);
      out.writeInt(row.getInt(0));
      out.writeInt(told.weight(at));
      write(row.isNullAt(1) ? null : one.sortKey(row), out);
      ArrayData values = row.getArray(2);
      out.writeInt(values.numElements());
      for (int place = 0; place < values.numElements(); place++) {
        write(values.isNullAt(place) ? null : values.getUTF8String(place).getBytes(), out);
      }
    }
  }

  private static void write(byte[] value, DataOutputStream out) throws IOException {
    out.writeInt(value == null ? -1 : value.length);
    if (value != null) {
      out.write(value);
    }
  }

  private static byte[] block(DataInputStream in) throws IOException {
    byte[] bytes = new byte[in.readInt()];
    in.readFully(bytes);
    return bytes;
  }

  /** Rows of an Arrow stream; `isSigned`: the last column is their weight. */
  private static Delta rows(byte[] arrow, boolean isSigned) throws IOException {
    Delta out = new Delta();
    if (arrow.length == 0) {
      return out;
    }
    try (BufferAllocator allocator = ArrowUtils.rootAllocator().newChildAllocator("tidewire", 0, Long.MAX_VALUE);
        ArrowStreamReader reader = new ArrowStreamReader(new ByteArrayInputStream(arrow), allocator)) {
      while (reader.loadNextBatch()) {
        List<FieldVector> vectors = reader.getVectorSchemaRoot().getFieldVectors();
        int width = vectors.size() - (isSigned ? 1 : 0);
        ColumnVector[] columns = new ColumnVector[vectors.size()];
        DataType[] types = new DataType[width];
        for (int at = 0; at < columns.length; at++) {
          columns[at] = new ArrowColumnVector(vectors.get(at));
          if (at < width) {
            types[at] = columns[at].dataType();
          }
        }
        UnsafeProjection copied = UnsafeProjection$.MODULE$.create(types);
        ColumnarBatch batch = new ColumnarBatch(columns, reader.getVectorSchemaRoot().getRowCount());
        for (int at = 0; at < batch.numRows(); at++) {
          InternalRow row = batch.getRow(at);
          out.add(Code.row(copied, row), isSigned ? row.getInt(width) : 1);
        }
      }
    }
    return out;
  }
}
