// Start of the page: asks for the session, builds the parts, and decides which of them is seen.

import { readChoice } from "./choice.js";
import { Desk, sessionAddress } from "./desk.js";
import { conflictsDialog, exportDialog, helpDialog } from "./dialogs.js";
import { button, byId, el, say, visible } from "./dom.js";
import { showFilters } from "./filters.js";
import { listen } from "./keys.js";
import { showMeters } from "./meters.js";
import { Outbox, browserName } from "./outbox.js";
import { ask, connection, setReview } from "./server.js";
import { SheetView } from "./sheet.js";
import { SingleView } from "./single.js";
import { leaving, notice, showStanding } from "./standing.js";
import { showTop } from "./top.js";
import { counted } from "./wording.js";

const MOVED = "partlabel.moved";

/** The server shows another run or table: its numbers mean other images, so the page is loaded again. */
async function moved(outbox) {
  // Answers name what they are about: those for this run are taken whatever table is shown.
  await outbox.flush();
  if (outbox.waiting && !outbox.kept) {
    byId("notices").append(
      el(
        "div",
        { class: "banner", id: "moved" },
        el("p", {}, `The server shows another run now. ${counted(outbox.waiting, "answer")} are kept in this page only: leave it open, and start the review of ${outbox.run} again.`),
        button("Drop them", { class: "button", on: { click: () => location.reload() } }),
      ),
    );
    return;
  }
  leaving();
  try {
    sessionStorage.setItem(MOVED, "yes");
  } catch {
    // Then the page does not say why it was loaded again.
  }
  const { queue, view } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  history.replaceState(null, "", `#${new URLSearchParams({ queue: queue ?? "", view: view ?? "" })}`);
  location.reload();
}

/** What a person should know at the start. */
function news(session, outbox) {
  try {
    if (sessionStorage.getItem(MOVED)) notice("The server shows another run or table now. The page was loaded again; no answer is lost.");
    sessionStorage.removeItem(MOVED);
  } catch {
    // Without storage there is nothing to say.
  }
  const { count: changed, first } = session.outdated;
  if (changed) notice(`${counted(changed, "image")} (${first.join(", ")}${changed > first.length ? " and others" : ""}) changed since somebody answered: those answers do not count, and are asked again.`, true);
  for (const [run, number] of outbox.elsewhere()) {
    const [wait, are] = number === 1 ? ["waits", "is"] : ["wait", "are"];
    notice(`${counted(number, "answer")} for the run ${run} ${wait} in this browser, and ${are} sent when it is served again.`, true);
  }
}

/** The place of pictures when there is none to show. @param {string} title @param {...(Node | string)} rest */
function blank(title, ...rest) {
  const said = el("div", {}, el("h2", { class: "blank-title" }, title), ...rest);
  byId("blank").hidden = false;
  // The same again would take the focus from its buttons.
  if (byId("blank").textContent !== said.textContent) byId("blank").replaceChildren(...said.childNodes);
}

async function start() {
  byId("blank").hidden = false;
  byId("blank").replaceChildren(el("div", { class: "waiting", role: "status" }, el("span", { class: "unseen" }, "Loading the run.")));
  try {
    const browser = browserName();
    build(await ask(sessionAddress(browser)), browser);
  } catch (error) {
    say(byId("saving-text"), "Server away");
    blank("The run could not be loaded", el("p", {}, error.message), button("Try again", { class: "button", on: { click: () => connection.tryNow() } }));
    if (!error.status) connection.addEventListener("back", start, { once: true });
  }
}

function build(session, browser) {
  document.title = `${visible(session.run)} · partlabel review`;
  say(byId("run"), session.run);
  byId("run").title = visible(session.run);
  byId("person").hidden = !session.person;
  say(byId("person"), session.person ?? "");
  byId("person").title = session.person ? visible(`Answers are stored as those of ${session.person}.`) : "";
  const queues = [...session.queues.map(({ id }) => id), "pictures"];
  setReview(session.review);
  const outbox = new Outbox(session.store, session.run, browser);
  connection.addEventListener("moved", () => moved(outbox));
  const choice = readChoice(location.hash, queues, session.classes.map(({ id }) => id));
  const desk = new Desk(session, choice, outbox);
  const single = new SingleView(desk);
  // The grid shows one class: that of the question, unless one is chosen already.
  const look = (view) => {
    if (desk.choice.queue === "pictures") return;
    if (view === "grid" && desk.choice.class === null) desk.choose({ view, class: single.asked?.class ?? null }, true);
    else desk.choose({ view });
  };
  const filters = showFilters(desk, look);
  const sheet = new SheetView(desk, filters);
  const help = helpDialog(desk);
  showTop(desk, { conflicts: conflictsDialog(desk), export: exportDialog(desk), help });
  showMeters(desk);
  showStanding(desk);
  const update = () => arrange(desk, single, sheet);
  desk.addEventListener("choice", update);
  desk.questions.addEventListener("change", update);
  desk.addEventListener("session", () => desk.questions.current || update());
  connection.addEventListener("back", () => [single.photo.again(), single.render()]);
  keys({ desk, single, sheet, filters, help, queues, look });
  desk.start();
  news(session, outbox);
}

