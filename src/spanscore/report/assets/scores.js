// Scores: where each stands on its scale, why, and what it rests on.

import { scaleBar } from "./charts.js";
import { add, button, h, opening } from "./elements.js";
import { textBlock } from "./marking.js";
import { breakable, count, firstLine, scoreState, state, value } from "./words.js";

const URGENCY = { fail: 0, error: 1, pass: 2, none: 3 };

// What fails first; what others gave comes after spanscore's own.
export function inOrder(scores) {
  const rank = (score) => (score.source ? 4 : URGENCY[scoreState(score)]);
  return [...scores].sort((one, other) => rank(one) - rank(other));
}

// All scores of a turn or session. `context.go(place, score)` shows a place that a score names.
export function scoreList(scores, context) {
  const measured = inOrder(scores).filter((score) => score.status !== "skipped");
  const skipped = scores.filter((score) => score.status === "skipped");
  return h(
    "div",
    { class: "scores" },
    measured.map((score) => scoreCard(score, context)),
    skipped.length === 0 ? null : opening(`${count(skipped.length, "score")} skipped: ${firstLine(skipped.map((x) => x.metric).join(", "), 90)}`, () =>
      h("dl", { class: "skips" }, skipped.map((score) => [h("dt", null, score.metric), h("dd", null, segments(score.reason, score, context))])), { class: "skipped" }),
  );
}

function scoreCard(score, context) {
  const name = scoreState(score);
  const places = score.places ?? [];
  const card = h("article", { class: ["score", name] });
  const word = score.label ?? (score.status === "failed" ? "not measured" : score.passed === undefined ? "" : score.passed ? "pass" : "fail");
  const head = h(
    "button",
    { type: "button", class: "score-head" },
    state(name),
    h("span", { class: "metric" }, breakable(score.metric), score.source ? h("span", { class: "tag" }, score.source) : null),
    h("span", { class: "gist", dir: "auto" }, firstLine(textOf(score.reason), 200)),
    scaleBar(score),
    h("b", { class: "number" }, value(score.value)),
    h("span", { class: ["label", name] }, word),
    h("span", { class: "by", title: byTitle(score) }, byWhom(score)),
  );
  const reason = textOf(score.reason);
  const notes = (score.notes ?? []).filter((note) => !reason.includes(note.text));
  const body = h("div", { class: "score-body" },
    h("p", { class: "reason", dir: "auto" }, segments(score.reason, score, context)),
    score.error ? h("p", { class: "reason muted small" }, score.error) : null,
    notes.length === 0 ? null : h("ul", { class: "notes" }, notes.map((note) => noteItem(note, score, context))),
    h("div", { class: "score-foot" },
      places.length > 0 ? button(`Show ${placesWord(places)}`, () => context.focus(score), { class: "link evidence-button" }) : null,
      moreOf(score, context)));
  add(card, [head, body]);
  card.spanscore = score;
  card.open = (open) => {
    card.classList.toggle("closed", !open);
    head.setAttribute("aria-expanded", String(open));
  };
  head.addEventListener("click", () => card.open(card.classList.contains("closed")));
  card.open(name === "fail" || name === "error");
  return card;
}

function textOf(parts) {
  return (parts ?? []).map((part) => (typeof part === "string" ? part : part.t)).join("");
}

function placesWord(places) {
  const steps = places.filter((place) => place.step !== undefined).length;
  const turns = places.length - steps;
  return [steps ? (steps === 1 ? "the step" : `the ${steps} steps`) : "", turns ? (turns === 1 ? "the turn" : `the ${turns} turns`) : ""].filter(Boolean).join(" and ");
}

function noteItem(note, score, context) {
  return h("li", { class: note.ok ? "pass" : "fail" },
    button(context.nameOf(note), () => context.go(note, score), { class: "link" }),
    note.argument ? h("code", null, note.argument) : null,
    h("span", { dir: "auto" }, note.text));
}

// A text in parts: what names a step or a turn leads there.
function segments(parts, score, context) {
  return (parts ?? []).map((part) =>
    typeof part === "string" ? part : button(part.t, () => context.go(part, score), { class: "link place", title: context.nameOf(part) }));
}

function moreOf(score, context) {
  const spoken = Object.entries(score.spoken ?? {});
  const facts = Object.entries(score.facts ?? {});
  const by = Object.entries(score.by ?? {});
  if (spoken.length + facts.length + by.length === 0) return null;
  return opening("What it is made of", () => h(
    "dl",
    { class: "facts" },
    spoken.map(([name, parts]) => [h("dt", null, name), h("dd", { dir: "auto" }, segments(parts, score, context))]),
    facts.map(([name, text]) => [h("dt", null, name), h("dd", null, textBlock(text, { mono: true }))]),
    by.map(([name, text]) => [h("dt", null, name === "kind" ? "evaluator" : name), h("dd", null, String(text))]),
    score.cost ? [h("dt", null, "cost"), h("dd", null, `${score.cost.toFixed(6)} USD`)] : null,
    score.revision ? [h("dt", null, "revision"), h("dd", null, String(score.revision))] : null,
  ), { class: "made-of" });
}

function byWhom(score) {
  if (score.source) return score.author ?? "";
  if (score.by?.model) return score.by.model.replace(/^.*\//, "");
  return score.by?.kind === "CODE" ? "code" : "";
}

function byTitle(score) {
  return Object.entries(score.by ?? {}).map(([name, text]) => `${name}: ${text}`).join("\n");
}
