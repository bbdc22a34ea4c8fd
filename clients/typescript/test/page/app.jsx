/** A real React page with a live table, for the test in a browser. */

import { StrictMode, useState } from "react";
import { createRoot } from "react-dom/client";

import { useLiveQuery } from "@tidewire/client/react";

function Table({ queryId }) {
  const { rows, status, error } = useLiveQuery(location.origin, queryId, { token: "page-token", retry: { firstMs: 20, longestMs: 100 } });
  window.shown = { ids: rows?.map((row) => row.id).sort(), state: status.state, error: error?.code };
  return <ul>{rows?.map((row) => <li key={row.id}>{row.name}</li>)}</ul>;
}

function App() {
  const [queryId, setQueryId] = useState("q");
  window.choose = setQueryId;
  return queryId === "" ? <p>nothing</p> : <Table queryId={queryId} />;
}

createRoot(document.getElementById("root")).render(<StrictMode><App /></StrictMode>);
