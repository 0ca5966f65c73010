// All calls over real time. The list shows the same; this is a shortcut for the pointer.

const overview = document.getElementById("overview");
const timeline = document.getElementById("timeline");
const LANES = 6;
const LANE = 7;
const MARGIN = 18; // left and right, for the first and the last tick
const lanes = lanesOf();
let width = 0; // measured when it changes

/** Places each call in the first lane that is free when it starts. */
function lanesOf() {
  const ends = new Array(LANES).fill(-1);
  return calls.map((call) => {
    const from = rows[call.request].at;
    const lane = ends.findIndex((end) => end < from);
    const until = call.took === null ? endOf(call) : from + call.took;
    if (lane >= 0) ends[lane] = until + recording.end / 400;
    return { from, until, lane: lane < 0 ? LANES - 1 : lane, outcome: outcomeOf(call) };
  });
}

function endOf(call) {
  const last = [call.until, ...call.others.slice(-1)].filter((index) => index !== null);
  return last.reduce((end, index) => Math.max(end, rows[index].at), rows[call.request].at);
}

function xOf(at) {
  return MARGIN + (recording.end > 0 ? at / recording.end : 0) * (width - 2 * MARGIN);
}

function colour(name) {
  // A canvas does not support light-dark(), so an element resolves the colours.
  overview.style.color = `var(--${name})`;
  return getComputedStyle(overview).color;
}

function drawTimeline() {
  const tall = overview.clientHeight;
  const density = window.devicePixelRatio || 1;
  timeline.width = width * density;
  timeline.height = tall * density;
  const pen = timeline.getContext("2d");
  pen.scale(density, density);
  drawTicks(pen, tall);
  const colours = {};
  for (const [outcome, name] of Object.entries(OUTCOMES)) colours[outcome] = colour(name);
  for (const { from, until, lane, outcome } of lanes) {
    const x = xOf(from);
    pen.globalAlpha = outcome === "done" ? 0.75 : 1;
    pen.fillStyle = colours[outcome] ?? colours.done;
    pen.beginPath();
    pen.roundRect(x, 8 + lane * LANE, Math.max(2.5, xOf(until) - x), LANE - 2, 2);
    pen.fill();
  }
  pen.globalAlpha = 1;
  const tick = (index) => pen.fillRect(xOf(rows[index].at) - 1, 8 + LANES * LANE + 1, 2, 6);
  pen.fillStyle = colour("stderr");
  rows.forEach((row, index) => row.kind === "stderr" && tick(index));
  pen.fillStyle = colour("error");
  for (const index of findingsOf.keys()) tick(index);
}

const OUTCOMES = { done: "response", failed: "error", hanging: "stderr", cancelled: "faint", listening: "notification" };

function drawTicks(pen, tall) {
  const line = colour("line");
  const text = colour("muted");
  pen.font = "11px " + getComputedStyle(document.body).fontFamily;
  pen.textAlign = "center";
  const step = stepOf();
  for (let number = 0; number * step <= recording.end * 1.0001; number += 1) {
    const x = Math.round(xOf(number * step)) + 0.5;
    pen.strokeStyle = line;
    pen.beginPath();
    pen.moveTo(x, 4);
    pen.lineTo(x, tall - 17);
    pen.stroke();
    pen.fillStyle = text;
    pen.fillText(tickText(number * step, step), x, tall - 5);
    if (!(recording.end > 0)) break;
  }
}

function stepOf() {
  const wanted = (recording.end || 1) / Math.max(2, width / 110);
  const power = 10 ** Math.floor(Math.log10(wanted));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= wanted) ?? power * 10;
}

function tickText(at, step) {
  if (recording.end < 1) return Number((at * 1000).toPrecision(6)) + " ms";
  return at.toFixed(step >= 1 ? 0 : step >= 0.1 ? 1 : 2) + " s";
}

function drawWindow() {
  const top = topOf();
  const first = Math.floor(top / ROW);
  const last = Math.min(shown.length, Math.ceil((top + height) / ROW)) - 1;
  const frame = document.getElementById("in-view");
  frame.hidden = last < first;
  if (last >= first) {
    let from = Infinity;
    let to = -Infinity;
    for (let place = first; place <= last; place += 1) {
      from = Math.min(from, rows[shown[place]].at);
      to = Math.max(to, rows[shown[place]].at);
    }
    frame.style.left = xOf(from) - 4 + "px";
    frame.style.width = Math.max(2, xOf(to) - xOf(from)) + 8 + "px";
  }
  const cursor = document.getElementById("cursor");
  cursor.hidden = active < 0;
  if (active >= 0) cursor.style.left = xOf(rows[active].at) + "px";
}

/** The position of the row nearest to a point of the timeline; -1 if no row is shown. */
function placeAt(clientX) {
  const box = overview.getBoundingClientRect();
  const at = ((clientX - box.left - MARGIN) / Math.max(1, box.width - 2 * MARGIN)) * recording.end;
  let best = -1;
  let distance = Infinity;
  for (let place = 0; place < shown.length; place += 1) {
    const away = Math.abs(rows[shown[place]].at - at);
    if (away < distance) {
      best = place;
      distance = away;
    }
  }
  return best;
}
