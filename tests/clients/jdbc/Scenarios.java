import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.sql.Array;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLWarning;
import java.sql.Savepoint;
import java.sql.Statement;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.postgresql.copy.CopyIn;
import org.postgresql.copy.CopyManager;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;

/** One scenario by name, its answer as JSON on stdout: a list of everything that was seen, in order. */
public final class Scenarios {
    interface Scenario {
        void run(List<Object> seen) throws Exception;
    }

    private static final Map<String, Scenario> SCENARIOS = Map.ofEntries(
        Map.entry("prepared", Scenarios::prepared), Map.entry("values", Scenarios::values),
        Map.entry("copy", Scenarios::copy), Map.entry("cursors", Scenarios::cursors),
        Map.entry("cancelled", Scenarios::cancelled), Map.entry("batches", Scenarios::batches),
        Map.entry("notifications", Scenarios::notifications), Map.entry("listening", Scenarios::listening),
        Map.entry("transactions", Scenarios::transactions),
        Map.entry("large", Scenarios::large), Map.entry("errors", Scenarios::errors), Map.entry("pool", Scenarios::pool));

    public static void main(String[] arguments) throws Exception {
        List<Object> seen = new ArrayList<>();
        SCENARIOS.get(arguments[0]).run(seen);
        StringBuilder json = new StringBuilder();
        write(json, seen);
        System.out.println(json);
    }

    /** Every second one of the properties is a value. */
    static Connection connect(String... properties) throws SQLException {
        Properties all = new Properties();
        all.setProperty("user", System.getenv("PGUSER"));
        all.setProperty("password", System.getenv("PGPASSWORD"));
        all.setProperty("sslmode", System.getenv("PGSSLMODE"));
        if (System.getenv("PGSSLROOTCERT") != null) {
            all.setProperty("sslrootcert", System.getenv("PGSSLROOTCERT"));
        }
        for (int i = 0; i < properties.length; i += 2) {
            all.setProperty(properties[i], properties[i + 1]);
        }
        String address = System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE");
        return DriverManager.getConnection("jdbc:postgresql://" + address, all);
    }

    /** Named statements and binary transfer from the first execution on. */
    static Connection eager() throws SQLException {
        return connect("prepareThreshold", "1", "binaryTransfer", "true", "preparedStatementCacheQueries", "2000");
    }

    static void prepared(List<Object> seen) throws Exception {
        try (Connection connection = eager()) {
            for (int round = 0; round < 3; round++) {
                for (int n = 0; n < 700; n++) {
                    try (PreparedStatement statement = connection.prepareStatement("SELECT ?::int + " + n)) {
                        statement.setInt(1, round);
                        seen.add(all(statement.executeQuery()));
                    }
                }
            }
            seen.add(query(connection, "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'SELECT $1::int +%'"));
            try (PreparedStatement statement = connection.prepareStatement("SELECT ?::int AS a, ?::text AS b")) {
                seen.add(statement.getParameterMetaData().getParameterTypeName(1));
                seen.add(statement.getMetaData().getColumnName(2));
            }
            execute(connection, "CREATE TABLE t (a int)");
            try (PreparedStatement statement = connection.prepareStatement("SELECT * FROM t")) {
                seen.add(all(statement.executeQuery()));
                execute(connection, "ALTER TABLE t ADD b text; INSERT INTO t VALUES (1, 'x')");
                seen.add(all(statement.executeQuery()));  // the driver prepares it anew
            }
        }
        for (String mode : List.of("simple", "extended", "extendedForPrepared", "extendedCacheEverything")) {
            try (Connection connection = connect("preferQueryMode", mode)) {
                for (int n = 0; n < 10; n++) {
                    try (PreparedStatement statement = connection.prepareStatement("SELECT ?::int, ?::text, now() IS NULL")) {
                        statement.setInt(1, n);
                        statement.setString(2, mode);
                        seen.add(all(statement.executeQuery()));
                    }
                }
                seen.add(failure(() -> query(connection, "SELECT 1; SELECT 2, 3")));
                seen.add(failure(() -> query(connection, "SELECT 1/0")));
            }
        }
    }

