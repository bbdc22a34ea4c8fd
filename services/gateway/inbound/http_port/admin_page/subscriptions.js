// Subscriptions of every door, a page at a time, the worst first; and a form for a new one.
import { html, useState } from './vendor/preact-htm.js';
import { Badge, Chart, Empty, Meter, number, useAsked } from './parts.js';
import { get, rpc } from './api.js';

const PAGE = 50;
const STATES = ['resnapshot_required', 'throttle', 'pressure', 'paused', 'waiting', 'healthy'];

function Create({ database, onCreated }) {
  const [table, setTable] = useState(''), [trouble, setTrouble] = useState(null), [busy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      onCreated((await rpc('cdc.subscribe_table', { db: database, table, include: { after: true }, format: 'plain_json' })).sub_id);
    } catch (error) { setTrouble(error.message); }
    setBusy(false);
  };
  return html`<form class="bar" onSubmit=${submit}><label>New subscription of a table<input required value=${table} onInput=${(event) => setTable(event.target.value)} placeholder="orders or public.orders" /></label>
    <button class="main" disabled=${busy || !database}>Subscribe</button><p class="error" role="alert">${trouble}</p></form>`;
}

const Row = ({ one }) => html`<tr key=${one.id}><td class="mono">${one.door === 'cdc' ? html`<a href="#/subscription/${one.id}">${one.id}</a>` : one.id}</td>
  <td>${one.door}</td><td>${one.kind === 'query' ? html`<span class="quiet">query</span> <code>${one.of.slice(0, 20)}</code>` : one.of}</td><td>${one.owner}${one.role && one.role !== one.owner ? html` <span class="quiet">as ${one.role}</span>` : ''}</td>
  <td><${Badge} state=${one.state} /></td><td class="number">${number(one.lag)} <span class="quiet small">${one.unit}</span></td>
  <td><${Meter} remaining=${one.remaining} retention=${one.retention} /></td></tr>`;

export function Subscriptions({ shown, samples }) {
  const [search, setSearch] = useState(''), [state, setState] = useState(''), [door, setDoor] = useState(''), [offset, setOffset] = useState(0);
  const query = new URLSearchParams({ search, state, door, offset, limit: PAGE });
  const { found, trouble } = useAsked((signal) => get(`subscriptions?${query}`, signal), 2000, search, state, door, offset);
  const choose = (set) => (value) => { set(value); setOffset(0); };
  const over = (name) => samples.map((one) => [one.at_ms, one[name]]);
  const all = found ? Object.values(found.by_state).reduce((sum, count) => sum + count, 0) : 0;
  return html`<p class="error" role="alert">${trouble ?? found?.trouble}</p>
    <div class="two"><${Chart} title="Greatest lag" unit="events" points=${over('max_lag')} second=${true} />
      <${Chart} title="Least remaining window" unit="events" points=${over('min_remaining')} /></div>
    <section class="panel"><${Create} database=${shown?.database} onCreated=${(id) => { location.hash = `#/subscription/${id}`; }} /></section>
    <section class="panel"><div class="bar"><label>Search<input type="search" value=${search} onInput=${(event) => choose(setSearch)(event.target.value)} placeholder="id, table, owner" /></label>
      <label>Door<select value=${door} onChange=${(event) => choose(setDoor)(event.target.value)}><option value="">all</option><option value="cdc">cdc</option><option value="binary">binary</option></select></label>
      <div class="bar" role="group" aria-label="State"><button aria-pressed=${state === ''} onClick=${() => choose(setState)('')}>all ${number(all)}</button>
        ${STATES.map((name) => html`<button aria-pressed=${state === name} onClick=${() => choose(setState)(name)}>${name.replace('_required', '')} ${number(found?.by_state[name] ?? 0)}</button>`)}</div></div></section>
    <section class="panel">${!found ? html`<${Empty} title="Asking" />` : !found.subscriptions.length ? html`<${Empty} title=${found.total ? 'No subscription matches' : 'No subscriptions yet'}>
        ${found.total ? 'Take a filter away.' : html`Make one above, by <code>tidewire cdc tail TABLE</code>, or by a client of the PostgreSQL port.`}<//>`
      : html`<div class="scroll" tabindex="0" role="group" aria-label="Subscriptions"><table><thead><tr><th>Subscription</th><th>Door</th><th>Of</th><th>Owner</th><th>State</th><th class="number">Lag</th><th>Window left</th></tr></thead>
        <tbody>${found.subscriptions.map((one) => html`<${Row} one=${one} />`)}</tbody></table></div>
        <div class="bar" role="group" aria-label="Pages"><button disabled=${offset === 0} onClick=${() => setOffset(Math.max(0, offset - PAGE))}>Previous</button>
          <span>${number(offset + 1)} to ${number(offset + found.subscriptions.length)} of ${number(found.found)}</span>
          <button disabled=${offset + PAGE >= found.found} onClick=${() => setOffset(offset + PAGE)}>Next</button></div>`}</section>`;
}
