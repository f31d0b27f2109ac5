// Requests to the ingress and the issuer. What is PUT goes through the outbox.

import type { Endpoint } from "./types.js";

/** A server answered with a problem (RFC 9457). */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly reason: string,
    detail: string,
  ) {
    super(detail);
  }
}

async function get(url: string, init: RequestInit): Promise<Response> {
  const answer = await fetch(url, { credentials: "omit", referrerPolicy: "no-referrer", ...init });
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  throw new Problem(answer.status, said.reason ?? "", said.detail ?? said.title ?? `status ${answer.status}`);
}

const bytes = async (answer: Response) => new Uint8Array(await answer.arrayBuffer());

/** Signed announcements after the one of that epoch and round: at most as many as the ingress puts into one answer. */
export async function announcements(ingress: string, epoch: number, round: number, signal: AbortSignal) {
  const all = await bytes(await get(`${ingress}/v1/announcements?after=${epoch}.${round}&wait=0`, { signal }));
  const out: Uint8Array[] = [];
  const view = new DataView(all.buffer);
  for (let at = 0; at + 4 <= all.length; ) {
    const end = at + 4 + view.getUint32(at);
    out.push(all.subarray(at + 4, end));
    at = end;
  }
  return out;
}

export async function keys(ingress: string, signal: AbortSignal): Promise<Uint8Array> {
  return bytes(await get(`${ingress}/v1/keys`, { signal }));
}

export async function enrol(
  ingress: string,
  request: Uint8Array,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const headers = { "Content-Type": "application/octet-stream" };
  return bytes(await get(`${ingress}/v1/enrolments`, { method: "POST", headers, body: request, signal }));
}

/** Asks the issuer to admit a key. */
export async function credential(issuer: Endpoint, key: string, signal: AbortSignal) {
  const answer = await get(`${issuer.url}/v1/credentials`, {
    method: "POST",
    credentials: issuer.credentials ?? "same-origin",
    headers: { "Content-Type": "application/json", ...issuer.headers },
    body: JSON.stringify({ key }),
    signal,
  });
  const said = (await answer.json()) as { credential: string; not_after: number };
  return { signed: said.credential, notAfter: said.not_after };
}
