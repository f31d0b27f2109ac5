// Sends what is stored. The worker and the service worker both do; a lock keeps an earlier deposit from arriving after
// a later one.

import type { Outgoing, Store } from "./store.js";

/** Longest wait for one answer, in milliseconds. */
const answerTime = 20_000;

/** What became of one: the server has it, refuses it for good, or is to be asked again. */
export type Fate = "taken" | "refused" | "waits";

/** Sends all that waits, once each, and tells by their names what became of them. */
export async function drain(name: string, store: Store, signal?: AbortSignal): Promise<Map<string, Fate>> {
  return navigator.locks.request(`${name}/send`, async () => {
    const fates = new Map<string, Fate>();
    for (const one of await store.unsent()) {
      const fate = Date.now() > one.until ? "refused" : await put(one, signal);
      fates.set(one.name, fate);
      if (fate !== "waits") await store.sent(one.name);
    }
    return fates;
  });
}

/** Answers that another try may change, besides those from 500 on: who is not logged in may be later. */
const passing = [401, 403, 408, 425, 429];

/**
 * Only 204 says that it is taken. Any other answer that is no error is somebody else's, as of a login page: whoever took
 * that for the mailbox's would report on decisions of which only those who stay leave a report.
 */
async function put(one: Outgoing, signal?: AbortSignal): Promise<Fate> {
  try {
    const { status } = await fetch(one.url, {
      method: "PUT",
      headers: { "Content-Type": "application/octet-stream", ...one.headers },
      credentials: one.credentials,
      body: one.body,
      redirect: "manual",
      signal: within(answerTime, signal),
    });
    if (status === 204) return "taken";
    return status < 400 || status >= 500 || passing.includes(status) ? "waits" : "refused";
  } catch {
    return "waits";
  }
}

/** A signal that aborts after so many milliseconds, or once another one does. */
export function within(ms: number, or?: AbortSignal): AbortSignal {
  const control = new AbortController();
  if (or?.aborted) control.abort();
  const timer = setTimeout(() => control.abort(), ms);
  or?.addEventListener("abort", () => (clearTimeout(timer), control.abort()), { once: true });
  return control.signal;
}
