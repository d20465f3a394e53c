// One turn or session as a report shows it, asked of the server.

import { button, h } from "../report/elements.js";
import { sessionPage } from "../report/session.js";
import { turnPage } from "../report/turn.js";
import { ask } from "./client.js";

/**
 * The page of a turn.
 * @param {{isBlind?: boolean}} [how] - blind: without scores and verdicts, for who is to judge
 */
export async function turnPart(given, app, how = {}) {
  const { view } = await viewOf("ViewService/GetTraceView", `traces/${encodeURIComponent(given.turn)}`, given.run ? { run: `runs/${given.run}` } : {});
  if (how.isBlind) view.row = { ...view.row, state: "none" };
  const made = turnPage(how.isBlind ? { ...view.turn, scores: [] } : view.turn, view.row, reportApp(view, app, given), { hasNoScores: how.isBlind });
  if (view.unscored && !how.isBlind) made.element.prepend(h("p", { class: "remarks" }, `No score: ${view.unscored}.`));
  if (given.run) made.element.prepend(h("p", { class: "remarks" }, `These are the scores of the evaluation run ${given.run}. `, button("Show those that the turn got as it came", () => app.go("traces", { turn: given.turn }), { class: "link" })));
  return made;
}

/** The page of a session; see `turnPart`. */
export async function sessionPart(given, app, how = {}) {
  const { view } = await viewOf("ViewService/GetSessionView", `sessions/${encodeURIComponent(given.session)}`);
  if (how.isBlind) hideVerdicts(view);
  return sessionPage(view.session, view.row, reportApp(view, app, given));
}

function hideVerdicts(view) {
  view.session.scores = [];
  view.row = { ...view.row, state: "none", failing_turns: 0 };
  view.turns = view.turns.map((row) => ({ ...row, state: "none", fails: [] }));
}

async function viewOf(method, name, more = {}) {
  const answer = await ask(method, { name, ...more });
  return { view: JSON.parse(answer.viewJson) };
}

// What the parts of a report ask of the page around them.
function reportApp(view, app, given) {
  const rows = new Map((view.turns ?? []).map((row) => [row.id, row]));
  return {
    index: { turns: view.turns ?? [], metrics: view.metrics ?? [], baseline: null, trace_url: app.viewer.traceUrl },
    turnNamed: (id) => rows.get(id) ?? null,
    open(place) {
      if (place.session !== undefined) app.go("sessions", { session: place.session });
      else if (place.turn) app.go("traces", { turn: place.turn, step: place.step === undefined ? "" : String(place.step) });
      else app.go(app.place.view, { ...given, step: place.step === undefined ? "" : String(place.step) });
    },
  };
}

/** A page that says what went wrong. */
export function problemPart(error, retry) {
  return h("div", { class: "choose" }, h("h1", null, "This cannot be shown"), h("p", null, error.message), error.isPassing ? button("Try again", retry, { class: "act" }) : null);
}
