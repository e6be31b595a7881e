/** The page's one Socket.IO connection. Without it the page still works, by polling (see feed.ts). */

import { io, type Socket } from "socket.io-client";
import type { JobMessage, KernelsMessage } from "./types";

let shared: Socket | null = null;

function socket(): Socket {
  shared ??= io("/events", { transports: ["websocket"], reconnectionDelayMax: 5000 });
  return shared;
}

/** Each returns what undoes it. */
export function onJobMessage(handle: (message: JobMessage) => void): () => void {
  const s = socket();
  s.on("job", handle);
  return () => s.off("job", handle);
}

export function onKernelsChanged(handle: (message: KernelsMessage) => void): () => void {
  const s = socket();
  s.on("kernels", handle);
  return () => s.off("kernels", handle);
}

export function onDevicesChanged(handle: () => void): () => void {
  const s = socket();
  s.on("devices", handle);
  return () => s.off("devices", handle);
}

/** Calls at once with the present state, then whenever it changes. */
export function onConnection(handle: (connected: boolean) => void): () => void {
  const s = socket();
  const up = () => handle(true);
  const down = () => handle(false);
  s.on("connect", up);
  s.on("disconnect", down);
  handle(s.connected);
  return () => {
    s.off("connect", up);
    s.off("disconnect", down);
  };
}
