// User interaction: filters, keys, clicks.

const at = (id) => document.getElementById(id);
const wanted = { kinds: new Set(), method: null, id: "", text: "", connection: null, byCall: false };

// The top of the page

function fillHead() {
  at("name").textContent = visible(recording.name);
  at("facts").append(...recording.facts.map((fact) => make("li", "", visible(fact))));
  const button = at("show-findings");
  button.textContent = findings.length ? count(findings.length, "finding", "findings") : "No findings";
  button.classList.toggle("bad", findings.length > 0);
  const waiting = calls.filter(isHanging).length;
  timeline.setAttribute(
    "aria-label",
    `${count(calls.length, "call", "calls")} over ${seconds(recording.end)}, ${waiting} without a response. Click to go to a time.`,
  );
}

function fillFilters() {
  const counts = {};
  const methods = new Map();
  for (const row of rows) {
    counts[row.kind] = (counts[row.kind] ?? 0) + 1;
    if (row.failed) counts.error = (counts.error ?? 0) + 1;
    if (row.method) methods.set(row.method, (methods.get(row.method) ?? 0) + 1);
  }
  for (const [kind, words] of Object.entries(KINDS)) {
    const button = make("button", "chip " + kind, make("span", "dot"), words, make("span", "number", String(counts[kind] ?? 0)));
    button.type = "button";
    button.dataset.kind = kind;
    button.disabled = !counts[kind];
    button.setAttribute("aria-pressed", "false");
    at("kinds").append(button);
  }
  const option = (value, words) => {
    const element = make("option", "", words);
    element.value = value;
    return element;
  };
  // By number, because the name of a method may be any text.
  methodNames = [...methods.keys()].sort();
  const named = methodNames.map((method, number) => option(String(number), `${snippet(method, 60)} (${methods.get(method)})`));
  at("method-filter").append(option("", "All methods"), ...named);
  at("connection-label").hidden = connections.length < 2;
  at("connection-filter").append(option("", "All connections"), ...connections.map((each, number) => option(String(number), visible(each.name))));
}
let methodNames = [];

function readFilters() {
  const number = (value) => (value === "" ? null : Number(value));
  const method = number(at("method-filter").value);
  wanted.method = method === null ? null : methodNames[method];
  wanted.connection = number(at("connection-filter").value);
  wanted.id = at("id-filter").value.trim();
  wanted.text = at("text-filter").value.toLowerCase();
  wanted.byCall = at("by-call").checked;
  wanted.kinds.clear();
  for (const button of at("kinds").children) {
    if (button.getAttribute("aria-pressed") === "true") wanted.kinds.add(button.dataset.kind);
  }
  choose();
}

function choose() {
  // Keep the position if the active row is still shown.
  const anchor = active >= 0 ? active : shown[Math.floor(topOf() / ROW)] ?? -1;
  const offset = anchor >= 0 ? places[anchor] * ROW - topOf() : 0;
  show(shownRows(wanted));
  if (anchor >= 0 && places[anchor] >= 0) list.scrollTop = (places[anchor] * ROW - offset) / scale();
  const isFiltered = wanted.kinds.size > 0 || wanted.method !== null || wanted.connection !== null || wanted.id + wanted.text !== "";
  at("count").textContent = isFiltered
    ? `${shown.length.toLocaleString("en")} of ${count(rows.length, "entry", "entries")}`
    : count(rows.length, "entry", "entries");
  at("clear").hidden = !isFiltered;
  draw();
  drawWindow();
}

function clearFilters() {
  at("filters").reset();
  for (const button of at("kinds").children) button.setAttribute("aria-pressed", "false");
  readFilters();
}

// Moving

/** Goes to a row, and clears filters that hide it. */
function goTo(index, { opens = true } = {}) {
  if (places[index] < 0) clearFilters();
  activate(index, { centre: true });
  if (opens) open(index);
  drawWindow();
}

function move(step) {
  if (!shown.length) return;
  const first = Math.ceil(topOf() / ROW);
  const place = active >= 0 && places[active] >= 0 ? places[active] + step : step > 0 ? first : shown.length - 1;
  activate(shown[Math.max(0, Math.min(shown.length - 1, place))]);
  if (pane.classList.contains("open") && !sheets.message.sheet.hidden) open(active);
  drawWindow();
}

function moveToFinding(step) {
  const marked = [...findingsOf.keys()].sort((one, other) => one - other);
  const next = step > 0 ? marked.find((index) => index > active) : marked.findLast((index) => active < 0 || index < active);
  if (next !== undefined) goTo(next);
}

function closePane() {
  pane.classList.remove("open");
  opened = -1;
  turnTo("recording");
  if (!isWide()) pane.classList.remove("open");
  list.focus();
}

function isWide() {
  return window.matchMedia("(min-width: 1080px)").matches;
}

