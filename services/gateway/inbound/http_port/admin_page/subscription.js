// One subscription of the CDC door: how it stands over time, its events, and what can be done with it.
import { html, useEffect, useRef, useState } from './vendor/preact-htm.js';
import { Badge, Chart, Empty, Question, number } from './parts.js';
import { follow, rpc } from './api.js';

const SHOWN = 200, KEPT = 600;

function useFollowed(id) {
  const [now, setNow] = useState(null), [points, setPoints] = useState([]), [trouble, setTrouble] = useState(null), [gone, setGone] = useState(false);
  useEffect(() => follow(`/api/v1/admin/stream?sub_id=${encodeURIComponent(id)}`, (name, data) => {
    if (name === 'error' && data.code === 'not_found') setGone(true);
    if (name !== 'subscription') return;
    setNow(data);
    setPoints((before) => [...before, [data.at_ms, data.subscription.lag, data.subscription.remaining]].slice(-KEPT));
  }, (message) => { setTrouble(message); if (message?.startsWith('subscription not found')) setGone(true); }), [id]);
  return { now, points, trouble, gone };
}

function useTail(id) {
  const [events, setEvents] = useState([]), [tailing, setTailing] = useState(false), [trouble, setTrouble] = useState(null);
  useEffect(() => {
    if (!tailing) return undefined;
    return follow(`/api/v1/cdc/sse/${encodeURIComponent(id)}`, (name, data, seq) => {
      setEvents((before) => (seq !== null && before.some((one) => one.seq === seq) ? before : [{ name, data, seq }, ...before].slice(0, SHOWN)));
    }, setTrouble);
  }, [id, tailing]);
  return { events, setEvents, tailing, setTailing, trouble };
}

const Line = ({ one }) => html`<p class="mono"><span class="quiet">${one.seq ?? 'told'}</span> <b>${one.name}</b> ${JSON.stringify(one.data.pk ?? '')} ${JSON.stringify(one.data.after ?? (one.seq === null ? one.data : {}))}</p>`;

export function OneSubscription({ id }) {
  const { now, points, trouble, gone } = useFollowed(id), tail = useTail(id);
  const [said, setSaid] = useState(''), [fault, setFault] = useState(null), [asking, setAsking] = useState(null), [ack, setAck] = useState('');
  const polled = useRef(null);
  const act = async (what, words) => {
    setAsking(null);
    try { setSaid(words(await what())); setFault(null); } catch (error) { setFault(error.message); }
  };
  if (gone) return html`<section class="panel"><${Empty} title="This subscription is closed">It was ended here or by its owner. <a href="#/subscriptions">All subscriptions</a><//></section>`;
  if (!now) return html`<p class="error" role="alert">${trouble}</p><section class="panel"><${Empty} title="Asking" /></section>`;
  const one = now.subscription;
  const poll = () => act(() => rpc('cdc.poll', { sub_id: id, from_offset: Math.max(one.acked, polled.current ?? 0), limit: 100 }), (page) => {
    polled.current = page.next_offset;
    setAck(String(page.next_offset));
    tail.setEvents((before) => [...page.events.map((event) => ({ name: event.op, data: event, seq: String(event.seq) })).reverse(), ...before].filter((event, place, all) => event.seq === null || all.findIndex((other) => other.seq === event.seq) === place).slice(0, SHOWN));
    return page.resnapshot_required ? `It must take its table anew: ${page.resnapshot_reason}.` : `${number(page.events.length)} events; the next offset is ${number(page.next_offset)}.`;
  });
  const upTo = Number(ack || now.latest_offset);
  return html`
    <p class="error" role="alert">${fault ?? trouble ?? tail.trouble}</p><p class="note" role="status">${said}</p>
    <div class="tiles">
      <div class="tile"><b><${Badge} state=${one.state} /></b><span>state</span></div>
      <div class="tile"><b>${number(one.lag)}</b><span>events behind</span></div>
      <div class="tile"><b>${number(one.remaining)}</b><span>until a resnapshot, of ${number(one.retention)}</span></div>
      <div class="tile"><b>${number(one.acked)}</b><span>acked; latest ${number(now.latest_offset)}</span></div>
    </div>
    <section class="panel"><p class="small"><b>${one.of}</b> · owner ${one.owner}${one.role ? ` as ${one.role}` : ''} · ${now.ops.join(', ')}${now.columns.length ? ` of ${now.columns.join(', ')}` : ''} · ${now.format}</p>
      <div class="bar"><button onClick=${poll}>Poll</button>
        ${one.paused ? html`<button class="main" onClick=${() => act(() => rpc('cdc.resume', { sub_id: id }), () => 'It goes on.')}>Resume</button>`
          : html`<button onClick=${() => act(() => rpc('cdc.pause', { sub_id: id }), () => 'It is paused: its lag grows until it is resumed.')}>Pause</button>`}
        <button aria-pressed=${tail.tailing} onClick=${() => tail.setTailing(!tail.tailing)}>${tail.tailing ? 'Stop the tail' : 'Live tail'}</button>
        <label>Ack up to<input inputmode="numeric" value=${ack} placeholder=${now.latest_offset} onInput=${(event) => setAck(event.target.value.replace(/\D/g, ''))} /></label>
        <button onClick=${() => setAsking('ack')}>Ack</button><button class="danger" onClick=${() => setAsking('close')}>Close</button></div></section>
    <div class="two"><${Chart} title="Lag" unit="events" points=${points.map(([at, lag]) => [at, lag])} second=${true} />
      <${Chart} title="Remaining window" unit="events" points=${points.map(([at, , left]) => [at, left])} /></div>
    <section class="panel" aria-labelledby="events"><h2 id="events">Events <span class="quiet small">newest first, nothing is acked by looking</span></h2>
      ${tail.events.length ? html`<div class="tail" tabindex="0" role="log" aria-label="Events">${tail.events.map((event) => html`<${Line} key=${`${event.seq}${event.name}`} one=${event} />`)}</div>`
        : html`<${Empty} title="Nothing to show yet">${tail.tailing ? 'The tail is open: the next change will appear here.' : 'Poll once, or open the live tail.'}<//>`}</section>
    ${asking === 'close' && html`<${Question} title="Close this subscription?" yes="Close it" onNo=${() => setAsking(null)} onYes=${() => act(() => rpc('cdc.close', { sub_id: id }), () => 'It is closed.')}>
      Its cursor is forgotten. The client that reads it must subscribe anew and take the table anew.<//>`}
    ${asking === 'ack' && html`<${Question} title="Ack up to ${number(upTo)}?" yes="Ack" onNo=${() => setAsking(null)} onYes=${() => act(() => rpc('cdc.ack', { sub_id: id, offset: upTo }), (told) => `It is acked up to ${number(told.acked_offset)}.`)}>
      Its client is never given the ${number(Math.max(0, upTo - one.acked))} offsets up to there again, whether it has read them or not.<//>`}`;
}
