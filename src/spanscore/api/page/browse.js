// A list of turns or sessions with what is open of it beside: the views "failing", "traces" and "sessions".

import { button, h, replace } from "../report/elements.js";
import { tokenWord } from "../report/steps.js";
import { count, duration, share, state, value } from "../report/words.js";
import { forbidden } from "./access.js";
import { hashOf } from "./address.js";
import { ask } from "./client.js";
import { CONDITIONS } from "./conditions.js";
import { exportButtons } from "./exporting.js";
import { makeFilters } from "./filters.js";
import { makeRowList } from "./rowlist.js";
import { ago, isoTime } from "./times.js";

const PAGE_SIZE = 100;
const EXPORTED_AT_ONCE = 500;
const SLOW_MS = 150;

/**
 * @param {object} app
 * @param {object} kind - what is listed: see `kinds.js`
 */
export function makeBrowse(app, kind) {
  const main = h("main", { class: "main", id: "main", tabindex: "-1" });
  let given = {};
  let key = null; // of the conditions that the list meets
  let shown = ""; // what main shows
  let page = null;
  let number = 0;

  const filters = makeFilters({
    id: kind.view, search: kind.search, fields: kind.fields, orders: kind.orders,
    onchange: (changes, how = {}) => app.go(kind.view, { ...given, ...changes }, { replace: how.isTyping }),
  });
  const list = makeRowList({
    label: kind.title, noun: kind.noun, order: () => (kind.source?.(given) ?? kind).order ?? ", the newest first",
    // A token holds for the filter that it was given for, and "the last hour" moves on.
    load: async (from, signal) => {
      const source = kind.source?.(given) ?? kind;
      const request = from ?? { pageSize: PAGE_SIZE, ...source.request(given, Date.now()) };
      const answer = await ask(source.method, request, signal);
      const rows = (answer[source.field] ?? []).map(source.row).filter((row) => row.id);
      filters.complain(null);
      filters.offer(rows);
      return { rows, next: answer.nextPageToken ? { ...request, pageToken: answer.nextPageToken } : null, total: answer.totalSize === undefined ? undefined : Number(answer.totalSize) };
    },
    tools: kind.exported ? exportButtons(kind.view, exportedRows, app) : null,
    item: kind.item ?? ((row) => rowParts(row, kind)),
    onopen: (row, how) => app.go(kind.view, { ...conditions(), [row.opens ?? kind.opens]: row.id }, { replace: how.keepFocus }),
    empty: () => emptyParts(),
    onerror: (error) => { if (error.code === "invalid_argument") filters.complain(error.message); else app.failed(error); },
  });
  const creating = kind.form && !forbidden(app.viewer) ? { link: h("a", { class: "act create", href: hashOf({ view: kind.view, given: { new: "1" } }), title: "(a)" }, kind.formTitle) } : null;
  const element = h("div", { class: "panes" }, h("div", { class: "list", role: "region", "aria-label": kind.title }, kind.hasNoFilters ? null : filters.element, creating ? creating.link : null, list.element), main);

  // All rows of the list, also those that were not looked at yet.
  async function* exportedRows() {
    const source = kind.source?.(given) ?? kind;
    let request = { pageSize: EXPORTED_AT_ONCE, ...source.request(given, Date.now()) };
    while (request) {
      const answer = await ask(source.method, request);
      yield (answer[source.field] ?? []).map(source.row).filter((row) => row.id).map(kind.exported);
      request = answer.nextPageToken ? { ...request, pageToken: answer.nextPageToken } : null;
    }
  }

  const conditions = () => Object.fromEntries(CONDITIONS.filter((name) => given[name]).map((name) => [name, given[name]]));

  const opened = () => given[kind.opens] ?? given.turn ?? null;

  async function show(next) {
    given = next;
    filters.show(given);
    const wanted = JSON.stringify(conditions());
    const isOther = wanted !== key;
    key = wanted;
    const listed = isOther ? list.reset() : list.fill();
    list.follow(opened());
    document.body.classList.toggle("reading", Boolean(opened() || given.new || (isOther && kind.startsInMain)));
    await Promise.all([listed, showMain(isOther)]);
    list.follow(opened());
  }

  async function showMain(isOther) {
    const place = JSON.stringify([opened(), given.run, given.new]);
    if (place === shown && !(isOther && page?.refresh)) {
      if (given.step !== undefined) page?.showStep?.(Number(given.step));
      return;
    }
    shown = place;
    const own = (number += 1);
    const slow = setTimeout(() => { if (own === number) waitIn(main); }, SLOW_MS);
    const made = await partOf(given).catch((error) => ({ element: app.problemPart(error), error }));
    clearTimeout(slow);
    if (own !== number) { made.leave?.(); return; } // another page was opened meanwhile
    main.classList.remove("loading");
    page?.leave?.();
    page = made;
    if (made.error) { shown = ""; app.failed(made.error); }
    replace(main, made.element);
    main.scrollTop = 0;
    if (given.step !== undefined) made.showStep?.(Number(given.step));
  }

  // A form keeps what is typed while something else is open; the next one is empty.
  async function partOf(wanted) {
    if (!wanted.new || !kind.form) return kind.page(wanted, app, conditions);
    if (!creating) return { element: h("div", { class: "choose" }, h("h1", null, kind.formTitle), h("p", null, forbidden(app.viewer))) };
    creating.part ??= kind.form(app, () => { creating.part = null; list.refresh().catch(app.failed); });
    return creating.part;
  }

  function emptyParts() {
    if (CONDITIONS.some((name) => given[name])) return [h("p", null, `No ${kind.noun} meets these conditions.`), button("Clear all", () => app.go(kind.view, {}), { class: "link" })];
    return kind.empty(app);
  }

  return {
    element, show, list,
    refresh: async () => { await Promise.all([list.refresh(), page?.refresh?.(given)]); },
    leave: () => { page?.leave?.(); shown = ""; },
    search: () => { if (kind.hasNoFilters) return; document.body.classList.remove("reading"); filters.search.focus(); filters.search.select(); },
    create: () => (creating ? app.go(kind.view, { new: "1" }) : false),
    nextScore: (by) => page?.nextScore?.(by),
    toggleAll: () => page?.toggleAll?.(),
    back() {
      if (page?.clear?.()) return;
      if (opened() || given.new) app.go(kind.view, conditions());
      else if (key !== "{}") app.go(kind.view, {});
    },
    resize: () => list.draw(),
  };
}

