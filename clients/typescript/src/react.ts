/** A live query as a React hook. */

import { useEffect, useRef, useState } from "react";

import { live, type LiveOptions } from "./live.js";
import type { LiveStatus } from "./live-status.js";

export interface LiveQueryState<Row> {
  /** Undefined until the first result; the last ones while the connection is away. */
  rows: readonly Row[] | undefined;
  status: LiveStatus;
  /** Why it ended, if it did. */
  error: unknown;
}

const BEGUN: LiveQueryState<never> = { rows: undefined, status: { state: "connecting" }, error: undefined };

/** The rows of a registered query, rendered anew when they change. Another url, queryId or token text begins anew. */
export function useLiveQuery<Row = Record<string, unknown>>(
  url: string,
  queryId: string,
  options: Omit<LiveOptions<Row>, "signal"> = {},
): LiveQueryState<Row> {
  const [state, setState] = useState<LiveQueryState<Row>>(BEGUN);
  const latest = useRef(options);
  latest.current = options;
  const token = typeof options.token === "string" ? options.token : undefined;
  useEffect(() => {
    setState(BEGUN);
    let ours = true;
    const update = (change: Partial<LiveQueryState<Row>>): void => {
      if (ours) setState((before) => ({ ...before, ...change }));
    };
    const query = live<Row>(url, queryId, {
      ...latest.current,
      onStatus: (status) => {
        update({ status });
        latest.current.onStatus?.(status);
      },
    });
    const follow = async (): Promise<void> => {
      for await (const { rows } of query) update({ rows });
    };
    follow().catch((error: unknown) => update({ error }));
    return () => {
      ours = false;
      query.close();
    };
  }, [url, queryId, token]);
  return state;
}
