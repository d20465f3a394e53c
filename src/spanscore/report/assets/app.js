// What holds the parts together: the address after #, the list, the page, the theme.

import { embeddedSource } from "./data.js";
import { button, h, replace } from "./elements.js";
import { helpDialog, listenToKeys } from "./keys.js";
import { makeList } from "./list.js";
import { overviewPage } from "./overview.js";
import { casePage, sessionPage } from "./session.js";
import { startTheme } from "./theme.js";
import { turnPage } from "./turn.js";

const THEME_KEY = "spanscore-report-theme";
const KEYS = [
  ["j", "next in the list"], ["k", "the one before"], ["/", "search"], ["f", "only what fails, or all again"], ["n", "next score: show what it rests on"], ["p", "the score before"],
  ["e", "open or close all steps"], ["1 2 3", "turns, sessions, tests"], ["o", "overview"], ["t", "light or dark"], ["Esc", "back: evidence, search, list"], ["?", "these keys"],
];

async function start(source, root) {
  const index = await source.index();
  const app = { index, source, page: null, help: helpDialog(KEYS) };
  const rowsById = new Map(index.turns.map((row, place) => [row.id, place]));
  const baselineById = new Map((index.baseline?.turns ?? []).map((row, place) => [row.id, place]));
  const current = { kind: "", place: -1 };
  const main = h("main", { class: "main", tabindex: "-1" });
  let opened = 0;

  app.turnNamed = (id) => index.turns[rowsById.get(id)] ?? null;
  app.placeOf = (kind) => (current.kind === kind ? current.place : -1);
  app.open = (place) => {
    const address = addressOf(place);
    if (location.hash === address || (address === "#" && location.hash === "")) route(); // on a narrow screen the list is before it
    else location.hash = address;
  };
  app.openRow = (kind, place, options) => {
    const row = index[kind][place];
    const address = addressOf(kind === "turns" ? { turn: row.id } : kind === "sessions" ? { session: place } : { test: place });
    if (options.keepFocus) { history.replaceState(null, "", address); route(); } else location.hash = address;
  };
  app.show = (kind, filters) => { app.list.show(kind, filters); app.showList(); };
  app.showList = () => document.body.classList.remove("reading");
  app.toggleTheme = startTheme(THEME_KEY);
  app.back = () => {
    if (app.page?.clear?.()) return;
    if (document.body.classList.contains("reading") && matchMedia("(max-width: 900px)").matches) app.showList();
    else app.list.clear();
  };

  app.list = makeList(app);
  replace(root,
    h("header", { class: "top" },
      button("‹ List", () => app.showList(), { class: "to-list" }),
      button([h("span", { class: "logo", "aria-hidden": "true" }, h("i"), h("i"), h("i")), h("b", null, "spanscore")], () => app.open({}), { class: "brand", title: "Overview" }),
      h("span", { class: "run-name" }, index.name, index.baseline ? h("span", { class: "muted" }, ` against ${index.baseline.name}`) : null),
      button("Overview", () => app.open({}), { class: "top-button" }),
      button("Keys", () => app.help.showModal(), { class: "top-button keys", title: "Keys (?)" }),
      button("◐", () => app.toggleTheme(), { class: "top-button", title: "Light or dark (t)", "aria-label": "Light or dark" })),
    h("div", { class: "panes" }, app.list.element, main), app.help);

  async function route() {
    const number = (opened += 1);
    const place = placeIn(location.hash);
    const found = await pageAt(place).catch((error) => ({ element: broken(error) }));
    if (number !== opened) return; // another page was opened meanwhile
    app.page = found;
    replace(main, found.element);
    main.scrollTop = 0;
    document.body.classList.add("reading");
    app.list.follow(current.kind, current.place);
    if (place.step !== undefined) found.showStep?.(place.step);
  }

  async function pageAt(place) {
    if (place.turn !== undefined && rowsById.has(place.turn)) {
      const at = rowsById.get(place.turn);
      const row = index.turns[at];
      const detail = await source.detail(row.at);
      Object.assign(current, { kind: "turns", place: at });
      const before = row.was === undefined ? null : index.baseline.turns[row.was];
      const was = before ? { row: before, detail: await source.detail(before.at) } : null;
      return turnPage(detail ?? leftOut(row), row, app, { was });
    }
    if (place.baseline !== undefined && baselineById.has(place.baseline)) {
      const row = index.baseline.turns[baselineById.get(place.baseline)];
      return turnPage((await source.detail(row.at)) ?? leftOut(row), row, app, { isBaseline: true });
    }
    if (place.session !== undefined && index.sessions[place.session]) {
      const row = index.sessions[place.session];
      Object.assign(current, { kind: "sessions", place: place.session });
      return sessionPage(await source.detail(row.at), row, app);
    }
    if (place.test !== undefined && index.cases[place.test]) {
      const row = index.cases[place.test];
      Object.assign(current, { kind: "cases", place: place.test });
      return casePage(await source.detail(row.at), row, app);
    }
    Object.assign(current, { kind: "", place: -1 });
    return overviewPage(app);
  }

  addEventListener("hashchange", route);
  addEventListener("resize", () => app.list.draw());
  listenToKeys(...keysOf(app));
  app.list.show(index.cases.length ? "cases" : "turns");
  if (!index.cases.length && !index.turns.length) app.list.show("sessions");
  await route();
}

function addressOf(place) {
  const parts = Object.entries(place).filter(([name, item]) => item !== undefined && ["turn", "step", "session", "test", "baseline"].includes(name));
  return `#${parts.map(([name, item]) => `${name}=${encodeURIComponent(item)}`).join("&")}`;
}

function placeIn(hash) {
  const place = {};
  for (const [name, text] of new URLSearchParams(hash.slice(1))) {
    if (["turn", "baseline"].includes(name)) place[name] = text;
    else if (["step", "session", "test"].includes(name) && /^\d{1,9}$/.test(text)) place[name] = Number(text);
  }
  return place;
}

function leftOut(row) {
  return { id: row.id, input: row.input, output: row.output, unknown: true, scores: [] };
}

function broken(error) {
  return h("p", { class: "boot" }, `This part of the report cannot be shown: ${error.message}`);
}

// What each key does, and what is done with one that is typed into a field.
function keysOf(app) {
  const inList = (by) => (event) => (event.target.closest?.(".scroller") ? app.list.move(by) : false); // elsewhere arrows scroll the page
  const actions = {
    j: () => app.list.move(1), k: () => app.list.move(-1), ArrowDown: inList(1), ArrowUp: inList(-1),
    "/": () => { app.showList(); app.list.search.focus(); app.list.search.select(); },
    f: () => app.list.toggleState("fail"),
    n: () => app.page?.nextScore?.(1), p: () => app.page?.nextScore?.(-1), e: () => app.page?.toggleAll?.(),
    o: () => app.open({}), t: () => app.toggleTheme(), "?": () => app.help.showModal(),
    1: () => app.list.show("turns"), 2: () => app.list.show("sessions"), 3: () => app.list.show("cases"),
    Escape: () => app.back(),
  };
  const typed = (event) => {
    if (event.target !== app.list.search || event.key !== "Enter") return false;
    event.target.blur();
    app.list.pick(0);
    return true;
  };
  return [actions, typed];
}

const root = document.getElementById("app");
if (typeof DecompressionStream === "undefined") {
  replace(root, h("p", { class: "boot" }, "This browser cannot unpack the report. It takes Chrome or Edge 80, Firefox 113, Safari 16.4, or newer."));
} else {
  start(embeddedSource(), root).catch((error) => replace(root, broken(error)));
}
