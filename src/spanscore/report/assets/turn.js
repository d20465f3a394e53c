// The page of one turn: what the user asked, what the agent did, what it answered, and what scores say of it.

import { button, h, opening, replace } from "./elements.js";
import { textBlock } from "./marking.js";
import { inOrder, scoreList } from "./scores.js";
import { changeTable } from "./session.js";
import { missing, tokenWord, waterfall } from "./steps.js";
import { count, duration, firstLine, moment, scoreState, state } from "./words.js";

export function turnPage(turn, row, app, options = {}) {
  const scores = turn.scores ?? [];
  let active = null; // the score whose evidence alone is shown; null: that of all failing ones
  const failing = scores.filter((score) => !score.source && scoreState(score) === "fail");

  const context = {
    quotes: () => [...new Set((active ? [active] : failing).flatMap((score) => score.quotes ?? []))],
    notes: (place) => (active ? [active] : scores).flatMap((score) => (score.notes ?? []).filter((note) => note.step === place && (active || !note.ok))),
    nameOf: (place) => placeName(place, turn, app),
    go(place, score) {
      if (place.turn && place.turn !== turn.id) return app.open(place);
      focus(score, place.step);
    },
    focus: (score) => focus(score === active ? null : score),
  };

  const input = h("div", { class: "message user" });
  const output = h("div", { class: "message agent" });
  const steps = waterfall(turn, context);
  const scoreArea = scores.length ? scoreList(scores, context) : h("p", { class: "muted" }, "This turn has no scores.");
  const clear = button("Show all evidence", () => focus(null), { class: "link", hidden: true });

  function flagged() {
    const found = new Map();
    for (const score of active ? [active] : failing) {
      for (const place of score.places ?? []) if (place.step !== undefined && !place.turn) found.set(place.step, [...(found.get(place.step) ?? []), score]);
      for (const note of score.notes ?? []) if (note.step !== undefined && !note.ok && !found.get(note.step)?.includes(score)) found.set(note.step, [...(found.get(note.step) ?? []), score]);
    }
    return found;
  }

  function paint(openEvidence) {
    const found = flagged();
    for (const place of found.keys()) steps.row(place);
    for (const [place, item] of [...steps.all()].entries()) {
      const own = found.get(place) ?? [];
      item.element.classList.toggle("evidence", own.length > 0);
      item.element.classList.toggle("dim", active !== null && own.length === 0);
      replace(item.flags, own.map((score) => h("span", { class: ["flag", scoreState(score)], title: score.metric }, score.metric.replace(/^check\./, ""))));
      const isOpen = item.element.classList.contains("open");
      if (own.length > 0 && openEvidence) item.toggle(true);
      else if (isOpen) item.toggle(true); // paints its marks anew
    }
    paintMessages();
    for (const card of scoreArea.querySelectorAll?.(".score") ?? []) {
      card.classList.toggle("active", card.spanscore === active);
      const control = card.querySelector(".evidence-button");
      if (control) control.setAttribute("aria-pressed", String(card.spanscore === active));
    }
    clear.hidden = active === null;
  }

  function paintMessages() {
    const quotes = context.quotes();
    replace(input, h("h3", null, "User input"), turn.input === undefined ? missing("It was not recorded.") : textBlock(turn.input, { quotes }));
    replace(output, h("h3", null, "Final output"), turn.output === undefined ? missing("It was not recorded.") : textBlock(turn.output, { quotes }));
  }

  function focus(score, step) {
    active = score ?? null;
    paint(true);
    const first = step ?? (active?.places ?? []).find((place) => place.step !== undefined)?.step ?? (active?.notes ?? []).find((note) => note.step !== undefined)?.step;
    const target = first === undefined ? (active ? output : null) : steps.row(first)?.element;
    if (target) flash(target);
  }

  function expandAll(open) {
    for (const item of steps.all()) item.toggle(open);
  }

  paint(failing.length > 0);
  const element = h(
    "article",
    { class: "page turn" },
    turnHead(turn, row, app, options),
    options.was ? changeTable(turn, options.was, app) : null,
    options.hasNoScores ? null : h("section", { class: "part" }, h("h2", null, "Scores", scoreSummary(scores), clear), scoreArea),
    h(
      "section",
      { class: "part" },
      h("h2", null, "What happened", steps.count > 1 ? h("span", { class: "tools" }, button("Open all steps", () => expandAll(true), { class: "link" }), button("Close all", () => expandAll(false), { class: "link" })) : null),
      given(turn),
      input,
      turn.plan === undefined ? null : h("div", { class: "message plan" }, h("h3", null, "Plan"), textBlock(turn.plan)),
      retrievedPart(turn),
      turn.unknown ? missing("The recording of this turn is not part of this report: give its traces too, and its steps are shown.")
        : steps.count === 0 ? missing(turn.calls === undefined ? "No steps were recorded." : "No model or tool call was recorded.") : steps.element,
      turn.unknown ? null : output,
    ),
    turnFacts(turn, app),
  );
  if (turn.unknown) input.hidden = turn.input === undefined;
  return {
    element,
    showStep: (number) => { const item = steps.row(number); if (item) { item.toggle(true); flash(item.element); } },
    nextScore: (by) => {
      const known = inOrder(scores).filter((score) => (score.places ?? score.notes ?? []).length > 0);
      if (known.length === 0) return;
      const at = known.indexOf(active);
      focus(known[(at + by + known.length + (at < 0 && by < 0 ? 1 : 0)) % known.length]);
    },
    toggleAll: () => expandAll(![...steps.all()].some((item) => item.element.classList.contains("open"))),
    clear: () => { if (active === null) return false; focus(null); return true; },
  };
}

