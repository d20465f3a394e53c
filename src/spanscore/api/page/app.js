// What holds the page together: the address after #, the views, what is new every few seconds, the keys.

import { button, h, replace } from "../report/elements.js";
import { helpDialog, listenToKeys } from "../report/keys.js";
import { startTheme } from "../report/theme.js";
import { enter } from "./access.js";
import { hashOf, placeIn } from "./address.js";
import { makeAnnotate } from "./annotate.js";
import { makeBrowse } from "./browse.js";
import { given, keep } from "./client.js";
import { makeCompare } from "./compare.js";
import { keysOf, KEYS } from "./shortcuts.js";
import { kinds } from "./kinds.js";
import { problemPart } from "./opened.js";
import { timeOfDay } from "./times.js";
import { makeTrends } from "./trends.js";

const REFRESH_MS = 10_000;
const TITLES = { failing: "Failing", traces: "Turns", sessions: "Sessions", trends: "Trends", compare: "Compare", runs: "Runs", monitors: "Monitors", annotate: "Annotate" };
const MAKERS = { trends: makeTrends, compare: makeCompare, annotate: makeAnnotate };

async function start(root) {
  const toggleTheme = startTheme("spanscore-theme");
  const viewer = await enter(root);
  const known = kinds();
  const made = new Map();
  const help = helpDialog(KEYS);
  const views = h("div", { class: "view" });
  const links = Object.entries(TITLES).map(([view, title]) => h("a", { href: hashOf({ view, given: {} }), "data-view": view }, title));
  const notice = h("p", { class: "notice", role: "status", hidden: true });
  const live = h("span", { class: "live", title: "When this was read last" });
  let answered = Date.now();

  const app = {
    viewer, help, toggleTheme, views: Object.keys(TITLES), place: { view: "", given: {} }, current: null,
    go(view, given, how = {}) {
      const hash = hashOf({ view, given });
      if (hash === location.hash) route();
      else if (how.replace) { history.replaceState(null, "", hash); route(); } else location.hash = hash;
    },
    problemPart: (error) => problemPart(error, () => route()),
    failed(error) {
      if (error.name === "AbortError") return;
      if (error.needsToken) { location.reload(); return; }
      if (!error.isPassing) return;
      notice.hidden = false;
      notice.textContent = `${error.message} What is shown is from ${timeOfDay(answered)}; asking again every 10 s.`;
      live.textContent = "not connected";
    },
    succeeded() {
      answered = Date.now();
      notice.hidden = true;
      live.textContent = `as of ${timeOfDay(answered)}`;
    },
    async refresh() {
      await app.current?.refresh().then(app.succeeded, app.failed);
    },
  };

  replace(root,
    h("a", { class: "skip", href: "#main", onclick: (event) => { event.preventDefault(); document.getElementById("main")?.focus(); } }, "Skip to what is open"),
    h("header", { class: "top" },
      button("‹ List", () => document.body.classList.remove("reading"), { class: "to-list" }),
      h("a", { class: "brand", href: "#/failing", title: "What fails now" }, h("span", { class: "logo", "aria-hidden": "true" }, h("i"), h("i"), h("i")), h("b", null, "spanscore")),
      h("nav", { class: "views", "aria-label": "Views" }, links),
      live,
      viewer.tenant ? h("span", { class: "tag", title: "Whose data this is" }, viewer.tenant) : null,
      given("token") || given("tenant") ? button("Forget token", () => { keep("token", ""); keep("tenant", ""); location.reload(); }, { class: "top-button" }) : null,
      button("Keys", () => help.showModal(), { class: "top-button keys", title: "Keys (?)" }),
      button("◐", toggleTheme, { class: "top-button", title: "Light or dark (t)", "aria-label": "Light or dark" })),
    notice, views, help);

  async function route() {
    app.place = placeIn(location.hash, app.views);
    const { view } = app.place;
    if (!made.has(view)) made.set(view, MAKERS[view]?.(app) ?? makeBrowse(app, known[view]));
    const next = made.get(view);
    if (app.current !== next) {
      app.current?.leave();
      app.current = next;
      replace(views, next.element);
      document.title = `${TITLES[view]} · spanscore`;
      for (const link of links) {
        if (link.dataset.view === view) link.setAttribute("aria-current", "page");
        else link.removeAttribute("aria-current");
      }
    }
    await next.show(app.place.given).then(app.succeeded, app.failed);
  }

  addEventListener("hashchange", route);
  addEventListener("resize", () => app.current?.resize?.());
  document.addEventListener("visibilitychange", () => { if (!document.hidden) app.refresh(); });
  listenToKeys(...keysOf(app));
  await route();
  for (;;) {
    await new Promise((resolve) => { setTimeout(resolve, REFRESH_MS); });
    if (!document.hidden) await app.refresh();
  }
}

const root = document.getElementById("app");
start(root).catch((error) => replace(root, h("p", { class: "boot" }, `The page does not work: ${error.message}`)));
