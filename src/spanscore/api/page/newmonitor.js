// The form of a new monitor: which metric it watches, which run it starts at each tick, and when.

import { h } from "../report/elements.js";
import { ask } from "./client.js";
import { choiceOf, field, fieldSet, filledIn, newRequestId, numberIn, numberInput, textIn, textInput } from "./form.js";
import { makeOtherFields } from "./otherfields.js";
import { scoredMetrics, makeTargetFields, TARGET_FIELDS } from "./targets.js";

const KINDS = { watch: "Watches a metric", run: "Starts a run at each tick", both: "Starts runs, and watches a metric of theirs" };
const UNITS = { 1: "seconds", 60: "minutes", 3600: "hours", 86400: "days" };
const ABOUT = { new: "What is new since the run before", look_back: "What is new in so many hours", everything: "All of the target" };
const OVERLAPS = { MONITOR_OVERLAP_SKIP: "The tick is skipped", MONITOR_OVERLAP_QUEUE: "The tick waits", MONITOR_OVERLAP_CANCEL_PREVIOUS: "The earlier run is cancelled" };

/**
 * The page of the form.
 * @param {object} app
 * @param {() => void} onend - called when the monitor is created
 */
export function newMonitorPart(app, onend) {
  const name = textInput({ maxlength: 256, placeholder: "For people" });
  const kind = choiceOf(KINDS, { onchange: () => kindChanged() });
  const [watch, run, schedule] = [makeWatchFields(), makeRunFields(), makeScheduleFields()];
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const create = h("button", { type: "submit", class: "act" }, "Create the monitor");
  let requestId = newRequestId(); // of what is typed now

  const form = h("form", { class: "page form", oninput: () => { requestId = newRequestId(); problem.hidden = true; }, onsubmit: (event) => { event.preventDefault(); save(); } },
    h("header", { class: "page-head" }, h("h1", null, "New monitor"), h("p", { class: "muted" }, "Raises an alert when a metric falls, or scores what is stored at times of its own.")),
    fieldSet("What it does", field("Name", name), field("Kind", kind)), watch.element, run.element, schedule.element, problem,
    h("div", { class: "action-row" }, create, h("a", { href: "#/monitors", class: "act quiet" }, "Back to the monitors")));

  function kindChanged() {
    watch.show(kind.value !== "run");
    run.show(kind.value !== "watch");
    schedule.suggest(kind.value === "watch" ? [1, 60] : [1, 3600]);
  }

  async function save() {
    if (create.getAttribute("aria-disabled") === "true") return;
    create.setAttribute("aria-disabled", "true");
    problem.hidden = true;
    try {
      const monitor = filledIn({ displayName: textIn(name), watch: kind.value === "run" ? undefined : watch.read(), run: kind.value === "watch" ? undefined : run.read(), schedule: schedule.read() });
      const made = await ask("MonitorService/CreateMonitor", { monitor, requestId });
      onend();
      app.go("monitors", { id: decodeURIComponent(made.name.replace(/^monitors\//, "")) });
    } catch (error) {
      problem.textContent = `It is not created: ${error.message}`;
      problem.hidden = false;
    }
    create.removeAttribute("aria-disabled");
  }

  kindChanged();
  Promise.all([watch.offer(), run.offer(), schedule.offer()]).catch(app.failed);
  return { element: form };
}

function makeWatchFields() {
  const metrics = h("datalist", { id: "watched-metrics" });
  const metric = textInput({ class: "mono", list: "watched-metrics" });
  const scope = choiceOf({ SCOPE_TRACE: "Of turns", SCOPE_SESSION: "Of sessions" });
  const of = choiceOf({ mean: "The mean", pass_rate: "The pass rate" });
  const [service, agent] = [textInput({ placeholder: "Any service" }), textInput({ placeholder: "Any agent" })];
  const against = choiceOf({ reference: "The first sessions", floor: "A fixed limit" }, { onchange: () => againstChanged() });
  const floor = numberInput({ max: 1 });
  const sessions = numberInput({ step: 1, placeholder: "400" });
  const tolerance = numberInput({ max: 1, placeholder: "0" });
  const alpha = numberInput({ max: 1, placeholder: "0.01" });
  const [floorField, sessionsField, toleranceField] = [field("Limit", floor, "From 0 to 1."), field("First sessions", sessions), field("Permitted fall", tolerance, "From 0 to 1.")];
  const set = fieldSet("Which metric", field("Metric", metric), metrics, field("Scores", scope), field("Figure", of), field("Service", service), field("Agent", agent), field("Held against", against), floorField, sessionsField, toleranceField,
    field("False alarms", alpha, "The chance that it ever raises one."));
  const others = makeOtherFields("MonitorWatch", ["metric", "scope", "of", "service", "agent", "floor", "reference", "alpha"]);
  const element = h("div", null, set, others.element);

  function againstChanged() {
    const isFixed = against.value === "floor";
    floorField.hidden = !isFixed;
    sessionsField.hidden = toleranceField.hidden = isFixed;
    floor.required = isFixed && !set.hidden;
  }

  againstChanged();
  return {
    element,
    show(isWanted) {
      element.hidden = set.hidden = !isWanted;
      metric.required = isWanted;
      againstChanged();
    },
    async offer() {
      const names = (await scoredMetrics()).map((summary) => summary.metric);
      metrics.append(...[...new Set(names)].map((value) => h("option", { value })));
      await others.offer();
    },
    read() {
      const isFixed = against.value === "floor";
      const reference = filledIn({ sessions: numberIn(sessions), tolerance: numberIn(tolerance) });
      return filledIn(others.into({
        metric: textIn(metric), scope: scope.value, of: of.value, service: textIn(service), agent: textIn(agent), alpha: numberIn(alpha),
        ...(isFixed ? { floor: numberIn(floor) } : { reference }),
      }));
    },
  };
}

function makeRunFields() {
  const target = makeTargetFields();
  const others = makeOtherFields("MonitorRun", [...TARGET_FIELDS, "lookBackS", "everything", "overlap", "onlyIfChanged"]);
  const about = choiceOf(ABOUT, { onchange: () => aboutChanged() });
  const hours = numberInput({ min: 0.001, value: 24 });
  const overlap = choiceOf(OVERLAPS);
  const changed = choiceOf({ "": "At each tick", yes: "Only where something has changed" });
  const hoursField = field("Hours", hours);
  const element = h("div", null, target.element, fieldSet("Its runs", field("About", about), hoursField, field("While the run before goes on", overlap), field("When", changed)), others.element);
  const aboutChanged = () => { hoursField.hidden = about.value !== "look_back"; };
  aboutChanged();
  return {
    element, offer: () => Promise.all([target.offer(), others.offer()]),
    // What is hidden is not checked either.
    show(isWanted) {
      element.hidden = !isWanted;
      for (const control of element.querySelectorAll("input, select, textarea")) control.disabled = !isWanted;
    },
    read: () => filledIn(others.into({
      ...target.read(), lookBackS: about.value === "look_back" ? 3600 * (numberIn(hours) ?? 0) : undefined, everything: about.value === "everything" || undefined,
      overlap: overlap.value, onlyIfChanged: Boolean(changed.value) || undefined,
    })),
  };
}

function makeScheduleFields() {
  const how = choiceOf({ every: "Every", cron: "By a cron expression" }, { onchange: () => howChanged() });
  const every = numberInput({ min: 0.001 });
  const unit = choiceOf(UNITS);
  const cron = textInput({ class: "mono", placeholder: "0 6 * * mon" });
  const zone = textInput({ placeholder: "UTC", value: Intl.DateTimeFormat().resolvedOptions().timeZone });
  const [everyField, unitField] = [field("Number", every), field("Unit", unit)];
  const others = makeOtherFields("MonitorSchedule", ["everyS", "cron", "timeZone"]);
  const [cronField, zoneField] = [field("Cron", cron, "Minute, hour, day of the month, month, day of the week."), field("Time zone", zone)];

  function howChanged() {
    const isCron = how.value === "cron";
    everyField.hidden = unitField.hidden = isCron;
    cronField.hidden = zoneField.hidden = !isCron;
    every.required = !isCron;
    cron.required = isCron;
  }

  howChanged();
  return {
    element: h("div", null, fieldSet("When", field("Ticks", how), everyField, unitField, cronField, zoneField), others.element), offer: others.offer,
    suggest([number, seconds]) { every.value = number; unit.value = seconds; },
    read: () => others.into(how.value === "cron" ? { cron: textIn(cron), timeZone: textIn(zone) } : { everyS: numberIn(every) * Number(unit.value) }),
  };
}
