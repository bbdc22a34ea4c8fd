/** One WebSocket, in browsers by their own, in Node by ours: it sends the token in a header and tells why it was refused. */

import { Unavailable } from "./errors.js";

export interface SocketHandlers {
  message: (text: string) => void;
  /** Called once; 1006 where the connection was torn. */
  closed: (code: number, reason: string) => void;
}

export interface Socket {
  close: (code?: number) => void;
}

export interface SocketRequest {
  url: string;
  token: string;
  openWithinMs: number;
  /** Only in Node: how long it may be silent before it is asked for a sign of life, and how long that may take. */
  silentMs: number;
  handlers: SocketHandlers;
  signal: AbortSignal;
}

/** An open socket; TidewireError if it was refused for good (told in Node only), Unavailable otherwise. */
export async function openSocket(request: SocketRequest): Promise<Socket> {
  if (globalThis.process?.release?.name === "node") {
    const { openNodeSocket } = await import("./node-websocket.js");
    return openNodeSocket(request);
  }
  return openBrowserSocket(request);
}

/** A page cannot set headers here, so the token goes into the address, which the gateway does not log. */
export function openBrowserSocket(request: SocketRequest): Promise<Socket> {
  const url = new URL(request.url.replace(/^http/, "ws"));
  if (request.token !== "") url.searchParams.set("token", request.token);
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url);
    let opened = false;
    const leave = (): void => socket.close();
    const timer = setTimeout(leave, request.openWithinMs);
    request.signal.addEventListener("abort", leave);
    socket.onopen = () => {
      opened = true;
      clearTimeout(timer);
      resolve({ close: (code) => socket.close(code ?? 1000) });
    };
    socket.onmessage = (event) => {
      if (typeof event.data === "string") request.handlers.message(event.data);
    };
    socket.onclose = (event) => {
      clearTimeout(timer);
      request.signal.removeEventListener("abort", leave);
      if (opened) request.handlers.closed(event.code, event.reason);
      else reject(new Unavailable("the WebSocket could not be opened", { unexplained: true }));
    };
    if (request.signal.aborted) leave();
  });
}
