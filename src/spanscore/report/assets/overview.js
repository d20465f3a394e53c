// The first page: how the run came out, each metric with its interval, and what changed against the baseline.

import { estimateCell, stack } from "./charts.js";
import { button, h, opening, scrolling } from "./elements.js";
import { missing } from "./steps.js";
import { NUMBER, STATES, TEST_STATES, breakable, count, moment, share, testState, value } from "./words.js";

export function overviewPage(app) {
  const { index } = app;
  const counts = [count(index.turns.length, "turn"), index.sessions.length ? count(index.sessions.length, "session") : "", index.cases.length ? count(index.cases.length, "test") : "", moment(index.started)];
  return {
    element: h(
      "article",
      { class: "page overview" },
      h("header", { class: "page-head" }, h("h1", null, index.name), h("p", { class: "meta" }, counts.filter(Boolean).map((text) => h("span", null, text)))),
      index.notes.length ? h("ul", { class: "remarks" }, index.notes.map((note) => h("li", null, note))) : null,
      h("div", { class: "tiles" },
        index.cases.length ? h("section", { class: "tile" }, h("h2", null, "Tests"), stack(testParts(index.cases), (part) => app.show("cases", { states: [part.state] }))) : null,
        index.turns.length ? h("section", { class: "tile" }, h("h2", null, "Turns"), stack(stateParts(index.turns), (part) => app.show("turns", { states: [part.state] })), passingTurns(index)) : null,
        index.sessions.some((row) => row.scored || row.errors.length) ? h("section", { class: "tile" }, h("h2", null, "Sessions, by their own scores"), stack(stateParts(index.sessions), (part) => app.show("sessions", { states: [part.state] }))) : null),
      index.figures.length ? h("section", { class: "part" }, h("h2", null, "The whole run"), figureTable(index.figures)) : null,
      index.comparison ? comparisonPart(index.comparison, app) : null,
      index.metrics.length ? metricsPart(index, app) : missing("There are no scores in this report."),
      h("footer", { class: "foot" }, `Written by spanscore ${index.version}. It contains what users and the agent said. Press `, h("kbd", null, "?"), " for keys."),
    ),
  };
}

function passingTurns({ turn_rate: rate, turns }) {
  if (!rate) return null;
  const decided = turns.filter((row) => row.state === "pass" || row.state === "fail").length;
  const limits = rate.low === null ? "" : `, ${share(rate.low)} to ${share(rate.high)}`;
  return h("p", { class: "muted small tile-note", title: `n = ${rate.n}` }, h("b", null, share(rate.value)), ` of ${count(decided, "turn")} with a verdict pass${limits}`);
}

function stateParts(rows) {
  return Object.entries(STATES).map(([name, { sign, word }]) => ({ state: name, sign, word: { fail: "fail", error: "could not be measured", pass: "pass", none: "without a verdict" }[name] ?? word, count: rows.filter((row) => row.state === name).length }));
}

function testParts(cases) {
  return Object.entries(TEST_STATES).map(([status, { sign, state: name }]) => ({ state: name, sign, word: status, count: cases.filter((row) => row.status === status).length }));
}

export function figureTable(figures) {
  return scrolling(h("table", { class: "grid figures-table" }, h("tbody", null, figures.map((figure) => h("tr", null,
    h("th", { scope: "row" }, figure.name, figure.note ? h("span", { class: "muted small block" }, figure.note) : null),
    h("td", null, estimateCell(figure.estimate, figure.scale, { unit: figure.unit })),
    h("td", { class: "numeric muted" }, `n = ${NUMBER.format(figure.estimate.n)}`))))));
}

