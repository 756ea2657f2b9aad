// The strip at the foot: how far, how fast, and how often the model's labels are right.

import { byId, el, say } from "./dom.js";
import { count, counted, percent } from "./wording.js";

/** The scale of an interval begins here, or lower where the interval does. */
const LEAST = 0.5;

/** @param {import("./desk.js").Desk} desk */
export function showMeters(desk) {
  const answered = meter("answered");
  const pace = meter("an hour");
  const basis = el("p", { class: "meters-basis" });
  const intervals = { present: interval("present"), absent: interval("absent") };
  byId("meters").append(
    answered.element,
    pace.element,
    el("div", { class: "meter-pair" }, intervals.present.element, intervals.absent.element),
    basis,
  );
  const update = () => {
    const { progress, precision, queues } = desk.session;
    // Before the first answer there is nothing to say.
    byId("meters").hidden = !progress.answered && !progress.skipped && !precision.present && !precision.absent;
    const queue = queues.find(({ id }) => id === desk.choice.queue);
    say(answered.value, count(progress.answered));
    say(answered.unit, progress.skipped ? `answered, ${count(progress.skipped)} skipped` : "answered");
    answered.share(queue?.total ? queue.answered / queue.total : 0);
    say(answered.note, queue?.total ? `${count(queue.answered)} of ${count(queue.total)} in this queue` : queue ? "none in this queue" : counted(desk.session.pictures, "image"));
    pace.element.hidden = progress.per_hour === null;
    say(pace.value, progress.per_hour === null ? "–" : count(progress.per_hour));
    say(pace.unit, "labels an hour");
    say(pace.note, progress.per_hour === null ? "from 5 answers on" : "in the last 20 minutes");
    for (const kind of ["present", "absent"]) intervals[kind].show(precision[kind]);
    say(basis, basisOf(precision));
    basis.title = basisOf(precision);
  };
  desk.addEventListener("session", update);
  desk.addEventListener("choice", update);
  update();
}

/** What the estimate rests on. @param {any} precision */
export const basisOf = ({ present, absent }) => present?.basis ?? absent?.basis ?? "";

function meter(unit) {
  const value = el("span", { class: "meter-value" }, "–");
  const words = el("span", { class: "meter-unit" }, unit);
  const note = el("span", { class: "meter-note" });
  const bar = el("span", { class: "meter-bar", "aria-hidden": "true" });
  const element = el("div", { class: "meter" }, el("p", { class: "meter-line" }, value, " ", words), note, unit === "answered" && bar);
  return { element, value, unit: words, note, share: (part) => bar.style.setProperty("--share", String(Math.min(1, part))) };
}

/** A precision with its 95 % interval on a scale up to 100 %. @param {"present" | "absent"} kind */
function interval(kind) {
  const value = el("span", { class: "meter-value" });
  const note = el("span", { class: "meter-note" });
  const scale = el(
    "span",
    { class: "scale", "aria-hidden": "true" },
    el("span", { class: "scale-range" }),
    el("span", { class: "scale-dot" }),
  );
  const least = el("span", { class: "scale-least", "aria-hidden": "true" });
  const element = el(
    "div",
    { class: "meter interval" },
    el("p", { class: "meter-line" }, value, " ", el("span", { class: "meter-unit" }, `of “${kind}” right`)),
    note,
    el("span", { class: "scale-box" }, least, scale, el("span", { class: "scale-most", "aria-hidden": "true" }, "100")),
  );
  const show = (estimate) => {
    element.hidden = !estimate;
    say(value, estimate ? percent(estimate.estimate) : "");
    if (!estimate) return;
    say(note, `${percent(estimate.low)} to ${percent(estimate.high)}, ${count(estimate.checked)} checked`);
    const from = Math.min(LEAST, Math.floor(10 * estimate.low) / 10);
    const at = (share) => String(Math.max(0, Math.min(1, (share - from) / (1 - from))));
    say(least, String(Math.round(100 * from)));
    scale.style.setProperty("--low", at(estimate.low));
    scale.style.setProperty("--high", at(estimate.high));
    scale.style.setProperty("--at", at(estimate.estimate));
  };
  return { element, show };
}
