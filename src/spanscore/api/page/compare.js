// Two versions, or two evaluation runs, side by side: what each metric is in both, and how sure the difference is.

import { h, replace } from "../report/elements.js";
import { differenceTable } from "../report/overview.js";
import { count, moment } from "../report/words.js";
import { ask } from "./client.js";
import { quoted } from "./conditions.js";
import { exportButtons } from "./exporting.js";
import { estimateOf, kindOf, selectionOf } from "./figures.js";
import { makeFilters } from "./filters.js";
import { milliseconds } from "./messages.js";
import { problemPart } from "./opened.js";
import { patch } from "./patching.js";

const NUMERIC = new Intl.Collator("en", { numeric: true });
const MAX_RUNS = 100;
const ORDER = ["worse", "better", "lower", "higher", "cannot tell"];
const AS_IT_CAME = "live"; // no id of a run

/** The view that compares. */
export function makeCompare(app) {
  let given = {};
  let rows = [];
  const main = h("main", { class: "main", id: "main", tabindex: "-1" });
  const body = h("article", { class: "page compare" });
  const change = (changes) => app.go("compare", { ...given, ...changes });
  const filters = makeFilters({ id: "compare", has: ["range", "service", "agent", "scores"], fields: "judge_model:\"gpt\" AND tool:search", onchange: change });
  const choice = (label) => h("select", { "aria-label": label, onchange: () => change({ a: sides.a.value, b: sides.b.value }) });
  const what = h("select", { "aria-label": "What is compared", onchange: () => change({ of: what.value, a: "", b: "" }) },
    h("option", { value: "" }, "Two versions"), h("option", { value: "runs" }, "Two runs"));
  const sides = { a: choice("Before"), b: choice("After") };
  const tools = h("div", { class: "page-tools", "data-key": "tools", "data-own": "" }, exportButtons("comparison", async function* exported() { yield rows.map(exportedRow); }, app));
  filters.element.querySelector(".selects").append(what, sides.a, sides.b);
  replace(main, h("div", { class: "wide-filters" }, filters.element), body);

  async function refresh() {
    const choices = given.of === "runs" ? await runs() : await versions(given);
    const [a, b] = chosen(choices, given);
    for (const [name, value] of Object.entries({ a, b })) offer(sides[name], choices, value);
    filters.complain(null);
    if (b === undefined) { patch(body, head(), h("p", { class: "all-well" }, tooFew(given))); return; }
    const answer = await ask("AnalyticsService/CompareScores", { before: selection(given, a), after: selection(given, b) });
    rows = (answer.comparisons ?? []).map(differenceOf).filter((row) => row.baseline || row.own).sort((one, other) => ORDER.indexOf(one.verdict) - ORDER.indexOf(other.verdict));
    const names = [a, b].map((value) => choices.find((one) => one.value === value)?.word ?? value);
    patch(body, head(names), rows.length ? [tools, differenceTable(rows, ["metric", names[0], names[1], "difference", "verdict"])] : h("p", { class: "all-well" }, "Neither has a score that meets these conditions."),
      rows.length ? h("p", { class: "muted small" }, "Intervals are at 95 % for one metric by itself, and count sessions. A verdict is given where 0 lies outside of the interval.") : null);
  }

  async function show(next) {
    given = next;
    filters.show(given);
    what.value = given.of ?? "";
    if (!body.childElementCount) replace(body, h("p", { class: "all-well" }, "Reading…"));
    await refresh().catch((error) => {
      if (error.code !== "invalid_argument") { if (!body.childElementCount) replace(body, problemPart(error, () => show(given))); throw error; }
      filters.complain(error.message);
    });
  }

  return { element: h("div", { class: "whole" }, main), show, refresh, leave: () => {}, back: () => app.go("compare", {}) };
}

function head(names) {
  return h("header", { class: "page-head" }, h("h1", null, names ? `${names[1]} against ${names[0]}` : "Compare"));
}

