// Monitors: which metric each watches, what it knows of it, and what its ticks came to.

import { button, h, scrolling } from "../report/elements.js";
import { NUMBER, breakable, count, duration, moment, share, value } from "../report/words.js";
import { makeActions } from "./acting.js";
import { ask } from "./client.js";
import { milliseconds } from "./messages.js";
import { patch } from "./patching.js";
import { ago } from "./times.js";

const TICKS_SHOWN = 50;

const PHASES = {
  sizing: ["none", "…", "gathers its first sessions"], reference: ["none", "…", "measures what it will hold later scores against"],
  watching: ["pass", "✓", "watches, and has found no fall"], firing: ["fail", "✕", "the metric has fallen"],
};
const CAUSES = { MONITOR_TICK_CAUSE_SCHEDULE: "on time", MONITOR_TICK_CAUSE_CATCH_UP: "made up for", MONITOR_TICK_CAUSE_MANUAL: "asked for" };
const TICK_STATES = {
  MONITOR_TICK_STATE_QUEUED: ["none", "…", "waits"], MONITOR_TICK_STATE_RUNNING: ["busy", "▶", "running"], MONITOR_TICK_STATE_DONE: ["pass", "✓", "done"],
  MONITOR_TICK_STATE_SKIPPED: ["none", "–", "skipped"], MONITOR_TICK_STATE_FAILED: ["fail", "✕", "failed"], MONITOR_TICK_STATE_CANCELLED: ["error", "!", "cancelled"],
};

/** A Monitor as a row of the list. */
export function monitorRow(message) {
  const id = idOf(message);
  return { id, title: message.displayName || id, sign: signOf(message), metric: message.watch?.metric ?? "", next: milliseconds(message.nextTickNs), isPaused: message.state === "MONITOR_STATE_PAUSED", phase: message.findings?.phase };
}

/** What a row of monitors shows. */
export function monitorItem(row) {
  const words = row.phase === "firing" ? `${row.metric} has fallen` : row.metric || "starts runs";
  return [badge(row.sign), h("span", { class: "row-title", dir: "auto" }, row.title),
    h("span", { class: "row-more" }, h("span", { class: ["names", row.phase === "firing" ? "fail-text" : ""] }, words), h("span", { class: "row-facts" }, row.isPaused ? "paused" : until(row.next)))];
}

/** What to do where there are no monitors. */
export function noMonitors() {
  return [h("p", null, h("b", null, "There are no monitors.")),
    h("p", null, "A monitor raises an alert when a metric falls, or scores what is stored at times of its own. Write one under ", h("code", null, "monitors"), " in the configuration, or create one by “New monitor” or ", h("code", null, "spanscore monitors create"), ".")];
}

/** The page of a monitor. */
export async function monitorPart(given, app) {
  const name = `monitors/${encodeURIComponent(given.id)}`;
  const element = h("article", { class: "page monitor" });
  const head = h("div", null);
  const body = h("div", null);
  const actions = makeActions(app, (answer, action) => (action.method.endsWith("DeleteMonitor") ? app.go("monitors", {}) : refresh()));
  element.append(head, actions.element, body);

  async function refresh() {
    const [monitor, history] = await Promise.all([ask("MonitorService/GetMonitor", { name }), ask("MonitorService/ListMonitorTicks", { parent: name, pageSize: TICKS_SHOWN })]);
    patch(head, headPart(monitor));
    actions.show(actionsOf(monitor, name));
    patch(body, findingsPart(monitor), settingsPart(monitor), ticksPart(history.ticks ?? [], app));
  }
  await refresh();
  return { element, refresh };
}

