/** The shop's live table: by the NOTIFY door where the gateway has it, else by invalidations of the CDC door. */

import { cdc, live } from "./tidewire.js";

const [table, status] = [document.getElementById("rows"), document.getElementById("status")];
const onStatus = ({ state }) => (status.textContent = state);
let shown = new Map();

/** Rows by category; those that differ from what was shown are marked. */
function show(rows) {
  const before = shown;
  shown = new Map([...rows].sort((one, other) => (one.category < other.category ? -1 : 1)).map((row) => [row.category, row]));
  table.replaceChildren(
    ...[...shown.values()].map((row) => {
      const line = document.createElement("tr");
      for (const name of ["category", "pieces", "revenue"]) line.insertCell().textContent = row[name];
      const last = before.get(row.category);
      if (before.size > 0 && (last === undefined || last.revenue !== row.revenue)) line.className = "changed";
      return line;
    }),
  );
}

/** PostgreSQL's own digits. */
const exact = (text) => JSON.parse(text.replace(/:(-?\d[\d.]*)/g, ':"$1"'));

async function byNotify({ query_id }) {
  for await (const { rows } of live(location.origin, query_id, { onStatus, parseRow: exact })) show(rows);
}

async function byCdc({ query_id, sub_id }) {
  const fetched = async () => (await (await fetch(`/api/v1/q/${query_id}`)).json()).data;
  const refresh = async () => {
    const { columns, rows } = await fetched();
    show(rows.map((row) => Object.fromEntries(columns.map((column, at) => [column.name ?? column, row[at].v]))));
  };
  await refresh();
  let wanted = false;
  let running;
  // One fetch at a time; what changes meanwhile is in the next.
  const run = async () => {
    for (; wanted; ) {
      wanted = false;
      await refresh();
    }
    running = undefined;
  };
  for await (const _ of cdc(location.origin, sub_id, { onStatus })) {
    wanted = true;
    running ??= run();
  }
}

const feed = await (await fetch("feed.json")).json();
document.getElementById("door").textContent = feed.door === "notify" ? "by the NOTIFY door" : "by the CDC door";
try {
  await (feed.door === "notify" ? byNotify(feed) : byCdc(feed));
} catch (error) {
  status.textContent = error.message;
}
