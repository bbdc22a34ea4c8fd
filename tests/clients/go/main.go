// One scenario by name, its answer as JSON on stdout; the connection is what PGHOST, PGPORT and the like say.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
)

type answer = map[string]any

var scenarios = map[string]func(context.Context) answer{
	"pool": pool, "modes": modes, "batch": batch, "pipeline": pipeline, "copy": copies, "notifications": notifications,
	"listening": listening,
	"cancelled": cancelled, "errors": failures, "cursors": cursors, "large": large, "transactions": transactions,
}

func main() {
	ctx, stop := context.WithTimeout(context.Background(), 80*time.Second)
	defer stop()
	must(json.NewEncoder(os.Stdout).Encode(scenarios[os.Args[1]](ctx)))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func got[T any](value T, err error) T {
	must(err)
	return value
}

// fields of a server's error; anything else is told by its kind.
func fields(err error) any {
	var said *pgconn.PgError
	if errors.As(err, &said) {
		return said
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "deadline exceeded"
	}
	return fmt.Sprint(err)
}

func connect(ctx context.Context) *pgx.Conn {
	return got(pgx.Connect(ctx, ""))
}

func column[T any](rows pgx.Rows, err error) []T {
	must(err)
	return got(pgx.CollectRows(rows, pgx.RowTo[T]))
}

func value[T any](ctx context.Context, conn *pgx.Conn, text string, values ...any) T {
	var found T
	must(conn.QueryRow(ctx, text, values...).Scan(&found))
	return found
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// waitFor returns when another session is seen to run, or no longer to run, a statement that contains the marker.
func waitFor(ctx context.Context, conn *pgx.Conn, marker string, running bool) {
	const text = `SELECT count(*) > 0 FROM pg_stat_activity WHERE state = 'active' AND query LIKE $1 AND pid <> pg_backend_pid()`
	for value[bool](ctx, conn, text, "%"+marker+"%") != running {
		time.Sleep(10 * time.Millisecond)
	}
}

func pool(ctx context.Context) answer {
	config := got(pgxpool.ParseConfig("pool_max_conns=5 pool_min_conns=2"))
	pool := got(pgxpool.NewWithConfig(ctx, config))
	defer pool.Close()
	got(pool.Exec(ctx, "CREATE TABLE t (a int)"))
	answers := make([]int, 300)
	var workers sync.WaitGroup
	for n := range answers {
		workers.Go(func() {
			must(pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				got(tx.Exec(ctx, "INSERT INTO t VALUES ($1)", n))
				return tx.QueryRow(ctx, "SELECT $1::int * 2", n).Scan(&answers[n])
			}))
		})
	}
	workers.Wait()
	var count int
	must(pool.QueryRow(ctx, "SELECT count(*) FROM t").Scan(&count))
	return answer{"answers": answers, "count": count, "few": pool.Stat().TotalConns() <= 5}
}

func modes(ctx context.Context) answer {
	conn := connect(ctx)
	defer conn.Close(ctx)
	said := answer{}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		var sums []int
		for n := range 100 {
			sums = append(sums, value[int](ctx, conn, fmt.Sprintf("SELECT $1::int + %d", n), mode, n))
		}
		var (
			words  string
			raw    []byte
			moment time.Time
			exact  float64
			absent *string
			many   []int32
		)
		row := conn.QueryRow(ctx, `SELECT $1::text || ' 世界', $2::bytea, '2026-11-17 01:02:03Z'::timestamptz, 1.25::numeric,
			NULL::text, ARRAY[1, 2, $3::int]`, mode, "Grüße", []byte{0, 255}, 3)
		must(row.Scan(&words, &raw, &moment, &exact, &absent, &many))
		_, err := conn.Exec(ctx, "SELECT 1 / $1::int", mode, 0)
		said[mode.String()] = answer{"sums": sums, "words": words, "raw": raw, "moment": moment.UTC(), "exact": exact,
			"absent": absent, "many": many, "error": fields(err)}
	}
	for n := range 800 {
		got(conn.Prepare(ctx, fmt.Sprintf("named_%d", n), fmt.Sprintf("SELECT %d + $1::int", n)))
	}
	said["held"] = value[int](ctx, conn, "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'named%'")
	said["last"] = value[int](ctx, conn, "named_799", 1)
	must(conn.DeallocateAll(ctx))
	said["left"] = value[int](ctx, conn, "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'named%'")
	return said
}

func batch(ctx context.Context) answer {
	conn := connect(ctx)
	defer conn.Close(ctx)
	got(conn.Exec(ctx, "CREATE TABLE t (a int PRIMARY KEY)"))
	var good, bad pgx.Batch
	for n := range 3000 {
		good.Queue("INSERT INTO t VALUES ($1) RETURNING a", n)
	}
	results, sum := conn.SendBatch(ctx, &good), 0
	for range 3000 {
		var a int
		must(results.QueryRow().Scan(&a))
		sum += a
	}
	must(results.Close())
	for _, n := range []int{5000, 1, 5001} {
		bad.Queue("INSERT INTO t VALUES ($1)", n)
	}
	err := conn.SendBatch(ctx, &bad).Close()
	return answer{"sum": sum, "error": fields(err), "rows": column[int](conn.Query(ctx, "SELECT a FROM t WHERE a > 2990 ORDER BY a"))}
}

