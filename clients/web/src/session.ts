// One device in one worker: the order of its steps, and what is stored before what is sent.

import { call, json, type Library, load, toBase64 } from "./core.js";
import { drain, type Fate, within } from "./outbox.js";
import { type Kept, nameOf, type Outgoing, Store } from "./store.js";
import { announcements, credential, enrol, keys, Problem } from "./transport.js";
import {
  type Acceptance,
  type Channel,
  type Choice,
  type Decision,
  type Endpoint,
  type Ledger,
  type Options,
  type Question,
  type Reason,
  RiffleError,
  type RiffleEvent,
  type Status,
} from "./types.js";

/** The options as the worker gets them: with whole addresses. */
export type WorkerOptions = Omit<Options, "onEvent" | "issuer" | "mailbox" | "assets"> & {
  issuer: Endpoint;
  mailbox: Endpoint | null;
  assets: string;
};

/** device.Status, as far as the shell reads it. */
interface CoreStatus {
  epoch: number;
  round: number;
  final: boolean;
  epsilon?: number;
  channel?: Channel;
  guarantee?: string;
  refused?: string;
  report_at?: string;
  place?: { epoch: number; slot: number; ticket?: string; report_at: string };
  ledger: { epsilon: number; delta: number; records?: number; entries?: Ledger["entries"] };
  account: string;
}

/** Why the device takes no part in a decision; nothing where it does. */
export type Place = { reason: Reason; detail: string } | undefined;

/** How often the same question is asked anew because the shuffler has moved on, or did not hear. */
const attempts = 4;

export class Session {
  #options: WorkerOptions;
  #name: string;
  #say: (event: RiffleEvent) => void;
  #store!: Store;
  #library!: Library;
  #handle = 0;
  #kept: Kept = {};
  #stopped: Place; // until the worker ends
  #waits = false; // another worker has the lock
  #last: Promise<unknown> = Promise.resolve();
  #timer?: ReturnType<typeof setTimeout>;
  #unlock = () => {};

  private constructor(options: WorkerOptions, say: (event: RiffleEvent) => void) {
    this.#options = options;
    this.#name = nameOf(options.bundle.deployment, options.person);
    this.#say = say;
  }

  /** Opens the device. What keeps it from taking part is no error: it decides with what is announced all the same. */
  static async open(options: WorkerOptions, say: (event: RiffleEvent) => void): Promise<Session> {
    const session = new Session(options, say);
    session.#library = await load(options.assets);
    await session.#one(() => session.#begin());
    return session;
  }

