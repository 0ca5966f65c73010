// The list. Only the visible rows are in the document; the paper has the height of all rows.

const ROW = 34;
// Browsers limit the height of an element. Beyond this height the paper is scaled.
const HIGHEST = 15_000_000;
const BEYOND = 8;
const MOST_BARS = 5;

const list = document.getElementById("list");
const paper = document.getElementById("paper");
const bars = make("div", "bars");
const barLanes = make("div", "lanes");
bars.setAttribute("aria-hidden", "true");
bars.append(barLanes);
paper.append(bars);

let shown = [];
let places = new Int32Array(rows.length);
let spans = [];
let active = -1; // a row number, not a position in the list
let height = 0; // of the visible part; cached, because reading it from the document forces a layout
const drawn = new Map(); // elements by position
const slowest = calls.reduce((most, call) => Math.max(most, call.took ?? 0), 0);

/** Sets the rows of the list. draw() puts them into the document. */
function show(chosen) {
  shown = chosen;
  places.fill(-1);
  shown.forEach((index, place) => (places[index] = place));
  spans = barsOf();
  for (const element of drawn.values()) element.remove();
  drawn.clear();
  paper.style.height = Math.min(shown.length * ROW, HIGHEST) + "px";
  document.getElementById("nothing").hidden = shown.length > 0;
}

/** Places each call as a bar beside the line of the side that works on it, in the first free column. */
function barsOf() {
  const found = [];
  const ends = { client: [], server: [], rounds: [] };
  const add = (side, first, last, call) => {
    let column = ends[side].findIndex((end) => end < first);
    if (column < 0) column = ends[side].length;
    ends[side][column] = last;
    found.push({ side, first, last, column: Math.min(column, MOST_BARS), call });
  };
  const begun = new Set();
  for (let place = 0; place < shown.length; place += 1) {
    const index = shown[place];
    const call = callOf(index);
    if (call === null || call.request !== index) continue;
    add(rows[index].from === ">" ? "server" : "client", place, lastPlaceOf(call, place), call);
    if (call.rounds && !begun.has(call.rounds[0])) {
      begun.add(call.rounds[0]);
      const last = call.rounds.reduce((end, number) => Math.max(end, lastPlaceOf(calls[number], place)), place);
      add("rounds", place, last, call);
    }
  }
  return found;
}

function lastPlaceOf(call, place) {
  if (call.answer !== null) return Math.max(place, places[call.answer]);
  // It waits until its connection ends, or until the next visible row that belongs to it.
  if (isHanging(call) && call.until !== null && places[call.until] > place) return places[call.until];
  return call.others.reduce((last, index) => Math.max(last, places[index]), place);
}

// Scrolling

function scale() {
  const real = shown.length * ROW - height;
  const mapped = Math.min(shown.length * ROW, HIGHEST) - height;
  return mapped > 0 && real > 0 ? real / mapped : 1;
}

function topOf() {
  return list.scrollTop * scale();
}

function draw() {
  const scrolled = list.scrollTop;
  const top = scrolled * scale();
  const first = Math.max(0, Math.floor(top / ROW) - BEYOND);
  const last = Math.min(shown.length, Math.ceil((top + height) / ROW) + BEYOND);
  const shift = scrolled - top;
  for (const [place, element] of drawn) {
    if (place < first || place >= last) {
      element.remove();
      drawn.delete(place);
    }
  }
  const fresh = document.createDocumentFragment();
  for (let place = first; place < last; place += 1) {
    let element = drawn.get(place);
    if (!element) {
      element = rowElement(shown[place], place);
      drawn.set(place, element);
      fresh.append(element);
    }
    element.style.transform = `translateY(${place * ROW + shift}px)`;
  }
  paper.append(fresh);
  drawBars(first, last, shift);
  mark();
}

function drawBars(first, last, shift) {
  const fresh = [];
  for (const span of spans) {
    if (span.last < first || span.first >= last) continue;
    const isWorking = span.side !== "rounds";
    const bar = make("span", "bar " + span.side + (isWorking ? " " + outcomeOf(span.call) : ""));
    const from = Math.max(span.first, first - 1);
    const to = Math.min(span.last, last);
    bar.style.top = from * ROW + shift + ROW / 2 - 4 + "px";
    bar.style.height = Math.max((to - from) * ROW, 0) + 8 + "px";
    bar.style.setProperty("--column", span.column);
    fresh.push(bar);
  }
  barLanes.replaceChildren(...fresh);
}

function outcomeOf(call) {
  if (call.answer !== null) return rows[call.answer].kind === "error" || rows[call.answer].failed ? "failed" : "done";
  return isHanging(call) ? "hanging" : call.state;
}

// One row

