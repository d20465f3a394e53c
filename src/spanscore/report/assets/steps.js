// The steps of a turn as a waterfall: each with its place in time, opened where a score rests on it.

import { button, h, replace } from "./elements.js";
import { textBlock } from "./marking.js";
import { NUMBER, duration, firstLine } from "./words.js";

const ROWS_AT_ONCE = 400;

// `view` has what is shown: `quotes` to mark, `flagged` rows with the scores that name them, `dim` whether others fade.
export function waterfall(turn, context) {
  const steps = turn.steps ?? [];
  const end = steps.reduce((latest, step) => Math.max(latest, (step.at ?? 0) + (step.took ?? 0)), turn.took ?? 0) || 1;
  const list = h("ol", { class: "steps" });
  const rows = new Map();
  let shown = 0;

  function showTo(limit) {
    const upTo = Math.min(limit, steps.length);
    for (; shown < upTo; shown += 1) {
      const row = stepRow(turn, shown, end, context);
      rows.set(shown, row);
      list.append(row.element);
    }
    rest.hidden = shown >= steps.length;
    rest.textContent = `Show ${NUMBER.format(Math.min(ROWS_AT_ONCE, steps.length - shown))} more of ${NUMBER.format(steps.length)} steps`;
  }
  const rest = button("", () => showTo(shown + ROWS_AT_ONCE), { class: "more rest" });
  showTo(ROWS_AT_ONCE);

  const hasTimes = steps.some((step) => step.at !== undefined);
  const element = h("div", { class: "waterfall" }, hasTimes ? timeAxis(end) : null, list, rest);
  return {
    element,
    count: steps.length,
    row(number) {
      if (number >= shown) showTo(number + 20);
      return rows.get(number);
    },
    all: () => rows.values(),
  };
}

function timeAxis(end) {
  const ticks = [0, 0.5, 1];
  return h("div", { class: "axis-row", "aria-hidden": "true" }, h("span", { class: "axis-ticks" }, ticks.map((part) => h("i", { style: { left: `${100 * part}%` } }, duration(end * part)))));
}

function stepRow(turn, place, end, context) {
  const step = turn.steps[place];
  const flags = h("span", { class: "flags" });
  const head = h(
    "button",
    { type: "button", class: "step-head", "aria-expanded": "false", onclick: () => toggle(!element.classList.contains("open")) },
    h("span", { class: "step-number" }, step.n ? String(step.n) : ""),
    h("span", { class: ["kind", step.kind], title: step.kind === "tool" ? "tool call" : "model call" }, step.kind === "tool" ? "tool" : "model"),
    h("span", { class: "step-what" },
      h("span", { class: "step-name" }, step.name), step.agent ? h("span", { class: "agent" }, step.agent) : null,
      h("span", { class: "step-brief", dir: "auto" }, step.final ? "the final output" : step.brief ?? ""),
      step.error ? h("span", { class: "step-error", dir: "auto" }, firstLine(step.error, 120)) : null),
    flags,
    h("span", { class: "step-took" }, duration(step.took)),
    timeBar(step, end),
  );
  const body = h("div", { class: "step-body" });
  const element = h("li", { class: ["step", step.kind, step.error ? "failed" : ""], "data-step": String(place) }, head, body);

  function toggle(open) {
    element.classList.toggle("open", open);
    head.setAttribute("aria-expanded", String(open));
    replace(body, ...(open ? stepDetails(step, context.quotes(place), context.notes(place)) : []));
  }
  return { element, flags, toggle, head };
}

function timeBar(step, end) {
  const bar = h("span", { class: "time" });
  if (step.at === undefined) return bar;
  const left = Math.min(Math.max(step.at / end, 0), 1);
  const width = Math.min(Math.max((step.took ?? 0) / end, 0), 1 - left);
  bar.title = `starts after ${duration(Math.max(step.at, 0))}${step.took === undefined ? "" : `, takes ${duration(step.took)}`}`;
  bar.append(h("i", { class: "bar", style: { left: `${100 * left}%`, width: `max(2px, ${100 * width}%)` } }));
  return bar;
}

function stepDetails(step, quotes, notes) {
  if (step.bare) return [h("p", { class: "muted" }, "The texts of this step are left out: the turn has too many steps for one page.")];
  const parts = notes.map((note) => h("p", { class: ["note", note.ok ? "pass" : "fail"] }, h("b", null, note.metric), " ", note.text));
  const part = (title, text, options) => text === undefined ? null : h("section", { class: options?.class }, h("h4", null, title), textBlock(text, { quotes, ...options }));
  if (step.kind === "tool") {
    const hasResult = step.result !== undefined && step.result !== step.error;
    return [
      ...parts,
      part("Arguments", step.args) ?? missing("The arguments were not recorded."),
      part(step.inferred ? "Error, recognised in the result" : "Error", step.error, { class: "error-text" }),
      hasResult ? part("Result", step.result) : step.error === undefined ? missing(step.returned ? "The result is empty." : "The result was not recorded.") : null,
      identity(step),
    ];
  }
  const asked = step.asked ?? [];
  return [
    ...parts,
    part("Reasoning", step.reasoning),
    step.final ? missing("It answered with the final output, below.") : part("Answer", step.text),
    asked.length === 0 ? null : h("section", null, h("h4", null, "Asks for"), h("ul", { class: "asked" }, asked.map((call) => h("li", null, h("b", null, call.name), " ", h("span", { class: "mono" }, call.brief))))),
    identity(step),
  ];
}

export function missing(text) {
  return h("p", { class: "muted small" }, text);
}

function identity(step) {
  const facts = [
    step.tokens ? `${tokenWord(step.tokens[0])} tokens in, ${tokenWord(step.tokens[1])} out` : "",
    step.id ? `call ${step.id}` : "",
    step.span ? `span ${step.span}` : "",
  ].filter(Boolean);
  return facts.length ? h("p", { class: "muted small mono" }, facts.join(" · ")) : null;
}

export function tokenWord(number) {
  return number === null || number === undefined ? "?" : NUMBER.format(number);
}
