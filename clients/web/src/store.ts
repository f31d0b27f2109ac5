// What a device keeps: one IndexedDB a person and deployment, one transaction a step, so that what a step allows to
// leave is stored together with the state that says so.

import { RiffleError } from "./types.js";

/** Of what is stored. A client with a lower number refuses what one with a higher number wrote. */
const layout = 1;

/** What one device keeps. */
export interface Kept {
  /** Its private half can be read by no script. */
  key?: CryptoKeyPair;
  /** base64, and the last epoch in which it admits. */
  credential?: { signed: string; notAfter: number };
  /** What the core saved. */
  state?: Uint8Array;
  optedOut?: boolean;
}

/** One PUT that is repeated until it is answered. A later one of the same name takes its place. */
export interface Outgoing {
  name: string;
  url: string;
  headers: Record<string, string>;
  credentials: RequestCredentials;
  body: Uint8Array;
  /** Nobody waits for it after this, in milliseconds since 1970. */
  until: number;
}

const device = "device";
const outgoing = "outgoing";

/** The name of a database, of its locks and of its background sync. */
export function nameOf(deployment: string, person: string | undefined): string {
  return `riffle/${deployment}/${person ?? ""}`;
}

export class Store {
  #db: IDBDatabase;

  private constructor(db: IDBDatabase) {
    this.#db = db;
  }

  /** lost is called once another version of the client, or the person, takes the database away. */
  static open(name: string, lost: () => void): Promise<Store> {
    return new Promise((resolve, reject) => {
      const request = indexedDB.open(name, layout);
      request.onupgradeneeded = () => {
        request.result.createObjectStore(device);
        request.result.createObjectStore(outgoing, { keyPath: "name" });
      };
      request.onerror = () => reject(failure(request.error));
      request.onblocked = () => reject(failure(null));
      request.onsuccess = () => {
        const db = request.result;
        db.onversionchange = db.onclose = () => {
          db.close();
          lost();
        };
        resolve(new Store(db));
      };
    });
  }

  async read(): Promise<Kept> {
    const kept: Kept = {};
    await this.#step("readonly", (t) => {
      const s = t.objectStore(device);
      for (const part of ["key", "credential", "state", "optedOut"] as const) {
        const request = s.get(part);
        request.onsuccess = () => {
          if (request.result !== undefined) kept[part] = request.result;
        };
      }
    });
    return kept;
  }

  /** Stores all of a step, or nothing. */
  write(parts: Kept, send?: Outgoing): Promise<void> {
    return this.#step("readwrite", (t) => {
      for (const [part, value] of Object.entries(parts)) t.objectStore(device).put(value, part);
      if (send) t.objectStore(outgoing).put(send);
    });
  }

  async unsent(): Promise<Outgoing[]> {
    let all: Outgoing[] = [];
    await this.#step("readonly", (t) => {
      const request = t.objectStore(outgoing).getAll();
      request.onsuccess = () => (all = request.result);
    });
    return all;
  }

  sent(name: string): Promise<void> {
    return this.#step("readwrite", (t) => t.objectStore(outgoing).delete(name));
  }

  close(): void {
    this.#db.close();
  }

  #step(mode: IDBTransactionMode, f: (t: IDBTransaction) => void): Promise<void> {
    return new Promise((resolve, reject) => {
      let t: IDBTransaction;
      try {
        t = this.#db.transaction([device, outgoing], mode, { durability: "strict" });
        f(t);
      } catch (cause) {
        return reject(failure(cause));
      }
      t.oncomplete = () => resolve();
      t.onabort = t.onerror = () => reject(failure(t.error));
    });
  }
}

function failure(cause: unknown): RiffleError {
  if (cause instanceof DOMException && cause.name === "VersionError") {
    return new RiffleError(
      "version",
      "What is stored here was written by a newer version of this client. Reload the page to get that version.",
    );
  }
  return new RiffleError(
    "storage",
    "The browser does not keep what a device must remember. Leave private browsing, or free space on the disk.",
  );
}
