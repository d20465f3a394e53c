// The API over HTTP: a method is a POST of JSON. The token is kept, as is the tenant's name, for as long as the browser's tab is open.

const KEYS = { token: "spanscore-token", tenant: "spanscore-tenant" };
const TIMEOUT_MS = 300_000; // a search in the words of very many turns takes its time

/** What a call ended with, in words for people; `code` is Connect's, or "gone" where no answer came. */
export class ApiError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }

  /** Whether the same call may succeed later. */
  get isPassing() {
    return ["gone", "unavailable", "resource_exhausted", "deadline_exceeded"].includes(this.code);
  }

  /** Whether another token is needed. */
  get needsToken() {
    return this.code === "unauthenticated";
  }
}

/**
 * What the reader has typed, empty where nothing was.
 * @param {"token" | "tenant"} name
 */
export function given(name) {
  return sessionStorage.getItem(KEYS[name]) ?? "";
}

/**
 * @param {"token" | "tenant"} name
 * @param {string} text - empty: forget it
 */
export function keep(name, text) {
  if (text) sessionStorage.setItem(KEYS[name], text);
  else sessionStorage.removeItem(KEYS[name]);
}

/** The header in which the server takes the name of a tenant; empty where it has no tenants. */
export function tenantHeader() {
  return document.querySelector('meta[name="tenant-header"]')?.content ?? "";
}

function headers() {
  const found = { "content-type": "application/json" };
  if (given("token")) found.authorization = `Bearer ${given("token")}`;
  if (tenantHeader() && given("tenant")) found[tenantHeader()] = given("tenant");
  return found;
}

let described = null; // the document that was asked for last, which is always the same

/** The OpenAPI document of the API. Rejects as `ask` does. */
export function apiDocument() {
  described ??= readDocument();
  described.catch(() => { described = null; });
  return described;
}

async function readDocument() {
  const answer = await fetch("/openapi.json", { headers: headers() });
  if (!answer.ok) throw new ApiError("unavailable", `The server answered ${answer.status}.`);
  return answer.json();
}

/**
 * Asks a method such as "TraceService/ListTraces".
 * @param {string} method
 * @param {object} [request] - its message as JSON
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>} the response's message; rejects with an ApiError, or with the signal's reason
 */
export async function ask(method, request = {}, signal) {
  const limit = AbortSignal.timeout(TIMEOUT_MS);
  const options = { method: "POST", headers: headers(), body: JSON.stringify(request), signal: signal ? AbortSignal.any([signal, limit]) : limit, cache: "no-store" };
  let answer;
  try {
    answer = await fetch(`/spanscore.v1.${method}`, options);
    const content = await answer.json();
    if (answer.ok) return content;
    throw new ApiError(content.code ?? "unknown", content.message ?? `The server answered ${answer.status}.`);
  } catch (error) {
    if (error instanceof ApiError) throw error;
    signal?.throwIfAborted();
    throw answer && !answer.ok
      ? new ApiError("unavailable", `Something before the server answered with HTTP ${answer.status}.`)
      : new ApiError("gone", "The server does not answer.");
  }
}
