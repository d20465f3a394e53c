// Times as a reader of something live sees them.

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/**
 * How long ago something was, in a few characters.
 * @param {number | undefined} ms - of Unix time
 */
export function ago(ms, now = Date.now()) {
  if (!ms) return "";
  const passed = now - ms;
  if (passed < MINUTE) return "now";
  if (passed < HOUR) return `${Math.floor(passed / MINUTE)} min`;
  if (passed < 2 * DAY) return `${Math.floor(passed / HOUR)} h`;
  return `${Math.floor(passed / DAY)} d`;
}

/** The time of day in UTC. */
export function timeOfDay(ms) {
  return `${new Date(ms).toISOString().slice(11, 19)} UTC`;
}

/** A moment as other programs read it. */
export function isoTime(ms) {
  return ms ? new Date(ms).toISOString() : undefined;
}
