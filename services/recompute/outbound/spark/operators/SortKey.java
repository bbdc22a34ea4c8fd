package tidewire;

import java.io.ByteArrayOutputStream;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.List;
import scala.collection.immutable.Seq;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NullsFirst$;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.types.*;
import org.apache.spark.unsafe.types.UTF8String;

/** Bytes that compare, byte by byte and without signs, as Spark orders the rows that they are made of. */
final class SortKey {
  private record Part(Expression value, DataType type, boolean isAscending, boolean areNullsFirst) {}

  private final List<Part> parts = new ArrayList<>();

  SortKey(List<SortOrder> orders, Seq<Attribute> input) {
    for (SortOrder order : orders) {
      DataType type = order.child().dataType();
      boolean isKnown = type instanceof BooleanType || type instanceof IntegralType || type instanceof FractionalType
          || type.equals(DataTypes.StringType) || type instanceof BinaryType;
      if (!isKnown) {
        throw new Refused("an order by " + type.simpleString());
      }
      parts.add(new Part(
          Code.bound(order.child(), input), type,
          order.direction() == Ascending$.MODULE$, order.nullOrdering() == NullsFirst$.MODULE$));
    }
  }

  byte[] of(InternalRow row) {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    for (Part part : parts) {
      Object value = part.value().eval(row);
      out.write(value == null ? (part.areNullsFirst() ? 0 : 2) : 1);
      if (value != null) {
        for (byte one : encoded(value, part.type())) {
          out.write(part.isAscending() ? one : ~one);
        }
      }
    }
    return out.toByteArray();
  }

  private static byte[] encoded(Object value, DataType type) {
    if (value instanceof Boolean flag) {
      return new byte[] {(byte) (flag ? 1 : 0)};
    }
    if (value instanceof Double || value instanceof Float) {
      return ofDouble(((Number) value).doubleValue());
    }
    if (value instanceof Decimal decimal) {
      return ofInteger(decimal.toJavaBigDecimal().setScale(((DecimalType) type).scale()).unscaledValue());
    }
    if (value instanceof Number number) {
      return ofLong(number.longValue() ^ Long.MIN_VALUE);
    }
    return ended(value instanceof UTF8String text ? text.getBytes() : (byte[]) value);
  }

  /** NaN is the greatest, and the two zeros are equal, as in Spark. */
  private static byte[] ofDouble(double value) {
    long bits = Double.doubleToLongBits(value == 0.0 ? 0.0 : value);
    return ofLong(bits < 0 ? ~bits : bits ^ Long.MIN_VALUE);
  }

  static byte[] ofLong(long bits) {
    return java.nio.ByteBuffer.allocate(Long.BYTES).putLong(bits).array();
  }

  /** Sixteen bytes: Spark's decimals have 38 digits at most. */
  private static byte[] ofInteger(BigInteger value) {
    byte[] bytes = value.toByteArray();
    byte[] wide = new byte[16];
    java.util.Arrays.fill(wide, (byte) (value.signum() < 0 ? -1 : 0));
    System.arraycopy(bytes, 0, wide, wide.length - bytes.length, bytes.length);
    wide[0] ^= (byte) 0x80;
    return wide;
  }

  /** A shorter text comes before a longer one that begins with it: 0 is written as 0 255, the end as 0 0. */
  private static byte[] ended(byte[] text) {
    ByteArrayOutputStream out = new ByteArrayOutputStream(text.length + 2);
    for (byte one : text) {
      out.write(one);
      if (one == 0) {
        out.write(255);
      }
    }
    out.write(0);
    out.write(0);
    return out.toByteArray();
  }
}
