// What is said where there is nothing to show, and what to do then.

import { h } from "../report/elements.js";
import { count } from "../report/words.js";
import { ask } from "./client.js";

/** In the list of turns that fail. */
export function nothingFails() {
  return [h("p", null, "No turn fails.")];
}

/** Where nothing is stored. */
export function nothingStored() {
  return [h("p", null, h("b", null, "Nothing is stored yet.")),
    h("p", null, "Have your agent's SDK or collector send its traces by OTLP to spanscore: port 4327 (gRPC) or 4328 (HTTP), unless configured otherwise. A turn is listed some ten seconds after it has ended.")];
}

/** In the list of sessions. */
export function noSessions() {
  return [h("p", null, h("b", null, "There are no sessions yet.")),
    h("p", null, "Turns whose spans have the same ", h("code", null, "session.id"), " or ", h("code", null, "gen_ai.conversation.id"), " are a session.")];
}

/**
 * Why no score fails: nothing is stored, nothing is scored, or all is well.
 * @param {object[]} summaries - of AnalyticsService, of the conditions that hold
 */
export async function whyNothingFails(summaries) {
  if (summaries.some((summary) => Number(summary.scores ?? 0) > 0)) return [h("p", null, "No score fails, and none could not be measured.")];
  const stored = await ask("TraceService/ListTraces", { pageSize: 1 });
  if (!(stored.traces ?? []).length) return nothingStored();
  const causes = new Map();
  for (const { cause, count: number } of summaries.flatMap((summary) => summary.missing ?? [])) causes.set(cause, (causes.get(cause) ?? 0) + Number(number));
  return [h("p", null, h("b", null, "No turn of these has a score.")),
    h("p", null, "A turn is scored when it has been quiet for some ten seconds, with the metrics that ", h("code", null, "evaluation"), " configures."),
    causes.size ? h("p", null, "What was skipped, and why: ", [...causes].map(([cause, number]) => `${cause} (${count(number, "score")})`).join(", "), ".") : null];
}
