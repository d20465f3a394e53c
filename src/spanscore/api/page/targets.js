// The fields of a form that have which turns or sessions are evaluated, and by what: those of a run and of a monitor's runs.

import { h, replace } from "../report/elements.js";
import { ask } from "./client.js";
import { RANGES, startOf } from "./conditions.js";
import { choiceOf, field, fieldSet, filledIn, moreFields, namedNumbersIn, numberIn, numberInput, textIn, textInput, tickBox, wordsIn } from "./form.js";
import { scopeOf } from "./messages.js";

const SCOPES = { turns: "Turns", sessions: "Sessions" };
const SAMPLES = { all: "All of them", count: "A number of them", share: "A share of them" };
const EXAMPLES = { turns: "label.task_completion = fail AND latency > 10s", sessions: "trace_count > 3 AND failing = true" };

/** The fields of a run that have a control here; where the others begin that are times, ids or maps. */
export const TARGET_FIELDS = [
  ...["scope", "where", "sampling", "traceIds", "sessionIds", "filter.service", "filter.agent", "filter.startedAfterNs", "filter.startedBeforeNs"].map((name) => `target.${name}`),
  ...["metrics", "model", "thresholds", "signalWeights"].map((name) => `measure.${name}`), "budget", "export",
];

/**
 * @param {object} [how]
 * @param {boolean} [how.isTimed] - whether a range of time can be chosen
 */
export function makeTargetFields({ isTimed = false } = {}) {
  const scope = choiceOf(SCOPES, { onchange: () => scopeChanged() });
  const range = choiceOf({ "": "Any time", ...Object.fromEntries(Object.entries(RANGES).map(([name, [word]]) => [name, word])) });
  const service = textInput({ placeholder: "Any service" });
  const agent = textInput({ placeholder: "Any agent" });
  const filter = textInput({ class: "mono" });
  const sample = choiceOf(SAMPLES, { onchange: () => sampleChanged() });
  const amount = numberInput();
  const seed = numberInput({ step: 1, value: 0 });
  const [amountField, seedField] = [field("How many", amount), field("Seed", seed, "The same seed draws the same ones.")];
  const named = h("div", { class: "ticks-row" });
  const others = textInput({ class: "mono", placeholder: "plan_quality, step_efficiency" });
  const model = textInput({ class: "mono", placeholder: "As configured" });
  const ids = h("textarea", { rows: 2, class: "mono", spellcheck: "false" });
  const thresholds = textInput({ class: "mono", placeholder: "task_completion=0.8" });
  const weights = textInput({ class: "mono", placeholder: "confidence=2" });
  const maxUsd = numberInput();
  const maxTokens = numberInput({ step: 1 });
  const exported = tickBox("Export the scores");
  let metrics = []; // [name, scope] of those that have scores
  let boxes = [];

  const element = [
    fieldSet("What is evaluated", field("Turns or sessions", scope), isTimed ? field("Time", range) : null, field("Service", service), field("Agent", agent),
      field("Filter", filter, "As above the list of turns or of sessions."), field("Sample", sample), amountField, seedField),
    fieldSet("By what", h("div", { class: "field wide", role: "group", "aria-label": "Metrics" }, h("span", { class: "field-name" }, "Metrics"), named, h("span", { class: "muted small" }, "None: those of the configuration.")),
      field("Other metrics", others), field("Model", model, "It judges all of them.")),
    moreFields("Ids, thresholds, weights, budget, export", field("Only these ids", ids, "One a line."), field("Thresholds", thresholds, "From which score on it passes."), field("Weights of signals", weights, "In session metrics."),
      field("At most USD", maxUsd), field("At most tokens", maxTokens), h("div", { class: "field" }, exported.element)),
  ];

  function scopeChanged() {
    filter.placeholder = EXAMPLES[scope.value];
    const wanted = metrics.filter(([, of]) => of === (scope.value === "sessions" ? "session" : "trace")).map(([name]) => name);
    boxes = [...new Set(wanted)].map((name) => ({ name, ...tickBox(name) }));
    replace(named, boxes.map((box) => box.element));
  }

  function sampleChanged() {
    amountField.hidden = seedField.hidden = sample.value === "all";
    amount.required = sample.value !== "all";
    amount.max = sample.value === "share" ? 100 : "";
    amount.step = sample.value === "share" ? "any" : 1;
    amountField.firstChild.textContent = sample.value === "share" ? "Per cent" : "How many";
  }

  function sampling() {
    if (sample.value === "all") return undefined;
    return filledIn({ ...(sample.value === "share" ? { share: numberIn(amount) / 100 } : { count: numberIn(amount) }), seed: textIn(seed) });
  }

  function target() {
    const start = isTimed ? startOf(range.value, Date.now()) : null;
    return {
      scope: scope.value === "sessions" ? "SCOPE_SESSION" : "SCOPE_TRACE", where: textIn(filter), sampling: sampling(),
      filter: filledIn({ service: textIn(service), agent: textIn(agent), startedAfterNs: start === null ? undefined : String(BigInt(Math.round(start)) * 1_000_000n) }),
      [scope.value === "sessions" ? "sessionIds" : "traceIds"]: wordsIn(ids),
    };
  }

  function measure() {
    const chosen = [...boxes.filter((box) => box.control.checked).map((box) => box.name), ...(wordsIn(others) ?? [])];
    return filledIn({ metrics: chosen.length ? [...new Set(chosen)] : undefined, model: textIn(model), thresholds: namedNumbersIn(thresholds, "Thresholds"), signalWeights: namedNumbersIn(weights, "Weights of signals") });
  }

  scopeChanged();
  sampleChanged();
  return {
    element,
    /** Offers the metrics that have scores. */
    async offer() {
      metrics = (await scoredMetrics()).map((summary) => [summary.metric, scopeOf(summary)]);
      if (!boxes.some((box) => box.control.checked)) scopeChanged();
    },
    /** The fields of a Run, and of a MonitorRun. Throws an Error where something is typed that can be none. */
    read: () => filledIn({ target: target(), measure: measure(), budget: filledIn({ maxUsd: numberIn(maxUsd), maxTokens: textIn(maxTokens) }), export: exported.control.checked || undefined }),
  };
}

/** The summaries of all metrics that spanscore has scored. */
export async function scoredMetrics() {
  return (await ask("AnalyticsService/SummarizeScores", { selection: { filter: "source = spanscore" } })).summaries ?? [];
}
