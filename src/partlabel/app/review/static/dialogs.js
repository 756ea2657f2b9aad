// Windows over the page: conflicts, export, help. The browser's own dialog keeps the focus inside and closes on Escape.

import { button, el, say } from "./dom.js";
import { setShortcuts, shortcutsOn } from "./keys.js";
import { basisOf } from "./meters.js";
import { ask } from "./server.js";
import { count, counted, imageAddress, moment, pair } from "./wording.js";

/** @param {string} title @returns {{element: any, body: HTMLElement, open: () => void}} */
function dialog(title, name) {
  const body = el("div", { class: "dialog-body" });
  const close = button("", { class: "tool", drawing: "close", label: "Close", on: { click: () => element.close() } });
  const heading = el("h2", { class: "dialog-title", id: `${name}-title` }, title);
  const element = el("dialog", { class: "dialog", id: name, "aria-labelledby": `${name}-title` }, el("div", { class: "dialog-head" }, heading, close), body);
  element.addEventListener("click", (event) => event.target === element && element.close());
  document.body.append(element);
  return { element, body, open: () => element.open || element.showModal() };
}

/** @param {import("./desk.js").Desk} desk @returns {() => void} */
export function conflictsDialog(desk) {
  const { element, body, open } = dialog("Conflicts", "conflicts");
  const settled = new Set();
  const load = async () => {
    if (!body.childElementCount) body.replaceChildren(el("p", { class: "dialog-note" }, "Loading."));
    try {
      const { items } = await ask("/api/conflicts");
      show(items);
    } catch (error) {
      body.replaceChildren(el("p", { class: "dialog-note" }, error.message), button("Try again", { class: "button", on: { click: load } }));
    }
  };
  const show = (items) => {
    if (!items.length) {
      body.replaceChildren(el("p", { class: "dialog-note" }, "None. A question that two people answer differently is listed here until someone settles it."));
      return;
    }
    const rows = items.map((item) => conflictRow(item, desk, (answer) => {
      settled.add(pair(item));
      desk.settle(item, answer);
    }));
    body.replaceChildren(el("p", { class: "dialog-note" }, "Answered differently. Unsettled pairs are left out of an export."), el("ul", { class: "clashes" }, ...rows));
  };
  desk.outbox.addEventListener("saved", (event) => {
    if (element.open && /** @type {CustomEvent} */ (event).detail.batch.resolve) load().then(() => element.contains(document.activeElement) || element.focus());
  });
  return () => {
    body.replaceChildren();
    open();
    load();
  };
}

function conflictRow(item, desk, settle) {
  const said = item.answers.map((one) => el("li", {}, el("strong", {}, one.answer), " ", el("bdi", {}, whose(one, desk)), `, ${moment(one.time)}`));
  const row = el("li", { class: "clash" });
  const choose = (answer) => () => {
    row.setAttribute("data-settling", "");
    row.querySelectorAll("button").forEach((one) => (one.disabled = true));
    settle(answer);
  };
  const settling = (answer, words) =>
    button(words, { class: `button settle-${answer}`, drawing: answer, label: `Settle ${item.class_name} in ${item.picture}: ${words}`, on: { click: choose(answer) } });
  row.append(
    el("img", { class: "clash-picture", src: imageAddress("thumbnail", item), alt: "" }),
    el("div", { class: "clash-words" }, el("p", { class: "clash-name", title: item.class_name }, `${item.class_name}?`), el("p", { class: "clash-file", title: item.picture }, item.picture), el("ul", { class: "clash-said" }, ...said)),
    el("div", { class: "clash-settle" }, settling("yes", "Yes"), settling("no", "No")),
  );
  return row;
}

const FORMAT_WORDS = { parquet: "Label table (Parquet), for partlabel train", csv: "CSV", coco: "COCO", openimages: "Open Images" };

/** Whose an answer is: by name where people have addresses of their own. */
function whose({ person, browser }, desk) {
  if (person) return person === desk.session.person ? `${person} (you)` : person;
  return browser === desk.outbox.browser ? "this browser" : `browser ${String(browser).slice(0, 6)}`;
}

