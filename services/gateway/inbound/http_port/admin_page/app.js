// The page: sign-in, the views by the part of the address behind #, and the stream that feeds them.
import { html, render, useEffect, useRef, useState } from './vendor/preact-htm.js';
import { follow, get, signOut, signedIn, useLogin, useToken, whenRefused } from './api.js';
import { Overview } from './overview.js';
import { Queries } from './queries.js';
import { Subscriptions } from './subscriptions.js';
import { OneSubscription } from './subscription.js';
import { Tables } from './tables.js';

const VIEWS = { overview: 'Overview', queries: 'Live queries', subscriptions: 'Subscriptions', tables: 'Tables' };
const KEPT = 300;

function usePlace() {
  const read = () => location.hash.replace(/^#\/?/, '').split('/');
  const [place, setPlace] = useState(read());
  useEffect(() => {
    const changed = () => setPlace(read());
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  return place;
}

function SignIn({ onSignedIn, notice }) {
  const [how, setHow] = useState('login'), [trouble, setTrouble] = useState(notice), [busy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    if (how === 'login') useLogin(given.get('user'), given.get('password')); else useToken(given.get('token'));
    setBusy(true);
    try { onSignedIn(await get('overview')); } catch (error) { signOut(); setTrouble(error.status === 401 ? 'These credentials were refused.' : error.message); setBusy(false); }
  };
  return html`<main class="signin"><div class="panel"><div class="brand"><img src="/admin/icon.svg" alt="" /><h1>Tidewire</h1></div>
    <p class="quiet small">For members of <code>tidewire_dba</code> and <code>tidewire_system</code>, and tokens with these roles. Nothing is stored: a reload asks again.</p>
    <p class="error" role="alert">${trouble}</p>
    <form onSubmit=${submit}><div class="bar" role="group" aria-label="Sign in by"><button type="button" aria-pressed=${how === 'login'} onClick=${() => setHow('login')}>PostgreSQL login</button>
      <button type="button" aria-pressed=${how === 'token'} onClick=${() => setHow('token')}>Token</button></div>
      ${how === 'login' ? html`<label>Login<input name="user" required autocomplete="username" /></label><label>Password<input name="password" type="password" autocomplete="current-password" /></label>`
        : html`<label>Token<input name="token" type="password" required autocomplete="off" /></label>`}
      <button class="main" disabled=${busy}>${busy ? 'Signing in' : 'Sign in'}</button></form></div></main>`;
}

function View({ place, shown, samples }) {
  switch (place[0]) {
    case 'queries': return html`<${Queries} />`;
    case 'subscriptions': return html`<${Subscriptions} shown=${shown} samples=${samples} />`;
    case 'subscription': return html`<${OneSubscription} key=${place[1]} id=${decodeURIComponent(place[1] ?? '')} />`;
    case 'tables': return html`<${Tables} />`;
    default: return html`<${Overview} shown=${shown} samples=${samples} />`;
  }
}

function House({ first, onLeave }) {
  const place = usePlace(), head = useRef(null);
  const [shown, setShown] = useState(first), [samples, setSamples] = useState(first.samples), [trouble, setTrouble] = useState(null);
  useEffect(() => follow('/api/v1/admin/stream', (name, data) => {
    if (name !== 'overview') return;
    setShown(data);
    setSamples((before) => (data.sample && data.sample.at_ms !== before[before.length - 1]?.at_ms ? [...before, data.sample].slice(-KEPT) : before));
  }, setTrouble), []);
  const name = place[0] === 'subscription' ? `Subscription ${place[1]}` : VIEWS[place[0]] ?? 'Overview';
  const current = place[0] === 'subscription' ? 'subscriptions' : place[0] || 'overview';
  useEffect(() => { document.title = `${name} · Tidewire`; head.current?.focus(); }, [name]);
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); head.current.focus(); }}>To the content</a>
    <header class="top"><div class="brand"><img src="/admin/icon.svg" alt="" />Tidewire</div>
      <nav aria-label="Views">${Object.entries(VIEWS).map(([key, words]) => html`<a href="#/${key}" aria-current=${current === key ? 'page' : undefined}>${words}</a>`)}</nav>
      <div class="who">${first.caller}<button onClick=${onLeave}>Sign out</button></div></header>
    <main id="main"><div class="head"><h1 tabindex="-1" ref=${head}>${name}</h1>${shown.database && html`<span class="quiet">database ${shown.database}</span>`}</div>
      <p class="error" role="alert">${trouble}</p><${View} place=${place} shown=${shown} samples=${samples} /></main>`;
}

function App() {
  const [first, setFirst] = useState(null), [notice, setNotice] = useState(null);
  whenRefused(() => { setFirst(null); setNotice('The credentials hold no longer: sign in again.'); });
  const leave = () => { signOut(); setNotice(null); setFirst(null); };
  return first && signedIn() ? html`<${House} first=${first} onLeave=${leave} />` : html`<${SignIn} notice=${notice} onSignedIn=${setFirst} />`;
}

document.querySelector('#page').replaceChildren();
render(html`<${App} />`, document.querySelector('#page'));
