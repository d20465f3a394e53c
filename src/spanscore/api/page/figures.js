// What the API's analytics give, for the parts of a report that show estimates.

import { estimateCell } from "../report/charts.js";
import { h } from "../report/elements.js";
import { count } from "../report/words.js";
import { quoted, startOf } from "./conditions.js";

/**
 * The selection of AnalyticsService that conditions stand for; words and filters of turns have no part in it.
 * @param {Record<string, string>} given
 * @param {number} now - milliseconds of Unix time
 */
export function selectionOf(given, now) {
  const start = startOf(given.range, now);
  const conditions = [given.service ? `service = ${quoted(given.service)}` : "", given.agent ? `agent = ${quoted(given.agent)}` : "", given.metric ? `metric = ${quoted(given.metric)}` : "", given.scores ? `(${given.scores})` : ""];
  return { filter: conditions.filter(Boolean).join(" AND "), ...(start === null ? {} : { startNs: String(BigInt(Math.round(start)) * 1_000_000n) }) };
}

/** A ScoreFigure as an estimate; null where it has no value. */
export function estimateOf(figure) {
  if (!figure || figure.value === undefined) return null;
  return { value: figure.value, low: figure.low ?? null, high: figure.high ?? null, n: Number(figure.scores ?? 0), method: figure.method, note: [count(Number(figure.sessions ?? 0), "session"), figure.note].filter(Boolean).join("; ") };
}

/** What a ScoreFigure rests on, in words: its scores, and the sessions that its interval takes as units. */
export function restsOn(figure) {
  return `n = ${count(Number(figure.scores ?? 0), "score")} in ${count(Number(figure.sessions ?? 0), "session")}`;
}

/** The pass rate of a ScoreSummary with its interval, and what it is freed of the judge's error. */
export function rateCell(summary, options = {}) {
  const rate = estimateOf(summary?.passRate);
  const corrected = estimateOf(summary?.correctedPassRate);
  if (!rate) return null;
  return h("span", { class: "rates" }, estimateCell(rate, [0, 1], { unit: "%", class: "rate", ...options }),
    corrected ? h("span", { class: "corrected", title: corrected.note }, "without the judge's errors ", estimateCell(corrected, [0, 1], { unit: "%", chart: false })) : null);
}

/** What tells the scores of one summary or trend from others: metric, scope and source. */
export function kindOf(item) {
  return `${item.metric}\n${item.scope}\n${item.source}`;
}