func pipeline(ctx context.Context) answer {
	conn := connect(ctx)
	defer conn.Close(ctx)
	pipeline := conn.PgConn().StartPipeline(ctx)
	for n := range 200 {
		pipeline.SendPrepare(fmt.Sprintf("p%d", n), fmt.Sprintf("SELECT %d + $1::int", n), nil)
		pipeline.SendQueryPrepared(fmt.Sprintf("p%d", n), [][]byte{[]byte("1")}, nil, nil)
		if n%50 == 49 {
			pipeline.SendPipelineSync()
		}
	}
	pipeline.SendQueryParams("SELECT 1/0", nil, nil, nil, nil)
	pipeline.SendQueryParams("SELECT 'skipped'", nil, nil, nil, nil)
	must(pipeline.Sync())
	pipeline.SendQueryParams("SELECT 'after'", nil, nil, nil, nil)
	must(pipeline.Sync())
	var said []any
	for {
		result, err := pipeline.GetResults()
		if err != nil {
			said = append(said, fields(err))
			continue
		}
		switch result := result.(type) {
		case *pgconn.ResultReader:
			read := result.Read()
			said = append(said, []any{read.Rows, read.CommandTag.String(), fields(read.Err)})
		case *pgconn.StatementDescription:
			said = append(said, result.ParamOIDs)
		case *pgconn.PipelineSync:
			said = append(said, "sync")
		case nil:
			must(pipeline.Close())
			return answer{"said": said}
		}
	}
}

func copies(ctx context.Context) answer {
	conn := connect(ctx)
	defer conn.Close(ctx)
	got(conn.Exec(ctx, "CREATE TABLE t (a int, b text, c timestamptz)"))
	epoch := time.Unix(0, 0).UTC()
	copied := got(conn.CopyFrom(ctx, pgx.Identifier{"t"}, []string{"a", "b", "c"}, pgx.CopyFromSlice(40000, func(n int) ([]any, error) {
		return []any{n, strings.Repeat("ü", n%40), epoch.Add(time.Duration(n) * time.Second)}, nil
	})))
	var out bytes.Buffer
	tag := got(conn.PgConn().CopyTo(ctx, &out, "COPY (SELECT * FROM t ORDER BY a) TO STDOUT (FORMAT csv)"))
	again := got(conn.PgConn().CopyFrom(ctx, bytes.NewReader(out.Bytes()), "COPY t FROM STDIN (FORMAT csv)"))
	_, broken := conn.CopyFrom(ctx, pgx.Identifier{"t"}, []string{"a"}, pgx.CopyFromFunc(func() ([]any, error) {
		return nil, errors.New("the source failed")
	}))
	_, refused := conn.PgConn().CopyFrom(ctx, strings.NewReader(strings.Repeat("x\ty\n", 50000)), "COPY t FROM STDIN")
	return answer{"copied": copied, "hash": digest(out.Bytes()), "tag": tag.String(), "again": again.String(), "broken": fields(broken),
		"refused": fields(refused), "count": value[int](ctx, conn, "SELECT count(*) FROM t")}
}

func notifications(ctx context.Context) answer {
	listener, speaker := connect(ctx), connect(ctx)
	defer listener.Close(ctx)
	defer speaker.Close(ctx)
	got(listener.Exec(ctx, "LISTEN news"))
	for n := range 40 {
		got(speaker.Exec(ctx, "SELECT pg_notify($1, $2)", []string{"news", "unheard"}[n%2], fmt.Sprint("payload ", n)))
	}
	var heard [][]any
	for range 20 {
		one := got(listener.WaitForNotification(ctx))
		heard = append(heard, []any{one.Channel, one.Payload, one.PID == speaker.PgConn().PID()})
	}
	short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
	defer stop()
	_, err := listener.WaitForNotification(short)
	return answer{"heard": heard, "quiet": pgconn.Timeout(err)}
}

// What the NOTIFY door brings to a session that listens; the test tells it.
func listening(ctx context.Context) answer {
	conn := connect(ctx)
	defer conn.Close(ctx)
	got(conn.Exec(ctx, "LISTEN pgr"))
	var heard [][]string
	for range 3 {
		one := got(conn.WaitForNotification(ctx))
		heard = append(heard, []string{one.Channel, one.Payload})
	}
	return answer{"heard": heard}
}

