// How each metric goes over time, with intervals.

import { button, h, replace, scrolling, svg } from "../report/elements.js";
import { NUMBER, breakable, count, share, value } from "../report/words.js";
import { ask } from "./client.js";
import { estimateOf, kindOf, rateCell, selectionOf } from "./figures.js";
import { exportButtons } from "./exporting.js";
import { makeFilters } from "./filters.js";
import { milliseconds } from "./messages.js";
import { problemPart } from "./opened.js";
import { patch } from "./patching.js";
import { isoTime } from "./times.js";

const WIDTH = 600;
const HEIGHT = 120;
const MAX_LINES = 6;
const HOURS = ["15m", "1h", "24h"]; // ranges whose points are hours
const USUAL_RANGE = "7d";
const GROUPS = { service: "service", agent: "agent", environment: "environment", version: "version", model: "model", outcome: "outcome", tool: "tool", judge_model: "judge", rule: "rule" };
const UNITS = { TIME_UNIT_HOUR: "hour", TIME_UNIT_DAY: "day" };

/** The view of trends. */
export function makeTrends(app) {
  let given = {};
  const main = h("main", { class: "main", id: "main", tabindex: "-1" });
  const body = h("article", { class: "page trends" });
  const filters = makeFilters({ id: "trends", has: ["range", "service", "agent", "scores"], fields: "judge_model:\"gpt\" AND tool:search", onchange: (changes) => app.go("trends", { ...given, ...changes }) });
  const group = h("select", { "aria-label": "Group by", onchange: () => app.go("trends", { ...given, by: group.value }) },
    h("option", { value: "" }, "All together"), Object.entries(GROUPS).map(([name, word]) => h("option", { value: name }, `By ${word}`)));
  filters.element.querySelector(".selects").append(group);
  let cards = [];
  const tools = h("div", { class: "page-tools", "data-key": "tools", "data-own": "" }, exportButtons("trends", async function* rows() { yield cards.flatMap(exportedPoints); }, app));
  replace(main, h("div", { class: "wide-filters" }, filters.element), body);

  async function refresh() {
    const conditions = { range: USUAL_RANGE, ...given };
    const unit = HOURS.includes(conditions.range) ? "TIME_UNIT_HOUR" : "TIME_UNIT_DAY";
    const selection = selectionOf(conditions, Date.now());
    const request = { selection, groupBy: given.by ? [given.by] : [] };
    const timeZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const [trends, whole] = await Promise.all([ask("AnalyticsService/QueryScoreTrend", { ...request, unit, timeZone }), ask("AnalyticsService/SummarizeScores", { selection })]);
    filters.complain(null);
    const summaries = new Map((whole.summaries ?? []).map((summary) => [kindOf(summary), summary]));
    cards = cardsOf(trends.trends ?? [], summaries);
    patch(body,
      h("header", { class: "page-head" }, h("h1", null, "Trends"), h("p", { class: "meta" }, h("span", null, `by the ${UNITS[unit]} in which turns began, ${timeZone}`), h("span", null, count(cards.length, "metric")), h("span", null, "bands are 95 % intervals, which count sessions"))),
      cards.length ? tools : null,
      cards.length ? h("div", { class: "trend-cards" }, cards.map((card) => cardPart(card, given, app))) : h("p", { class: "all-well" }, "There are no scores of this time. Choose a longer one, or see whether a judge is configured."));
  }

  async function show(next) {
    given = next;
    filters.show({ range: USUAL_RANGE, ...given }, given);
    if (!body.childElementCount) replace(body, h("p", { class: "all-well" }, "Reading…"));
    group.value = given.by ?? "";
    await refresh().catch((error) => {
      if (error.code !== "invalid_argument") { if (!body.childElementCount) replace(body, problemPart(error, () => show(given))); throw error; }
      filters.complain(error.message);
    });
  }

  return { element: h("div", { class: "whole" }, main), show, refresh, leave: () => {}, back: () => app.go("trends", {}) };
}