    static void values(List<Object> seen) throws Exception {
        String text = "SELECT true, 1::int2, 2147483647, 9223372036854775807, 1.5::float4, 'NaN'::float8, 12.3400::numeric,"
            + " 'Grüße 世界', '\\x00ff'::bytea, date '2026-11-17', timestamp '2026-11-17 01:02:03.4', time '23:59:59',"
            + " '12345678-1234-5678-1234-567812345678'::uuid, ARRAY[1, NULL, 3], '{\"a\": 1}'::jsonb, NULL, interval '1 day'";
        for (String threshold : List.of("0", "1")) {
            try (Connection connection = connect("prepareThreshold", threshold);
                PreparedStatement statement = connection.prepareStatement(text)) {
                for (int round = 0; round < 3; round++) {
                    seen.add(all(statement.executeQuery()));
                }
                try (PreparedStatement back = connection.prepareStatement("SELECT ?::int8[], ?, ?::timestamptz = ?::timestamptz")) {
                    back.setArray(1, connection.createArrayOf("int8", new Long[] {1L, null, Long.MIN_VALUE}));
                    back.setBytes(2, new byte[] {0, -1});
                    back.setTimestamp(3, new java.sql.Timestamp(1234567890123L));
                    back.setTimestamp(4, new java.sql.Timestamp(1234567890123L));
                    seen.add(all(back.executeQuery()));
                }
            }
        }
    }

    static void copy(List<Object> seen) throws Exception {
        try (Connection connection = connect()) {
            execute(connection, "CREATE TABLE t (a int, b text)");
            CopyManager copies = connection.unwrap(PGConnection.class).getCopyAPI();
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            seen.add(copies.copyOut("COPY (SELECT g, repeat('ü', g % 40) FROM generate_series(1, 50000) g) TO STDOUT", out));
            seen.add(digest(out.toByteArray()));
            seen.add(copies.copyIn("COPY t FROM STDIN", new ByteArrayInputStream(out.toByteArray())));
            ByteArrayOutputStream binary = new ByteArrayOutputStream();
            copies.copyOut("COPY t TO STDOUT (FORMAT binary)", binary);
            seen.add(copies.copyIn("COPY t FROM STDIN (FORMAT binary)", new ByteArrayInputStream(binary.toByteArray())));
            seen.add(failure(() -> copies.copyIn("COPY t FROM STDIN", new StringReader("x\ty\n".repeat(30_000)))));
            CopyIn abandoned = copies.copyIn("COPY t FROM STDIN");
            byte[] row = "1\ta\n".getBytes(StandardCharsets.UTF_8);
            abandoned.writeToCopy(row, 0, row.length);
            abandoned.cancelCopy();
            seen.add(query(connection, "SELECT count(*), sum(a), sum(length(b)) FROM t"));
        }
    }

    static void cursors(List<Object> seen) throws Exception {
        try (Connection connection = eager()) {
            connection.setAutoCommit(false);
            try (PreparedStatement statement = connection.prepareStatement("SELECT g, repeat('x', 50) FROM generate_series(1, ?) g");
                PreparedStatement other = connection.prepareStatement("SELECT ?::int * 2")) {
                statement.setFetchSize(37);
                statement.setInt(1, 2000);
                long sum = 0;
                try (ResultSet rows = statement.executeQuery()) {
                    while (rows.next()) {
                        sum += rows.getInt(1);
                        if (rows.getInt(1) % 500 == 0) {  // between two fetches of the first portal
                            other.setInt(1, rows.getInt(1));
                            seen.add(all(other.executeQuery()));
                        }
                    }
                }
                seen.add(sum);
            }
            try (Statement statement = connection.createStatement()) {
                statement.setFetchSize(10);
                ResultSet rows = statement.executeQuery("SELECT 100 / (25 - g) FROM generate_series(1, 50) g");
                seen.add(failure(() -> all(rows)));
            }
            connection.rollback();
            try (Statement statement = connection.createStatement()) {
                statement.setMaxRows(5);
                seen.add(all(statement.executeQuery("SELECT g FROM generate_series(1, 1000000) g")));
            }
            execute(connection, "CREATE FUNCTION open_one() RETURNS refcursor LANGUAGE plpgsql AS $$ DECLARE c refcursor := 'named';"
                + " BEGIN OPEN c FOR SELECT g FROM generate_series(1, 5) g; RETURN c; END $$");
            seen.add(query(connection, "SELECT open_one()::text"));
            seen.add(query(connection, "FETCH ALL IN named"));
        }
    }

