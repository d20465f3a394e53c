// Light or dark: as the reader's system has it, until one is chosen.

const DARK = "(prefers-color-scheme: dark)";

/**
 * Sets the theme that was chosen before, else the system's; returns what changes it to the other one.
 * @param {string} key - under which the choice is kept
 */
export function startTheme(key) {
  const system = matchMedia(DARK);
  const follow = () => { if (kept(key) === null) set(system.matches ? "dark" : "light"); };
  set(kept(key) ?? (system.matches ? "dark" : "light"));
  system.addEventListener("change", follow);
  return () => {
    const chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    set(chosen);
    try { localStorage.setItem(key, chosen); } catch { /* a browser may keep nothing for files */ }
  };
}

function set(theme) {
  document.documentElement.dataset.theme = theme;
}

function kept(key) {
  try { return localStorage.getItem(key); } catch { return null; }
}