// The trends of each metric, those that pass least first. One picture has pass rates or means: what more of its points have.
function cardsOf(trends, summaries) {
  const cards = new Map();
  for (const trend of trends) {
    const key = kindOf(trend);
    const card = cards.get(key) ?? { key, metric: trend.metric, scope: trend.scope, source: trend.source, lines: [], summary: summaries.get(key) };
    card.lines.push({ name: trend.groups?.[0] ? trend.groups[0].value ?? "not known" : "", points: (trend.points ?? []).map(pointOf) });
    cards.set(key, card);
  }
  for (const card of cards.values()) {
    const points = card.lines.flatMap((line) => line.points);
    card.isRate = points.filter((point) => point.rate).length >= points.filter((point) => point.mean).length;
    for (const point of points) point.estimate = card.isRate ? point.rate : point.mean;
  }
  const rate = (card) => card.summary?.passRate?.value ?? 2;
  return [...cards.values()].filter((card) => card.lines.some((line) => line.points.some((point) => point.estimate))).sort((one, other) => rate(one) - rate(other));
}

function pointOf(point) {
  const { summary } = point;
  return { at: milliseconds(point.startNs), end: milliseconds(point.endNs), rate: estimateOf(summary.passRate), mean: estimateOf(summary.mean), low: summary.low, high: summary.high };
}

function cardPart(card, given, app) {
  const lines = [...card.lines].sort((one, other) => weight(other) - weight(one)).slice(0, MAX_LINES);
  const { isRate } = card;
  return h("section", { class: "tile trend", "data-key": card.key },
    h("h2", null, h("span", { class: "metric" }, breakable(card.metric)),
      card.scope === "SCOPE_SESSION" ? h("span", { class: "tag" }, "sessions") : null, card.source === "spanscore" ? null : h("span", { class: "tag" }, card.source)),
    h("p", { class: "trend-figure" }, (isRate ? rateCell(card.summary, { chart: false }) : null) ?? meanWords(card.summary), h("span", { class: "muted small" }, card.summary ? `${isRate ? "pass, " : ""}${NUMBER.format(Number(card.summary.subjects ?? 0))} ${card.scope === "SCOPE_SESSION" ? "sessions" : "turns"}` : "")),
    chart(card, lines, isRate),
    lines.length > 1 || lines[0].name ? h("ul", { class: "line-names" }, lines.map((line, place) => h("li", null, h("i", { class: `line-${place}`, "aria-hidden": "true" }), line.name)), card.lines.length > MAX_LINES ? h("li", { class: "muted" }, `and ${card.lines.length - MAX_LINES} others`) : null) : null,
    h("div", { class: "trend-foot" },
      card.scope !== "SCOPE_SESSION" && card.source === "spanscore" ? button("What fails in it", () => app.go("failing", { range: given.range, service: given.service, agent: given.agent, metric: card.metric }), { class: "link small" }) : null,
      tablePart(lines, isRate)));
}

function exportedPoints(card) {
  const facts = { metric: card.metric, scope: card.scope === "SCOPE_SESSION" ? "session" : "trace", source: card.source };
  return card.lines.flatMap((line) => line.points.filter((point) => point.estimate).map(({ at, end, estimate }) => (
    { ...facts, group: line.name, from: isoTime(at), to: isoTime(end), figure: card.isRate ? "pass rate" : "mean", value: estimate.value, low: estimate.low, high: estimate.high, n: estimate.n })));
}

const weight = (line) => line.points.reduce((sum, point) => sum + (point.estimate?.n ?? 0), 0);

function meanWords(summary) {
  const mean = estimateOf(summary?.mean);
  return mean ? h("span", null, h("b", null, value(mean.value)), mean.low === null ? "" : h("span", { class: "limits" }, ` ${value(mean.low)} to ${value(mean.high)}`)) : null;
}

