// The first page: which metrics fail now, and why.

import { button, h } from "../report/elements.js";
import { NUMBER, breakable, count, firstLine } from "../report/words.js";
import { ask } from "./client.js";
import { isAskable, quoted, scoreFilter } from "./conditions.js";
import { whyNothingFails } from "./empty.js";
import { rateCell, restsOn, selectionOf } from "./figures.js";
import { scopeOf, scoreOf } from "./messages.js";
import { patch } from "./patching.js";
import { ago } from "./times.js";

const SCORES_READ = 300;
const SCORES_OF_METRIC = 30;
const REASONS_SHOWN = 3;

/**
 * @param {object} app
 * @param {() => Record<string, string>} conditions - those that hold now
 */
export async function failingPage(app, conditions) {
  const element = h("article", { class: "page overview failing-page" });
  let newest = [];
  let summaries = [];
  let rare = new Map(); // the scores of metrics of which the newest scores of all have few
  let why = []; // nothing fails
  let problem = ""; // why the rates cannot be read, where asking again would not help

  async function readNewest() {
    newest = await failingScores({ filter: scoreFilter(conditions(), Date.now()) });
    show();
  }

  async function readRates() {
    try {
      summaries = (await ask("AnalyticsService/SummarizeScores", { selection: selectionOf(conditions(), Date.now()) })).summaries ?? [];
      if (!withRates(newest, summaries).length) why = await whyNothingFails(summaries);
      rare = await rareScores(withRates(newest, summaries), { filter: scoreFilter(conditions(), Date.now()) });
      problem = "";
    } catch (error) {
      problem = error.isPassing ? "" : error.message;
      throw error;
    } finally {
      show();
    }
  }

  function show() {
    const given = conditions();
    const groups = withScores(withRates(newest, summaries), rare);
    patch(element,
      h("header", { class: "page-head" }, h("h1", null, "What fails now"), h("p", { class: "meta" }, words(given, groups).map((text) => h("span", null, text)))),
      app.viewer.hasJudge ? null : noJudge(),
      problem ? h("p", { class: "problem", role: "alert" }, `The pass rates cannot be shown: ${problem}`) : null,
      groups.length ? groups.map((group) => groupPart(group, app, given)) : h("div", { class: "all-well" }, why));
  }

  await readNewest();
  readRates().catch(app.failed); // the reasons do not wait for the rates
  return { element, refresh: () => Promise.all([readNewest(), readRates()]) };
}

/**
 * The newest scores of an evaluation run that fail, or could not be measured, by metric and scope.
 * @param {string} run - runs/{run}
 */
export async function failingScoresOf(run) {
  const newest = await failingScores({ run });
  const { summaries } = await ask("AnalyticsService/SummarizeScores", { selection: { run } });
  const groups = withRates(newest, summaries ?? []);
  return withScores(groups, await rareScores(groups, { run }));
}

// By metric and scope; `request` has conditions of ListScores.
async function failingScores(request) {
  return grouped(await scoresThatFail({ ...request, pageSize: SCORES_READ }));
}

async function scoresThatFail(request) {
  const answer = await ask("ScoreService/ListScores", { ...request, failing: true });
  return (answer.scores ?? []).map(scoreOf).filter((score) => !score.source);
}

// The newest scores of each group of which the newest of all have fewer than are read of one metric, by the group's key.
async function rareScores(groups, request) {
  const found = new Map();
  for (const group of groups) {
    if (group.scores.length >= Math.min(group.failing + group.errors, SCORES_OF_METRIC)) continue;
    const own = `metric = ${quoted(group.metric)} AND scope = ${group.scope}`;
    const filter = request.filter ? `${request.filter} AND ${own}` : own;
    found.set(keyOf(group), await scoresThatFail({ ...request, filter, metric: group.metric, pageSize: SCORES_OF_METRIC }));
  }
  return found;
}

function withScores(groups, scores) {
  return groups.map((group) => ({ ...group, scores: scores.get(keyOf(group)) ?? group.scores }));
}