// By CancelRequest where the connection shall live on, as applications configure it; else pgx closes and cancels behind.
func cancelled(ctx context.Context) answer {
	other, said := connect(ctx), answer{}
	defer other.Close(ctx)
	config := got(pgx.ParseConfig(""))
	config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, CancelRequestDelay: 0, DeadlineDelay: 20 * time.Second}
	}
	conn := got(pgx.ConnectConfig(ctx, config))
	defer conn.Close(ctx)
	short, stop := context.WithCancel(ctx)
	go func() {
		waitFor(ctx, other, "by request", true)
		stop()
	}()
	_, err := conn.Exec(short, "SELECT pg_sleep(60) -- by request")
	said["error"] = fields(err)
	said["alive"] = value[int](ctx, conn, "SELECT 1")

	lost := connect(ctx)
	brief, end := context.WithTimeout(ctx, 300*time.Millisecond)
	defer end()
	_, err = lost.Exec(brief, "SELECT pg_sleep(60) -- by closing")
	said["timeout"] = pgconn.Timeout(err)
	<-lost.PgConn().CleanupDone()
	waitFor(ctx, other, "by closing", false)
	said["closed"] = lost.IsClosed()
	return said
}

func failures(ctx context.Context) answer {
	config := got(pgx.ParseConfig(""))
	var notices []any
	config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) { notices = append(notices, (*pgconn.PgError)(notice)) }
	conn := got(pgx.ConnectConfig(ctx, config))
	defer conn.Close(ctx)
	got(conn.Exec(ctx, `CREATE FUNCTION speak() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
		RAISE NOTICE 'a notice' USING HINT = 'its hint';
		RAISE EXCEPTION 'all' USING DETAIL = 'd', HINT = 'h', ERRCODE = 'TW001', COLUMN = 'c', CONSTRAINT = 'k', DATATYPE = 't',
			TABLE = 'b', SCHEMA = 's'; END $$`))
	var said []any
	for _, text := range []string{"SELECT speak()", "SELECT nothing", "SELECT 1/0", "(", "SELECT 1; SELECT 1/0"} {
		_, err := conn.Exec(ctx, text)
		said = append(said, fields(err))
	}
	_, err := pgx.Connect(ctx, "dbname=nowhere")
	said = append(said, fields(err))
	_, err = pgx.Connect(ctx, "password=wrong")
	said = append(said, fields(err))
	return answer{"errors": said, "notices": notices}
}

func cursors(ctx context.Context) answer {
	conn := connect(ctx)
	defer conn.Close(ctx)
	tx := got(conn.Begin(ctx))
	got(tx.Exec(ctx, "DECLARE c SCROLL CURSOR FOR SELECT g FROM generate_series(1, 1000) g"))
	said := answer{
		"first":    column[int](tx.Query(ctx, "FETCH 5 FROM c")),
		"backward": column[int](tx.Query(ctx, "FETCH BACKWARD 2 FROM c")),
		"last":     column[int](tx.Query(ctx, "FETCH LAST FROM c")),
	}
	must(tx.Rollback(ctx))
	rows := got(conn.Query(ctx, "SELECT g, repeat('x', 100) FROM generate_series(1, 200000) g"))
	rows.Next()
	rows.Close() // reads and forgets the rest
	said["tag"] = rows.CommandTag().String()
	rows = got(conn.Query(ctx, "SELECT 100 / (50 - g) FROM generate_series(1, 100) g"))
	count := 0
	for rows.Next() {
		count++
	}
	said["count"], said["error"] = count, fields(rows.Err())
	return said
}

func large(ctx context.Context) answer {
	conn := connect(ctx)
	defer conn.Close(ctx)
	data := bytes.Repeat([]byte{0, 1, 2, 255}, 6_000_000)
	back := value[[]byte](ctx, conn, "SELECT $1::bytea", data)
	text := value[string](ctx, conn, "SELECT repeat('ü', 8000000)")
	return answer{"same": bytes.Equal(back, data), "length": len(text)}
}

func transactions(ctx context.Context) answer {
	conn := connect(ctx)
	defer conn.Close(ctx)
	var status []string
	note := func() { status = append(status, string(conn.PgConn().TxStatus())) }
	note()
	tx := got(conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.Serializable}))
	note()
	got(tx.Exec(ctx, "CREATE TABLE t (a int)"))
	inner := got(tx.Begin(ctx))
	_, err := inner.Exec(ctx, "INSERT INTO t VALUES (1/0)")
	note()
	must(inner.Rollback(ctx))
	note()
	got(tx.Exec(ctx, "INSERT INTO t VALUES (1)"))
	must(tx.Commit(ctx))
	note()
	aborted := got(conn.Begin(ctx))
	_, first := aborted.Exec(ctx, "SELECT nothing")
	_, second := aborted.Exec(ctx, "SELECT 1")
	commit := aborted.Commit(ctx)
	return answer{"status": status, "errors": []any{fields(err), fields(first), fields(second), fields(commit)},
		"rows": column[int](conn.Query(ctx, "SELECT a FROM t"))}
}