/** Shows the view that fits the choice and the state of the questions. */
function arrange(desk, single, sheet) {
  const { questions, choice } = desk;
  byId("scope").hidden = !questions.scope;
  byId("purpose").hidden = !byId("scope").hidden;
  say(byId("scope"), questions.scope);
  const choosing = choice.view === "grid" && choice.class === null;
  const some = questions.current !== null || choosing;
  const wasHidden = [single.element.hidden, sheet.element.hidden];
  single.element.hidden = !some || choice.view !== "single";
  sheet.element.hidden = !some || choice.view !== "grid";
  byId("work").dataset.view = some ? choice.view : "blank";
  byId("blank").hidden = some;
  if (wasHidden[0] && !single.element.hidden) single.render();
  if (wasHidden[1] && !sheet.element.hidden) sheet.render();
  if (!some) explain(desk);
}

/** Why there is nothing to show, and what to do about it. */
function explain(desk) {
  const { questions, choice } = desk;
  const action = (words, act) => button(words, { class: "button", on: { click: act } });
  if (questions.state === "failed") {
    blank("These images could not be loaded", el("p", {}, questions.trouble), action("Try again", () => questions.retry()));
    return;
  }
  if (questions.state === "loading" || !questions.complete) {
    if (!byId("blank").querySelector(".waiting")) {
      byId("blank").replaceChildren(el("div", { class: "waiting", role: "status" }, el("span", { class: "unseen" }, "Loading images.")));
    }
    return;
  }
  const queue = desk.session.queues.find(({ id }) => id === choice.queue);
  const narrowed = choice.class !== null || choice.origin || choice.value || choice.low !== null || choice.high !== null || choice.search;
  const actions = [];
  if (questions.items.length) actions.push(action("Back to the last one", () => questions.goTo(questions.items.length - 1)), action("Look again", () => questions.load(desk.choice)));
  if (narrowed && queue?.total !== 0) actions.push(action("Clear the filters", () => desk.clear()));
  if (choice.open && !questions.items.length && queue?.answered) actions.push(action("Show answered ones too", () => desk.choose({ open: false })));
  const other = desk.session.queues.find(({ id, total, answered }) => id !== choice.queue && total > answered);
  if (!narrowed && other) actions.push(action(`Go to “${other.title}”`, () => desk.choose({ queue: other.id })));
  blank(...emptiness(questions, queue, narrowed), el("div", { class: "blank-actions" }, ...actions));
}

/** Title and sentence for a list without a current question. */
function emptiness(questions, queue, narrowed) {
  const sentence = (title, words) => [title, el("p", {}, words)];
  if (queue && !queue.total && queue.reason) return sentence(queue.counted ? "Nothing here" : "Still looking", queue.reason);
  if (!queue && questions.items.length) return sentence("End of the list", "That was the last image.");
  if (questions.items.length && questions.items.every(({ answer }) => answer)) {
    return sentence("All answered", "Every question of this list has an answer now.");
  }
  if (questions.items.length) return sentence("End of the list", "Some questions were passed over without an answer.");
  if (narrowed) return sentence("Nothing matches", "No image in this queue fits the class and the filters.");
  return sentence("All answered", "Every question of this queue has an answer.");
}

function keys({ desk, single, sheet, filters, help, queues, look }) {
  const grid = () => !sheet.element.hidden;
  const inSingle = (act) => () => (single.element.hidden ? false : act());
  const arrow = (key, act) => [key, () => (grid() ? sheet.walk(key) : inSingle(act)())];
  const answer = (kind) => () => (grid() ? sheet.toggle(undefined, kind) : single.answer(kind));
  const inGrid = (act) => () => (grid() ? act() : false);
  listen({
    y: answer("yes"),
    n: answer("no"),
    s: answer("skip"),
    u: () => void desk.undo(),
    g: () => look(desk.choice.view === "grid" ? "single" : "grid"),
    z: inSingle(() => single.photo.zoom()),
    c: () => filters.focusClass(),
    a: inGrid(() => sheet.turn()),
    "?": help,
    " ": (event) => (grid() && !/** @type {Element} */ (event.target).closest("button") ? sheet.toggle() : false),
    Enter: (event) => (grid() && !/** @type {Element} */ (event.target).closest("button:not(.cell)") ? sheet.confirm() : false),
    PageDown: inGrid(() => sheet.page(1)),
    PageUp: inGrid(() => sheet.page(-1)),
    ...Object.fromEntries([
      arrow("ArrowLeft", () => single.move(-1)),
      arrow("ArrowRight", () => single.move(1)),
      arrow("ArrowUp", () => single.walk(-1)),
      arrow("ArrowDown", () => single.walk(1)),
      ["Home", () => (grid() ? sheet.walk("Home") : false)],
      ["End", () => (grid() ? sheet.walk("End") : false)],
    ]),
    ...Object.fromEntries(queues.map((queue, at) => [String(at + 1), () => desk.choose({ queue })])),
  });
}

start();
