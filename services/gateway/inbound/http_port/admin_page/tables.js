// Tables: how their old rows are told, what that costs, and what is kept of them.
import { html, useState } from './vendor/preact-htm.js';
import { Badge, Empty, bytes, number, useAsked } from './parts.js';
import { get } from './api.js';

const cost = (one) => (one.update_cost === null ? 'unknown: ANALYZE it' : one.update_cost === 1 ? 'none' : `${one.update_cost} × WAL of an UPDATE`);

export function Tables() {
  const [search, setSearch] = useState('');
  const { found, trouble } = useAsked((signal) => get('tables', signal), 6000);
  const rows = (found?.tables ?? []).filter((one) => `${one.schema}.${one.name}`.toLowerCase().includes(search.toLowerCase()));
  return html`<p class="error" role="alert">${trouble}</p>
    <section class="panel"><div class="bar"><label>Search<input type="search" value=${search} onInput=${(event) => setSearch(event.target.value)} placeholder="schema.table" /></label>
      <span class="quiet">${found ? `${number(rows.length)} of ${number(found.tables.length)}` : ''}</span></div></section>
    <section class="panel">${!found ? html`<${Empty} title="Asking PostgreSQL" />` : !rows.length ? html`<${Empty} title=${found.tables.length ? 'No table matches' : 'No tables yet'}>Tables of the database appear here as soon as there are some.<//>`
      : html`<div class="scroll" tabindex="0" role="group" aria-label="Tables"><table><thead><tr><th>Table</th><th>Identity</th><th>Cost of being watched</th><th class="number">Size</th><th class="number">Rows, about</th><th>Replica</th><th class="number">Its rows, base + memory</th></tr></thead>
        <tbody>${rows.map((one) => html`<tr key=${one.oid}><td><b>${one.schema}.${one.name}</b>${one.is_captured ? '' : html` <span class="badge bad">not captured</span><div class="small quiet">${one.why_not}</div>`}</td>
          <td>${one.identity}</td><td>${cost(one)}</td><td class="number">${bytes(one.bytes)}</td><td class="number">${number(one.rows)}</td>
          <td>${one.replica ? html`<${Badge} state=${one.replica.phase} />` : html`<span class="quiet">not kept</span>`}</td>
          <td class="number">${one.replica ? `${number(one.replica.rows)} + ${number(one.replica.overlay_rows)}` : '–'}</td></tr>`)}</tbody></table></div>`}</section>`;
}
