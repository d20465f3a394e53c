// What the lists are of: turns that fail, all turns, sessions, runs, monitors.

import { h } from "../report/elements.js";
import { exportedRow, sessionFacts, turnFacts } from "./browse.js";
import { sessionFilter, traceFilter } from "./conditions.js";
import { noSessions, nothingFails, nothingStored } from "./empty.js";
import { failingPage } from "./failing.js";
import { selectionOf } from "./figures.js";
import { rankedRow, sessionRow, turnRow } from "./messages.js";
import { monitorItem, monitorPart, monitorRow, noMonitors } from "./monitors.js";
import { newMonitorPart } from "./newmonitor.js";
import { newRunPart } from "./newrun.js";
import { sessionPart, turnPart } from "./opened.js";
import { noRuns, runItem, runPart, runRow } from "./runs.js";

const TURN_FIELDS = "score.task_completion < 0.5 AND latency > 10s";
const SESSION_FIELDS = "trace_count > 3 AND failing = true";

const NEWEST_SESSIONS = { method: "TraceService/ListSessions", field: "sessions", row: sessionRow, request: (given, now) => ({ filter: sessionFilter(given, now) }) };
const WORST_SESSIONS = { method: "AnalyticsService/RankSessions", field: "sessions", row: rankedRow, order: ", the worst first", request: (given, now) => ({ selection: selectionOf(given, now) }) };

/** @returns {Record<string, object>} by the name of the view */
export function kinds() {
  const turns = {
    noun: "turn", method: "TraceService/ListTraces", field: "traces", row: turnRow, facts: turnFacts, exported: exportedRow, opens: "turn", search: "Search what was asked and answered", fields: TURN_FIELDS,
  };
  return {
    failing: {
      ...turns, view: "failing", title: "Turns that fail", startsInMain: true, page: (given, app, conditions) => (given.turn ? turnPart(given, app) : failingPage(app, conditions)), empty: nothingFails,
      request: (given, now) => ({ failing: true, filter: traceFilter(given, now) }),
    },
    traces: {
      ...turns, view: "traces", title: "Turns", page: async (given, app) => (given.turn ? turnPart(given, app) : chooseOne("turn")), empty: nothingStored,
      request: (given, now) => ({ filter: traceFilter(given, now) }),
    },
    sessions: {
      view: "sessions", title: "Sessions", noun: "session", facts: sessionFacts, exported: exportedRow, opens: "session", search: "Search ids of sessions and users", fields: SESSION_FIELDS, orders: { "": "Worst first", newest: "Newest first" },
      source: (given) => (given.order === "newest" || given.search || given.filter ? NEWEST_SESSIONS : WORST_SESSIONS), empty: noSessions,
      page: async (given, app) => (given.session ? sessionPart(given, app) : given.turn ? turnPart(given, app) : chooseOne("session")),
    },
    runs: {
      view: "runs", title: "Runs", noun: "run", method: "RunService/ListRuns", field: "runs", row: runRow, item: runItem, opens: "id", hasNoFilters: true,
      page: async (given, app) => (given.id ? runPart(given, app) : chooseOne("run")), empty: noRuns, request: () => ({}), form: newRunPart, formTitle: "New run",
    },
    monitors: {
      view: "monitors", title: "Monitors", noun: "monitor", method: "MonitorService/ListMonitors", field: "monitors", row: monitorRow, item: monitorItem, opens: "id", hasNoFilters: true, order: "",
      page: async (given, app) => (given.id ? monitorPart(given, app) : chooseOne("monitor")), empty: noMonitors, request: () => ({}), form: newMonitorPart, formTitle: "New monitor",
    },
  };
}

function chooseOne(noun) {
  return { element: h("div", { class: "choose" }, h("h1", null, `Choose a ${noun}`), h("p", { class: "muted" }, "Click one in the list, or press ", h("kbd", null, "j"), " and ", h("kbd", null, "k"), ".")) };
}
