// Pieces that several views use: figures as text, badges, charts, the question before something is lost.
import { html, useEffect, useRef, useState } from './vendor/preact-htm.js';
import uPlot from './vendor/uplot.js';

export const number = (value) => (value === null || value === undefined ? '–' : Math.round(value).toLocaleString('en'));

export function bytes(value) {
  if (value === null || value === undefined) return '–';
  let unit = 0;
  for (; value >= 1024 && unit < 4; unit += 1) value /= 1024;
  return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)} ${['B', 'KiB', 'MiB', 'GiB', 'TiB'][unit]}`;
}

export function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} d`;
}

const KINDS = {
  healthy: 'good', ready: 'good', pressure: 'warn', throttle: 'warn', loading: 'warn', paused: 'hold', waiting: 'hold',
  resnapshot_required: 'bad', 'not ready': 'bad', silent: 'bad', unfit: 'bad',
};
const WORDS = { resnapshot_required: 'resnapshot' };
export const Badge = ({ state }) => html`<span class="badge ${KINDS[state] ?? ''}">${WORDS[state] ?? state}</span>`;

export const Empty = ({ title, children }) => html`<div class="empty"><b>${title}</b>${children}</div>`;

export function Meter({ remaining, retention }) {
  if (remaining === null || remaining === undefined) return html`<span class="quiet">–</span>`;
  const share = Math.max(0, Math.min(1, remaining / retention));
  const kind = share === 0 ? 'out' : share <= 0.5 ? 'low' : '';
  return html`<svg class="meter" viewBox="0 0 110 9" role="img" aria-label="${number(remaining)} of ${number(retention)} events left">
    <rect class="ground" width="110" height="9" rx="4.5" /><rect class="fill ${kind}" width=${110 * share} height="9" rx="4.5" /></svg>`;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function useDark() {
  const query = matchMedia('(prefers-color-scheme: dark)');
  const [dark, setDark] = useState(query.matches);
  useEffect(() => {
    const changed = () => setDark(query.matches);
    query.addEventListener('change', changed);
    return () => query.removeEventListener('change', changed);
  }, []);
  return dark;
}

const clock = (u, ticks, axis, space, step) => ticks.map((tick) => {
  const text = new Date(1000 * tick).toTimeString();
  return step < 60 ? text.slice(0, 8) : text.slice(0, 5);
});

// points: [[time in ms, value], …]; drawn over time.
export function Chart({ title, points, unit = '', second = false }) {
  const place = useRef(null), drawn = useRef(null), dark = useDark();
  const last = points.length ? points[points.length - 1][1] : null;
  useEffect(() => {
    const axis = { stroke: colour('--quiet'), grid: { stroke: colour('--line'), width: 1 }, ticks: { show: false }, font: '12px system-ui' };
    const width = () => Math.max(200, place.current.clientWidth);
    drawn.current = new uPlot({
      width: width(), height: 150, cursor: { show: false }, legend: { show: false },
      scales: { y: { range: (u, low, high) => [0, Math.max(1, (high ?? 1) * 1.15)] } },
      axes: [{ ...axis, values: clock, space: 70, size: 30 }, { ...axis, size: 58, values: (u, ticks) => ticks.map((tick) => (tick >= 10000 ? `${tick / 1000}k` : `${tick}`)) }],
      series: [{}, { stroke: colour(second ? '--chart2' : '--chart'), fill: second ? undefined : colour('--shade'), width: 2, points: { show: false } }],
    }, [[], []], place.current);
    const observer = new ResizeObserver(() => drawn.current?.setSize({ width: width(), height: 150 }));
    observer.observe(place.current);
    return () => { observer.disconnect(); drawn.current.destroy(); drawn.current = null; };
  }, [dark]);
  useEffect(() => {
    drawn.current?.setData([points.map(([at]) => at / 1000), points.map(([, value]) => value)]);
  }, [points, dark]);
  return html`<section class="panel"><h2>${title} <span class="quiet">${last === null ? '' : `${number(last)} ${unit}`}</span></h2>
    <div class="chart" ref=${place} role="img" aria-label="${title} over time, now ${last === null ? 'unknown' : `${number(last)} ${unit}`}"></div></section>`;
}

// Asks before something is lost; Escape is no.
export function Question({ title, children, yes, onYes, onNo }) {
  const dialog = useRef(null);
  useEffect(() => { dialog.current.showModal(); }, []);
  return html`<dialog ref=${dialog} aria-labelledby="question" onClose=${onNo}>
    <h2 id="question">${title}</h2><div>${children}</div>
    <div class="bar"><button onClick=${() => dialog.current.close()}>Cancel</button>
      <button class="danger" onClick=${onYes}>${yes}</button></div></dialog>`;
}

// What the path answers, asked again every so often while the view is shown.
export function useAsked(ask, every, ...inputs) {
  const [state, setState] = useState({ found: null, trouble: null });
  useEffect(() => {
    const control = new AbortController();
    let timer = null;
    const turn = async () => {
      try {
        const found = await ask(control.signal);
        if (!control.signal.aborted) setState({ found, trouble: null });
      } catch (error) {
        if (control.signal.aborted) return;
        setState((before) => ({ found: before.found, trouble: error.message }));
      }
      if (!control.signal.aborted) timer = setTimeout(turn, every);
    };
    turn();
    return () => { control.abort(); clearTimeout(timer); };
  }, inputs);
  return state;
}
