// Which traces and sessions are wanted, as the filters of the page have it, in the API's language of filters (AIP-160).

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Ranges of time up to now. */
export const RANGES = { "15m": ["Last 15 minutes", 15 * MINUTE], "1h": ["Last hour", HOUR], "24h": ["Last 24 hours", DAY], "7d": ["Last 7 days", 7 * DAY], "30d": ["Last 30 days", 30 * DAY] };

/** The names in an address that are conditions. */
export const CONDITIONS = ["range", "service", "agent", "search", "metric", "filter", "scores", "order"];

/**
 * @param {string} text
 * @returns {string} as a value of a filter
 */
export function quoted(text) {
  return `"${text.replace(/[\\"]/g, "\\$&")}"`;
}

/**
 * The filter of ListTraces.
 * @param {Record<string, string>} given - conditions by name
 * @param {number} now - milliseconds of Unix time
 */
export function traceFilter(given, now) {
  const search = given.search ? `(user_input:${quoted(given.search)} OR final_output:${quoted(given.search)})` : "";
  const metric = given.metric ? `label.${given.metric} = fail` : "";
  return all([...common(given, now), search, metric]);
}

/** The filter of ListSessions. */
export function sessionFilter(given, now) {
  const search = given.search ? `(session_id:${quoted(given.search)} OR user_id:${quoted(given.search)})` : "";
  return all([...common(given, now, "ended_ns"), search, given.metric ? `label.${given.metric} = fail` : ""]);
}

/** The filter of ListScores. */
export function scoreFilter(given, now) {
  return all([...common({ ...given, filter: "" }, now, "evaluated_at_ns"), given.metric ? `metric = ${quoted(given.metric)}` : ""]);
}

/**
 * When a range of time begins.
 * @param {string | undefined} range
 * @param {number} now - milliseconds of Unix time
 * @returns {number | null} null where everything is wanted
 */
export function startOf(range, now) {
  return Object.hasOwn(RANGES, range ?? "") ? now - RANGES[range][1] : null;
}

function common(given, now, time = "started_ns") {
  const start = startOf(given.range, now);
  return [
    given.service ? `service_name = ${quoted(given.service)}` : "",
    given.agent ? `agent_name = ${quoted(given.agent)}` : "",
    start === null ? "" : `${time} >= ${quoted(new Date(start).toISOString())}`,
    given.filter ? `(${given.filter})` : "",
  ];
}

/** Whether traces can be asked for by this metric: a filter has no way to write any other name. */
export function isAskable(metric) {
  return /^[\w-]+(\.[\w-]+)*$/.test(metric);
}

function all(parts) {
  return parts.filter(Boolean).join(" AND ");
}