// The groups of the newest scores with the rates of all of these metrics; those of which most fail first.
function withRates(newest, summaries) {
  const groups = new Map(newest.map((group) => [keyOf(group), group]));
  for (const summary of summaries) {
    if (summary.source !== "spanscore") continue;
    const rate = summary.passRate;
    const [metric, scope] = [summary.metric, scopeOf(summary)];
    const failing = rate?.value === undefined ? 0 : Math.round((1 - rate.value) * Number(rate.scores ?? 0));
    const group = groups.get(keyOf({ metric, scope })) ?? (failing ? { metric, scope, scores: [], failing: 0, errors: 0 } : null);
    if (group) groups.set(keyOf(group), { ...group, failing, errors: errorsOf(summary), summary });
  }
  return [...groups.values()].sort((one, other) => other.failing - one.failing || other.errors - one.errors);
}

function errorsOf(summary) {
  return (summary.missing ?? []).filter((reason) => reason.status === "STATUS_FAILED").reduce((sum, reason) => sum + Number(reason.count), 0);
}

// A metric such as a rubric's may score both turns and sessions, which have rates of their own.
function keyOf({ metric, scope }) {
  return `${metric}\n${scope}`;
}

// Scores by metric and scope: that with the most failures first.
function grouped(scores) {
  const groups = new Map();
  for (const score of scores) {
    const { metric, scope } = score;
    const group = groups.get(keyOf(score)) ?? { metric, scope, scores: [], failing: 0, errors: 0 };
    group.scores.push(score);
    if (score.status === "failed") group.errors += 1;
    else group.failing += 1;
    groups.set(keyOf(score), group);
  }
  return [...groups.values()].sort((one, other) => other.failing - one.failing || other.errors - one.errors);
}

function words(given, groups) {
  const number = groups.reduce((sum, group) => sum + group.failing + group.errors, 0);
  return [groups.length ? `${count(number, "failing score")} of ${count(new Set(groups.map(({ metric }) => metric)).size, "metric")}, each with its newest reasons` : "", given.service ? `service ${given.service}` : "", given.agent ? `agent ${given.agent}` : ""].filter(Boolean);
}

/** A metric with its newest reasons. With `given.run` these are of a run's scores. */
export function groupPart(group, app, given) {
  const name = isAskable(group.metric) && !given.run
    ? button(breakable(group.metric), () => app.go("failing", { ...given, metric: group.metric }), { class: "link", title: "List the turns that fail in it" }) : breakable(group.metric);
  const rate = rateCell(group.summary);
  const shown = byReason(group.scores).slice(0, REASONS_SHOWN);
  return h("section", { class: "part reasons-part", "data-key": keyOf(group) },
    h("h2", null, h("span", { class: "metric" }, name), group.scope === "session" ? h("span", { class: "tag" }, "sessions") : null,
      h("span", { class: "summary" }, group.failing ? h("span", { class: "count fail" }, `${group.summary?.leastSampling < 1 ? "about " : ""}${NUMBER.format(group.failing)} failing`) : null, group.errors ? h("span", { class: "count error" }, `${NUMBER.format(group.errors)} not measured`) : null),
      rate ? h("span", { class: "tools rate-of" }, h("span", { class: "muted" }, "pass"), rate, h("span", { class: "muted" }, restsOn(group.summary.passRate))) : null),
    h("ul", { class: "why-list" }, shown.map((score) => reasonPart(score, app, given))));
}

// The newest score of each reason, with how many have the same one.
function byReason(scores) {
  const found = new Map();
  for (const score of scores) {
    const text = firstLine(score.status === "failed" ? score.error?.message || score.reason || score.error?.type : score.reason, 400);
    const known = found.get(text);
    if (known) known.times += 1;
    else found.set(text, { ...score, text, times: 1 });
  }
  return [...found.values()];
}

function reasonPart(score, app, given) {
  const where = score.scope === "session" ? () => app.go("sessions", { session: score.session }) : () => app.go(given.run ? "traces" : "failing", { ...given, turn: score.subject });
  return h("li", { "data-key": score.name },
    button([
      h("span", { class: ["why", score.status === "failed" ? "error" : "fail"], dir: "auto" }, score.text || "It gives no reason."),
      h("span", { class: "why-facts" }, [score.times > 1 ? `${score.times} times` : "", score.agent ?? score.service, score.scope === "session" ? "session" : "", ago(score.at)].filter(Boolean).map((fact) => h("span", null, fact)))],
    where, { class: "why-card" }));
}

function noJudge() {
  return h("p", { class: "remarks" }, "No judge model is configured, so judged metrics such as task_completion are skipped. Set ", h("code", null, "judge.model"), " in the configuration, or ", h("code", null, "SPANSCORE_JUDGE_MODEL"), ", and start spanscore again.");
}
