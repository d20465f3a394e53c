// The pages of a session, a test and a pair of runs: scores of the whole, then the turns.

import { button, h, inPages } from "./elements.js";
import { textBlock } from "./marking.js";
import { figureTable } from "./overview.js";
import { inOrder, scoreList } from "./scores.js";
import { missing } from "./steps.js";
import { placeName, scoreSummary } from "./turn.js";
import { count, duration, moment, scoreState, state, testState, value } from "./words.js";

const CARDS_AT_ONCE = 200;
const TRIALS_AT_ONCE = 50;

export function sessionPage(session, row, app) {
  const context = outerContext(app);
  const turns = row.turns.map((place) => app.index.turns[place]);
  return {
    element: h(
      "article",
      { class: "page session" },
      h("header", { class: "page-head" },
        h("p", { class: "kicker" }, "Session"),
        h("h1", null, state(row.state), session?.id ?? row.name),
        h("p", { class: "meta" }, h("span", null, count(turns.length, "turn")), row.failing_turns ? h("span", { class: "warning" }, `${row.failing_turns} failing`) : null, turns[0]?.start ? h("span", null, moment(turns[0].start)) : null)),
      session === null ? missing("The scores of this session are left out of this report, see the overview.")
        : session.scores.length ? h("section", { class: "part" }, h("h2", null, "Scores of the session", scoreSummary(session.scores)), scoreList(session.scores, context)) : null,
      h("section", { class: "part" }, h("h2", null, "Turns"), turns.length ? turnCards(turns, app, 0) : missing("Its turns are not part of this report: give the traces too.")),
    ),
  };
}

export function casePage(test, row, app) {
  const context = outerContext(app);
  const figures = row.figures ?? [];
  return {
    element: h(
      "article",
      { class: "page case" },
      h("header", { class: "page-head" },
        h("p", { class: "kicker" }, "Test"),
        h("h1", null, testState(row.status), row.name),
        h("p", { class: "meta" }, h("span", null, row.status), h("span", null, count(row.trials.length, "trial")))),
      test === null ? missing("The details of this test are left out of this report, see the overview.") : null,
      figures.length ? h("section", { class: "part" }, figureTable(figures)) : null,
      test?.reasons?.length ? h("section", { class: "part" }, h("h2", null, "Why"), h("ul", { class: "reasons" }, test.reasons.map((reason) => h("li", { dir: "auto" }, reason)))) : null,
      test?.detail ? h("section", { class: "part" }, textBlock(test.detail, { mono: true })) : null,
      inPages(test?.trials ?? [], TRIALS_AT_ONCE, (trial, number) => h("section", { class: "part trial" },
        h("h2", null, testState(trial.status), `Trial ${number + 1}`,
          h("span", { class: "summary" }, trial.score === undefined ? null : h("span", null, `score ${value(trial.score)}`), trial.took === undefined ? null : h("span", null, duration(trial.took)))),
        test.trials.length > 1 && trial.reasons ? h("ul", { class: "reasons" }, trial.reasons.map((reason) => h("li", { dir: "auto" }, reason))) : null,
        trial.scores ? scoreList(trial.scores, context) : null,
        trial.turns ? turnCards(trial.turns.map((place) => app.index.turns[place]), app, 0) : missing(trial.input ? `“${trial.input}”: its turns are not part of this report.` : "Its turns are not part of this report.")), h("div", { class: "trials" })),
    ),
  };
}

function turnCards(turns, app, first) {
  return inPages(turns, CARDS_AT_ONCE, (row, place) => h("li", null,
    button([
      h("span", { class: "turn-number" }, String(first + place)),
      state(row.state),
      h("span", { class: "turn-texts" },
        h("span", { class: "turn-input", dir: "auto" }, row.input ?? "No input was recorded."),
        row.tools?.length ? h("span", { class: "turn-tools mono" }, row.tools.join(" → ")) : null,
        row.output ? h("span", { class: "turn-output", dir: "auto" }, row.output) : null,
        row.fails?.length ? h("span", { class: "turn-fails" }, row.fails.map((number) => h("span", { class: "flag fail" }, app.index.metrics[number].metric))) : null),
      h("span", { class: "step-took" }, duration(row.took)),
    ], () => app.open({ turn: row.id }), { class: "turn-card" })), h("ol", { class: "turn-cards" }));
}

function outerContext(app) {
  return {
    go: (place) => app.open(place),
    focus: (score) => app.open(score.places[0]),
    nameOf: (place) => placeName(place, null, app),
  };
}

// A turn's scores beside those of the same task in the baseline.
export function changeTable(turn, was, app) {
  const before = new Map((was.detail?.scores ?? []).filter((score) => !score.source).map((score) => [score.metric, score]));
  const both = inOrder(turn.scores ?? []).filter((score) => !score.source && score.status !== "skipped" && before.has(score.metric));
  const rows = both.filter((score) => score.value !== before.get(score.metric).value || scoreState(score) !== scoreState(before.get(score.metric)));
  const same = both.length - rows.length;
  return h("section", { class: "part change" },
    h("h2", null, "Against the baseline", h("span", { class: "tools" }, button("Show the baseline's turn", () => app.open({ baseline: was.row.id }), { class: "link" }))),
    both.length === 0 ? missing("No metric was scored in both.") : rows.length === 0 ? missing(`${count(same, "score")} as before.`) : h("table", { class: "grid" },
      h("thead", null, h("tr", null, ["metric", "baseline", "this run", "change"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, rows.map((score) => {
        const old = before.get(score.metric);
        const by = score.value !== undefined && old.value !== undefined ? score.value - old.value : null;
        return h("tr", null, h("th", { scope: "row" }, score.metric),
          h("td", { class: "numeric" }, state(scoreState(old)), value(old.value)), h("td", { class: "numeric" }, state(scoreState(score)), value(score.value)),
          h("td", { class: "numeric" }, by === null ? "–" : `${by > 0 ? "+" : ""}${value(Number(by.toFixed(3)))}`));
      }))),
    rows.length && same ? h("p", { class: "muted small" }, `${count(same, "further score")} as before.`) : null,
    was.detail?.output === undefined || was.detail.output === turn.output ? null
      : h("div", { class: "message agent past-output" }, h("h3", null, "The baseline's final output"), textBlock(was.detail.output)));
}
