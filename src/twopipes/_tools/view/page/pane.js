// The pane beside the list: the open message, the findings, and facts about the recording.

const pane = document.getElementById("pane");
const sheets = { recording: null, findings: null, message: null };
for (const name of Object.keys(sheets)) {
  sheets[name] = { tab: document.getElementById("tab-" + name), sheet: document.getElementById(name) };
}
let opened = -1;

// Limits of what is shown at first; the rest needs a click.
const MOST_LAID_OUT = 120_000;
const LONGEST_STRING = 1_500;

function turnTo(name) {
  for (const [other, { tab, sheet }] of Object.entries(sheets)) {
    const isIt = other === name;
    tab.setAttribute("aria-selected", isIt ? "true" : "false");
    tab.tabIndex = isIt ? 0 : -1;
    sheet.hidden = !isIt;
  }
  pane.classList.add("open");
}

function jumpButton(index, ...children) {
  const button = make("button", "jump", ...children);
  button.type = "button";
  button.dataset.row = index;
  return button;
}

// The open message

function open(index) {
  opened = index;
  const { sheet } = sheets.message;
  sheet.replaceChildren(headOf(index), ...notesOf(index), bodyOf(index), ...relatedTo(index));
  sheet.scrollTop = 0;
  turnTo("message");
}

function headOf(index) {
  const row = rows[index];
  const call = callOf(index);
  const head = make("header", "head " + row.kind);
  head.append(make("p", "kind", row.kind, row.failed ? make("span", "failed", " · failed") : ""));
  head.append(make("h2", "", titleOf(index) === row.kind ? snippet(headline(index), 120) : titleOf(index)));
  const facts = make("p", "where");
  if (row.id !== undefined) facts.append(make("span", "id", visible(row.id)));
  facts.append(make("span", "", row.at.toFixed(6) + " s"));
  if (DIRECTIONS[row.from]) facts.append(make("span", "", row.from === ">" ? "client → server" : "server → client"));
  if (connections.length > 1 && row.connection !== undefined) facts.append(make("span", "", connections[row.connection].name));
  if (!row.damage && row.kind !== "event") facts.append(make("span", "", size(textOf(index).length)));
  if (row.part) facts.append(make("span", "", "part of a batch"));
  if (row.open) facts.append(make("span", "warned", "line without a newline"));
  head.append(facts);
  const partner = partnerOf(index);
  if (partner !== null) {
    const isAnswer = call.request === index;
    const words = isAnswer ? "Go to the response" : "Go to the request";
    const button = jumpButton(partner, words, make("kbd", "", "a"));
    if (isAnswer) button.append(make("span", "after", "after " + seconds(call.took)));
    button.classList.add("partner");
    head.append(button);
  } else if (call !== null) {
    head.append(make("p", "state " + outcomeOf(call), STATES[call.state] + (call.state === "lost" ? "; the connection ended first" : "")));
  }
  return head;
}

function notesOf(index) {
  return (findingsOf.get(index) ?? []).map((number) =>
    make("p", findings[number].mild ? "note mild" : "note", ruleChip(findings[number]), " ", visible(findings[number].text)),
  );
}

function bodyOf(index) {
  const text = textOf(index);
  const body = make("div", "body");
  if (rows[index].kind === "event") return body;
  const tools = make("div", "tools");
  const area = make("pre", "json");
  area.tabIndex = 0;
  area.setAttribute("role", "region");
  const json = isJson(text);
  const fill = (asSent) => {
    area.setAttribute("aria-label", asSent ? "The line as it was sent" : "The message, formatted");
    if (asSent || !json) fillPlain(area, text);
    else fillPretty(area, text);
  };
  const copy = make("button", "quiet", "Copy");
  copy.type = "button";
  copy.id = "copy";
  copy.setAttribute("aria-keyshortcuts", "c");
  copy.addEventListener("click", () => copyText(asSent() || !json ? text : pretty(text), copy));
  tools.append(copy);
  let asSent = () => false;
  if (json) {
    const toggle = make("button", "quiet", "As sent");
    toggle.type = "button";
    toggle.setAttribute("aria-pressed", "false");
    asSent = () => toggle.getAttribute("aria-pressed") === "true";
    toggle.addEventListener("click", () => {
      toggle.setAttribute("aria-pressed", asSent() ? "false" : "true");
      fill(asSent());
    });
    tools.append(toggle);
  }
  if (rows[index].base64 !== undefined) {
    const bytes = make("button", "quiet", "Copy base64");
    bytes.type = "button";
    bytes.addEventListener("click", () => copyText(rows[index].base64, bytes));
    tools.append(bytes);
  }
  fill(false);
  body.append(tools, area);
  return body;
}

function fillPlain(area, text, limit = MOST_LAID_OUT) {
  area.replaceChildren(visible(text.slice(0, limit).replace(/\t/g, "    ")));
  if (text.length > limit) area.append(moreButton(text.length, () => fillPlain(area, text, Infinity)));
}

function fillPretty(area, text) {
  const lines = document.createDocumentFragment();
  let line = lineAt(0);
  let length = 0;
  const isAll = layOut(text, (kind, piece) => {
    if (kind === "space") {
      lines.append(line);
      line = lineAt((piece.length - 1) / 2);
    } else {
      line.append(kind === "mark" ? piece : tokenOf(kind, piece));
    }
    length += Math.min(piece.length, LONGEST_STRING);
    return length < MOST_LAID_OUT;
  });
  area.replaceChildren(lines, line);
  if (!isAll) area.append(moreButton(text.length, () => area.replaceChildren(pretty(text))));
}

