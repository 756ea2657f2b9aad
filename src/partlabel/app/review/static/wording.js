// How numbers, labels and answers are said.

const WHOLE = new Intl.NumberFormat("en");

/** 12,345 @param {number} value */
export const count = (value) => WHOLE.format(Math.round(value));

/** "1 picture", "1,204 pictures" @param {number} value @param {string} noun */
export const counted = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

/** A share as a percentage: one decimal above 90 %, where the differences matter. @param {number} share */
export function percent(share) {
  const value = 100 * share;
  if (value === 100 || value === 0) return `${value} %`;
  return `${value >= 90 ? Math.min(value, 99.9).toFixed(1) : value.toFixed(0)} %`;
}

/** A probability without a false 0 or 100. @param {number} score */
export function likely(score) {
  if (score > 0.995) return "over 99 %";
  if (score < 0.005) return "under 1 %";
  return `${Math.round(100 * score)} %`;
}

const SOURCES = { given: "Given as", model: "Filled in as", review: "Reviewed:", asked: "Answered:", sampled: "Answered:" };

/** What the table says now. @param {{value: string | null, origin: string | null}} item */
export function standing(item) {
  if (!item.value) return "No label yet";
  return `${SOURCES[item.origin] ?? "Labelled"} ${item.value}`;
}

/** "2 yes, 1 no" of a list of answers. @param {{answer: string}[]} answers */
export function tally(answers) {
  return ["yes", "no", "skip"]
    .map((kind) => [kind, answers.filter(({ answer }) => answer === kind).length])
    .filter(([, number]) => number)
    .map(([kind, number]) => `${count(number)} ${kind === "skip" ? "skipped" : kind}`)
    .join(", ");
}

/** Time of day, with the date when it was not today. @param {number | string} time seconds since 1970, or ISO 8601 */
export function moment(time) {
  const date = new Date(typeof time === "number" ? 1000 * time : time);
  if (Number.isNaN(date.getTime())) return String(time);
  const today = date.toDateString() === new Date().toDateString();
  return date.toLocaleString("en-GB", today ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "short" });
}

/** The key of a pair: names, which mean the same in every table. @param {{picture: string, class_name?: string}} item */
export const pair = (item) => `${item.picture}\n${item.class_name ?? ""}`;

/** Where an image is shown from; its content is part of the address. @param {"photo" | "thumbnail"} kind */
export const imageAddress = (kind, { content, image }) => `/${kind}/${content}/${image}`;