function metricsPart(index, app) {
  const level = index.metrics.find((row) => row.rate?.level ?? row.mean?.level);
  const percent = level ? Math.round(100 * (level.rate?.level ?? level.mean?.level)) : 95;
  return h("section", { class: "part" },
    h("h2", null, "Metrics"),
    scrolling(h("table", { class: "grid metrics" },
      h("thead", null, h("tr", null, ["metric", "pass rate", "mean", "n", "failing", "skipped", "not measured"].map((name, place) => h("th", { scope: "col", class: place > 2 ? "numeric" : "" }, name)))),
      h("tbody", null, index.metrics.map((row, number) => h("tr", { class: row.scored ? "" : "idle" },
        h("th", { scope: "row" }, metricName(row, number, app)),
        h("td", null, estimateCell(row.rate, [0, 1], { class: "rate", unit: "%" })),
        h("td", null, estimateCell(row.mean, row.scale ?? [0, 1], { chart: false })),
        h("td", { class: "numeric" }, row.mean ? NUMBER.format(row.mean.n) : "–"),
        h("td", { class: "numeric" }, row.failing ? h("span", { class: "count fail" }, NUMBER.format(row.failing)) : "–"),
        h("td", { class: "numeric muted" }, row.skipped ? NUMBER.format(row.skipped) : "–"),
        h("td", { class: "numeric" }, row.errors ? h("span", { class: "count error" }, NUMBER.format(row.errors)) : "–")))))),
    h("p", { class: "muted small" }, `Lines and limits are ${percent} % intervals. n counts what is independent: sessions, and turns that belong to none.`));
}

function metricName(row, number, app) {
  const isListed = row.failing || row.errors || row.source;
  return [isListed ? button(breakable(row.metric), () => app.show("turns", { metric: number }), { class: "link", title: "List these turns" }) : breakable(row.metric),
    row.source ? h("span", { class: "tag" }, row.source) : null];
}

function comparisonPart(found, app) {
  const words = { better: "better than", worse: "worse than", "cannot tell": "not known to differ from" };
  const changed = found.changes;
  return h("section", { class: "part comparison" },
    h("h2", null, "Against ", found.baseline, h("span", { class: ["verdict", found.verdict.replace(" ", "-")] }, `This run is ${words[found.verdict]} it`)),
    differenceTable(found.differences, ["measure", "baseline", "this run", "difference", "verdict"]),
    found.remarks.map((text) => h("p", { class: "muted small" }, text)),
    changed.length ? opening(`${count(changed.length + found.more_changes, "task")} changed`, () => scrolling(h("table", { class: "grid" },
      h("thead", null, h("tr", null, ["task", "baseline", "this run", "measure", "verdict"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, changed.map((row) => h("tr", null, h("th", { scope: "row" }, row.name), h("td", null, testState(row.baseline), row.baseline), h("td", null, testState(row.own), row.own),
        h("td", null, row.values ? `${row.measure} ${value(row.values[0])} → ${value(row.values[1])}` : ""), h("td", null, row.verdict)))))), { open: changed.length <= 20 }) : null,
    onlyIn("Only in the baseline", found.only_in_baseline), onlyIn("Only in this run", found.only_in_own),
    app.index.baseline ? h("p", null, button("List the turns that changed", () => app.show("turns", { change: "changed" }), { class: "link" })) : null);
}

/** What differs between two runs, a row for each measure. */
export function differenceTable(differences, headings) {
  return scrolling(h("table", { class: "grid differences" },
    h("thead", null, h("tr", null, headings.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", null, differences.map((row) => h("tr", { "data-key": row.key },
      h("th", { scope: "row" }, breakable(row.name), row.counted ? h("span", { class: "muted small block" }, row.counted) : null),
      h("td", null, estimateCell(row.baseline, [0, 1], { chart: false, unit: row.unit })),
      h("td", null, estimateCell(row.own, [0, 1], { chart: false, unit: row.unit })),
      h("td", null, row.difference ? estimateCell(row.difference, [0, 1], { sign: true, zero: 0, unit: row.unit, range: differenceRange(row), class: row.verdict.replace(" ", "-") }) : "–"),
      h("td", null, h("span", { class: ["verdict", row.verdict.replace(" ", "-")] }, row.verdict), row.regression ? h("span", { class: "small block fail-text" }, row.regression) : null, row.note ? h("span", { class: "small block muted" }, row.note) : null))))));
}

function differenceRange(row) {
  const limits = [row.difference.low, row.difference.high, row.difference.value].filter((number) => number !== null && number !== undefined).map(Math.abs);
  const widest = Math.max(...limits, 1e-9);
  return [-widest * 1.05, widest * 1.05];
}

function onlyIn(title, names) {
  return names.length ? opening(`${title}: ${NUMBER.format(names.length)}`, () => h("ul", null, names.map((name) => h("li", null, name)))) : null;
}