    static void cancelled(List<Object> seen) throws Exception {
        ExecutorService thread = Executors.newSingleThreadExecutor();
        try (Connection connection = connect(); Connection watcher = connect(); Statement statement = connection.createStatement()) {
            Future<Object> running = thread.submit(() -> failure(() -> statement.execute("SELECT pg_sleep(60) -- by cancel()")));
            waitFor(watcher, "by cancel()");
            statement.cancel();
            seen.add(running.get());
            statement.setQueryTimeout(1);
            seen.add(failure(() -> statement.execute("SELECT pg_sleep(60)")));
            statement.setQueryTimeout(0);
            seen.add(all(statement.executeQuery("SELECT 'alive'")));
        } finally {
            thread.shutdown();
        }
    }

    static void waitFor(Connection watcher, String marker) throws Exception {
        String text = "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%" + marker + "%' AND pid <> pg_backend_pid()";
        while (query(watcher, text).isEmpty()) {
            Thread.sleep(10);
        }
    }

    static void batches(List<Object> seen) throws Exception {
        for (String rewrite : List.of("false", "true")) {
            try (Connection connection = connect("reWriteBatchedInserts", rewrite, "prepareThreshold", "1")) {
                execute(connection, "DROP TABLE IF EXISTS t; CREATE TABLE t (id serial PRIMARY KEY, a int UNIQUE)");
                try (PreparedStatement insert = connection.prepareStatement("INSERT INTO t (a) VALUES (?)", Statement.RETURN_GENERATED_KEYS)) {
                    for (int n = 0; n < 3000; n++) {
                        insert.setInt(1, n);
                        insert.addBatch();
                    }
                    seen.add(Arrays.stream(insert.executeBatch()).sum());
                    seen.add(all(insert.getGeneratedKeys()).size());
                    for (int n : new int[] {7000, 1, 7001}) {
                        insert.setInt(1, n);
                        insert.addBatch();
                    }
                    try {
                        insert.executeBatch();
                    } catch (BatchUpdateException error) {
                        seen.add(Arrays.toString(error.getUpdateCounts()));
                        seen.add(error.getSQLState());
                    }
                }
                try (Statement statement = connection.createStatement()) {
                    statement.addBatch("INSERT INTO t (a) VALUES (9000)");
                    statement.addBatch("UPDATE t SET a = -a WHERE a > 8000");
                    statement.addBatch("DELETE FROM t WHERE a < 0");
                    seen.add(Arrays.toString(statement.executeBatch()));
                }
                seen.add(query(connection, "SELECT count(*), max(a) FROM t"));
            }
        }
    }

    static void notifications(List<Object> seen) throws Exception {
        try (Connection listener = connect(); Connection speaker = connect()) {
            execute(listener, "LISTEN news");
            int speaking = speaker.unwrap(PGConnection.class).getBackendPID();
            for (int n = 0; n < 30; n++) {
                execute(speaker, "NOTIFY " + (n % 2 == 0 ? "news" : "unheard") + ", 'payload " + n + "'");
            }
            for (int heard = 0; heard < 15; ) {
                for (PGNotification one : listener.unwrap(PGConnection.class).getNotifications(20_000)) {
                    seen.add(List.of(one.getName(), one.getParameter(), one.getPID() == speaking));
                    heard++;
                }
            }
        }
    }

