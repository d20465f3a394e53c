// How far the judge agrees with people, as their labels grow.

import { h, scrolling, svg } from "../report/elements.js";
import { NUMBER, count, moment, share, value } from "../report/words.js";
import { ask } from "./client.js";
import { milliseconds } from "./messages.js";
import { patch } from "./patching.js";

const WIDTH = 300;
const HEIGHT = 60;

/**
 * Shows what GetAgreement has for a metric, after each label.
 * @param {object} app
 */
export function makeAgreed(app) {
  const element = h("div", { class: "agreed" });
  let metric = "";
  let isAsking = false;
  let isStale = false; // a label was given or taken back while the answer was under way

  async function read() {
    if (!metric) return;
    if (isAsking) { isStale = true; return; }
    isAsking = true;
    const wanted = metric;
    try {
      const found = await ask("AnnotationService/GetAgreement", { metric: wanted });
      if (wanted === metric) patch(element, agreementPart(found));
    } catch (error) {
      if (wanted === metric) patch(element, h("p", { class: "muted small" }, `How far the judge agrees cannot be shown: ${error.message}`));
      app.failed(error);
    } finally {
      isAsking = false;
      if (isStale || wanted !== metric) { isStale = false; read(); }
    }
  }

  return {
    element, read,
    /** Agreement is shown on this metric from now on; empty: on none. */
    of(next) {
      if (next === metric) return undefined;
      metric = next;
      patch(element);
      return read();
    },
  };
}

function agreementPart(found) {
  const judges = [...(found.judges ?? [])].sort((one, other) => labelsOf(other.all) - labelsOf(one.all));
  if (!judges.length) return h("p", { class: "muted small" }, "Agreement with the judge: there are no labels yet of what it has scored.");
  return judges.map((judge) => judgePart(judge, judges.length > 1));
}

function judgePart(judge, isOneOfMany) {
  const atRandom = measureOf(judge.atRandom, "agreement");
  const kappa = measureOf(judge.atRandom, "Cohen's kappa");
  return h("div", { class: "agreed-judge" },
    h("p", { class: "small" }, isOneOfMany ? h("span", { class: "mono" }, `${judgeName(judge)}: `) : null,
      "Agreement with the judge: ", h("b", null, figureWords(atRandom, share)), atRandom?.n ? `, n = ${count(labelsOf(judge.atRandom), "label")} in ${count(atRandom.n, "session")}` : "", kappa?.value === undefined ? "" : `; kappa ${figureWords(kappa, value)}`),
    h("details", null, h("summary", { class: "small" }, "As the labels grew, and by all labels"), historyPart(judge.history ?? []), tablePart(judge)));
}

const judgeName = (judge) => [judge.model ?? judge.evaluator, judge.threshold === undefined ? "" : `from ${value(judge.threshold)}`].filter(Boolean).join(" ");

const labelsOf = (table) => ["truePass", "falseFail", "falsePass", "trueFail"].reduce((sum, cell) => sum + (table?.[cell] ?? 0), 0);

const measureOf = (table, name) => (table?.measures ?? []).find((measure) => measure.name === name);

function figureWords(measure, show) {
  if (!measure) return "no label of a random sample yet";
  if (measure.value === undefined) return measure.whyNot || "not known";
  return `${show(measure.value)}${measure.low === undefined ? "" : ` (${show(measure.low)} to ${show(measure.high)})`}`;
}

// Agreement with its interval over the number of labels.
function historyPart(history) {
  const points = history.filter((point) => point.agreement?.value !== undefined);
  if (points.length < 2) return h("p", { class: "muted small" }, "There are too few labels of a random sample for a picture.");
  const [first, last] = [points[0].n, points.at(-1).n];
  const x = (n) => (WIDTH * (n - first)) / (last - first || 1);
  const y = (part) => HEIGHT - 2 - (HEIGHT - 4) * part;
  const at = (point, name) => `${x(point.n).toFixed(1)},${y(point.agreement[name] ?? point.agreement.value).toFixed(1)}`;
  const limits = [...points.map((point) => at(point, "high")), ...[...points].reverse().map((point) => at(point, "low"))];
  return h("div", { class: "trend-chart" },
    h("div", { class: "trend-scale", "aria-hidden": "true" }, h("span", null, "100 %"), h("span", null, "0 %")),
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `Agreement with its 95 % interval, from ${count(first, "label")} to ${count(last, "label")}; the same as a table below` },
      [0, 0.5, 1].map((part) => svg("line", { class: "guide", x1: 0, x2: WIDTH, y1: y(part), y2: y(part) })),
      svg("polygon", { class: "band line-0", points: limits.join(" ") }), svg("polyline", { class: "line line-0", points: points.map((point) => at(point, "value")).join(" ") })),
    h("div", { class: "trend-times", "aria-hidden": "true" }, h("span", null, count(first, "label")), h("span", null, count(last, "label"))),
    scrolling(h("table", { class: "grid" }, h("thead", null, h("tr", null, ["labels", "agreement", "kappa", "the last one"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, [...points].reverse().map((point) => h("tr", null, h("th", { scope: "row" }, NUMBER.format(point.n)), h("td", null, figureWords(point.agreement, share)), h("td", null, figureWords(point.kappa, value)), h("td", null, moment(milliseconds(point.labelledNs))))))), { class: "scrolls agreed-table" }));
}

// The four cells, of all labels: also of those that were chosen since they are doubtful, so this is no estimate for everything.
function tablePart(judge) {
  const cells = [["people and judge pass it", "truePass"], ["only people pass it", "falseFail"], ["only the judge passes it", "falsePass"], ["both fail it", "trueFail"], ["annotators are evenly divided", "tied"]];
  const all = measureOf(judge.all, "agreement");
  return scrolling(h("table", { class: "grid" },
    h("thead", null, h("tr", null, ["labels", "random sample", "all labels"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", null, h("tr", null, h("th", { scope: "row" }, "agreement"), h("td", null, figureWords(measureOf(judge.atRandom, "agreement"), share)), h("td", null, all ? figureWords(all, share) : "–")),
      cells.map(([name, cell]) => h("tr", null, h("th", { scope: "row" }, name), h("td", { class: "numeric" }, NUMBER.format(judge.atRandom?.[cell] ?? 0)), h("td", { class: "numeric" }, NUMBER.format(judge.all?.[cell] ?? 0)))))));
}