// Each line with its band; places without scores are gaps.
function chart(card, lines, isRate) {
  const points = lines.flatMap((line) => line.points);
  const [from, to] = [Math.min(...points.map((point) => point.at)), Math.max(...points.map((point) => point.end))];
  const [low, high] = isRate ? rateScale(points) : scaleOf(points);
  const x = (ms) => (WIDTH * (ms - from)) / (to - from || 1);
  const y = (number) => HEIGHT - 4 - ((HEIGHT - 8) * (Math.min(Math.max(number, low), high) - low)) / (high - low || 1);
  const show = isRate ? share : value;
  return h("div", { class: "trend-chart" },
    h("div", { class: "trend-scale", "aria-hidden": "true" }, h("span", null, show(high)), h("span", null, show(low))),
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${card.metric} over time; the same as a table below` },
      [0, 0.5, 1].map((part) => svg("line", { class: "guide", x1: 0, x2: WIDTH, y1: y(low + part * (high - low)), y2: y(low + part * (high - low)) })),
      lines.map((line, place) => linePart(line, place, x, y, show))),
    h("div", { class: "trend-times", "aria-hidden": "true" }, h("span", null, dateWords(from)), h("span", null, dateWords(to))));
}

function linePart(line, place, x, y, show) {
  const known = line.points.filter((point) => point.estimate);
  const middle = (point) => x((point.at + point.end) / 2);
  const path = known.map((point, at) => `${at ? "L" : "M"}${middle(point).toFixed(1)} ${y(point.estimate.value).toFixed(1)}`).join("");
  const banded = known.filter((point) => point.estimate.low !== null);
  const band = [...banded.map((point) => `${middle(point).toFixed(1)},${y(point.estimate.high).toFixed(1)}`), ...[...banded].reverse().map((point) => `${middle(point).toFixed(1)},${y(point.estimate.low).toFixed(1)}`)];
  return [
    banded.length > 1 ? svg("polygon", { class: `band line-${place}`, points: band.join(" ") }) : null,
    svg("path", { class: `line line-${place}`, d: path }),
    known.map((point) => svg("g", { class: `point line-${place}` },
      banded.length === 1 && point.estimate.low !== null ? svg("line", { x1: middle(point), x2: middle(point), y1: y(point.estimate.low), y2: y(point.estimate.high) }) : null,
      svg("line", { class: "dot", x1: middle(point), x2: middle(point), y1: y(point.estimate.value), y2: y(point.estimate.value) }, svg("title", null, `${line.name ? `${line.name}, ` : ""}${dateWords(point.at)}: ${words(point.estimate, show)}`)))),
  ];
}

function words(estimate, show) {
  return `${show(estimate.value)}${estimate.low === null ? "" : `, ${show(estimate.low)} to ${show(estimate.high)}`}, ${count(estimate.n, "session")}`;
}

// Down to a tenth below the least interval, so that differences are seen.
function rateScale(points) {
  const least = Math.min(...points.filter((point) => point.estimate).map(({ estimate }) => estimate.low ?? estimate.value));
  return [Math.max(0, Math.min(Math.floor(10 * least) / 10, 0.8)), 1];
}

function scaleOf(points) {
  const [low, high] = [points.find((point) => point.low !== undefined)?.low, points.find((point) => point.high !== undefined)?.high];
  if (low !== undefined && high !== undefined) return [low, high];
  const numbers = points.filter((point) => point.estimate).flatMap(({ estimate }) => [estimate.value, estimate.low ?? estimate.value, estimate.high ?? estimate.value]);
  return [Math.min(0, ...numbers), Math.max(1, ...numbers)];
}

function tablePart(lines, isRate) {
  const show = isRate ? share : value;
  return h("details", null, h("summary", null, "As a table"), scrolling(h("table", { class: "grid" },
    h("thead", null, h("tr", null, ["time", "group", isRate ? "pass rate" : "mean", "interval", "sessions"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", null, lines.flatMap((line) => line.points.filter((point) => point.estimate).map(({ at, estimate }) => h("tr", null, h("th", { scope: "row" }, dateWords(at)), h("td", null, line.name), h("td", { class: "numeric" }, show(estimate.value)),
      h("td", { class: "numeric" }, estimate.low === null ? "–" : `${show(estimate.low)} to ${show(estimate.high)}`), h("td", { class: "numeric" }, NUMBER.format(estimate.n)))))))));
}

function dateWords(ms) {
  const at = new Date(ms);
  const day = at.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  const time = at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  return time === "00:00" ? day : `${day} ${time}`;
}