    /** What the NOTIFY door brings to a session that listens; the test tells it. */
    static void listening(List<Object> seen) throws Exception {
        try (Connection connection = connect()) {
            execute(connection, "LISTEN pgr");
            while (seen.size() < 3) {
                for (PGNotification one : connection.unwrap(PGConnection.class).getNotifications(20_000)) {
                    if (seen.size() < 3) {
                        seen.add(List.of(one.getName(), one.getParameter()));
                    }
                }
            }
        }
    }

    static void transactions(List<Object> seen) throws Exception {
        for (String autosave : List.of("never", "always")) {
            try (Connection connection = connect("autosave", autosave)) {
                connection.setAutoCommit(false);
                connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
                execute(connection, "DROP TABLE IF EXISTS t; CREATE TABLE t (a int)");
                Savepoint named = connection.setSavepoint("a name");
                execute(connection, "INSERT INTO t VALUES (1)");
                seen.add(failure(() -> query(connection, "SELECT nothing")));
                seen.add(autosave.equals("always") ? query(connection, "SELECT 1") : failure(() -> query(connection, "SELECT 1")));
                connection.rollback(named);
                execute(connection, "INSERT INTO t VALUES (2)");
                Savepoint unnamed = connection.setSavepoint();
                execute(connection, "INSERT INTO t VALUES (3)");
                connection.releaseSavepoint(unnamed);
                connection.commit();
                connection.setReadOnly(true);
                seen.add(failure(() -> query(connection, "DELETE FROM t RETURNING a")));
                connection.rollback();
                seen.add(query(connection, "SELECT a FROM t ORDER BY a"));
                seen.add(connection.isValid(10));
            }
        }
    }

    static void large(List<Object> seen) throws Exception {
        byte[] data = new byte[24_000_000];
        for (int i = 0; i < data.length; i++) {
            data[i] = (byte) (i * 31 >> 3);
        }
        try (Connection connection = eager()) {
            try (PreparedStatement statement = connection.prepareStatement("SELECT ?::bytea")) {
                statement.setBytes(1, data);
                ResultSet rows = statement.executeQuery();
                rows.next();
                seen.add(Arrays.equals(rows.getBytes(1), data));
                statement.setBinaryStream(1, new ByteArrayInputStream(data), 5_000_000);
                rows = statement.executeQuery();
                rows.next();
                seen.add(digest(rows.getBytes(1)));
            }
            seen.add(((String) query(connection, "SELECT repeat('ü', 6000000)").get(0).get(0)).length());
            connection.setAutoCommit(false);
            var objects = connection.unwrap(PGConnection.class).getLargeObjectAPI();
            long oid = objects.createLO();
            try (var object = objects.open(oid)) {
                object.write(data, 0, 1_000_000);
                object.seek(10);
                seen.add(digest(object.read(500_000)));
            }
            objects.delete(oid);
            connection.commit();
        }
    }

    static void errors(List<Object> seen) throws Exception {
        try (Connection connection = connect("logServerErrorDetail", "true"); Statement statement = connection.createStatement()) {
            execute(connection, "CREATE FUNCTION speak() RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'a notice' USING HINT = 'its hint';"
                + " RAISE WARNING 'a warning'; END $$; CREATE FUNCTION fail() RETURNS void LANGUAGE plpgsql AS $$ BEGIN"
                + " RAISE EXCEPTION 'all' USING DETAIL = 'd', HINT = 'h', ERRCODE = 'TW001', COLUMN = 'c', CONSTRAINT = 'k',"
                + " DATATYPE = 't', TABLE = 'b', SCHEMA = 's'; END $$");
            statement.execute("SELECT speak()");
            for (SQLWarning warning = statement.getWarnings(); warning != null; warning = warning.getNextWarning()) {
                seen.add(List.of(warning.getMessage(), warning.getSQLState()));
            }
            for (String text : List.of("SELECT fail()", "SELECT nothing", "SELECT 1/0", "(", "SELECT 1; SELECT 1/0; SELECT 2")) {
                seen.add(failure(() -> query(connection, text)));
            }
        }
        seen.add(failure(() -> connect("password", "wrong")));
        seen.add(failure(() -> connect("options", "-c no_such=1")));
    }

