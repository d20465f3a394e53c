// What the API's messages contain, in the form in which the parts of a report take it.

import { firstLine, scoreState } from "../report/words.js";

const STATUSES = { STATUS_SCORED: "scored", STATUS_SKIPPED: "skipped", STATUS_FAILED: "failed" };
const TOLERANCE = 1e-9; // .7 + .1 + .1 + .1 reaches 1.0
const ORDER = ["fail", "error", "pass"];

/** Nanoseconds as text, as JSON has 64 bits, to milliseconds. */
export function milliseconds(ns) {
  return ns === undefined ? undefined : Number(BigInt(ns) / 1000n) / 1000;
}

/** A Score as a part of a report has it. */
export function scoreOf(message) {
  const source = message.evaluator?.source;
  return {
    name: message.name, metric: message.metric, source, author: message.evaluator?.author, status: STATUSES[message.status], passed: passed(message), value: message.value,
    label: message.label, threshold: message.threshold, reason: message.reason ?? "", error: message.error, trace: message.traceId, subject: message.subjectId,
    at: milliseconds(message.evaluatedAtNs), scope: scopeOf(message), session: message.sessionKey ?? message.sessionId, agent: message.agentName, service: message.serviceName,
  };
}

/** What a Score or a ScoreSummary is of: "trace" or "session". */
export function scopeOf(message) {
  return message.scope === "SCOPE_SESSION" ? "session" : "trace";
}

function passed(message) {
  if (message.status !== "STATUS_SCORED") return undefined;
  if (message.label === "pass" || message.label === "fail") return message.label === "pass";
  if (message.value === undefined || message.threshold === undefined) return undefined;
  return message.value >= message.threshold - TOLERANCE;
}

/** What scores come to, by what spanscore measured: it fails where one does, and passes where one does and none fails. */
export function stateOf(scores) {
  const states = new Set(scores.filter((score) => !score.source).map(scoreState));
  return ORDER.find((name) => states.has(name)) ?? "none";
}

/** A TraceSummary as a row of the list. */
export function turnRow(message) {
  const scores = (message.scores ?? []).map(scoreOf);
  const start = milliseconds(message.startedNs);
  return {
    ...verdict(scores), words: message.unscored, id: message.id, start, took: milliseconds(message.endedNs) - start, calls: message.toolCalls,
    title: firstLine(message.userInput, 240) || (message.agentName ? `A turn of ${message.agentName}` : "No input was recorded"),
    agent: message.agentName, service: message.serviceName, session: message.sessionId, user: message.userId, input: message.userInput, output: message.finalOutput,
    scores, ...tokensOf(message), cost: costOf(message.scores),
  };
}

function tokensOf(message) {
  const [tokensIn, tokensOut] = [message.inputTokens, message.outputTokens].map((number) => (number === undefined ? undefined : Number(number)));
  return { tokensIn, tokensOut };
}

// What judging cost, in USD; undefined where nothing that is known was paid.
function costOf(scores) {
  const sum = (scores ?? []).reduce((cost, score) => cost + (score.usage?.costUsd ?? 0), 0);
  return sum || undefined;
}

/** A Session as a row of the list. */
export function sessionRow(message) {
  const found = verdict((message.scores ?? []).map(scoreOf));
  return {
    ...found, id: message.sessionKey, title: sessionTitle(message, message.sessionId || message.sessionKey), start: milliseconds(message.startedNs), end: milliseconds(message.endedNs),
    turns: message.traceCount ?? 0, agent: message.agentName, service: message.serviceName, isByTurns: found.state !== "fail" && Boolean(message.failing),
    session: message.sessionId, user: message.userId, input: message.userInput, ...tokensOf(message), cost: costOf(message.scores),
  };
}

// A session of one turn is known by its question.
function sessionTitle(message, id) {
  return (message.traceCount === 1 && firstLine(message.userInput, 240)) || id;
}

/** A RankedSession as a row of the list; a turn of no session is one by itself. */
export function rankedRow(message) {
  const [collection, id] = message.name.split("/");
  const isTurn = collection === "traces";
  const failing = Number(message.failing ?? 0);
  const judged = Number(message.judged ?? 0);
  return {
    id: decodeURIComponent(id ?? ""), opens: isTurn ? "turn" : "session", title: sessionTitle(message, isTurn ? `A turn of ${message.agentName || message.serviceName || "no session"}` : message.sessionId || decodeURIComponent(id ?? "")),
    state: failing ? "fail" : judged ? "pass" : "none", words: judged ? `${failing} of ${judged} scores fail` : "nothing that passes or fails", fails: [], errors: [], sources: [], share: message.failRate,
    agent: message.agentName, service: message.serviceName, session: message.sessionId, user: message.userId, input: message.userInput, turns: message.traceCount,
  };
}

function verdict(scores) {
  const own = scores.filter((score) => !score.source);
  const names = (state) => [...new Set(own.filter((score) => scoreState(score) === state).map((score) => score.metric))];
  const failing = own.filter((score) => scoreState(score) === "fail");
  return {
    state: stateOf(scores), fails: names("fail"), errors: names("error"), scored: own.filter((score) => score.status === "scored").length,
    sources: [...new Set(scores.map((score) => score.source).filter(Boolean))], why: failing.length ? firstLine(failing[0].reason, 200) : "",
  };
}
