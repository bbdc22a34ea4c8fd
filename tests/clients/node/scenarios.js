// One scenario by name, its answer as JSON on stdout; the connection is what PGHOST, PGPORT and the like say.
'use strict'
const crypto = require('node:crypto')
const { Readable } = require('node:stream')
const { pipeline } = require('node:stream/promises')
const { createRequire } = require('node:module')

// The packages lie where the test installed them, not beside this file.
const load = createRequire(process.env.NODE_HOME + '/')
const { Client, Connection, Pool } = load('pg')
const Cursor = load('pg-cursor')
const QueryStream = load('pg-query-stream')
const { from: copyFrom, to: copyTo } = load('pg-copy-streams')

const FIELDS = ['severity', 'code', 'message', 'detail', 'hint', 'position', 'internalPosition', 'internalQuery', 'where',
  'schema', 'table', 'column', 'dataType', 'constraint', 'file', 'line', 'routine']
const fields = (error) => Object.fromEntries(FIELDS.map((name) => [name, error[name]]))
const digest = (data) => crypto.createHash('sha256').update(data).digest('hex')

async function failing(promise) {
  try {
    await promise
  } catch (error) {
    return fields(error)
  }
  throw new Error('it was expected to fail')
}

async function connected(work, options = {}) {
  const client = new Client(options)
  client.on('error', () => {})
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

// Until another session is seen to run (or no longer to run) a statement that contains the marker.
async function waitFor(client, marker, running) {
  const text = "SELECT pid FROM pg_stat_activity WHERE state = 'active' AND query LIKE $1 AND pid <> pg_backend_pid()"
  for (;;) {
    const { rows } = await client.query(text, [`%${marker}%`])
    if (rows.length > 0 === running) return rows[0]?.pid
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

const scenarios = {
  async pool() {
    const pool = new Pool({ max: 5 })
    await pool.query('CREATE TABLE t (a int)')
    const answers = await Promise.all(Array.from({ length: 300 }, async (_, n) => {
      const client = await pool.connect()
      try {
        await client.query('BEGIN')
        await client.query('INSERT INTO t VALUES ($1)', [n])
        const { rows } = await client.query('SELECT $1::int * 2 AS twice', [n])
        await client.query(n % 3 === 0 ? 'ROLLBACK' : 'COMMIT')
        return rows[0].twice
      } finally {
        client.release()
      }
    }))
    const { rows } = await pool.query('SELECT count(*), sum(a) FROM t')
    const most = pool.totalCount
    await pool.end()
    return { answers, rows, most }
  },

  prepared: () => connected(async (client) => {
    const answers = []
    for (const round of [1, 2]) {
      for (let n = 0; n < 600; n++) {
        const { rows } = await client.query({ name: `statement ${n}`, text: `SELECT $1::int + ${n} AS sum`, values: [round] })
        answers.push(rows[0].sum)
      }
    }
    const held = await client.query("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'statement%'")
    const error = await failing(client.query({ name: 'bad', text: 'SELECT $1::int / 0', values: [1] }))
    const other = await failing(client.query({ name: 'worse', text: 'SELECT nothing' }))
    const queued = await Promise.all(Array.from({ length: 50 }, (_, n) => client.query('SELECT $1::int AS n', [n])))
    return { answers, held: held.rows, error, other, queued: queued.map((result) => result.rows[0].n) }
  }),

  values: () => connected(async (client) => {
    const { rows, fields: columns } = await client.query({
      text: `SELECT 9223372036854775807 AS big, 1.10 AS exact, 'Grüße 世界' AS words, '\\x00ff'::bytea AS raw,
        '2026-11-17 01:02:03Z'::timestamptz AS instant, ARRAY[1, NULL, 3] AS numbers, '{"a": 1}'::jsonb AS doc,
        NULL AS nothing, true AS flag, 'NaN'::float8 AS nan, interval '1 day 2 hours' AS span`,
    })
    const several = await client.query('SELECT 1 AS a; SELECT 2 AS b, 3 AS c; CREATE TABLE made (a int)')
    const array = await client.query({ text: 'SELECT $1::text[], $2::jsonb', values: [['a', null, 'c,d'], { deep: [1] }], rowMode: 'array' })
    const binary = await client.query({ text: 'SELECT $1::int4 AS n, now() IS NOT NULL AS f', values: [7], binary: true })
    return {
      rows, several: several.map((result) => [result.command, result.rowCount, result.rows]), array: array.rows,
      binary: binary.rows, columns: columns.map((column) => [column.name, column.dataTypeID, column.dataTypeSize, column.format]),
    }
  }),

  cursors: () => connected(async (client) => {
    await client.query('BEGIN')
    const cursor = client.query(new Cursor('SELECT g, repeat($1, g % 7) AS x FROM generate_series(1, 500) g', ['x']))
    const first = await cursor.read(3)
    const second = await cursor.read(100)
    await cursor.close()
    let sum = 0
    for await (const row of client.query(new QueryStream('SELECT g FROM generate_series(1, $1) g', [20000], { batchSize: 77 }))) sum += row.g
    const early = client.query(new QueryStream('SELECT g FROM generate_series(1, 1000000) g', [], { batchSize: 10 }))
    for await (const row of early) if (row.g === 25) break
    const broken = client.query(new Cursor('SELECT 10 / (5 - g) FROM generate_series(1, 10) g'))
    const before = await broken.read(4)
    const error = await failing(broken.read(4))
    await client.query('ROLLBACK')
    return { first, second: second.length, sum, before, error, after: (await client.query('SELECT 1 AS one')).rows }
  }),

  copy: () => connected(async (client) => {
    await client.query('CREATE TABLE t (a int, b text)')
    const chunks = []
    const out = client.query(copyTo("COPY (SELECT g, repeat('ü', g % 30) FROM generate_series(1, 60000) g) TO STDOUT"))
    for await (const chunk of out) chunks.push(chunk)
    const whole = Buffer.concat(chunks)
    const into = client.query(copyFrom('COPY t FROM STDIN'))
    await pipeline(Readable.from(chunks), into)
    const refused = await failing(pipeline(Readable.from(Array.from({ length: 2000 }, () => 'x\ty\n')), client.query(copyFrom('COPY t FROM STDIN'))))
    const { rows } = await client.query('SELECT count(*), sum(a), sum(length(b)) FROM t')
    return { bytes: whole.length, hash: digest(whole), copied: into.rowCount, refused, rows }
  }),

  notifications: () => connected((speaker) => connected(async (listener) => {
    const heard = []
    const last = new Promise((resolve) => listener.on('notification', (message) => {
      heard.push([message.channel, message.payload, message.processId === speaker.processID])
      if (message.payload === 'last') resolve()
    }))
    await listener.query('LISTEN news')
    for (let n = 0; n < 40; n++) await speaker.query('SELECT pg_notify($1, $2)', [n % 2 ? 'news' : 'unheard', 'payload ' + n])
    await speaker.query("NOTIFY news, 'last'")
    await last
    return heard
  })),

  // What the NOTIFY door brings to a session that listens; the test tells it.
  listening: () => connected(async (client) => {
    const heard = []
    const enough = new Promise((resolve) => client.on('notification', (message) => {
      heard.push([message.channel, message.payload])
      if (heard.length === 3) resolve()
    }))
    await client.query('LISTEN pgr')
    await enough
    return heard.slice(0, 3)
  }),

  cancelled: () => connected((other) => connected(async (client) => {
    const sleeping = failing(client.query('SELECT pg_sleep(60) -- cancelled by pid'))
    const pid = await waitFor(other, 'cancelled by pid', true)
    await other.query('SELECT pg_cancel_backend($1)', [pid])
    const byPid = await sleeping

    // As the driver itself cancels: the key of the session on a connection of its own.
    const again = failing(client.query('SELECT pg_sleep(60) -- cancelled by key'))
    await waitFor(other, 'cancelled by key', true)
    const canceller = new Client()
    const wire = new Connection()
    wire.connect(canceller.port, canceller.host)
    await new Promise((resolve) => wire.on('connect', resolve))
    wire.cancel(client.processID, client.secretKey)
    const byKey = await again
    wire.end()

    // Gone without a word: the server must learn of it.
    const lost = new Client()
    lost.on('error', () => {})
    await lost.connect()
    await lost.query('BEGIN; CREATE TABLE held (a int)')
    lost.query('SELECT pg_sleep(0.2) -- the last words').catch(() => {})
    await waitFor(other, 'the last words', true)
    lost.connection.stream.destroy()
    await waitFor(other, 'the last words', false)
    await other.query("SET lock_timeout = '20s'; CREATE TABLE held (a int)")
    return { byPid, byKey, alive: (await client.query('SELECT 1 AS one')).rows }
  })),

  timeouts: () => connected(async (client) => {
    const error = await failing(client.query('SELECT pg_sleep(60)'))
    return { error, rows: (await client.query('SHOW statement_timeout')).rows }
  }, { statement_timeout: 150, application_name: 'from node', options: '-c work_mem=7MB' }),

  errors: () => connected(async (client) => {
    const notices = []
    client.on('notice', (notice) => notices.push(fields(notice)))
    await client.query(`CREATE FUNCTION speak() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
      RAISE NOTICE 'a notice' USING HINT = 'its hint';
      RAISE EXCEPTION 'all' USING DETAIL = 'd', HINT = 'h', ERRCODE = 'TW001', COLUMN = 'c', CONSTRAINT = 'k', DATATYPE = 't',
        TABLE = 'b', SCHEMA = 's'; END $$`)
    const errors = []
    for (const text of ['SELECT speak()', 'SELECT nothing', 'SELECT 1/0', '(', 'SELECT 1; SELECT 1/0; SELECT 2']) {
      errors.push(await failing(client.query(text)))
      if (!text.includes(';')) errors.push(await failing(client.query({ text, values: [], name: 'n' + errors.length })))
    }
    return { errors, notices }
  }),

  large: () => connected(async (client) => {
    const large = crypto.createHash('sha512').update('seed').digest().toString('hex').repeat(150000)
    const { rows } = await client.query('SELECT $1::text AS back, length($1) AS n', [large])
    const raw = await client.query('SELECT $1::bytea AS back', [Buffer.alloc(10_000_000, 'ab')])
    const many = await client.query("SELECT g, repeat('m', 200) AS m FROM generate_series(1, 30000) g")
    return [rows[0].back === large, rows[0].n, digest(raw.rows[0].back), many.rowCount]
  }),

  terminated: () => connected(async (other) => {
    const client = new Client()
    await client.connect()
    const errors = []
    client.on('error', (error) => errors.push(fields(error)))
    const ended = new Promise((resolve) => client.on('end', resolve))
    await other.query('SELECT pg_terminate_backend($1, 10000)', [client.processID])
    await ended
    return errors
  }),
}

scenarios[process.argv[2]]().then(
  (answer) => process.stdout.write(JSON.stringify(answer)),
  (error) => { console.error(error); process.exitCode = 1 },
)