function rowElement(index, place) {
  const row = rows[index];
  const element = make("div", "row " + row.kind);
  element.id = "row-" + index;
  element.dataset.row = index;
  element.setAttribute("role", "option");
  element.setAttribute("aria-posinset", place + 1);
  element.setAttribute("aria-setsize", shown.length);
  element.setAttribute("aria-label", spokenOf(index));
  if (row.failed) element.classList.add("failed");
  if (row.damage) element.classList.add("damage");
  if (callOf(index)?.rounds) element.classList.add("grouped");
  element.append(timeCell(index, place), laneCell(index), stderrCell(index), tookCell(index));
  return element;
}

function timeCell(index, place) {
  const row = rows[index];
  const cell = make("span", "time");
  const before = place > 0 ? row.at - rows[shown[place - 1]].at : 0;
  if (before >= 1) cell.append(make("small", "pause", "+" + (before < 100 ? before.toFixed(1) + " s" : seconds(before))));
  cell.append(row.at.toFixed(3));
  return cell;
}

function laneCell(index) {
  const row = rows[index];
  const cell = make("span", "lanes");
  if (row.kind === "stderr") return cell;
  const label = make("span", "label");
  if (row.kind === "event") {
    cell.classList.add("event", row.side);
    label.append(make("span", "summary", headline(index)));
    cell.append(label);
    return cell;
  }
  if (row.damage) cell.classList.add("event", "server");
  else cell.classList.add(row.from === ">" ? "rightward" : "leftward");
  if (!row.damage) cell.append(make("span", "arrow"));
  const name = nameOf(row);
  if (name) label.append(make("b", "method", name));
  const said = headline(index);
  if (said) label.append(make("span", "summary", said));
  if (row.id !== undefined) {
    const chip = make("span", "id", snippet(row.id, 14));
    chip.dataset.jump = "";
    label.append(chip);
  }
  const rounds = callOf(index)?.rounds;
  if (rounds && callOf(index).request === index) {
    label.append(make("span", "round", `round ${rounds.indexOf(row.call) + 1} of ${rounds.length}`));
  }
  for (const number of findingsOf.get(index) ?? []) label.append(ruleChip(findings[number]));
  cell.append(label);
  return cell;
}

/** The first text of a row. A notification is recognized by its arrow, a response by the bar of its request. */
function nameOf(row) {
  if (row.kind === "noise") return row.damage ? "damage" : "noise";
  if (row.kind === "response") return row.summary === undefined ? "response" : "";
  if (row.kind === "error") return "error";
  return snippet(row.method.replace(/^notifications\//, ""), 60);
}

function ruleChip(finding) {
  return make("span", finding.mild ? "rule mild" : "rule", finding.rule);
}

function stderrCell(index) {
  const cell = make("span", "beside");
  if (rows[index].kind === "stderr") {
    cell.append(headline(index));
    for (const number of findingsOf.get(index) ?? []) cell.prepend(ruleChip(findings[number]));
  }
  return cell;
}

function tookCell(index) {
  const cell = make("span", "took");
  const call = callOf(index);
  if (call === null) return cell;
  if (call.request === index) {
    if (call.took === null) {
      cell.append(make("span", "state " + outcomeOf(call), STATES[call.state] ?? call.state));
    } else {
      cell.append(make("span", "", seconds(call.took)));
      const bar = make("span", "length " + outcomeOf(call));
      bar.style.width = Math.max(2, 100 * shareOf(call.took)) + "%";
      cell.append(bar);
    }
  } else if (call.answer === index && call.rounds && call.rounds.at(-1) === rows[index].call) {
    cell.append(make("span", "total", "all " + seconds(rows[index].at - rows[calls[call.rounds[0]].request].at)));
  }
  return cell;
}

/** The share of the slowest call, on a logarithmic scale, because calls take from milliseconds to minutes. */
function shareOf(took) {
  return slowest > 0 ? Math.log1p(took * 2000) / Math.log1p(slowest * 2000) : 0;
}

// The active row

function mark() {
  const call = active < 0 ? null : callOf(active);
  for (const element of drawn.values()) {
    const index = Number(element.dataset.row);
    element.setAttribute("aria-selected", index === active ? "true" : "false");
    element.classList.toggle("related", call !== null && index !== active && callOf(index) === call);
  }
  if (active >= 0 && places[active] >= 0) list.setAttribute("aria-activedescendant", "row-" + active);
  else list.removeAttribute("aria-activedescendant");
}

function isInView(index) {
  const top = topOf();
  return index >= 0 && places[index] >= 0 && (places[index] + 1) * ROW > top && places[index] * ROW < top + height;
}

/** Makes a row active and scrolls it into view. */
function activate(index, { centre = false } = {}) {
  active = index;
  const place = places[index];
  const top = topOf();
  let wanted = top;
  if (centre && (place * ROW < top + ROW || (place + 2) * ROW > top + height)) wanted = place * ROW - height / 2 + ROW / 2;
  else if (place * ROW < top) wanted = place * ROW;
  else if ((place + 1) * ROW > top + height) wanted = (place + 1) * ROW - height;
  if (wanted !== top) list.scrollTop = wanted / scale();
  draw();
}
