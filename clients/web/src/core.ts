// The core: pkg/device as WebAssembly. All of certificate, ledger, noise and sealing is there and nowhere else.

import "wasm_exec";
import { type Reason, RiffleError } from "./types.js";

declare const WASM_FILE: string;
declare const WASM_SHA256: string; // base64

declare class Go {
  importObject: WebAssembly.Imports;
  run(instance: WebAssembly.Instance): Promise<void>;
}

/** What cmd/libriffle sets. Times are milliseconds since 1970; texts are JSON. */
interface Library {
  open(config: string, saved: Uint8Array, sign?: (message: Uint8Array) => Promise<Uint8Array>): Promise<number>;
  close(handle: number): Promise<void>;
  save(handle: number): Promise<Uint8Array>;
  status(handle: number): Promise<string>;
  follow(handle: number, statement: Uint8Array, now: number): Promise<string>;
  keys(handle: number, statement: Uint8Array): Promise<void>;
  enrol(handle: number, now: number): Promise<Uint8Array>;
  answer(handle: number, reply: Uint8Array, now: number): Promise<string>;
  decide(handle: number, arms: string): Promise<string>;
  encode(handle: number, question: string): Promise<string>;
  reward(handle: number, decision: number, reward: number, now: number): Promise<string>;
  forget(handle: number): Promise<void>;
  report(handle: number, now: number): Promise<Uint8Array>;
  deposit(handle: number, now: number): Promise<Uint8Array>;
  deposited(handle: number): Promise<void>;
}

/** Loads the library once; the bytes are compiled only if they are those that this shell was built with. */
export async function load(assets: string): Promise<Library> {
  const url = new URL(WASM_FILE, assets).href;
  const cache = await globalThis.caches?.open("riffle").catch(() => undefined);
  let answer = await cache?.match(url);
  let bytes = answer && (await answer.arrayBuffer());
  if (!bytes || !(await expected(bytes))) {
    answer = await fetch(url).catch(() => undefined);
    if (!answer?.ok) {
      throw new RiffleError("failed", `The core could not be loaded from ${url}. Serve it beside worker.js.`);
    }
    bytes = await answer.arrayBuffer();
    if (!(await expected(bytes))) {
      throw new RiffleError(
        "failed",
        `${url} is not the core that this client was built with. Serve both from one release.`,
      );
    }
    await replace(cache, url, bytes);
  }
  const go = new Go();
  void go.run((await WebAssembly.instantiate(bytes, go.importObject)).instance);
  return (globalThis as unknown as { riffle: Library }).riffle;
}

async function expected(bytes: ArrayBuffer): Promise<boolean> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return toBase64(digest) === WASM_SHA256;
}

/** Keeps one core: that of the latest client. */
async function replace(cache: Cache | undefined, url: string, bytes: ArrayBuffer): Promise<void> {
  try {
    for (const old of (await cache?.keys()) ?? []) await cache?.delete(old);
    await cache?.put(url, new Response(bytes, { headers: { "Content-Type": "application/wasm" } }));
  } catch {
    // without room in the cache the core is fetched again next time
  }
}

export type { Library };

/** Words of the core, and what the shell says for them. Others are the app's mistakes or the core's. */
const reasons: Record<string, Reason> = {
  no_place: "no_place",
  weak: "limits",
  budget: "spent",
  over: "no_place",
  no_policy: "no_policy",
  no_report: "late",
  late: "late",
  rolled_back: "rolled_back",
  rewound: "foreign",
  foreign: "foreign",
  signature: "foreign",
  contradiction: "foreign",
  saved: "version",
  failed: "failed",
  closed: "failed",
};

/** Runs a call of the library; its errors become the shell's. */
export async function call<T>(f: Promise<T>): Promise<T> {
  try {
    return await f;
  } catch (cause) {
    const { message, reason } = cause as Error & { reason?: string };
    throw new RiffleError(reasons[reason ?? ""] ?? "bad_input", message);
  }
}

/** The same for calls that return JSON. */
export async function json<T>(f: Promise<string>): Promise<T> {
  return JSON.parse(await call(f)) as T;
}

export function toBase64(bytes: Uint8Array, url = false): string {
  let text = "";
  for (const b of bytes) text += String.fromCharCode(b);
  text = btoa(text);
  return url ? text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "") : text;
}