  /** One step at a time, in the order in which they were asked for. */
  #one<T>(step: () => Promise<T>): Promise<T> {
    const next = this.#last.then(step);
    this.#last = next.catch(() => {});
    return next;
  }

  async #begin(): Promise<void> {
    if (!globalThis.indexedDB || !navigator.locks) {
      this.#stop("browser", "This browser has no IndexedDB or no locks, which a device needs. Use a newer one.");
      return this.#start();
    }
    this.#waits = !(await this.#lock());
    try {
      this.#store = await Store.open(this.#name, () => this.#lost());
      await this.#recall();
    } catch (cause) {
      this.#stop((cause as RiffleError).reason ?? "storage", (cause as Error).message);
      this.#kept = {}; // what cannot be read stays where it is
      await this.#start();
    }
    await this.#follow(this.#patience()).catch(() => {});
    await this.#due();
    this.#changed();
  }

  /** Takes the lock for as long as this worker lives; where another has it, waits for it and says so. */
  #lock(): Promise<boolean> {
    const hold = () => new Promise<void>((release) => (this.#unlock = release));
    return new Promise((resolve) => {
      void navigator.locks.request(`${this.#name}/device`, { ifAvailable: true }, (lock) => {
        resolve(lock !== null);
        if (lock) return hold();
        void navigator.locks.request(`${this.#name}/device`, async () => {
          const held = hold();
          await this.#one(() => this.#succeed());
          return held;
        });
        return undefined;
      });
    });
  }

  /** Goes on from what the worker that had the lock stored. */
  async #succeed(): Promise<void> {
    this.#waits = false;
    if (!this.#stopped) await this.#recall();
    await this.#due();
    this.#changed();
  }

  /** Reads what is stored; without a key it makes one. */
  async #recall(): Promise<void> {
    this.#kept = await this.#store.read();
    if (!this.#kept.key && !this.#waits) {
      let key: CryptoKeyPair;
      try {
        key = (await crypto.subtle.generateKey("Ed25519", false, ["sign", "verify"])) as CryptoKeyPair;
      } catch {
        throw new RiffleError(
          "browser",
          "This browser has no Ed25519 in WebCrypto. Use Chrome or Edge 137, Firefox 129, Safari 17, or later.",
        );
      }
      await this.#keep({ key });
    }
    await this.#start();
  }

  /** Opens the core with what is kept. */
  async #start(): Promise<void> {
    const { bundle, limits } = this.#options;
    const { key, credential, state } = this.#kept;
    const config = {
      deployment: bundle.deployment,
      analyzer: padded(bundle.analyzer),
      shuffler: padded(bundle.shuffler),
      limits,
      credential: credential?.signed,
      public: key ? toBase64(await exported(key)) : toBase64(new Uint8Array(32)),
    };
    const sign = async (message: Uint8Array) =>
      new Uint8Array(await crypto.subtle.sign("Ed25519", key!.privateKey, message));
    const before = this.#handle;
    this.#handle = await call(this.#library.open(JSON.stringify(config), state ?? new Uint8Array(), sign));
    if (before) await this.#library.close(before);
  }

  async #keep(parts: Kept, send?: Outgoing): Promise<void> {
    await this.#store.write(parts, send);
    Object.assign(this.#kept, parts);
    if (send) this.#say({ type: "stored" });
  }

  /** Makes durable what the core knows, in one transaction with what may leave then. */
  async #save(send?: Outgoing): Promise<void> {
    if (this.#waits || !this.#store || this.#stopped) return;
    await this.#keep({ state: await call(this.#library.save(this.#handle)) }, send);
  }

  #lost(): void {
    this.#stop(
      "storage",
      "What the device stored was taken away: by the person, or by a newer version of this client. Reload the page.",
    );
    this.#changed();
  }

  #stop(reason: Reason, detail: string): void {
    this.#stopped ??= { reason, detail };
  }

  #patience(): AbortSignal {
    return within(this.#options.patience ?? 5000);
  }

  #status(): Promise<CoreStatus> {
    return json<CoreStatus>(this.#library.status(this.#handle));
  }

  /**
   * Follows the chain of announcements to its end, and takes the shuffler's keys. While a mailbox has the device's report
   * it asks for nothing: who comes back, and when, may be the reward, and the ingress is the shuffler's. The epoch has
   * one round, so there is nothing new for it before.
   */
  async #follow(signal: AbortSignal): Promise<void> {
    const { ingress, mailbox } = this.#options;
    let { epoch, round, place } = await this.#status();
    if (mailbox && place && Date.now() < Date.parse(place.report_at)) return;
    for (let fresh = true; fresh; ) {
      fresh = false;
      for (const statement of await announcements(ingress, epoch, round, signal)) {
        fresh = (await json<{ fresh: boolean }>(this.#library.follow(this.#handle, statement, Date.now()))).fresh || fresh;
      }
      if (fresh) await this.#save();
      ({ epoch, round } = await this.#status());
    }
    await call(this.#library.keys(this.#handle, await keys(ingress, signal)));
    await this.#save();
  }

  /**
   * Takes a place in the cohort, and deposits the null record. Only then may the arms be read. It returns why the
   * device takes no part in the decision that follows.
   */
  prepare(): Promise<Place> {
    return this.#one(async () => {
      const place = await this.#place(this.#patience()).catch((cause): Place => why(cause));
      if (place?.reason === "rolled_back") {
        this.#stop(place.reason, place.detail);
        this.#changed();
      }
      if (place && this.#options.mailbox) await this.#settle();
      return place;
    });
  }

  /**
   * Has the device know for good that it makes no report for what it promised. That is settled before the arms are read:
   * a page that is closed over them must not deposit when it comes back.
   */
  async #settle(): Promise<void> {
    if (this.#stopped || this.#waits || !this.#library) return;
    await call(this.#library.decide(this.#handle, "[]")).catch(() => {}); // about nothing: it is noted, and refused
    await this.#save();
  }

  async #place(signal: AbortSignal): Promise<Place> {
    if (this.#stopped) return this.#stopped;
    if (this.#waits) {
      await this.#recall().catch(() => {}); // the other tab may have a place by now
      await this.#follow(signal).catch(() => {});
      return elsewhere;
    }
    await this.#follow(signal);
    if (this.#kept.optedOut) return { reason: "opted_out", detail: "The person has opted out." };
    let status = await this.#status();
    if (!status.place) {
      // Nobody asks the issuer for nothing: it counts a credential for good.
      if (status.refused) return { reason: "limits", detail: status.refused };
      if (status.final) return { reason: "no_place", detail: "Learning is over: the last policy stays." };
      const refused = await this.#ask(signal);
      if (refused) return refused;
      status = await this.#status();
    }
    this.#arm(status);
    return this.#options.mailbox ? this.#depositNull(status, signal) : undefined;
  }

  /**
   * Asks for a place until there is an answer, or patience ends: before the arms are read, and not later. A page that
   * asked on while it is open would tell the shuffler, which can lose replies on purpose, how long the person stays.
   */
  async #ask(signal: AbortSignal): Promise<Place> {
    for (let attempt = 1; ; attempt++) {
      if (!this.#kept.credential || (await this.#status()).epoch > this.#kept.credential.notAfter) {
        await this.#admit(signal);
      }
      const request = await call(this.#library.enrol(this.#handle, Date.now()));
      await this.#save();
      let said: { enrolled?: boolean; refusal?: string; again?: boolean };
      try {
        const reply = await enrol(this.#options.ingress, request, signal);
        said = await json(this.#library.answer(this.#handle, reply, Date.now()));
      } catch (cause) {
        const lost = cause instanceof TypeError && attempt < attempts; // the connection
        const unheard = cause instanceof Problem && cause.status >= 500;
        const unopened = (cause as { reason?: string }).reason === "unopened";
        if (!lost && !unheard && !unopened) {
          await this.#save(); // what was proved of a rolled back state is kept
          throw cause;
        }
        said = { again: true, refusal: (cause as Error).message };
      }
      await this.#save();
      if (said.enrolled) return undefined;
      if (!said.again || attempt === attempts) {
        return { reason: "refused", detail: `The shuffler gave no place: ${said.refusal}.` };
      }
      await pause(200 * attempt, signal);
      await this.#follow(signal);
    }
  }

  /** Asks the issuer to admit this installation. */
  async #admit(signal: AbortSignal): Promise<void> {
    const key = toBase64(await exported(this.#kept.key!), true);
    try {
      await this.#keep({ credential: await credential(this.#options.issuer, key, signal) });
    } catch (cause) {
      if (!(cause instanceof Problem)) {
        throw new RiffleError("not_admitted", "The issuer did not answer. The device asks again at the next decision.");
      }
      if (cause.reason === "issued") {
        throw new RiffleError(
          "second_credential",
          "This account has its credential for this period, under a key that this browser does not have: its storage " +
            "was cleared, or another browser has it. Use that one, or take part again in the next period.",
        );
      }
      const then = cause.status === 401 ? "Log in and decide again." : "The device asks again at the next decision.";
      throw new RiffleError("not_admitted", `The issuer gave no credential: ${cause.message}. ${then}`);
    }
    await this.#start();
  }

  /** Has the mailbox hold the report of the null record before anybody knows the arms. */
  async #depositNull(status: CoreStatus, signal: AbortSignal): Promise<Place> {
    let envelope: Uint8Array;
    try {
      envelope = await call(this.#library.deposit(this.#handle, Date.now()));
    } catch (cause) {
      if ((cause as RiffleError).reason === "late") return undefined; // the mailbox has it
      throw cause;
    }
    const one = this.#addressed(status, envelope);
    await this.#save(one);
    const fate = (await drain(this.#name, this.#store, signal)).get(one.name);
    if (fate !== "taken") {
      // Whether a report arrives is settled before the arms are known: this one is not sent again.
      await this.#store.sent(one.name);
      const detail =
        fate === "refused"
          ? "The mailbox refused the null record: see its answer, and whether its address is right."
          : "The mailbox did not take the null record in time: it was not reached, or nobody is logged in there.";
      return { reason: "mailbox", detail };
    }
    await call(this.#library.deposited(this.#handle));
    await this.#save();
    this.#changed();
    return undefined;
  }

  /** Where a sealed report goes: to the mailbox, and where there is none to the ingress. */
  #addressed({ place, round }: CoreStatus, body: Uint8Array, digest?: string): Outgoing {
    const { epoch, slot, ticket, report_at } = place!;
    const due = Date.parse(report_at);
    const box = this.#options.mailbox;
    const shown = `${(ticket ?? "").replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}.${slot}`;
    const of = `${epoch}.${round}`;
    return {
      name: `${of}/${slot}`,
      url: box ? `${box.url}/v1/deposits/${of}/${slot}` : `${this.#options.ingress}/v1/reports/${of}/${digest}`,
      headers: { "Riffle-Ticket": shown, ...(box && { "Riffle-Due": String(due), ...box.headers }) },
      credentials: box ? (box.credentials ?? "same-origin") : "omit",
      body,
      until: box ? due : due + 24 * 3600_000,
    };
  }

  decide(question: Question, choice: Choice, place: Place): Promise<Decision> {
    return this.#one(async () => {
      const ids = "context" in question || !Array.isArray(question.arms?.[0]) ? question.arms : undefined;
      const id = (arm: number) => ({ id: (ids?.[arm] as { id?: string } | undefined)?.id });
      if (!Array.isArray(question.arms) || question.arms.length === 0) {
        throw new RiffleError("bad_input", "The question has no arms. Pass {arms: [[...], ...]} or {context, arms}.");
      }
      let made: Omit<Decision, "token"> & { handle?: number };
      try {
        const arms = ids ? await json(this.#library.encode(this.#handle, JSON.stringify(question))) : question.arms;
        made = await json(this.#library.decide(this.#handle, JSON.stringify({ arms, ...choice })));
      } catch (cause) {
        if ((cause as RiffleError).reason !== "no_policy") throw cause;
        const arm = choice.default ?? 0;
        const detail = "No announcement has been seen yet, so the default arm is played.";
        return { arm, ...id(arm), epoch: 0, propensity: 1, sampled: false, reason: "no_policy", detail, token: "" };
      }
      await this.#save();
      const { arm, epoch, propensity, handle } = made;
      const sampled = made.sampled && !place;
      const token = sampled ? String(handle ?? "") : "";
      const but = place ?? { reason: "already" as const, detail: "The report of this epoch has its decision already." };
      return { arm, ...id(arm), epoch, propensity, sampled, ...(!sampled && but), token };
    });
  }

  reward(token: string, value: number): Promise<Acceptance> {
    return this.#one(async () => {
      const detail = "The device does not report on this decision.";
      if (!token) return { accepted: false, reason: "not_sampled", detail };
      if (this.#stopped) return { accepted: false, ...this.#stopped };
      if (this.#waits) return { accepted: false, ...elsewhere };
      const status = await this.#status();
      const mailbox = this.#options.mailbox !== null;
      let taken: Acceptance;
      try {
        taken = await json(this.#library.reward(this.#handle, Number(token), value, Date.now()));
        if (mailbox) {
          const envelope = await call(this.#library.deposit(this.#handle, Date.now()));
          await this.#save(this.#addressed(status, envelope));
          await call(this.#library.deposited(this.#handle)); // what is stored is sent, by whoever
        } else {
          await this.#save();
        }
      } catch (cause) {
        if ((cause as RiffleError).reason !== "late") throw cause;
        return { accepted: false, ...why(cause)! };
      }
      if (mailbox) await this.#drain(this.#patience());
      return taken;
    });
  }

  /** Sends what is stored; what is left is sent again later. */
  async #drain(signal?: AbortSignal): Promise<void> {
    if (!this.#store || this.#waits) return;
    const fates = [...(await drain(this.#name, this.#store, signal).catch(() => new Map<string, Fate>())).values()];
    if (fates.includes("taken")) this.#say({ type: "sent" });
    if (fates.includes("waits")) this.#later(30_000);
  }

  /** Sees to it that the report is made when it is due, or that a mailbox's leaves no record here. */
  #arm({ place, report_at }: CoreStatus): void {
    const due = Date.parse((this.#options.mailbox ? place?.report_at : report_at) ?? "");
    if (due > Date.now()) this.#later(due - Date.now());
  }

  #later(wait: number): void {
    clearTimeout(this.#timer);
    const longest = 2 ** 31 - 1; // of a browser's timer
    this.#timer = setTimeout(() => void this.#one(() => this.#due()).catch(() => {}), Math.min(wait, longest));
  }

  /** Does what is due, and has the rest done when it is. */
  async #due(): Promise<void> {
    const status = await this.#status();
    this.#arm(status);
    if (!this.#waits && !this.#stopped) {
      if (!this.#options.mailbox) {
        const envelope = await call(this.#library.report(this.#handle, Date.now())).catch(() => undefined);
        if (envelope) await this.#save(this.#addressed(status, envelope, await hex(envelope)));
      } else if (status.place && Date.parse(status.place.report_at) <= Date.now()) {
        await call(this.#library.forget(this.#handle)); // the mailbox sends what it has
        await this.#save();
      }
    }
    await this.#drain();
  }

  /** What is deposited leaves at its time, since who is missing would say something. Nothing more is asked for. */
  optOut(out: boolean): Promise<void> {
    return this.#one(async () => {
      if (!this.#store || this.#waits) {
        throw new RiffleError("another_tab", "Another tab has the device, or nothing is stored. Opt out there.");
      }
      if (out) {
        await call(this.#library.forget(this.#handle));
        if (this.#options.mailbox) for (const { name } of await this.#store.unsent()) await this.#store.sent(name);
      }
      const state = this.#kept.state && (await call(this.#library.save(this.#handle))); // not in place of an unread one
      await this.#keep({ optedOut: out, ...(state && { state }) });
      this.#changed();
    });
  }

  status(): Promise<Status> {
    return this.#one(() => this.#described());
  }

  async #described(): Promise<Status> {
    const s = await this.#status();
    const refused: Place = s.refused ? { reason: "limits", detail: s.refused } : undefined;
    const out: Place = this.#kept.optedOut ? { reason: "opted_out", detail: "The person has opted out." } : undefined;
    const but = this.#stopped ?? out ?? refused;
    return {
      state: but ? "stopped" : this.#waits ? "waiting" : "active",
      ...but,
      epoch: s.epoch,
      final: s.final,
      epsilon: s.epsilon,
      channel: s.channel,
      reportAt: s.place ? Date.parse(s.place.report_at) : undefined,
      unsent: this.#store ? (await this.#store.unsent().catch(() => [])).length : 0,
      persisted: (await navigator.storage?.persisted?.().catch(() => false)) ?? false,
    };
  }

  ledger(): Promise<Ledger> {
    return this.#one(async () => {
      const { ledger, account, guarantee } = await this.#status();
      const { epsilon, delta, records, entries } = ledger;
      return {
        words: account,
        guarantee: guarantee ?? "",
        epsilon,
        delta,
        records: records || 1,
        entries: (entries ?? []).map(({ epoch, releases, state }) => ({ epoch, releases, state })),
      };
    });
  }

  #changed(): void {
    void this.#described().then(
      (status) => this.#say({ type: "status", status }),
      () => {},
    );
  }

  /** Ends the device in this worker, after the steps that were asked for. */
  close(): Promise<void> {
    return this.#one(async () => {
      clearTimeout(this.#timer);
      await this.#library.close(this.#handle);
      this.#store?.close();
      this.#unlock();
    });
  }
}

const elsewhere = {
  reason: "another_tab" as const,
  detail: "Another tab has the device. Close it to take part from here.",
};

/** What an error says of the device's place. */
function why(cause: unknown): Place {
  if (cause instanceof RiffleError) return { reason: cause.reason, detail: cause.message };
  if (cause instanceof Problem) return { reason: "refused", detail: cause.message };
  return { reason: "offline", detail: "The ingress did not answer in time. The next decision asks again." };
}

async function exported(key: CryptoKeyPair): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.exportKey("raw", key.publicKey));
}

async function hex(bytes: Uint8Array): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (b) => b.toString(16).padStart(2, "0")).join("");
}

/** base64 of either alphabet, padded as Go's decoder wants it. */
function padded(text: string): string {
  text = text.replaceAll("-", "+").replaceAll("_", "/").replace(/=+$/, "");
  return text.padEnd(Math.ceil(text.length / 4) * 4, "=");
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    setTimeout(resolve, ms);
    signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
  });
}