    /** As any pool does it: a few connections for many threads, checked and reset between two uses. */
    static void pool(List<Object> seen) throws Exception {
        BlockingQueue<Connection> pool = new LinkedBlockingQueue<>();
        for (int n = 0; n < 5; n++) {
            pool.add(eager());
        }
        try (Connection first = connect()) {
            execute(first, "CREATE TABLE t (a int)");
        }
        ExecutorService threads = Executors.newFixedThreadPool(12);
        ArrayDeque<Future<Object>> answers = new ArrayDeque<>();
        for (int n = 0; n < 250; n++) {
            int number = n;
            answers.add(threads.submit(() -> {
                Connection connection = pool.take();
                try (PreparedStatement insert = connection.prepareStatement("INSERT INTO t VALUES (?) RETURNING a * 2")) {
                    connection.setAutoCommit(false);
                    insert.setInt(1, number);
                    Object answer = all(insert.executeQuery());
                    connection.commit();
                    connection.setAutoCommit(true);
                    execute(connection, "DISCARD ALL");
                    return answer;
                } finally {
                    pool.add(connection);
                }
            }));
        }
        for (Future<Object> answer : answers) {
            seen.add(answer.get());
        }
        threads.shutdown();
        for (Connection connection : pool) {
            seen.add(query(connection, "SELECT count(*) FROM t"));
            connection.close();
        }
    }

    static void execute(Connection connection, String text) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(text);
        }
    }

    static List<List<Object>> query(Connection connection, String text) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            return all(statement.executeQuery(text));
        }
    }

    static List<List<Object>> all(ResultSet rows) throws SQLException {
        List<List<Object>> found = new ArrayList<>();
        while (rows.next()) {
            List<Object> row = new ArrayList<>();
            for (int column = 1; column <= rows.getMetaData().getColumnCount(); column++) {
                Object value = rows.getObject(column);
                row.add(value instanceof byte[] bytes ? digest(bytes) : value instanceof Array array ? array.toString() : value);
            }
            found.add(row);
        }
        return found;
    }

    static Object failure(Callable<?> work) throws Exception {
        try {
            work.call();
        } catch (PSQLException error) {
            ServerErrorMessage said = error.getServerErrorMessage();
            if (said == null) {
                return List.of(error.getMessage(), String.valueOf(error.getSQLState()));
            }
            return Arrays.asList(said.getSeverity(), said.getSQLState(), said.getMessage(), said.getDetail(), said.getHint(),
                said.getPosition(), said.getWhere(), said.getSchema(), said.getTable(), said.getColumn(), said.getDatatype(),
                said.getConstraint(), said.getFile(), said.getLine(), said.getRoutine(), said.getInternalQuery());
        }
        throw new AssertionError("it was expected to fail");
    }

    static String digest(byte[] bytes) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
        } catch (java.security.NoSuchAlgorithmException error) {
            throw new AssertionError(error);
        }
    }

    static void write(StringBuilder json, Object value) {
        if (value instanceof Iterable<?> items) {
            String separator = "[";
            json.append(items.iterator().hasNext() ? "" : "[");
            for (Object item : items) {
                json.append(separator);
                write(json, item);
                separator = ",";
            }
            json.append("]");
        } else if (value == null || value instanceof Boolean || value instanceof Integer || value instanceof Long) {
            json.append(value);
        } else {
            json.append('"');
            for (char c : value.toString().toCharArray()) {
                json.append(c < 128 && c >= ' ' && c != '"' && c != '\\' ? String.valueOf(c) : String.format("\\u%04x", (int) c));
            }
            json.append('"');
        }
    }
}
