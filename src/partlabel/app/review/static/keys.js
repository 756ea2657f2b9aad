// The keys of the page. Single letters can be switched off, for people who speak to their computer.

const STORED = "partlabel.shortcuts";
let on = readOn();

function readOn() {
  try {
    return localStorage.getItem(STORED) !== "off";
  } catch {
    return true;
  }
}

export const shortcutsOn = () => on;

/** @param {boolean} value */
export function setShortcuts(value) {
  on = value;
  try {
    localStorage.setItem(STORED, value ? "on" : "off");
  } catch {
    // The choice then holds until the page is closed.
  }
}

const typing = (element) => Boolean(element?.closest("input:not([type=checkbox]), select, textarea"));

/**
 * @param {Record<string, (event: KeyboardEvent) => boolean | void>} actions by key, letters in lower case; an action
 *   that returns false leaves the key to the browser
 */
export function listen(actions) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (document.querySelector("dialog[open]") || typing(event.target)) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (event.key.length === 1 && event.key !== " " && !on) return;
    // A key held down would answer pictures that nobody has seen.
    if (event.repeat && !key.startsWith("Arrow")) return;
    const action = actions[key];
    if (action && action(event) !== false) event.preventDefault();
  });
}
