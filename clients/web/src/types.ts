// What an app passes to the shell and gets from it.

/** Where an organisation's own handler answers, and what its login needs. */
export interface Endpoint {
  url: string;
  headers?: Record<string, string>;
  /** As of fetch; "same-origin" where absent. Cookies still work when the page is closed; headers may have run out. */
  credentials?: RequestCredentials;
}

/** The deployment's bundle.json. Other fields of it are ignored. */
export interface Bundle {
  deployment: string;
  /** Ed25519 public keys, base64. */
  analyzer: string;
  shuffler: string;
}

/** What the person agrees to, whatever is announced: device.Limits of the Go code. What is absent has its default. */
export type Limits = Partial<{
  trust: Channel[];
  epsilon: number;
  epsilon_alone: number;
  delta: number;
  min_cohort: number;
  dishonest: number;
  max_dishonest: number;
  max_releases: number;
  max_norm: number;
  max_messages: number;
  max_report_size: number;
  max_noise_bits: number;
  records: number;
  period: number;
  min_epoch: string;
}>;

export type Channel = "shuffle" | "shares" | "local" | "central";

export interface Options {
  /** Base URL of the ingress. */
  ingress: string;
  /** Base URL of the issuer, behind the app's own login. */
  issuer: string | Endpoint;
  /**
   * Base URL of the mailbox, behind the app's own login. null is for tests alone: the report then leaves only if the
   * page still lives when it is due, and staying is often the reward itself.
   */
  mailbox: string | Endpoint | null;
  bundle: Bundle;
  limits?: Limits;
  /** Separates people who share a browser. It never leaves the browser. */
  person?: string;
  /** Folder of worker.js and the wasm core, with a slash at its end; the folder of this script where absent. */
  assets?: string;
  /** How long a decision may wait for a place in the cohort, in milliseconds; 5000 where absent. */
  patience?: number;
  onEvent?: (event: RiffleEvent) => void;
}

export type Value = number | string | boolean;

/** Features, as the announced schema names them. */
export interface Features {
  context?: Record<string, Value>;
  arms: Array<{ id: string } & Record<string, Value>>;
}

/** Arms as vectors of the deployment's dimension. */
export interface Vectors {
  arms: number[][];
}

export type Question = Features | Vectors;

export interface Choice {
  /** Index of the arm that is played where nothing better is known; the first where absent. */
  default?: number;
  /** Indices of arms that must not be played. */
  exclude?: number[];
}

/** Why a decision is not sampled, a reward not taken, or a device takes no part. */
export type Reason =
  | "no_policy" // nothing announced has been seen yet: the default arm is played
  | "offline" // the ingress did not answer in time
  | "refused" // the shuffler gave no place: detail names its refusal
  | "mailbox" // the mailbox did not take the null record in time: there will be no report from this place
  | "limits" // the announced plan is weaker than the person's limits
  | "spent" // the ledger allows no further record
  | "no_place" // there is nothing to ask for now: learning is over, or the cohort is closed
  | "not_admitted" // the issuer gave no credential: not logged in, or it is not reached
  | "second_credential" // the account has its credential, and this browser lost the key of it
  | "rolled_back" // the stored state is older than what the device has done
  | "foreign" // a statement that is not the deployment's, or another past than the one seen
  | "storage" // the browser keeps nothing durably here
  | "browser" // the browser lacks what a device needs: Ed25519 in WebCrypto, IndexedDB, locks
  | "version" // what is stored was written by a newer version of this client
  | "another_tab" // another tab has the device
  | "opted_out"
  | "already" // the report has a decision already
  | "late" // the reward window is over, or the report was made
  | "not_sampled" // the device does not report on this decision
  | "bad_input" // of the app: the sentence says what is wrong
  | "failed"; // the core failed: close and open again

export interface Decision {
  /** Index of the arm to play. */
  arm: number;
  /** Its id, where the question named one. */
  id?: string;
  /** Whose policy decided; 0 where there was none. */
  epoch: number;
  /** With which the policy plays this arm. */
  propensity: number;
  /** Whether the device reports on it. Play the arm either way. */
  sampled: boolean;
  reason?: Reason;
  detail?: string;
  /** Names the decision to reward, in any later page of this browser; empty where it is not sampled. */
  token: string;
}

export interface Acceptance {
  accepted: boolean;
  /** The reward was outside of range, and used went into the record in its place. */
  clipped?: boolean;
  used?: number;
  range?: [number, number];
  reason?: Reason;
  detail?: string;
}

export interface Ledger {
  /** What was spent, what is promised and what is left, in sentences. */
  words: string;
  /** What the plan in force reveals at most, in sentences; empty where the device takes no part. */
  guarantee: string;
  /** Limits of the person, over all that counts together. */
  epsilon: number;
  delta: number;
  records: number;
  entries: Array<{ epoch: number; releases: number; state: "asked" | "reserved" | "spent" }>;
}

export interface Status {
  /** active: it may take part. waiting: another tab has the device. stopped: it takes no part, for the reason. */
  state: "active" | "waiting" | "stopped";
  reason?: Reason;
  detail?: string;
  epoch: number;
  final: boolean;
  /** Of what the plan in force reveals at most; absent where the device takes no part. */
  epsilon?: number;
  channel?: Channel;
  /** When the promised report leaves, in milliseconds since 1970. */
  reportAt?: number;
  /** How many deposits or reports wait to be sent. */
  unsent: number;
  /** Whether the browser promised to keep what is stored. */
  persisted: boolean;
}

export type RiffleEvent =
  | { type: "status"; status: Status }
  /** Something waits to be sent. A page with a service worker registers its background sync. */
  | { type: "stored" }
  | { type: "sent" };

/** An error of this client: one sentence says what is wrong, the next one what to do. */
export class RiffleError extends Error {
  constructor(
    readonly reason: Reason,
    message: string,
  ) {
    super(message);
    this.name = "RiffleError";
  }
}
