// For an app's service worker: sends what pages stored before they were closed. importScripts("service-worker.js") in
// an own one, or register this file.

import { drain } from "./outbox.js";
import { Store } from "./store.js";

interface SyncEvent extends Event {
  tag: string;
  waitUntil(done: Promise<unknown>): void;
}

async function all(): Promise<void> {
  let waits = false;
  for (const { name } of await indexedDB.databases()) {
    if (!name?.startsWith("riffle/")) continue;
    const store = await Store.open(name, () => {});
    waits = [...(await drain(name, store)).values()].includes("waits") || waits;
    store.close();
  }
  if (waits) throw new Error("riffle: a deposit waits for its answer"); // the browser tries again later
}

addEventListener("sync", (e) => {
  const event = e as SyncEvent;
  if (event.tag === "riffle") event.waitUntil(all());
});
