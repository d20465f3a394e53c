// Evaluation runs: how far each is, what it could not score and why, and what can be done with it.

import { button, h, scrolling } from "../report/elements.js";
import { NUMBER, count, duration, moment, share, value } from "../report/words.js";
import { makeActions } from "./acting.js";
import { ask } from "./client.js";
import { failingScoresOf, groupPart } from "./failing.js";
import { milliseconds } from "./messages.js";
import { patch } from "./patching.js";
import { ago } from "./times.js";

const EVERY_MS = 1500; // how often a run that is going is asked how far it is
const ITEMS_SHOWN = 50;
const STEPS_SAID = 10; // a screen reader hears of each tenth

const STATES = {
  RUN_STATE_PENDING: { sign: "…", state: "none", word: "waits for its turn" },
  RUN_STATE_RUNNING: { sign: "▶", state: "busy", word: "running" },
  RUN_STATE_PAUSED: { sign: "‖", state: "error", word: "paused" },
  RUN_STATE_SUCCEEDED: { sign: "✓", state: "pass", word: "done" },
  RUN_STATE_FAILED: { sign: "✕", state: "fail", word: "failed" },
  RUN_STATE_CANCELLED: { sign: "–", state: "none", word: "cancelled" },
};
const GOING = ["RUN_STATE_PENDING", "RUN_STATE_RUNNING"];

