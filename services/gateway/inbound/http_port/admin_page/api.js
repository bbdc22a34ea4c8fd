// Calls to the gateway. The credentials live in this module's memory alone and go with a reload.
let authorization = null;
let onRefused = () => {};

export const signedIn = () => authorization !== null;
export const signOut = () => { authorization = null; };
export const whenRefused = (callback) => { onRefused = callback; };

export function useLogin(user, password) {
  const bytes = new TextEncoder().encode(`${user}:${password}`);
  authorization = 'Basic ' + btoa(String.fromCharCode(...bytes));
}

export const useToken = (token) => { authorization = `Bearer ${token.trim()}`; };

export class Refused extends Error {
  constructor(status, code, message) { super(message); this.status = status; this.code = code; }
}

// credentials: omit keeps the browser from asking for a password by itself when it sees a 401.
async function send(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { ...options, credentials: 'omit', cache: 'no-store', headers: { ...options.headers, Authorization: authorization } });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Refused(0, 'unreachable', 'The gateway does not answer.');
  }
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({}));
  if (answer.status === 401 && signedIn()) { signOut(); onRefused(); }
  throw new Refused(answer.status, body.error?.code, body.error?.message ?? `the gateway answered ${answer.status}`);
}

export const get = async (path, signal) => (await send(`/api/v1/admin/${path}`, { signal })).json();

export async function rpc(method, params) {
  const call = { skeinql: '1.0', id: 1, method, params };
  const headers = { 'Content-Type': 'application/json' };
  const answer = await (await send('/api/v1/rpc', { method: 'POST', headers, body: JSON.stringify(call) })).json();
  if (!answer.ok) throw new Refused(200, answer.error.code, answer.error.message);
  return answer.result;
}

// EventSource cannot send a header, and a token in a URL ends up in logs: the stream is read by fetch.
export async function listen(path, onEvent, signal) {
  const answer = await send(path, { signal, headers: { Accept: 'text/event-stream' } });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const pieces = (rest + value).split('\n\n');
    rest = pieces.pop();
    for (const piece of pieces) {
      const event = { name: 'message', id: null, data: [] };
      for (const line of piece.split('\n')) {
        if (line.startsWith('event: ')) event.name = line.slice(7);
        else if (line.startsWith('id: ')) event.id = line.slice(4);
        else if (line.startsWith('data: ')) event.data.push(line.slice(6));
      }
      if (event.data.length) onEvent(event.name, JSON.parse(event.data.join('\n')), event.id);
    }
  }
}

// Listens, and again after a break, until the signal ends it or the gateway says that it is over.
export function follow(path, onEvent, onTrouble) {
  const control = new AbortController();
  (async () => {
    for (let wait = 500; !control.signal.aborted && signedIn(); wait = Math.min(2 * wait, 8000)) {
      try {
        await listen(path, (...event) => { wait = 500; onTrouble(null); onEvent(...event); }, control.signal);
      } catch (error) {
        if (control.signal.aborted) return;
        onTrouble(error.message);
        if (error.status === 404 || error.status === 403) return;
      }
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  })();
  return () => control.abort();
}
