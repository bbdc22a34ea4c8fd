// The overview: services, the road of a commit with what waits on each stretch, and figures over time.
import { html } from './vendor/preact-htm.js';
import { Badge, Chart, Empty, bytes, duration, number } from './parts.js';

const PLACES = { PostgreSQL: 10, capture: 215, recompute: 420, fanout: 625, gateway: 830 };
const WIDTH = 110, TOP = 26, HEIGHT = 46;

const health = (services, name) => {
  const own = services.filter((one) => one.service === name);
  if (!own.length) return name === 'PostgreSQL' ? '' : 'trouble';
  return own.every((one) => one.health === 'ready') ? 'ready' : 'trouble';
};

const waiting = (hop) => (hop.lag === null ? '?' : hop.unit === 'bytes' ? bytes(hop.lag) : `${number(hop.lag)} rec`);
const isBehind = (hop) => hop.lag !== null && hop.lag > (hop.unit === 'bytes' ? 1048576 : 1000);

function Stretch({ hop }) {
  const begin = PLACES[hop.from] + WIDTH, end = PLACES[hop.to], middle = TOP + HEIGHT / 2;
  const isDetour = hop.from === 'capture' && hop.to === 'gateway';
  const behind = isBehind(hop) ? 'behind' : '';
  if (!isDetour) {
    const at = (begin + end) / 2;
    return html`<path class=${behind} d="M${begin} ${middle}H${end - 7}" /><path class="arrow" d="M${end - 8} ${middle - 5}L${end} ${middle}L${end - 8} ${middle + 5}z" />
      <text class="topic" x=${at} y=${middle - 10}>${hop.by}</text><text class="lag" x=${at} y=${middle + 20}>${waiting(hop)}</text>`;
  }
  const from = PLACES.capture + WIDTH / 2, to = PLACES.gateway + WIDTH / 2, low = 132, foot = TOP + HEIGHT;
  return html`<path class=${behind} d="M${from} ${foot}V${low - 12}Q${from} ${low} ${from + 12} ${low}H${to - 12}Q${to} ${low} ${to} ${low - 12}V${foot + 8}" />
    <path class="arrow" d="M${to - 5} ${foot + 8}L${to} ${foot}L${to + 5} ${foot + 8}z" />
    <text class="topic" x=${(from + to) / 2} y=${low - 8}>${hop.by}, to the CDC door</text><text class="lag" x=${(from + to) / 2} y=${low + 18}>${waiting(hop)}</text>`;
}

function Road({ shown }) {
  const told = shown.hops.map((hop) => `${hop.from} to ${hop.to}: ${waiting(hop)}`).join('; ');
  return html`<section class="panel" aria-labelledby="road"><h2 id="road">Road of a commit <span class="quiet small">what waits before each step</span></h2>
    <div class="scroll" tabindex="0" role="group" aria-label="Road of a commit">
    <svg class="road" viewBox="0 0 950 162" role="img" aria-label="Lag: ${told}">
      ${shown.hops.map((hop) => html`<${Stretch} hop=${hop} />`)}
      ${Object.entries(PLACES).map(([name, x]) => html`<g><rect class=${health(shown.services, name)} x=${x} y=${TOP} width=${WIDTH} height=${HEIGHT} rx="9" />
        <text x=${x + WIDTH / 2} y=${TOP + 28}>${name}</text></g>`)}
    </svg></div></section>`;
}

function Services({ services }) {
  if (!services.length) {
    return html`<${Empty} title="No service has spoken yet">Each says how it is every two seconds, on the topic <code>status</code>. If this stays: is Kafka there, and are they running?<//>`;
  }
  return html`<div class="scroll" tabindex="0" role="group" aria-label="Services"><table><thead><tr><th>Service</th><th>Health</th><th>Says</th><th>Up</th><th class="number">Memory</th><th>Process</th></tr></thead>
    <tbody>${services.map((one) => html`<tr key=${one.instance}><td><b>${one.service}</b></td><td><${Badge} state=${one.health} /></td>
      <td>${one.reason === 'ready' ? '' : one.reason}</td><td>${duration(one.uptime_s)}</td><td class="number">${bytes(one.memory_bytes)}</td>
      <td class="quiet mono">${one.host}:${one.pid}</td></tr>`)}</tbody></table></div>`;
}

export function Overview({ shown, samples }) {
  if (!shown) return html`<${Empty} title="Waiting for the first figures" />`;
  const { cdc } = shown, over = (name) => samples.map((one) => [one.at_ms, one[name]]);
  const needs = shown.services.filter((one) => one.health !== 'ready').length;
  return html`
    <div class="tiles">
      <div class="tile"><b>${shown.services.length - needs} / ${shown.services.length}</b><span>processes ready</span></div>
      <div class="tile"><b>${number(shown.live_queries)}</b><span>live queries</span></div>
      <div class="tile"><b>${number(shown.binary_subscriptions)}</b><span>live subscriptions here</span></div>
      <div class="tile"><b>${number(cdc.active_subscriptions)}</b><span>CDC subscriptions</span></div>
      <div class="tile"><b>${number(cdc.max_lag)}</b><span>greatest lag, events</span></div>
      <div class="tile"><b>${number(cdc.latest_offset)}</b><span>latest offset</span></div>
    </div>
    <${Road} shown=${shown} />
    <div class="two"><${Chart} title="Changes" unit="a second" points=${over('changes_per_s')} />
      <${Chart} title="Freshness" unit="ms from commit to gateway" points=${over('freshness_ms')} second=${true} /></div>
    <section class="panel" aria-labelledby="services"><h2 id="services">Services</h2><${Services} services=${shown.services} /></section>`;
}