const idOf = (message) => decodeURIComponent(message.name.replace(/^monitors\//, ""));

function signOf(message) {
  if (message.findings?.phase === "firing") return PHASES.firing;
  if (message.state === "MONITOR_STATE_PAUSED") return ["error", "‖", "paused"];
  if (message.findings) return PHASES[message.findings.phase] ?? PHASES.sizing;
  return message.lastTick ? TICK_STATES[message.lastTick.state] ?? PHASES.sizing : PHASES.sizing;
}

function badge([state, sign, word]) {
  return h("span", { class: ["state", state], role: "img", "aria-label": word, title: word }, sign);
}

function until(ms) {
  if (!ms) return "";
  return ms <= Date.now() ? "due now" : `in ${duration(ms - Date.now())}`;
}

function headPart(monitor) {
  const sign = signOf(monitor);
  const facts = [sign[2], monitor.state === "MONITOR_STATE_PAUSED" && sign[2] !== "paused" ? "paused" : "", scheduleWords(monitor.schedule ?? {}), monitor.nextTickNs ? `next ${moment(milliseconds(monitor.nextTickNs))}` : "", monitor.name];
  return h("header", { class: "page-head" }, h("h1", { dir: "auto" }, badge(sign), monitor.displayName || idOf(monitor)),
    h("p", { class: "meta" }, facts.filter(Boolean).map((text) => h("span", null, text))),
    monitor.configured ? h("p", { class: "muted small" }, "It is in the configuration file, which is where it is changed.") : null);
}

function scheduleWords(schedule) {
  if (schedule.cron) return `${schedule.cron} (${schedule.timeZone || "UTC"})`;
  return `every ${everyWords(schedule.everyS ?? 60)}`;
}

function everyWords(seconds) {
  const unit = [["day", 86_400], ["hour", 3_600], ["minute", 60]].find(([, length]) => seconds % length === 0);
  if (!unit) return `${value(seconds)} s`;
  return seconds === unit[1] ? unit[0] : `${seconds / unit[1]} ${unit[0]}s`;
}

function actionsOf(monitor, name) {
  const isPaused = monitor.state === "MONITOR_STATE_PAUSED";
  const own = monitor.configured ? [] : [
    isPaused ? { label: "Resume", method: "MonitorService/ResumeMonitor", request: { name } } : { label: "Pause", method: "MonitorService/PauseMonitor", request: { name } },
    { label: "Delete", method: "MonitorService/DeleteMonitor", request: { name }, isGrave: true, question: "Delete this monitor and its history? Its runs and their scores stay." },
  ];
  return [{ label: "Look now", method: "MonitorService/TriggerMonitor", request: { name } }, ...own];
}

function findingsPart(monitor) {
  const { watch, findings } = monitor;
  if (!watch) return null;
  if (!findings) return h("section", { class: "part" }, h("h2", null, "What it knows"), h("p", { class: "muted" }, "It has not looked yet."));
  const isFiring = findings.phase === "firing";
  const tiles = [
    ["Phase", PHASES[findings.phase]?.[2] ?? findings.phase, isFiring ? `since ${moment(milliseconds(findings.firingSinceNs))}` : ""],
    isFiring ? ["Mean since it fell", value(findings.lowMean), `of ${count(findings.lowSessions ?? 0, "session")}`] : null,
    ["Held against", findings.floor === undefined ? "not known yet" : value(findings.floor), watch.floor === undefined ? "from the first sessions" : "as configured"],
    ["Sessions counted", NUMBER.format(Number(findings.sessions ?? 0))],
    ["Alerts raised", NUMBER.format(findings.alerts ?? 0)],
  ].filter(Boolean);
  return h("section", { class: "part" }, h("h2", null, "What it knows of ", h("span", { class: "metric" }, breakable(watch.metric))),
    h("div", { class: "tiles figure-tiles" }, tiles.map(([title, figure, note]) => h("div", { class: "tile" }, h("span", { class: "muted small block" }, title), h("b", { class: ["figure", title === "Phase" && isFiring ? "fail-text" : ""] }, figure), note ? h("span", { class: "muted small block" }, note) : null))),
    evidencePart(findings));
}

// How near it is to an alert. Evidence grows by factors, so it is shown by its logarithm.
function evidencePart(findings) {
  if (findings.evidence === undefined || !findings.evidenceForAlert) return null;
  const part = Math.min(1, Math.max(0, Math.log(Math.max(findings.evidence, 1)) / Math.log(findings.evidenceForAlert)));
  const text = `Evidence for a fall: ${value(findings.evidence)}; an alert is raised at ${value(findings.evidenceForAlert)}.`;
  return h("div", { class: "evidence-bar" }, h("div", { class: "progress", role: "meter", "aria-label": "Evidence for a fall", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(100 * part), "aria-valuetext": text }, h("i", { class: "fail", style: { width: `${100 * part}%` } })), h("p", { class: "muted small" }, text));
}

function settingsPart(monitor) {
  const watch = monitor.watch ?? {};
  const facts = [
    ["Watches", monitor.watch ? `${watch.of === "pass_rate" ? "the pass rate" : "the mean"} of ${watch.metric}, of ${watch.scope === "SCOPE_SESSION" ? "sessions" : "turns"}` : ""],
    ["Of", [watch.service ? `service ${watch.service}` : "", watch.agent ? `agent ${watch.agent}` : ""].filter(Boolean).join(", ")],
    ["False alarms", watch.metric ? `${share(watch.alpha ?? 0.01)} is the chance that it ever raises one` : ""],
    ["Starts runs", monitor.run ? (monitor.run.onlyIfChanged ? "where something has changed" : "at each tick") : ""],
  ].filter(([, text]) => text);
  return h("section", { class: "part ids" }, h("dl", { class: "facts" }, facts.map(([title, text]) => [h("dt", null, title), h("dd", null, text)])));
}

function ticksPart(ticks, app) {
  if (!ticks.length) return h("section", { class: "part" }, h("h2", null, "Ticks"), h("p", { class: "muted" }, "There was none yet."));
  return h("section", { class: "part" }, h("h2", null, "Ticks, the newest first"),
    scrolling(h("table", { class: "grid ticks" },
      h("thead", null, h("tr", null, ["made", "state", "found", "scores", "sessions", "run"].map((title, place) => h("th", { scope: "col", class: [3, 4].includes(place) ? "numeric" : "" }, title)))),
      h("tbody", null, ticks.map((tick) => tickRow(tick, app))))));
}

function tickRow(tick, app) {
  const made = milliseconds(tick.madeNs ?? tick.dueNs);
  const [state, sign, word] = TICK_STATES[tick.state] ?? TICK_STATES.MONITOR_TICK_STATE_DONE;
  const run = tick.run ? tick.run.replace(/^runs\//, "") : "";
  return h("tr", { "data-key": `${tick.dueNs} ${tick.madeNs} ${tick.cause}` },
    h("th", { scope: "row" }, h("span", { title: moment(made) }, ago(made) === "now" ? "just now" : `${ago(made)} ago`), h("span", { class: "muted small block" }, CAUSES[tick.cause] ?? "")),
    h("td", null, badge([state, sign, word]), word, tick.reason ? h("span", { class: "muted small block", dir: "auto" }, tick.reason) : null),
    h("td", { class: tick.finding === "firing" ? "fail-text" : "" }, tick.finding ?? ""),
    h("td", { class: "numeric" }, NUMBER.format(tick.scores ?? 0)), h("td", { class: "numeric" }, NUMBER.format(tick.sessions ?? 0)),
    h("td", null, run ? button(run, () => app.go("runs", { id: run }), { class: "link mono" }) : ""));
}