// The two that are chosen; else the last two.
function chosen(choices, { a, b }) {
  const known = choices.filter((one) => one.value !== AS_IT_CAME);
  const last = known.at(-1)?.value;
  const after = b || (a === last ? known.at(-2)?.value : last);
  const before = a || known.filter((one) => one.value !== after).at(-1)?.value || choices.find((one) => one.value !== after)?.value;
  return before === undefined || after === undefined ? [] : [before, after];
}

function offer(select, choices, value) {
  const options = choices.some((one) => one.value === value) || value === undefined ? choices : [...choices, { value, word: value }];
  replace(select, options.map((one) => h("option", { value: one.value }, one.word)));
  select.value = value ?? "";
}

// Those that are recorded, in their order.
async function versions(given) {
  const { summaries } = await ask("AnalyticsService/SummarizeScores", { selection: selectionOf(given, Date.now()), groupBy: ["version"] });
  const found = [...new Set((summaries ?? []).map((summary) => summary.groups?.[0]?.value).filter((value) => value !== undefined))];
  return found.sort(NUMERIC.compare).map((value) => ({ value, word: value }));
}

// The oldest first.
async function runs() {
  const answer = await ask("RunService/ListRuns", { pageSize: MAX_RUNS });
  const found = (answer.runs ?? []).map((run) => ({ value: run.name.replace(/^runs\//, ""), word: [run.displayName, moment(milliseconds(run.createdNs))].filter(Boolean).join(", ") || run.name }));
  return [{ value: AS_IT_CAME, word: "as turns came" }, ...found.reverse()];
}

function tooFew(given) {
  return given.of === "runs" ? "There is no evaluation run yet: create one in the view Runs." : "Fewer than two versions are recorded. A version is the service.version of the resource that spans came from.";
}

function selection(given, side) {
  const common = selectionOf(given, Date.now());
  if (given.of === "runs") return side === AS_IT_CAME ? common : { ...common, run: `runs/${side}` };
  return { ...common, filter: [common.filter, `version = ${quoted(side)}`].filter(Boolean).join(" AND ") };
}

// The pass rates of a metric in both, or where one has none the means.
function differenceOf(found) {
  const isRate = estimateOf(found.passRateDifference) !== null;
  const figure = (summary) => estimateOf(isRate ? summary?.passRate : summary?.mean);
  const difference = estimateOf(isRate ? found.passRateDifference : found.meanDifference);
  const shared = Number(found.sharedSessions ?? 0);
  return {
    key: kindOf(found), metric: found.metric, scope: found.scope === "SCOPE_SESSION" ? "session" : "trace", source: found.source, figure: isRate ? "pass rate" : "mean",
    name: found.metric, counted: [isRate ? "pass rate" : "mean", found.scope === "SCOPE_SESSION" ? "of sessions" : "", found.source === "spanscore" ? "" : found.source].filter(Boolean).join(", "),
    baseline: figure(found.before), own: figure(found.after), difference, unit: isRate ? "%" : "", verdict: verdictOf(difference, isRate),
    note: [shared ? `${count(shared, "session")} in both` : "", found.meanDifference?.note && !difference ? found.meanDifference.note : ""].filter(Boolean).join("; "),
  };
}

// Of a mean it is not known whether more is better.
function verdictOf(difference, isRate) {
  if (!difference || difference.low === null || (difference.low <= 0 && difference.high >= 0)) return "cannot tell";
  if (!isRate) return difference.value > 0 ? "higher" : "lower";
  return difference.value > 0 ? "better" : "worse";
}

function exportedRow(row) {
  const figures = (name, estimate) => ({ [name]: estimate?.value, [`${name}_low`]: estimate?.low ?? undefined, [`${name}_high`]: estimate?.high ?? undefined, [`${name}_n`]: estimate?.n });
  return { metric: row.metric, scope: row.scope, source: row.source, figure: row.figure, ...figures("before", row.baseline), ...figures("after", row.own), ...figures("difference", row.difference), verdict: row.verdict };
}