function waitIn(main) {
  if (main.childElementCount) main.classList.add("loading");
  else replace(main, h("p", { class: "boot" }, "Reading…"));
}

function rowParts(row, kind) {
  const names = row.words ? h("span", { class: ["names", row.state === "fail" ? "fail-text" : ""] }, row.words) : row.fails.length ? h("span", { class: "fail-text names" }, row.fails.join(", "))
    : row.errors.length ? h("span", { class: "error-word names" }, `not measured: ${row.errors.join(", ")}`)
      : row.isByTurns ? h("span", { class: "fail-text names" }, row.turns === 1 ? "its turn fails" : "some of its turns fail")
        : h("span", { class: "names" }, row.scored ? count(row.scored, "score") : "no scores");
  return [state(row.state),
    h("span", { class: "row-title", dir: "auto" }, row.title),
    h("span", { class: "row-more" }, names, row.sources.slice(0, 2).map((name) => h("span", { class: "tag" }, name)), h("span", { class: "row-facts" }, kind.facts(row))),
    h("span", { class: "row-third", dir: "auto" }, moreFacts(row))];
}

/** What a row of turns shows at its end. */
export function turnFacts(row) {
  return [row.calls ? count(row.calls, "call") : "", duration(row.took), ago(row.start)].filter(Boolean).join(" · ");
}

/** What a row of sessions shows at its end. */
export function sessionFacts(row) {
  return [row.turns ? count(row.turns, "turn") : "", row.share === undefined ? ago(row.end) : share(row.share)].filter(Boolean).join(" · ");
}

function moreFacts(row) {
  const known = [row.tokensIn, row.tokensOut].filter((number) => number !== undefined);
  const tokens = known.reduce((sum, number) => sum + number, 0);
  return [row.user ? `user ${row.user}` : "", known.length ? `${tokenWord(tokens)} tokens` : "", row.cost ? `judged for ${value(row.cost)} USD` : ""].filter(Boolean).join(" · ");
}

/** A row of turns or sessions as it is exported. */
export function exportedRow(row) {
  const labels = (row.scores ?? []).filter((score) => score.status === "scored").map((score) => [`score.${score.source ? `${score.source}.` : ""}${score.metric}`, score.value ?? score.label]);
  return {
    id: row.id, verdict: row.state, failing: row.fails.join(" "), not_measured: row.errors.join(" "), started: isoTime(row.start), ended: isoTime(row.end), duration_ms: row.took, session: row.session, turns: row.turns, user: row.user,
    agent: row.agent, service: row.service, input: row.input, output: row.output, tool_calls: row.calls, input_tokens: row.tokensIn, output_tokens: row.tokensOut, judging_usd: row.cost, fail_rate: row.share, ...Object.fromEntries(labels),
  };
}
