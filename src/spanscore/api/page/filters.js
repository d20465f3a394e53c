// The conditions above a list: what is typed or chosen goes into the address, and from there to the server.

import { button, h, replace } from "../report/elements.js";
import { CONDITIONS, RANGES } from "./conditions.js";

const SEARCH_AFTER_MS = 350;
const MAX_NAMES = 200;

/**
 * @param {object} options
 * @param {string} options.id - tells its parts from those of other views
 * @param {string[]} [options.has] - the conditions that it offers; "filter" is of turns or sessions, "scores" of scores
 * @param {string} [options.search] - what the search field looks in
 * @param {Record<string, string>} [options.orders] - in which the list can be, by name; the empty one is the usual one
 * @param {string} options.fields - a filter, as an example
 * @param {(changes: Record<string, string>, how?: {isTyping?: boolean}) => void} options.onchange
 */
export function makeFilters(options) {
  const has = options.has ?? ["search", "range", "service", "agent", "filter"];
  const names = { service: new Set(), agent: new Set() };
  const lists = { service: h("datalist", { id: `services-${options.id}` }), agent: h("datalist", { id: `agents-${options.id}` }) };
  let waiting = 0;

  const search = h("input", { type: "search", placeholder: options.search, "aria-label": options.search, oninput: () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => options.onchange({ search: search.value.trim() }, { isTyping: true }), SEARCH_AFTER_MS);
  } });
  const named = (name, label) => h("input", { type: "text", list: lists[name].id, placeholder: label, "aria-label": label, autocomplete: "off", spellcheck: "false", onchange: (event) => options.onchange({ [name]: event.target.value.trim() }) });
  const service = named("service", "Any service");
  const agent = named("agent", "Any agent");
  const range = h("select", { "aria-label": "Time", onchange: () => options.onchange({ range: range.value }) },
    h("option", { value: "" }, "Any time"), Object.entries(RANGES).map(([key, [text]]) => h("option", { value: key }, text)));
  const order = options.orders ? h("select", { "aria-label": "Order", onchange: () => options.onchange({ order: order.value }) }, Object.entries(options.orders).map(([name, word]) => h("option", { value: name }, word))) : null;
  const kind = has.includes("scores") ? "scores" : "filter";
  const filter = h("input", { type: "text", class: "mono", placeholder: options.fields, "aria-label": "Filter", spellcheck: "false", autocomplete: "off", onchange: () => options.onchange({ [kind]: filter.value.trim() }) });
  const more = h("details", { class: "more-filters" }, h("summary", null, "Filter by any field"), filter);
  const chips = h("div", { class: "chips" });
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const element = h("div", { class: "filters" }, has.includes("search") ? search : null, h("div", { class: "selects" }, order, range, service, agent, lists.service, lists.agent), more, chips, problem);

  return {
    element, search,
    /** Shows the conditions that hold; `chosen` are those that were chosen, where some hold without it. */
    show(given, chosen = given) {
      for (const [name, input] of Object.entries({ search, service, agent, range, [kind]: filter })) {
        if (document.activeElement !== input || input === range) input.value = given[name] ?? "";
        input.classList.toggle("chosen", Boolean(given[name]));
      }
      if (order) order.value = given.order ?? "";
      if (given[kind]) more.open = true;
      replace(chips,
        given.metric ? button([`fails in ${given.metric}`, h("span", { "aria-hidden": "true" }, " ✕")], () => options.onchange({ metric: "" }), { class: "chip", title: "Remove this condition" }) : null,
        CONDITIONS.some((name) => chosen[name]) ? button("Clear all", () => options.onchange(Object.fromEntries(CONDITIONS.map((name) => [name, ""]))), { class: "link small" }) : null);
    },
    /** Offers names of services and agents that were seen. */
    offer(rows) {
      for (const row of rows) {
        for (const name of ["service", "agent"]) {
          if (!row[name] || names[name].has(row[name]) || names[name].size >= MAX_NAMES) continue;
          names[name].add(row[name]);
          lists[name].append(h("option", { value: row[name] }));
        }
      }
    },
    /** Says what is wrong with the conditions; null: nothing is. */
    complain(text) {
      problem.hidden = !text;
      problem.textContent = text ?? "";
      if (text) more.open = true;
    },
  };
}
