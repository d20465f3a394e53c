// Numbers, times and states as a reader sees them.

import { h } from "./elements.js";

export const STATES = {
  fail: { sign: "✕", word: "fails" },
  error: { sign: "!", word: "not measured" },
  pass: { sign: "✓", word: "passes" },
  none: { sign: "–", word: "no verdict" },
};
export const TEST_STATES = {
  fail: { sign: "✕", state: "fail" },
  error: { sign: "!", state: "error" },
  pass: { sign: "✓", state: "pass" },
  skipped: { sign: "–", state: "none" },
  unmatched: { sign: "?", state: "none" },
};
export const NUMBER = new Intl.NumberFormat("en-US");

export function count(number, word, plural) {
  return `${NUMBER.format(number)} ${number === 1 ? word : plural ?? `${word}s`}`;
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms === 0) return "0 ms";
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.round((ms - minutes * 60_000) / 1000)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function moment(ms) {
  if (!ms) return "";
  const at = new Date(ms);
  return Number.isNaN(at.getTime()) ? "" : `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

// A value as precise as it has to be: 0.8, 0.823, 74.2.
export function value(number) {
  if (number === null || number === undefined) return "–";
  if (Number.isInteger(number)) return NUMBER.format(number);
  return Math.abs(number) >= 10 ? number.toFixed(1) : String(Number(number.toFixed(3)));
}

export function share(number) {
  return `${(100 * number).toFixed(1).replace(/\.0$/, "")} %`;
}

export function state(name) {
  const { sign, word } = STATES[name] ?? STATES.none;
  return h("span", { class: ["state", name], role: "img", "aria-label": word, title: word }, sign);
}

export function testState(status) {
  const { sign, state: name } = TEST_STATES[status] ?? TEST_STATES.skipped;
  return h("span", { class: ["state", name], role: "img", "aria-label": status, title: status }, sign);
}

export function scoreState(score) {
  if (score.passed === false) return "fail";
  if (score.status === "failed") return "error";
  return score.passed ? "pass" : "none";
}

// A name that may break after its separators, and only there.
export function breakable(name) {
  return name.split(/(?<=[._/-])/).flatMap((part, place) => (place ? [document.createElement("wbr"), part] : [part]));
}

export function firstLine(text, length) {
  const line = (text ?? "").replace(/\s+/g, " ").trim();
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}