/** @param {import("./desk.js").Desk} desk @returns {() => void} */
export function exportDialog(desk) {
  const { body, open } = dialog("Export the labels", "export");
  const format = el(
    "select",
    { class: "field", id: "export-format" },
    ...desk.session.formats.map((name) => el("option", { value: name }, FORMAT_WORDS[name] ?? name)),
  );
  const warning = el("p", { class: "dialog-note" });
  const result = el("div", { class: "export-result", role: "status" });
  const write = button("Write the file", {
    class: "answer answer-main",
    drawing: "export",
    on: {
      click: async () => {
        write.disabled = true;
        result.replaceChildren(el("p", {}, "Writing."));
        try {
          await desk.outbox.flush();
          result.replaceChildren(...written(await ask("/api/export", { format: format.value })));
        } catch (error) {
          result.replaceChildren(el("p", { class: "wrong" }, error.message));
        }
        write.disabled = false;
      },
    },
  });
  body.append(
    el("p", {}, "The labels of the table with your answers in them, written beside the run."),
    el("label", { class: "export-label", for: "export-format" }, "Format"),
    format,
    warning,
    write,
    result,
  );
  return () => {
    const parts = [];
    if (desk.outbox.waiting) parts.push(`${counted(desk.outbox.waiting, "answer")} not saved yet and would be missing.`);
    if (desk.session.progress.conflicts) parts.push(`${counted(desk.session.progress.conflicts, "conflict")} not settled.`);
    say(warning, parts.join(" "));
    result.replaceChildren();
    open();
    format.focus();
  };
}

/** A text to be copied, with a button that does it. @param {string} text @param {string} words @param {"path" | "command"} kind */
function copyable(text, words, kind) {
  const copied = el("span", { class: "dialog-note", role: "status" });
  const copy = button(words, {
    class: "button",
    on: {
      click: () =>
        navigator.clipboard
          ?.writeText(text)
          .then(() => say(copied, "Copied."))
          .catch(() => say(copied, "The browser did not allow it.")) ?? say(copied, "Mark the text and copy it."),
    },
  });
  return [el("code", { class: kind, tabindex: 0 }, text), el("p", { class: "copy" }, copy, copied)];
}

function written({ path, labels, answers, unsettled, next }) {
  const sum = `${count(labels)} labels, ${count(answers)} of them your answers${unsettled ? `; ${counted(unsettled, "unsettled conflict")} left out` : ""}.`;
  const again = next ? [el("p", { class: "export-next" }, el("strong", {}, "Train again "), "with these labels:"), ...copyable(next, "Copy the command", "command")] : [];
  return [el("p", {}, el("strong", {}, "Written. "), sum), ...copyable(path, "Copy the path", "path"), ...again];
}

const KEYS = [
  ["Y", "Yes, it is in the image"],
  ["N", "No, it is not"],
  ["S", "Skip: cannot tell"],
  ["U", "Undo the last answer, or the last page of the grid"],
  [["←", "→"], "Previous and next; in the grid, move"],
  [["↑", "↓"], "Other labels of this image; in the grid, move"],
  ["Z", "Look closer"],
  ["G", "Single image or grid"],
  ["Space", "Grid: change the answer of the marked image"],
  ["A", "Grid: yes or no to all on the page that are not clicked"],
  ["Enter", "Grid: save the page"],
  [["Page Up", "Page Down"], "Grid: page back and forth"],
  ["C", "Choose a class"],
  [["1", "2", "3", "4", "5"], "The queues"],
  ["?", "This help"],
];

/** @param {import("./desk.js").Desk} desk @returns {() => void} */
export function helpDialog(desk) {
  const { body, open } = dialog("Keys and words", "help");
  const keys = KEYS.flatMap(([key, words]) => [el("dt", {}, ...[key].flat().map((one) => el("kbd", {}, one))), el("dd", {}, words)]);
  const basis = el("span");
  const on = el("input", { type: "checkbox", id: "shortcuts", on: { change: () => setShortcuts(on.checked) } });
  on.checked = shortcutsOn();
  body.append(
    el("dl", { class: "keys" }, ...keys),
    el("label", { class: "check", for: "shortcuts" }, on, el("span", {}, "Single-letter keys")),
    el("p", {}, "On a touch screen, swipe the image right for yes and left for no."),
    el("h3", {}, "The queues"),
    el("dl", { class: "words" }, ...desk.session.queues.flatMap(({ title, help }) => [el("dt", {}, title), el("dd", {}, help)])),
    el("h3", {}, "How often is the model right?"),
    el("p", {}, basis),
    el("h3", {}, "When is an answer safe?"),
    el("p", {}, "An answer counts as saved once the server has written it to disk. Until then it is marked and kept in this browser, and it is sent again when the server was away."),
  );
  return () => {
    const words = basisOf(desk.session.precision);
    say(basis, `The foot of the page shows the share of the model's labels that people confirmed, with a 95 % interval.${words ? ` It rests on: ${words}.` : ""}`);
    open();
  };
}
