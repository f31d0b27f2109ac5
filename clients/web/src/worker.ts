// The worker that holds the device: one for all tabs where the browser has shared workers, else one a tab.

import { type Place, Session, type WorkerOptions } from "./session.js";
import { type Acceptance, type Choice, type Decision, type Ledger, type Question, RiffleError } from "./types.js";
import type { RiffleEvent, Status } from "./types.js";

/** What a page may ask for, and what it gets. */
export interface Calls {
  open(options: WorkerOptions): Promise<void>;
  prepare(): Promise<Place>;
  decide(question: Question, choice: Choice, place: Place): Promise<Decision>;
  reward(token: string, value: number): Promise<Acceptance>;
  ledger(): Promise<Ledger>;
  status(): Promise<Status>;
  optOut(out: boolean): Promise<void>;
  close(): Promise<void>;
}

export type Ask = { id: number; call: keyof Calls; with: unknown[] };
export type Told =
  | { id: number; value: unknown }
  | { id: number; error: { reason: RiffleError["reason"]; message: string } }
  | { event: RiffleEvent };

let session: Promise<Session> | undefined;
const ports = new Set<MessagePort | typeof globalThis>();

function say(event: RiffleEvent): void {
  const told: Told = { event };
  for (const port of ports) port.postMessage(told);
}

async function answer(port: MessagePort | typeof globalThis, { call, with: args }: Ask): Promise<unknown> {
  if (call === "open") {
    ports.add(port);
    session ??= Session.open(args[0] as WorkerOptions, say);
    session.catch(() => (session = undefined)); // the next page may have more luck
    await session;
    return undefined;
  }
  const opened = await session;
  if (!opened) throw new RiffleError("failed", "The device is closed. Open it again.");
  if (call === "close") {
    ports.delete(port);
    if (ports.size > 0) return undefined;
    session = undefined;
    return opened.close();
  }
  return (opened[call] as (...args: unknown[]) => Promise<unknown>).apply(opened, args);
}

function serve(port: MessagePort | typeof globalThis): void {
  const tell = (told: Told) => port.postMessage(told);
  port.onmessage = async ({ data }: MessageEvent<Ask>) => {
    try {
      tell({ id: data.id, value: await answer(port, data) });
    } catch (cause) {
      const { reason = "failed", message } = cause as RiffleError;
      tell({ id: data.id, error: { reason, message } });
    }
  };
}

if ("onconnect" in globalThis) {
  (globalThis as unknown as { onconnect: (e: MessageEvent) => void }).onconnect = (e) => serve(e.ports[0]!);
} else {
  serve(globalThis);
}
