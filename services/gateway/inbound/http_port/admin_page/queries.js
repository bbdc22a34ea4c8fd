// Live queries: how each is kept, why not cheaper, and how it does.
import { html, useState } from './vendor/preact-htm.js';
import { Badge, Empty, number, useAsked } from './parts.js';
import { get } from './api.js';

function Details({ query }) {
  const reasons = Object.entries(query.why_not);
  return html`<details><summary>more</summary>
    ${reasons.length ? html`<div class="small"><b>Why not cheaper</b><ul class="plain">${reasons.map(([name, why]) => html`<li><b>${name}</b>: ${why}</li>`)}</ul></div>` : html`<p class="small quiet">The cheapest strategy.</p>`}
    <p class="small">reads ${query.tables.join(', ') || 'no table'}; evaluated by ${query.by}; role ${query.role}; template <code>${query.template_id.slice(0, 12)}</code></p>
    ${query.spark_sql && html`<pre class="mono">${query.spark_sql}</pre>`}</details>`;
}

export function Queries() {
  const [search, setSearch] = useState('');
  const { found, trouble } = useAsked((signal) => get('queries', signal), 3000);
  const words = search.toLowerCase();
  const rows = (found?.queries ?? []).filter((one) => !words || [one.sql, one.strategy ?? '', one.role, one.error ?? ''].join(' ').toLowerCase().includes(words));
  return html`<p class="error" role="alert">${trouble}</p>
    <section class="panel"><div class="bar"><label>Search<input type="search" value=${search} onInput=${(event) => setSearch(event.target.value)} placeholder="SQL, strategy, role, error" /></label>
      <span class="quiet">${found ? `${number(rows.length)} shown of ${number(found.total)}` : ''}</span></div></section>
    <section class="panel">${!found ? html`<${Empty} title="Asking" />` : !rows.length ? html`<${Empty} title=${found.total ? 'No query matches' : 'No live queries'}>
        ${found.workers ? html`A query lives while somebody is subscribed to it: try <code>tidewire watch "SELECT …"</code>` : 'No recompute worker has spoken yet: is it running?'}<//>`
      : html`<div class="scroll" tabindex="0" role="group" aria-label="Live queries"><table><thead><tr><th>Query</th><th>Strategy</th><th class="number">Rows</th><th class="number">Subscribers here</th><th class="number">Latency</th><th>Last error</th></tr></thead>
        <tbody>${rows.map((one) => html`<tr key=${one.query_id}><td class="sql"><code>${one.sql}</code><${Details} query=${one} /></td>
          <td><${Badge} state=${one.strategy ?? 'planning'} /></td><td class="number">${number(one.rows)}</td><td class="number">${one.subscribers_here}</td>
          <td class="number">${one.latency_ms === null ? '–' : `${number(one.latency_ms)} ms`}</td><td>${one.error ?? html`<span class="quiet">none</span>`}</td></tr>`)}</tbody></table></div>`}</section>`;
}