export function scoreSummary(scores) {
  const of = (name) => scores.filter((score) => !score.source && scoreState(score) === name && score.status !== "skipped").length;
  const parts = [["fail", "failing"], ["error", "not measured"], ["pass", "passing"]].filter(([name]) => of(name) > 0);
  return h("span", { class: "summary" }, parts.map(([name, word]) => h("span", { class: ["count", name] }, `${of(name)} ${word}`)));
}

function turnHead(turn, row, app, options) {
  const facts = [
    turn.agent ? h("span", null, turn.agent) : null,
    turn.service && turn.service !== turn.agent ? h("span", null, turn.service) : null,
    row?.session === undefined || options.isBaseline ? null : button(`session ${turn.session ?? ""}`, () => app.open({ session: row.session }), { class: "link" }),
    turn.user ? h("span", null, `user ${turn.user}`) : null,
    turn.start ? h("span", null, moment(turn.start)) : null,
    turn.took === undefined ? null : h("span", null, duration(turn.took)),
    turn.tokens?.some((number) => number !== null) ? h("span", null, `${tokenWord(turn.tokens[0])} tokens in, ${tokenWord(turn.tokens[1])} out`) : null,
    turn.outcome === "failed" ? h("span", { class: "warning" }, turn.error ? `failed: ${turn.error}` : "failed") : null,
    turn.outcome === "cancelled" || turn.outcome === "waiting" ? h("span", { class: "warning" }, turn.outcome) : null,
    turn.completeness && turn.completeness !== "complete" ? h("span", { class: "warning" }, turn.completeness) : null,
    turn.traces?.length ? traceLink(turn.traces[0], "trace ↗", app) : null,
    turn.damaged ? h("span", { class: "warning", title: "These facts arrived cut or redacted" }, `damaged: ${turn.damaged.join(", ")}`) : null,
  ].filter(Boolean);
  const title = firstLine(turn.input, 220) || (turn.agent ? `A turn of ${turn.agent}` : "A turn without a recorded input");
  return h("header", { class: "page-head" },
    options.isBaseline ? h("p", { class: "kicker" }, `Baseline: ${app.index.baseline.name}`) : null,
    h("h1", { dir: "auto" }, options.hasNoScores ? null : state(row?.state ?? "none"), title),
    h("p", { class: "meta" }, facts));
}

function given(turn) {
  const parts = [
    turn.instructions === undefined ? null : opening("System instructions", () => textBlock(turn.instructions, { whole: true })),
    turn.tools === undefined ? null : opening(`${count(turn.tools.length, "tool")} on offer: ${firstLine(turn.tools.map((tool) => tool.name).join(", "), 80)}`, () =>
      h("dl", { class: "facts" }, turn.tools.map((tool) => [h("dt", null, tool.name), h("dd", null, tool.description ?? "", tool.parameters ? textBlock(tool.parameters, { mono: true }) : null)]))),
    turn.history === undefined ? null : opening(`${count(turn.history.length, "earlier message")}`, () =>
      h("div", { class: "history" }, turn.history.map((message) => h("div", { class: "past" }, h("b", null, message.role),
        message.text ? textBlock(message.text) : null,
        (message.asked ?? []).map((call) => h("p", { class: "mono small" }, `${call.name} ${call.brief}`)))))),
  ].filter(Boolean);
  return parts.length ? h("div", { class: "given" }, parts) : null;
}

function retrievedPart(turn) {
  if (turn.retrieved === undefined) return null;
  return h("div", { class: "given" }, turn.retrieved.map((found) => opening(`${count(found.documents.length, "document")} retrieved${found.query ? ` for “${firstLine(found.query, 80)}”` : ""}`, () =>
    h("div", null, found.documents.map((text) => textBlock(text ?? "", { mono: true }))))));
}

// The address of a trace in the reader's own backend; null where none is configured.
function traceLink(trace, label, app) {
  const address = app.index.trace_url;
  return address ? h("a", { href: address.replaceAll("{trace_id}", encodeURIComponent(trace)), class: "link", target: "_blank", rel: "noreferrer", title: trace }, label) : null;
}

function turnFacts(turn, app) {
  const facts = [
    ["Trace", (turn.traces ?? []).map((trace, place) => [place ? "\n" : "", traceLink(trace, trace, app) ?? trace]).flat()], ["Scored span", turn.span ?? ""], ["Agent trace", turn.id ?? ""], ["Read as", (turn.dialects ?? []).join(", ")],
    ["Test", (turn.trial ?? []).filter(Boolean).join(", ")], ["Spans not read", turn.unread ? String(turn.unread) : ""],
  ].filter(([, text]) => text.length);
  return h("section", { class: "part ids" }, h("dl", { class: "facts" }, facts.map(([name, text]) => [h("dt", null, name), h("dd", { class: "mono" }, text)])));
}

// What a place is called where it is pointed at.
export function placeName(place, turn, app) {
  const other = place.turn && place.turn !== turn?.id ? app.turnNamed(place.turn) : null;
  const name = other ? `Turn: ${firstLine(other.input, 60)}` : "";
  if (place.step === undefined) return name || "this turn";
  const step = other ? null : turn?.steps?.[place.step];
  const own = step ? `${step.n ? `step ${step.n}` : "step"} (${step.name})` : "a step";
  return name ? `${own}, ${name}` : own;
}

function flash(element) {
  element.scrollIntoView({ block: element.offsetHeight > innerHeight / 2 ? "start" : "center" });
  element.classList.remove("flash");
  void element.offsetWidth; // starts the animation anew
  element.classList.add("flash");
}
