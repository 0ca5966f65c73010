// The recording: rows in the order in which they happened, the calls they belong to, and which rows are shown.

const recording = JSON.parse(document.getElementById("data").textContent);
const { rows, calls, connections, findings } = recording;

// In the order of the buttons.
const KINDS = {
  request: "requests",
  response: "responses",
  notification: "notifications",
  error: "errors",
  stderr: "stderr",
  event: "events",
  noise: "noise",
};
const STATES = {
  open: "no response",
  lost: "no response",
  cancelled: "cancelled",
  listening: "listening",
};

// Longer lines are lowercased again for each search; a second copy of them would double the memory.
const LONGEST_KEPT = 100_000;
const lowered = new Array(rows.length);
const decoded = new Map();
const findingsOf = new Map();

findings.forEach((finding, number) => {
  if (finding.row === null) return;
  if (!findingsOf.has(finding.row)) findingsOf.set(finding.row, []);
  findingsOf.get(finding.row).push(number);
});

/** The line as it was sent, with escapes for bytes that are not text. */
function textOf(index) {
  const row = rows[index];
  if (row.text !== undefined) return row.text;
  if (row.part !== undefined) {
    const [batch, start, end] = row.part;
    return recording.batches[batch].slice(start, end);
  }
  if (row.base64 === undefined) return row.summary ?? "";
  if (!decoded.has(index)) decoded.set(index, textOfBytes(row.base64));
  return decoded.get(index);
}

function callOf(index) {
  const number = rows[index].call;
  return number === undefined ? null : calls[number];
}

/** The other end of a call: the response for its request, and the request for everything else. */
function partnerOf(index) {
  const call = callOf(index);
  if (call === null) return null;
  return call.request === index ? call.answer : call.request;
}

function isHanging(call) {
  return call.state === "open" || call.state === "lost";
}

// Filtering

function fits(index, wanted) {
  const row = rows[index];
  if (wanted.kinds.size && !wanted.kinds.has(row.kind) && !(row.failed && wanted.kinds.has("error"))) return false;
  if (wanted.connection !== null && row.connection !== wanted.connection) return false;
  if (wanted.method !== null && row.method !== wanted.method && row.about !== wanted.method) return false;
  if (wanted.id !== "" && !hasId(row, wanted.id)) return false;
  if (wanted.text !== "" && !loweredOf(index).includes(wanted.text)) return false;
  return true;
}

function hasId(row, wanted) {
  // The user types an id as it is shown, 7 or "7", or a string without quotes.
  return row.id !== undefined && (row.id === wanted || row.id === JSON.stringify(wanted));
}

function loweredOf(index) {
  if (lowered[index] !== undefined) return lowered[index];
  const row = rows[index];
  const text = [textOf(index), row.summary ?? "", row.method ?? ""].join("\n").toLowerCase();
  if (text.length < LONGEST_KEPT) lowered[index] = text;
  return text;
}

/** Prepares the texts while the browser is idle, so that the first search is as fast as the others. */
function prepareSearch() {
  const later = window.requestIdleCallback ?? ((action) => setTimeout(() => action({ timeRemaining: () => 5 }), 20));
  let index = 0;
  const step = (idle) => {
    while (index < rows.length && idle.timeRemaining() > 1) {
      loweredOf(index);
      index += 1;
    }
    if (index < rows.length) later(step);
  };
  later(step);
}

/** The matching rows, by time, or grouped by call. */
function shownRows(wanted) {
  const shown = [];
  for (let index = 0; index < rows.length; index += 1) {
    if (fits(index, wanted)) shown.push(index);
  }
  if (wanted.byCall) {
    const place = (index) => {
      const call = callOf(index);
      if (call === null) return index;
      return call.rounds ? calls[call.rounds[0]].request : call.request;
    };
    shown.sort((one, other) => place(one) - place(other) || one - other);
  }
  return shown;
}

// Texts

const DIRECTIONS = { ">": "client to server", "<": "server to client" };

function titleOf(index) {
  const row = rows[index];
  if (row.kind === "stderr") return "stderr";
  if (row.kind === "event") return "event";
  if (row.kind === "noise") return row.damage ? "damage" : "noise";
  return row.method ? visible(row.method) : row.kind === "error" ? "error" : "answer";
}

/** The text of a row for screen readers. */
function spokenOf(index) {
  const row = rows[index];
  const call = callOf(index);
  const parts = [row.kind, titleOf(index) === row.kind ? "" : titleOf(index), headline(index)];
  if (row.id !== undefined) parts.push("id " + visible(row.id));
  if (DIRECTIONS[row.from]) parts.push(DIRECTIONS[row.from]);
  parts.push("at " + row.at.toFixed(3) + " seconds");
  if (call !== null && call.request === index) {
    parts.push(call.took === null ? STATES[call.state] ?? "" : "answered after " + seconds(call.took));
  }
  for (const number of findingsOf.get(index) ?? []) parts.push("finding " + findings[number].rule);
  return parts.filter(Boolean).join(", ");
}

/** The text of a row after its method. */
function headline(index) {
  const row = rows[index];
  if (row.summary !== undefined) return snippet(row.summary, 160);
  if (row.kind === "stderr" || row.kind === "noise") return snippet(textOf(index), 160);
  return "";
}