function lineAt(depth) {
  const line = make("span", "line");
  line.style.setProperty("--depth", depth);
  return line;
}

function tokenOf(kind, piece) {
  const token = make("span", kind);
  if (piece.length <= LONGEST_STRING) {
    token.append(visible(piece));
    return token;
  }
  const button = make("button", "more", "… " + size(piece.length - LONGEST_STRING) + " more");
  button.type = "button";
  button.addEventListener("click", () => token.replaceChildren(visible(piece)));
  token.append(snippet(piece, LONGEST_STRING).slice(0, -1), button);
  return token;
}

function moreButton(length, action) {
  const button = make("button", "more", "\nShow all " + size(length));
  button.type = "button";
  button.addEventListener("click", action);
  return button;
}

async function copyText(text, button) {
  const words = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    // Without permission for the clipboard API, use the old command.
    const area = make("textarea", "hidden");
    area.value = text;
    document.body.append(area);
    area.select();
    button.textContent = document.execCommand("copy") ? "Copied" : "Copying is not allowed";
    area.remove();
    button.focus();
  }
  setTimeout(() => (button.textContent = words), 1500);
}

function relatedTo(index) {
  const call = callOf(index);
  if (call === null) return [];
  const found = [];
  if (call.rounds) {
    const items = call.rounds.flatMap((number) => [calls[number].request, calls[number].answer]).filter((each) => each !== null);
    found.push(...rowList(`One call in ${count(call.rounds.length, "round", "rounds")}`, items, index));
  }
  if (call.others.length) found.push(...rowList("Messages of this call", call.others, index));
  return found;
}

const MOST_LISTED = 200;

function rowList(title, items, current) {
  const entries = items.slice(0, MOST_LISTED).map((index) => {
    const button = jumpButton(index, make("span", "at", rows[index].at.toFixed(3)), make("span", "", titleOf(index)));
    button.append(make("span", "summary", headline(index)));
    button.classList.add(rows[index].kind);
    if (index === current) button.setAttribute("aria-current", "true");
    return make("li", "", button);
  });
  if (items.length > MOST_LISTED) entries.push(make("li", "rest", `and ${count(items.length - MOST_LISTED, "more", "more")}`));
  return [make("h3", "", title), make("ul", "rows", ...entries)];
}

// The findings

function fillFindings() {
  const { tab, sheet } = sheets.findings;
  tab.append(make("span", "number" + (findings.length ? " bad" : ""), String(findings.length)));
  if (!findings.length) {
    sheet.append(make("p", "calm", "No broken rules found. Only rules that a recording can show are checked."));
    return;
  }
  const items = findings.map((finding) => {
    const words = [ruleChip(finding), make("span", "says", visible(finding.text))];
    if (finding.row === null) return make("li", "", make("p", "jump", ...words));
    return make("li", "", jumpButton(finding.row, ...words, make("span", "at", rows[finding.row].at.toFixed(3) + " s")));
  });
  sheet.append(make("ul", "findings", ...items));
}

// The recording

function fillRecording() {
  const { sheet } = sheets.recording;
  sheet.append(factList(recording.about));
  for (const connection of connections) {
    if (connections.length > 1) sheet.append(make("h3", "", connection.name));
    sheet.append(factList(connection.about));
  }
  const waiting = calls.filter(isHanging).map((call) => call.request);
  if (waiting.length) sheet.append(...rowList(count(waiting.length, "call without a response", "calls without a response"), waiting, -1));
  if (calls.length) sheet.append(make("h3", "", "Calls"), callTable());
}

function factList(facts) {
  return make("dl", "about", ...facts.map(([name, value]) => make("div", "", make("dt", "", name), make("dd", "", visible(value)))));
}

function callTable() {
  const methods = new Map();
  for (const call of calls) {
    const method = rows[call.request].method ?? "";
    if (!methods.has(method)) methods.set(method, { calls: 0, took: [], longest: call });
    const found = methods.get(method);
    found.calls += 1;
    if (call.took === null) continue;
    found.took.push(call.took);
    if (call.took >= (found.longest.took ?? -1)) found.longest = call;
  }
  const body = make("tbody", "");
  const sorted = [...methods].sort((one, other) => (other[1].longest.took ?? 0) - (one[1].longest.took ?? 0));
  for (const [method, found] of sorted) {
    found.took.sort((one, other) => one - other);
    const median = found.took.length ? seconds(found.took[found.took.length >> 1]) : "–";
    const longest = found.longest.took === null ? make("span", "", "–") : jumpButton(found.longest.request, seconds(found.longest.took));
    const name = make("th", "", snippet(method, 60));
    name.scope = "row";
    body.append(make("tr", "", name, make("td", "", String(found.calls)), make("td", "", median), make("td", "", longest)));
  }
  const titles = ["Method", "Calls", "Median", "Longest"].map((title) => {
    const cell = make("th", "", title);
    cell.scope = "col";
    return cell;
  });
  return make("table", "calls", make("thead", "", make("tr", "", ...titles)), body);
}
