// What the page says about itself: saved or not, server away, small notices, the live region.

import { byId, button, el, say, visible } from "./dom.js";
import { connection } from "./server.js";
import { count, counted } from "./wording.js";

const NOTICE_STAYS = 6000;
/** A run of quick answers is spoken as one sentence. */
const SPEAK_AFTER = 400;

/** @param {import("./desk.js").Desk} desk */
export function showStanding(desk) {
  const saving = byId("saving");
  const text = byId("saving-text");
  const banner = offlineBanner();
  const refusals = refusalBanner(desk);
  byId("notices").append(banner.element, refusals.element);

  const update = () => {
    const { waiting, refused } = desk.outbox;
    const lost = refused.reduce((sum, batch) => sum + batch.answers.length, 0);
    saving.dataset.state = lost ? "refused" : waiting ? (connection.away ? "away" : "pending") : connection.away ? "away" : "saved";
    if (lost) say(text, `${count(lost)} not saved`);
    else if (waiting) say(text, connection.away ? `${count(waiting)} waiting` : `Saving ${count(waiting)}`);
    else say(text, connection.away ? "Server away" : "All saved");
    banner.update(waiting, desk.outbox.kept);
    refusals.update(refused, lost);
  };
  desk.outbox.addEventListener("change", update);
  connection.addEventListener("change", update);
  window.setInterval(() => connection.away && update(), 500);
  update();

  connection.addEventListener("change", () => {
    if (connection.away !== banner.spoken) {
      banner.spoken = connection.away;
      speak(connection.away ? "The server is away. Your answers are kept and sent when it returns." : "The server is back.");
    }
  });
  desk.addEventListener("said", (event) => speak(/** @type {CustomEvent} */ (event).detail));
  desk.addEventListener("trouble", (event) => notice(/** @type {CustomEvent} */ (event).detail));
  window.addEventListener("beforeunload", (event) => desk.outbox.waiting && !left && event.preventDefault());
}

let speaking = 0;
let left = false;

/** The page is left on purpose, and what waits is kept: nobody need be asked. */
export function leaving() {
  left = true;
}

/** For screen readers. @param {string} text */
export function speak(text) {
  clearTimeout(speaking);
  speaking = window.setTimeout(() => {
    // The same words again are spoken only when the text differs.
    const live = byId("live");
    say(live, live.textContent === text ? `${text}\u00a0` : text);
  }, SPEAK_AFTER);
}

/** A notice that goes by itself, or stays until it is closed. @param {string} text @param {boolean} [stays] */
export function notice(text, stays = false) {
  say(byId("alert"), text);
  if (stays) {
    const close = button("", { class: "tool", drawing: "close", label: "Close", on: { click: () => banner.remove() } });
    const banner = el("div", { class: "banner banner-news" }, el("p", {}, text), close);
    byId("notices").append(banner);
    return;
  }
  // What is said again takes the place of what was said before, so that images stay in sight.
  for (const before of byId("notices").querySelectorAll(".notice")) if (before.textContent === visible(text)) before.remove();
  const element = el("p", { class: "notice", "aria-hidden": "true" }, text);
  byId("notices").append(element);
  window.setTimeout(() => {
    element.remove();
    if (byId("alert").textContent === text) say(byId("alert"), "");
  }, NOTICE_STAYS);
}

function offlineBanner() {
  const when = el("span", { class: "banner-when" });
  const strong = el("strong", {}, "The server is away. ");
  const words = el("p", {}, strong, when);
  const again = button("Try now", { class: "button", on: { click: () => connection.tryNow() } });
  const element = el("div", { class: "banner", id: "offline", hidden: true }, words, again);
  const update = (waiting, kept) => {
    element.hidden = !connection.away;
    const seconds = Math.max(0, Math.ceil((connection.nextTry - Date.now()) / 1000));
    const where = kept ? "kept in this browser" : "kept in this page only, so leave it open";
    const held = waiting ? `${counted(waiting, "answer")} ${where}, sent when it returns.` : "You can go on; answers are kept and sent when it returns.";
    say(strong, connection.reason ? `${connection.reason} ` : "The server is away. ");
    say(when, `${held} ${seconds ? `Next try in ${seconds} s.` : "Trying now."}`);
  };
  return { element, update, spoken: false };
}

/** @param {import("./desk.js").Desk} desk */
function refusalBanner(desk) {
  const words = el("p", {});
  const element = el(
    "div",
    { class: "banner", id: "refused", hidden: true },
    words,
    button("Send again", { class: "button", on: { click: () => desk.outbox.again() } }),
    button("Drop", { class: "button", on: { click: () => desk.discard() } }),
  );
  const update = (refused, lost) => {
    element.hidden = !refused.length;
    if (refused.length) say(words, `The server did not take ${counted(lost, "answer")}: ${refused[0].refusal}`);
  };
  return { element, update };
}
