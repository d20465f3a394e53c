// The annotation queue: what a person should look at next, labelled by keys, each label saved at once.

import { button, h, replace } from "../report/elements.js";
import { count, firstLine } from "../report/words.js";
import { forbidden, sentence } from "./access.js";
import { makeAgreed } from "./agreed.js";
import { ask } from "./client.js";
import { makeLabels } from "./labels.js";
import { scoreOf } from "./messages.js";
import { problemPart, sessionPart, turnPart } from "./opened.js";

const AUTHOR_KEY = "spanscore-author";
const AT_ONCE = 5; // items that are leased together
const LEASE_S = 900;
const STRATEGIES = { random: ["ANNOTATION_STRATEGY_RANDOM", "A random sample"], uncertain: ["ANNOTATION_STRATEGY_UNCERTAIN", "Where the judge is in doubt"], disagreeing: ["ANNOTATION_STRATEGY_DISAGREEING", "Where somebody contradicts it"] };

/** The view of the annotation queue. */
export function makeAnnotate(app) {
  const why = forbidden(app.viewer);
  let given = {};
  let queue = []; // items that are still to be labelled, the next one first
  let shown = null; // the item that is open
  let number = 0;
  let labelled = []; // [item, score] of this metric and author, the last one last

  const metrics = h("datalist", { id: "annotate-metrics" });
  const metric = field("Metric", { list: "annotate-metrics", onchange: () => app.go("annotate", { ...given, metric: metric.value.trim() }) });
  const kind = h("select", { "aria-label": "Which ones", onchange: () => app.go("annotate", { ...given, kind: kind.value }) }, Object.entries(STRATEGIES).map(([name, [, word]]) => h("option", { value: name }, word)));
  const author = field("Your name", { autocomplete: "name", value: localStorage.getItem(AUTHOR_KEY) ?? "", onchange: () => { localStorage.setItem(AUTHOR_KEY, author.value.trim()); start().catch(app.failed); } });
  const tally = h("p", { class: "muted small", role: "status" });
  const agreed = makeAgreed(app);
  const main = h("main", { class: "main", id: "main", tabindex: "-1" });
  const labels = makeLabels({ why, onlabel: give, onskip: skip, onundo: undo });
  const element = h("div", { class: "whole annotate" },
    h("div", { class: "wide-filters", role: "region", "aria-label": "What is labelled" }, h("div", { class: "filters" }, h("div", { class: "selects" }, metric, metrics, kind, author), tally, agreed.element)), main, labels.element);

  const queueOf = () => ({ metric: given.metric, author: author.value.trim(), strategy: STRATEGIES[kind.value][0] });

  async function show(next) {
    agreed.of(next.metric ?? "");
    const isSame = shown !== null && given.metric === next.metric && given.kind === next.kind;
    given = next;
    metric.value = given.metric ?? "";
    kind.value = Object.hasOwn(STRATEGIES, given.kind ?? "") ? given.kind : "random";
    if (!isSame) await start();
  }

  // What is still being read or saved for another metric or author no longer counts.
  async function start() {
    const own = (number += 1);
    queue = [];
    shown = null;
    labelled = [];
    tally.textContent = "";
    labels.hide();
    try {
      if (!metrics.childElementCount) await offerMetrics();
    } catch (error) {
      if (own === number) replace(main, problemPart(error, () => start().catch(app.failed)));
      throw error;
    }
    if (own !== number) return;
    if (!given.metric) {
      const choices = [...metrics.children].map(({ value }) => h("li", null, button(value, () => app.go("annotate", { ...given, metric: value }), { class: "link" })));
      replace(main, message("Choose a metric", choices.length ? "What you label is kept as a score that a person gave, and compared with the judge's." : "There are no scores yet that pass or fail: what is labelled is what was scored.", h("ul", null, choices)));
      return;
    }
    if (author.value.trim()) await advance();
    else replace(main, message("Who are you?", "Type your name above. Labels have it, and you are asked only for what you have not labelled."));
  }

  async function offerMetrics() {
    const answer = await ask("AnalyticsService/SummarizeScores", { selection: { filter: "source = spanscore" } });
    const names = (answer.summaries ?? []).filter((summary) => summary.passRate?.value !== undefined).map((summary) => summary.metric);
    replace(metrics, [...new Set(names)].map((name) => h("option", { value: name })));
  }

  // Opens the next item; takes more where there are none.
  async function advance() {
    const own = (number += 1);
    try {
      const taken = queue.length ? queue : await take();
      if (own !== number) return;
      queue = taken;
      shown = queue[0] ?? null;
      if (shown === null) {
        labels.hide();
        replace(main, message("Nothing is left to label", "You have labelled all that there is of this kind, or others are at it. Choose another metric, or others of it."));
        return;
      }
      const page = await pageOf(shown, app);
      if (own !== number) return;
      replace(main, h("p", { class: "why-now" }, [...(shown.reasons ?? []).map(sentence), "Scores are hidden until it is labelled."].join(" ")), page.element);
      main.scrollTop = 0;
      labels.show(shown.subjectId);
    } catch (error) {
      if (own === number) replace(main, problemPart(error, () => advance()));
      app.failed(error);
    }
  }

  async function take() {
    const request = why ? ["ListAnnotationItems", { queue: queueOf(), pageSize: AT_ONCE }] : ["LeaseAnnotationItems", { queue: queueOf(), maxItems: AT_ONCE, leaseS: LEASE_S }];
    return (await ask(`AnnotationService/${request[0]}`, request[1])).items ?? [];
  }

  /** Saves a label; rejects where that fails, and then the item stays. */
  async function give(label, comment, requestId) {
    const [item, own] = [shown, labelled];
    const subject = item.scope === "SCOPE_SESSION" ? { sessionId: item.subjectId } : { traceId: item.subjectId };
    const score = await ask("ScoreService/CreateScore", { requestId, score: { ...subject, scope: item.scope, metric: given.metric, label, reason: comment, evaluator: { source: "human", author: author.value.trim() } } });
    if (own !== labelled) return "";
    labelled.push([item, score]);
    agreed.read();
    queue = queue.filter((one) => one !== item);
    tally.textContent = tallyWords(labelled);
    await advance(); // until the next item is shown, no key labels it
    return judgedWords(item);
  }

  async function skip() {
    const [item, own] = [shown, labelled];
    if (!item) return;
    if (!why) await ask("AnnotationService/ReleaseAnnotationItem", { queue: queueOf(), scope: item.scope, subjectId: item.subjectId, skip: true });
    if (own !== labelled) return;
    queue = queue.filter((one) => one !== item);
    await advance();
  }

  async function undo() {
    const own = labelled;
    const [item, score] = own.at(-1) ?? [];
    if (!item) return "";
    await ask("ScoreService/DeleteScore", { name: score.name, allowMissing: true });
    if (own !== labelled) return score.label;
    labelled.pop();
    agreed.read();
    queue.unshift(item);
    tally.textContent = tallyWords(labelled);
    await advance();
    return score.label;
  }

  return { element, show, keys: labels.keys, refresh: async () => { await agreed.read(); }, leave: () => {} };
}

function field(label, props) {
  return h("input", { type: "text", "aria-label": label, placeholder: label, spellcheck: "false", ...props });
}

function message(title, text, more = null) {
  return h("div", { class: "choose" }, h("h1", null, title), h("p", { class: "muted" }, text), more);
}

function pageOf(item, app) {
  return item.scope === "SCOPE_SESSION" ? sessionPart({ session: item.subjectId }, app, { isBlind: true }) : turnPart({ turn: item.subjectId }, app, { isBlind: true });
}

// What the judge found, once the label is given.
function judgedWords(item) {
  if (!item.score) return "";
  const { label, reason } = scoreOf(item.score);
  return `The judge: ${label ?? "no verdict"}. ${firstLine(reason, 140)}`;
}

function tallyWords(labelled) {
  const judged = labelled.filter(([item]) => item.score?.label);
  const same = judged.filter(([item, score]) => item.score.label === score.label).length;
  return `${count(labelled.length, "label")} given now${judged.length ? `, ${same} of ${judged.length} as the judge` : ""}`;
}
