// The form of a new evaluation run: first what it costs at most, then its start.

import { button, h, replace } from "../report/elements.js";
import { NUMBER } from "../report/words.js";
import { ask } from "./client.js";
import { field, filledIn, newRequestId, textIn, textInput } from "./form.js";
import { makeOtherFields } from "./otherfields.js";
import { makeTargetFields, TARGET_FIELDS } from "./targets.js";

/**
 * The page of the form.
 * @param {object} app
 * @param {() => void} onend - called when the run is created
 */
export function newRunPart(app, onend) {
  const name = textInput({ maxlength: 256, placeholder: "For people" });
  const fields = makeTargetFields({ isTimed: true });
  const others = makeOtherFields("Run", ["name", "displayName", ...TARGET_FIELDS]);
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const found = h("div", { role: "status" });
  const estimate = h("button", { type: "submit", class: "act" }, "What does it cost?");
  const start = button("Start the run", () => begin(), { class: "act", hidden: true });
  let planned = null; // {run, requestId}: what was estimated, which is what is started
  let number = 0; // of what the form contains

  const form = h("form", { class: "page form", oninput: () => changed(), onsubmit: (event) => { event.preventDefault(); estimated(); } },
    h("header", { class: "page-head" }, h("h1", null, "New run"), h("p", { class: "muted" }, "Scores what is stored again. The scores that turns got as they came stay.")),
    h("div", { class: "part field-set" }, field("Name", name)), fields.element, others.element, found, problem,
    h("div", { class: "action-row" }, estimate, start, h("a", { href: "#/runs", class: "act quiet" }, "Back to the runs")));

  // What was estimated no longer holds.
  function changed() {
    number += 1;
    planned = null;
    start.hidden = true;
    estimate.classList.remove("quiet");
    problem.hidden = true;
    replace(found);
  }

  function fail(what, error) {
    problem.textContent = `${what}: ${error.message}`;
    problem.hidden = false;
  }

  async function estimated() {
    changed();
    const own = number;
    replace(found, h("p", { class: "muted" }, "Counting what it would ask…"));
    try {
      const run = filledIn(others.into({ displayName: textIn(name), ...fields.read() }));
      const answer = await ask("RunService/EstimateRun", { run });
      if (own !== number) return;
      planned = { run, requestId: newRequestId() };
      replace(found, costPart(answer));
      start.hidden = false;
      estimate.classList.add("quiet");
      start.focus();
    } catch (error) {
      if (own !== number) return;
      replace(found);
      fail("It cannot be estimated", error);
    }
  }

  async function begin() {
    if (!planned || start.getAttribute("aria-disabled") === "true") return;
    start.setAttribute("aria-disabled", "true");
    problem.hidden = true;
    try {
      const run = await ask("RunService/CreateRun", planned);
      onend();
      app.go("runs", { id: run.name.replace(/^runs\//, "") });
    } catch (error) {
      fail("It is not started", error);
    }
    start.removeAttribute("aria-disabled");
  }

  Promise.all([fields.offer(), others.offer()]).catch(app.failed);
  return { element: form };
}

function costPart(estimate) {
  const [candidates, items, planned, calls] = ["candidates", "items", "planned", "calls"].map((name) => Number(estimate[name] ?? 0));
  const tokens = Number(estimate.maxInputTokens ?? 0) + Number(estimate.maxOutputTokens ?? 0);
  const cost = estimate.maxCostUsd;
  const figures = [
    ["Evaluated", NUMBER.format(items), `of ${NUMBER.format(candidates)}`],
    ["Calls of the judge, at most", NUMBER.format(calls), (estimate.models ?? []).join(", ")],
    ["Tokens, at most", NUMBER.format(tokens), ""],
    ["Cost, at most", cost !== undefined ? `${cost.toFixed(cost < 1 ? 4 : 2)} USD` : calls ? "not known" : "none", cost === undefined && calls ? "A model has no known price." : ""],
  ];
  return h("section", { class: "part" }, h("h2", null, "What it costs at most"),
    h("div", { class: "tiles figure-tiles" }, figures.map(([title, figure, note]) => h("div", { class: "tile" }, h("span", { class: "muted small block" }, title), h("b", { class: "figure" }, figure), note ? h("span", { class: "muted small block" }, note) : null))),
    planned < items ? h("p", { class: "muted small" }, `Estimated from ${NUMBER.format(planned)} of them.`) : null);
}
