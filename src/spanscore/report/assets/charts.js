// Small pictures of numbers: an estimate with its interval, a score on its scale, shares of a whole.

import { button, h, svg } from "./elements.js";
import { NUMBER, share, value } from "./words.js";

// An estimate on a scale: a dot for the value, a line for the interval; `zero` marks no difference.
function intervalChart(estimate, scale, options = {}) {
  const [low, high] = scale;
  const x = (number) => 2 + (96 * (Math.min(Math.max(number, low), high) - low)) / (high - low || 1);
  const parts = [svg("line", { class: "axis", x1: 2, x2: 98, y1: 8, y2: 8 })];
  if (options.zero !== undefined) parts.push(svg("line", { class: "zero", x1: x(options.zero), x2: x(options.zero), y1: 1, y2: 15 }));
  if (options.threshold !== undefined && options.threshold !== null) {
    parts.push(svg("line", { class: "threshold", x1: x(options.threshold), x2: x(options.threshold), y1: 2, y2: 14 }));
  }
  if (estimate.low !== null && estimate.low !== undefined) {
    parts.push(svg("rect", { class: "interval", x: x(estimate.low), width: Math.max(x(estimate.high) - x(estimate.low), 1), y: 6, height: 4, rx: 2 }));
  }
  parts.push(svg("rect", { class: "value", x: x(estimate.value) - 1.2, width: 2.4, y: 2.5, height: 11, rx: 1.2 }));
  const label = interval(estimate, options);
  return svg("svg", { class: ["chart", options.class], viewBox: "0 0 100 16", preserveAspectRatio: "none", role: "img", "aria-label": label }, parts);
}

// A number in its unit: "%" is for shares of 1.
function figure(number, options) {
  return `${options.sign && number > 0 ? "+" : ""}${options.unit === "%" ? share(number) : value(number)}`;
}

function interval(estimate, options) {
  const limits = estimate.low === null || estimate.low === undefined ? "" : `, ${figure(estimate.low, options)} to ${figure(estimate.high, options)}`;
  return `${figure(estimate.value, options)}${limits}`;
}

export function estimateCell(estimate, scale, options = {}) {
  if (!estimate) return h("span", { class: "muted" }, "–");
  const show = (number) => figure(number, options);
  const known = estimate.low !== null && estimate.low !== undefined;
  const how = [`n = ${NUMBER.format(estimate.n)}`, estimate.method, estimate.note].filter(Boolean).join("; ");
  return h(
    "div",
    { class: "estimate", title: how },
    options.chart === false ? null : intervalChart(estimate, options.range ?? scale ?? [0, Math.max(estimate.high ?? 0, estimate.value, 1e-9)], options),
    h("span", { class: "figures" }, h("b", null, show(estimate.value), options.unit && options.unit !== "%" ? ` ${options.unit}` : null),
      known ? h("span", { class: "limits" }, " ", h("span", null, show(estimate.low)), " to ", h("span", null, show(estimate.high))) : null),
  );
}

// A score as a bar on its scale, with the threshold as a line.
export function scaleBar(score) {
  if (score.value === undefined || score.value === null || !score.scale) return h("span", { class: "scale empty" });
  const [low, high] = score.scale;
  const at = (number) => `${(100 * (Math.min(Math.max(number, low), high) - low)) / (high - low || 1)}%`;
  const limit = score.threshold === undefined || score.threshold === null ? null : h("i", { class: "limit", style: { left: at(score.threshold) } });
  const title = `${value(score.value)} on a scale from ${value(low)} to ${value(high)}${limit ? `, passes from ${value(score.threshold)}` : ""}`;
  return h("span", { class: "scale", title }, h("i", { class: "filled", style: { width: at(score.value) } }), limit);
}

// The shares of a whole; each is a button.
export function stack(parts, onpick) {
  const total = parts.reduce((sum, part) => sum + part.count, 0);
  const shown = parts.filter((part) => part.count > 0);
  return h(
    "div",
    { class: "stack" },
    h("div", { class: "stack-bar", "aria-hidden": "true" }, shown.map((part) => h("i", { class: part.state, style: { "flex-grow": String(part.count / total) } }))),
    h("div", { class: "stack-legend" }, shown.map((part) =>
      button([h("span", { class: ["state", part.state] }, part.sign), h("b", null, NUMBER.format(part.count)), ` ${part.word}`], () => onpick(part), { class: "legend" }))),
  );
}