/** A Run as a row of the list. */
export function runRow(message) {
  const progress = progressOf(message);
  return { id: message.name.replace(/^runs\//, ""), state: message.state, title: message.displayName || targetWords(message), progress, created: milliseconds(message.createdNs) };
}

/** What a row of runs shows. */
export function runItem(row) {
  const { worked, items, failed } = row.progress;
  return [runState(row.state),
    h("span", { class: "row-title", dir: "auto" }, row.title),
    h("span", { class: "row-more" }, h("span", { class: ["names", failed ? "error-word" : ""] }, `${NUMBER.format(worked)} of ${NUMBER.format(items)}${failed ? `, ${NUMBER.format(failed)} failed` : ""}`), h("span", { class: "row-facts" }, ago(row.created)))];
}

/** What to do where there are no runs. */
export function noRuns() {
  return [h("p", null, h("b", null, "There are no evaluation runs.")),
    h("p", null, "A run scores what is stored again: with another judge, another metric, over a sample. Create one by “New run” or by ", h("code", null, "spanscore runs create --since 7d --count 500 --dry-run"), ".")];
}

/**
 * The page of a run, which follows it as long as it goes.
 * @param {Record<string, string>} given
 * @param {object} app
 */
export async function runPart(given, app) {
  const name = `runs/${given.id}`;
  const body = h("div", null);
  const said = h("p", { class: "unseen", role: "status" });
  const actions = makeActions(app, (answer, action) => (action.method.endsWith("DeleteRun") ? app.go("runs", {}) : refresh()));
  const element = h("article", { class: "page run" }, h("div", { class: "run-head" }), actions.element, body, said);
  let run = null;
  let failed = [];
  let failing = [];
  let scoresOf = ""; // the run's state when its failing scores were read
  let timer = 0;
  let isLeft = false;

  async function refresh() {
    run = await ask("RunService/GetRun", { name });
    const progress = progressOf(run);
    failed = progress.failed ? (await ask("RunService/ListRunItems", { parent: name, state: "RUN_ITEM_STATE_FAILED", pageSize: ITEMS_SHOWN })).items ?? [] : [];
    if (scoresOf !== run.state && progress.scores) {
      failing = await failingScoresOf(name);
      scoresOf = run.state;
    }
    if (isLeft) return;
    patch(element.querySelector(".run-head"), head(run));
    actions.show(actionsOf(run, name));
    patch(body, progressPart(run, progress), figuresPart(run, progress), missingPart(run), failedPart(failed, progress, run, app, given.id), failingPart(failing, app, given.id), measurePart(run));
    say(progress);
    clearTimeout(timer);
    if (GOING.includes(run.state)) timer = setTimeout(() => refresh().then(app.succeeded, (error) => { app.failed(error); timer = setTimeout(refresh, 5 * EVERY_MS); }), EVERY_MS);
  }

  function say(progress) {
    const done = progress.items ? Math.floor((STEPS_SAID * progress.worked) / progress.items) : 0;
    const text = GOING.includes(run.state) ? `${(100 * done) / STEPS_SAID} % done` : stateWord(run);
    if (said.textContent !== text) said.textContent = text;
  }

  await refresh();
  return { element, refresh, leave: () => { isLeft = true; clearTimeout(timer); } };
}

function progressOf(run) {
  const number = (name) => Number(run.progress?.[name] ?? 0);
  const [done, failed, gone, items] = ["done", "failed", "gone", "items"].map(number);
  return { done, failed, gone, items, worked: done + failed + gone, scores: number("scores"), candidates: number("candidates"), isListed: Boolean(run.progress?.listed), usage: run.progress?.usage ?? {}, eta: run.progress?.etaS };
}

function runState(name) {
  const { sign, state, word } = STATES[name] ?? STATES.RUN_STATE_PENDING;
  return h("span", { class: ["state", state], role: "img", "aria-label": word, title: word }, sign);
}

const stateWord = (run) => (STATES[run.state] ?? STATES.RUN_STATE_PENDING).word;

function head(run) {
  const facts = [stateWord(run), `created ${moment(milliseconds(run.createdNs))}`, run.startedNs && run.endedNs ? `took ${duration(milliseconds(run.endedNs) - milliseconds(run.startedNs))}` : "", run.name];
  return h("header", { class: "page-head" }, h("h1", { dir: "auto" }, runState(run.state), run.displayName || targetWords(run)),
    h("p", { class: "meta" }, facts.filter(Boolean).map((text) => h("span", null, text))),
    run.reason ? h("p", { class: "remarks", dir: "auto" }, run.reason) : null);
}

function actionsOf(run, name) {
  const progress = progressOf(run);
  const isEnded = !GOING.includes(run.state) && run.state !== "RUN_STATE_PAUSED";
  return [
    GOING.includes(run.state) ? { label: "Pause", method: "RunService/PauseRun", request: { name } } : null,
    run.state === "RUN_STATE_PAUSED" ? { label: "Resume", method: "RunService/ResumeRun", request: { name } } : null,
    isEnded && (progress.failed || (run.progress?.skipped ?? []).some((missing) => missing.cause === "budget")) ? { label: "Retry what failed", method: "RunService/RetryRun", request: { name } } : null,
    isEnded ? null : { label: "Cancel", method: "RunService/CancelRun", request: { name }, isGrave: true, question: "Cancel this run? It cannot go on afterwards. The scores that it has made stay." },
    isEnded ? { label: "Delete", method: "RunService/DeleteRun", request: { name, deleteScores: true }, isGrave: true, question: "Delete this run and the scores that it made? The scores that turns got as they came stay." } : null,
  ].filter(Boolean);
}

function progressPart(run, progress) {
  const of = (number) => ({ width: `${progress.items ? (100 * number) / progress.items : 0}%` });
  const eta = progress.eta === undefined || !GOING.includes(run.state) ? "" : `, about ${duration(1000 * progress.eta)} left`;
  const text = progress.items || progress.isListed ? `${NUMBER.format(progress.worked)} of ${NUMBER.format(progress.items)} ${run.target?.scope === "SCOPE_SESSION" ? "sessions" : "turns"}${eta}` : "Looking for what it is about…";
  return h("section", { class: "part" },
    h("div", { class: "progress", role: "progressbar", "aria-label": "Progress", "aria-valuemin": 0, "aria-valuemax": progress.items, "aria-valuenow": progress.worked, "aria-valuetext": text },
      h("i", { class: "pass", style: of(progress.done) }), h("i", { class: "fail", style: of(progress.failed) }), h("i", { class: "none", style: of(progress.gone) })),
    h("p", { class: "progress-words" }, h("b", null, text),
      h("span", { class: "summary" }, progress.failed ? h("span", { class: "count error" }, `${NUMBER.format(progress.failed)} failed`) : null, progress.gone ? h("span", { class: "muted" }, `${NUMBER.format(progress.gone)} were deleted meanwhile`) : null,
        progress.isListed ? null : h("span", { class: "muted" }, "still listing"))));
}

function figuresPart(run, progress) {
  const usage = progress.usage;
  const tokens = Number(usage.inputTokens ?? 0) + Number(usage.outputTokens ?? 0);
  const figures = [
    ["Scores", NUMBER.format(progress.scores)], ["Calls of the judge", NUMBER.format(usage.calls ?? 0), usage.cached ? `${NUMBER.format(usage.cached)} from the cache` : ""],
    ["Tokens", NUMBER.format(tokens), run.budget?.maxTokens ? `of at most ${NUMBER.format(Number(run.budget.maxTokens))}` : ""],
    ["Cost", usage.costUsd === undefined ? "–" : `${usage.costUsd.toFixed(usage.costUsd < 1 ? 4 : 2)} USD`, run.budget?.maxUsd ? `of at most ${run.budget.maxUsd} USD` : ""],
    ["Drawn", NUMBER.format(progress.items), progress.candidates ? `of ${NUMBER.format(progress.candidates)}, each with a chance of ${share(run.progress?.sampling ?? 1)}` : ""],
  ];
  return h("section", { class: "part tiles figure-tiles" }, figures.map(([name, figure, note]) => h("div", { class: "tile" }, h("span", { class: "muted small block" }, name), h("b", { class: "figure" }, figure), note ? h("span", { class: "muted small block" }, note) : null)));
}

function missingPart(run) {
  const rows = [...(run.progress?.errors ?? []).map((row) => [row, "failed", "error"]), ...(run.progress?.skipped ?? []).map((row) => [row, "skipped", ""])];
  if (!rows.length) return null;
  return h("section", { class: "part" }, h("h2", null, "What has no score, and why"),
    scrolling(h("table", { class: "grid" },
      h("thead", null, h("tr", null, ["metric", "why", "outcome", "scores"].map((name, place) => h("th", { scope: "col", class: place === 3 ? "numeric" : "" }, name)))),
      h("tbody", null, rows.map(([row, word, state]) => h("tr", null, h("th", { scope: "row" }, row.metric || "the whole turn or session"), h("td", null, row.cause), h("td", { class: state === "error" ? "error-word" : "muted" }, word), h("td", { class: "numeric" }, NUMBER.format(Number(row.count)))))))));
}

function failedPart(items, progress, run, app, id) {
  if (!items.length) return null;
  const open = (item) => (run.target?.scope === "SCOPE_SESSION" ? app.go("sessions", { session: item.subjectId }) : app.go("traces", { turn: item.subjectId, run: id }));
  return h("section", { class: "part" }, h("h2", null, progress.failed > items.length ? `Failed: the first ${items.length} of ${NUMBER.format(progress.failed)}` : "Failed"),
    h("ul", { class: "why-list" }, items.map((item) => h("li", { "data-key": item.subjectId },
      button([h("span", { class: "why error", dir: "auto" }, item.error || "It gives no reason."), h("span", { class: "why-facts" }, h("span", { class: "mono" }, item.subjectId.slice(0, 16)), h("span", null, count(item.tries ?? 0, "try", "tries")))], () => open(item), { class: "why-card" })))));
}

function failingPart(groups, app, id) {
  return groups.length ? [h("h2", { class: "part-title" }, "What fails by its scores"), groups.map((group) => groupPart(group, app, { run: id }))] : null;
}

function measurePart(run) {
  const measure = run.measure ?? {};
  const sampling = run.target?.sampling ?? {};
  const facts = [
    ["What", targetWords(run)],
    ["Sample", sampling.count ? `${NUMBER.format(sampling.count)}, seed ${sampling.seed ?? 0}` : sampling.share ? `${share(sampling.share)}, seed ${sampling.seed ?? 0}` : "all of it"],
    ["Metrics", (measure.metrics ?? []).join(", ") || "as configured"], ["Model", measure.model ?? "as configured"],
    ["Thresholds", Object.entries(measure.thresholds ?? {}).map(([metric, limit]) => `${metric} ${value(limit)}`).join(", ")],
    ["Exported", run.export ? "yes" : "no"],
  ].filter(([, text]) => text);
  return h("section", { class: "part ids" }, h("dl", { class: "facts" }, facts.map(([title, text]) => [h("dt", null, title), h("dd", null, text)])));
}

function targetWords(run) {
  const target = run.target ?? {};
  const filter = target.filter ?? {};
  const noun = target.scope === "SCOPE_SESSION" ? "sessions" : "turns";
  const times = [filter.startedAfterNs ? `since ${moment(milliseconds(filter.startedAfterNs))}` : "", filter.startedBeforeNs ? `before ${moment(milliseconds(filter.startedBeforeNs))}` : ""];
  const named = ["service", "agent", "environment", "user"].map((name) => (filter[name] ? `${name} ${filter[name]}` : ""));
  const more = [...named, target.where ?? "", target.source ? `from ${target.source}` : "", ...Object.entries(filter.resource ?? {}).map((pair) => pair.join(" = ")), ...times, filter.hasError === undefined ? "" : filter.hasError ? "with an error" : "without an error",
    filter.minDurationS ? `longer than ${filter.minDurationS} s` : "", filter.minTokens ? `more than ${filter.minTokens} tokens` : ""].filter(Boolean);
  const ids = target.idCount ?? 0;
  if (ids) return `${count(ids, "named one")} of ${noun}`;
  return more.length ? `${noun}: ${more.join(", ")}` : `all ${noun}`;
}
