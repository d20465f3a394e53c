// The API over HTTP: a method is a POST of JSON. The token is kept for as long as the browser's tab is open.

const TOKEN_KEY = "spanscore-token";
const TIMEOUT_MS = 60_000;

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

/** @returns {string} the token, empty where none was given */
export function token() {
  return sessionStorage.getItem(TOKEN_KEY) ?? "";
}

/** @param {string} text - empty: forget it */
export function keepToken(text) {
  if (text) sessionStorage.setItem(TOKEN_KEY, text);
  else sessionStorage.removeItem(TOKEN_KEY);
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
  const headers = { "content-type": "application/json", ...(token() ? { authorization: `Bearer ${token()}` } : {}) };
  const options = { method: "POST", headers, body: JSON.stringify(request), signal: signal ? AbortSignal.any([signal, limit]) : limit, cache: "no-store" };
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
