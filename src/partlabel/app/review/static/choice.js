// What is looked at: queue, class, filters and view. Kept in the address, so that a reload comes back to the same place.

/**
 * @typedef {object} Choice
 * @property {string} queue id of a queue, or "pictures"
 * @property {number | null} class
 * @property {string} origin "" for any; "unknown" for pairs without a label
 * @property {string} value "present", "absent" or "" for any
 * @property {number | null} low lowest score, 0 to 1
 * @property {number | null} high highest score, 0 to 1
 * @property {string} search part of a file name
 * @property {boolean} open only what nobody answered
 * @property {"single" | "grid"} view
 */

export const ORIGINS = ["unknown", "given", "model", "review", "asked", "sampled"];
const VALUES = ["present", "absent"];
const NARROWING = ["class", "origin", "value", "low", "high", "search"];

const share = (text) => {
  const value = Number.parseFloat(text ?? "");
  return value >= 0 && value <= 1 ? value : null;
};

/** @param {string} hash @param {string[]} queues @param {number[]} classes @returns {Choice} */
export function readChoice(hash, queues, classes) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const klass = given.has("class") ? Number(given.get("class")) : null;
  const queue = given.get("queue") ?? "";
  const origin = given.get("origin") ?? "";
  const value = given.get("value") ?? "";
  return {
    queue: queues.includes(queue) ? queue : queues[0],
    class: klass !== null && classes.includes(klass) ? klass : null,
    origin: ORIGINS.includes(origin) ? origin : "",
    value: VALUES.includes(value) ? value : "",
    low: share(given.get("low")),
    high: share(given.get("high")),
    search: given.get("search") ?? "",
    open: given.get("open") !== "0",
    view: given.get("view") === "grid" && queue !== "pictures" ? "grid" : "single",
  };
}

/** @param {Choice} choice */
export function writeChoice(choice) {
  const kept = new URLSearchParams({ queue: choice.queue, view: choice.view });
  for (const name of NARROWING) {
    if (choice[name] !== null && choice[name] !== "") kept.set(name, String(choice[name]));
  }
  if (!choice.open) kept.set("open", "0");
  history.replaceState(null, "", `#${kept}`);
}

/** The parameters of a page of the queue. @param {Choice} choice @param {number} offset @param {number} limit */
export function queueAddress(choice, offset, limit) {
  if (choice.queue === "pictures") {
    return `/api/pictures?${new URLSearchParams({ search: choice.search, offset: String(offset), limit: String(limit) })}`;
  }
  const asked = new URLSearchParams({ queue: choice.queue });
  for (const name of NARROWING) {
    if (choice[name] !== null && choice[name] !== "") asked.set(name, String(choice[name]));
  }
  if (choice.open) asked.set("open", "1");
  // A page of the grid never holds labels of both signs.
  if (choice.view === "grid" && choice.class !== null) asked.set("by_label", "1");
  asked.set("offset", String(offset));
  asked.set("limit", String(limit));
  return `/api/queue?${asked}`;
}

/** How many filters narrow the queue, the class not counted. @param {Choice} choice */
export const filtersSet = (choice) =>
  [choice.origin !== "", choice.value !== "", choice.low !== null || choice.high !== null, choice.search !== ""].filter(Boolean).length;
