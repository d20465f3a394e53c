// One turn or session as a report shows it, asked of the server.

import { button, h } from "../report/elements.js";
import { sessionPage } from "../report/session.js";
import { turnPage } from "../report/turn.js";
import { ask } from "./client.js";

/** The page of a turn. */
export async function turnPart(given, app) {
  const { view } = await viewOf("ViewService/GetTraceView", `traces/${encodeURIComponent(given.turn)}`, given.run ? { run: `runs/${given.run}` } : {});
  const made = turnPage(view.turn, view.row, reportApp(view, app, given));
  if (given.run) made.element.prepend(h("p", { class: "remarks" }, `These are the scores of the evaluation run ${given.run}. `, button("Show those that the turn got as it came", () => app.go("traces", { turn: given.turn }), { class: "link" })));
  return made;
}

/** The page of a session. */
export async function sessionPart(given, app) {
  const { view } = await viewOf("ViewService/GetSessionView", `sessions/${encodeURIComponent(given.session)}`);
  return sessionPage(view.session, view.row, reportApp(view, app, given));
}

async function viewOf(method, name, more = {}) {
  const answer = await ask(method, { name, ...more });
  return { view: JSON.parse(answer.viewJson) };
}

// What the parts of a report ask of the page around them.
function reportApp(view, app, given) {
  const rows = new Map((view.turns ?? []).map((row) => [row.id, row]));
  return {
    index: { turns: view.turns ?? [], metrics: view.metrics ?? [], baseline: null },
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
