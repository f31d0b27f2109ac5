// What a page imports.

import { nameOf } from "./store.js";
import {
  type Acceptance,
  type Choice,
  type Decision,
  type Endpoint,
  type Ledger,
  type Options,
  type Question,
  RiffleError,
  type Status,
} from "./types.js";
import type { Ask, Calls, Told } from "./worker.js";

export * from "./types.js";

type Answered<K extends keyof Calls> = Awaited<ReturnType<Calls[K]>>;

/** One device of one person. */
export class Riffle {
  #port: MessagePort | Worker;
  #worker: SharedWorker | Worker;
  #asked = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>();
  #next = 0;

  private constructor(worker: SharedWorker | Worker, on: Options["onEvent"]) {
    this.#worker = worker;
    this.#port = "port" in worker ? worker.port : worker;
    this.#port.onmessage = ({ data }: MessageEvent<Told>) => {
      if ("event" in data) {
        if (data.event.type === "stored") void background();
        on?.(data.event);
        return;
      }
      const asked = this.#asked.get(data.id);
      this.#asked.delete(data.id);
      if ("error" in data) asked?.reject(new RiffleError(data.error.reason, data.error.message));
      else asked?.resolve(data.value as never);
    };
    worker.onerror = (e) => {
      const what = (e as ErrorEvent).message || "it could not be loaded";
      const error = new RiffleError("failed", `The worker failed: ${what}. Serve worker.js beside index.js.`);
      for (const { reject } of this.#asked.values()) reject(error);
      this.#asked.clear();
    };
  }

  /**
   * Opens the person's device, after the first paint. It rejects only if the core cannot be loaded or the options are
   * wrong; whatever else keeps the device from taking part is in its status, and it decides all the same.
   */
  static async open({ onEvent, ...options }: Options): Promise<Riffle> {
    if (!isSecureContext) {
      throw new RiffleError("browser", "This page is not in a secure context. Serve it over https.");
    }
    if (options.mailbox === null) {
      console.warn("riffle: without a mailbox the report leaves only if this page stays open. This is for tests.");
    }
    await painted();
    const assets = new URL(options.assets ?? ".", options.assets ? location.href : import.meta.url).href;
    const url = new URL("worker.js", assets);
    const name = nameOf(options.bundle.deployment, options.person);
    const worker =
      "SharedWorker" in globalThis
        ? new SharedWorker(url, { name, type: "module" })
        : new Worker(url, { name, type: "module" });
    const riffle = new Riffle(worker, onEvent);
    // Some browsers ask the person, and answer when they do, if ever: nothing waits for it.
    void navigator.storage?.persist?.().catch(() => false);
    const { ingress, issuer, mailbox } = options;
    const [at, box] = [resolved(issuer), mailbox === null ? null : resolved(mailbox)];
    await riffle.#ask("open", { ...options, ingress: resolved(ingress).url, issuer: at, mailbox: box, assets });
    return riffle;
  }

  #ask<K extends keyof Calls>(call: K, ...args: Parameters<Calls[K]>): Promise<Answered<K>> {
    return new Promise((resolve, reject) => {
      const id = this.#next++;
      this.#asked.set(id, { resolve, reject });
      const ask: Ask = { id, call, with: args };
      this.#port.postMessage(ask);
    });
  }

  /**
   * Decides between arms. The device first takes a place in the cohort and deposits the null record; only then it calls
   * question, where that is a function, and reads the arms. It always says which arm to play: where the device takes no
   * part, by the announced policy, and where there is none, the default. It rejects what is no question.
   */
  async decide(
    question: Question | (() => Question | Promise<Question>),
    choice: Choice = {},
  ): Promise<Decision> {
    const place = await this.#ask("prepare");
    const asked = typeof question === "function" ? await question() : question;
    return this.#ask("decide", asked, choice, place);
  }

  /**
   * Tells the reward of a decision, once: in this page, or in a later one to which the app kept the decision's token. It
   * resolves when the reward is stored and was sent once, or could not be.
   */
  reward(decision: Pick<Decision, "token">, value: number): Promise<Acceptance> {
    return this.#ask("reward", decision.token, value);
  }

  /** What the person has spent and promised, in words and numbers. */
  ledger(): Promise<Ledger> {
    return this.#ask("ledger");
  }

  status(): Promise<Status> {
    return this.#ask("status");
  }

  /** Takes no part from now on, or with false takes part again. What is promised leaves at its time all the same. */
  optOut(out = true): Promise<void> {
    return this.#ask("optOut", out);
  }

  /** Lets the device go. Other tabs keep it. */
  async close(): Promise<void> {
    await this.#ask("close");
    if ("terminate" in this.#worker) this.#worker.terminate();
    else this.#worker.port.close();
  }
}

/** The address as the worker needs it, which is at another one. */
function resolved(of: string | Endpoint): Endpoint {
  const { url, ...login } = typeof of === "string" ? { url: of } : of;
  return { url: new URL(url, location.href).href.replace(/\/+$/, ""), ...login };
}

/** Resolves once the page has been painted, or soon where it is hidden. */
function painted(): Promise<void> {
  if (performance.getEntriesByName("first-contentful-paint").length > 0) return Promise.resolve();
  return new Promise((resolve) => {
    if ("requestIdleCallback" in globalThis) requestIdleCallback(() => resolve(), { timeout: 1000 });
    else setTimeout(resolve, 100);
  });
}

/** Has the service worker send what is stored, should this page be closed before. */
async function background(): Promise<void> {
  const registered = await navigator.serviceWorker?.getRegistration();
  const sync = (registered as { sync?: { register(tag: string): Promise<void> } } | undefined)?.sync;
  await sync?.register("riffle").catch(() => {});
}