// Keys

const KEYS = {
  j: () => move(1),
  ArrowDown: () => move(1),
  k: () => move(-1),
  ArrowUp: () => move(-1),
  PageDown: () => move(Math.max(1, Math.floor(height / ROW) - 1)),
  PageUp: () => move(-Math.max(1, Math.floor(height / ROW) - 1)),
  Home: () => move(-shown.length),
  End: () => move(shown.length),
};
const ANYWHERE = {
  "/": () => at("text-filter").select(),
  t: () => changeTheme(),
  n: () => moveToFinding(1),
  p: () => moveToFinding(-1),
  "?": () => at("keys").showModal(),
  c: () => at("copy")?.click(),
  a: () => {
    const partner = active < 0 ? null : partnerOf(active);
    if (partner !== null) goTo(partner, { opens: opened >= 0 });
  },
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || at("keys").open) return;
  const target = event.target;
  const isTyping = target.matches("input:not([type=checkbox]), select, textarea");
  let action = null;
  if (event.key === "Escape") {
    action = isTyping ? () => list.focus() : closePane;
  } else if (isTyping) {
    if (event.key === "Enter" && target !== at("method-filter")) action = () => list.focus();
  } else if (target === list && event.key === "Enter") {
    action = () => {
      if (active < 0) move(1);
      if (active >= 0) open(active);
    };
  } else if ((target === list || target === document.body) && event.key in KEYS) {
    action = KEYS[event.key];
  } else if ((event.key === "j" || event.key === "k") && event.key in KEYS) {
    action = KEYS[event.key];
  } else if (event.key in ANYWHERE) {
    action = ANYWHERE[event.key];
  }
  if (action === null) return;
  event.preventDefault();
  action();
});

document.querySelector("[role=tablist]").addEventListener("keydown", (event) => {
  const names = Object.keys(sheets);
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const place = names.findIndex((name) => sheets[name].tab === event.target);
  if (step === undefined || place < 0) return;
  event.preventDefault();
  const name = names[(place + step + names.length) % names.length];
  turnTo(name);
  sheets[name].tab.focus();
});

// The pointer

list.addEventListener("click", (event) => {
  const element = event.target.closest("[data-row]");
  if (element === null) return;
  const index = Number(element.dataset.row);
  const partner = partnerOf(index);
  if (event.target.closest("[data-jump]") && partner !== null) {
    goTo(partner);
    return;
  }
  activate(index);
  open(index);
  drawWindow();
});

pane.addEventListener("click", (event) => {
  const button = event.target.closest("button.jump");
  if (button !== null) {
    goTo(Number(button.dataset.row));
    list.focus();
  }
});

at("kinds").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button === null) return;
  button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") === "true" ? "false" : "true");
  readFilters();
});
for (const [name, { tab }] of Object.entries(sheets)) tab.addEventListener("click", () => turnTo(name));
at("close").addEventListener("click", closePane);
at("show-findings").addEventListener("click", () => {
  turnTo("findings");
  sheets.findings.tab.focus();
});
at("show-keys").addEventListener("click", () => at("keys").showModal());
at("filters").addEventListener("input", readFilters);
at("filters").addEventListener("submit", (event) => event.preventDefault());
at("clear").addEventListener("click", () => {
  clearFilters();
  list.focus();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  list.focus();
});

function pointAt(event) {
  const place = placeAt(event.clientX);
  if (place < 0) return;
  activate(shown[place], { centre: true });
  drawWindow();
}
overview.addEventListener("pointerdown", (event) => {
  overview.setPointerCapture(event.pointerId);
  pointAt(event);
});
overview.addEventListener("pointermove", (event) => {
  if (event.buttons & 1) pointAt(event);
});

// Light and dark

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
}

function changeTheme() {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  nameTheme();
}

function nameTheme() {
  at("theme").textContent = isDark() ? "Light" : "Dark";
  drawTimeline();
}
at("theme").addEventListener("click", changeTheme);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", nameTheme);

// At most once per frame

let isWaiting = false;
list.addEventListener("scroll", () => {
  if (isWaiting) return;
  isWaiting = true;
  requestAnimationFrame(() => {
    isWaiting = false;
    draw();
    drawWindow();
  });
});
new ResizeObserver(() => {
  const wasInView = isInView(active);
  height = list.clientHeight;
  width = overview.clientWidth;
  if (wasInView) activate(active); // the opened pane must not cover it
  else draw();
  drawTimeline();
  drawWindow();
}).observe(list);

document.documentElement.style.setProperty("--row", ROW + "px");
fillHead();
fillFilters();
fillRecording();
fillFindings();
if (isWide()) pane.classList.add("open");
height = list.clientHeight;
width = overview.clientWidth;
choose();
nameTheme();
prepareSearch();
