/** Stands for node-websocket where a bundle is made for browsers only. */

import { Unavailable } from "./errors.js";
import type { Socket, SocketRequest } from "./websocket.js";

export function openNodeSocket(_: SocketRequest): Promise<Socket> {
  return Promise.reject(new Unavailable("this bundle was made for browsers"));
}
