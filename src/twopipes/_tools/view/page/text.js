"use strict";

// Makes text of the wire safe to show. It is never parsed as markup, only assigned to textContent.

// Characters that would hide, reorder or break up text: control and format characters with bidi controls, separators other than a
// space, lone surrogates, and unassigned code points.
const INVISIBLE = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;

function escaped(character) {
  let shown = "";
  for (let i = 0; i < character.length; i += 1) {
    shown += "\\u" + character.charCodeAt(i).toString(16).padStart(4, "0");
  }
  return shown;
}

/** The text with JSON escapes for invisible characters. */
function visible(text) {
  return text.replace(INVISIBLE, escaped);
}

/** The beginning of a text, on one line. */
function snippet(text, limit) {
  let cut = text.length > limit ? text.slice(0, limit) : text;
  const last = cut.charCodeAt(cut.length - 1);
  if (cut.length < text.length && last >= 0xd800 && last < 0xdc00) cut = cut.slice(0, -1); // do not split a surrogate pair
  const shown = visible(cut.replace(/\t|\r?\n/g, " "));
  return cut.length < text.length ? shown + "…" : shown;
}

/** The bytes as text, with \xNN for bytes that are not UTF-8. */
function textOfBytes(base64) {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const pieces = [];
  let begun = 0;
  let at = 0;
  while (at < bytes.length) {
    const length = sequenceAt(bytes, at, strict);
    if (length) {
      at += length;
    } else {
      pieces.push(strict.decode(bytes.subarray(begun, at)), "\\x" + bytes[at].toString(16).padStart(2, "0"));
      at += 1;
      begun = at;
    }
  }
  pieces.push(strict.decode(bytes.subarray(begun)));
  return pieces.join("");
}

function sequenceAt(bytes, at, strict) {
  const first = bytes[at];
  if (first < 0x80) return 1;
  const length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  try {
    strict.decode(bytes.subarray(at, at + length));
    return length;
  } catch {
    return 0;
  }
}

// Formatted JSON. The text is split into tokens instead of parsed, so that long numbers, duplicate keys and escapes stay as sent.

function isJson(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null;
  } catch {
    return false;
  }
}

const DEEPEST_INDENT = 40;

/** Calls emit(kind, piece) for each piece of formatted JSON, until it returns false. */
function layOut(text, emit) {
  let depth = 0;
  let at = 0;
  const newline = () => emit("space", "\n" + "  ".repeat(Math.min(depth, DEEPEST_INDENT)));
  while (at < text.length) {
    const character = text[at];
    let goesOn = true;
    if (character === "{" || character === "[") {
      const next = afterSpace(text, at + 1);
      if (text[next] === "}" || text[next] === "]") {
        goesOn = emit("mark", character + text[next]);
        at = next + 1;
      } else {
        depth += 1;
        goesOn = emit("mark", character) && newline();
        at += 1;
      }
    } else if (character === "}" || character === "]") {
      depth -= 1;
      goesOn = newline() && emit("mark", character);
      at += 1;
    } else if (character === ",") {
      goesOn = emit("mark", character) && newline();
      at += 1;
    } else if (character === ":") {
      goesOn = emit("mark", ": ");
      at += 1;
    } else if (character === '"') {
      const end = endOfString(text, at);
      goesOn = emit(text[afterSpace(text, end)] === ":" ? "key" : "string", text.slice(at, end));
      at = end;
    } else if (isSpace(character)) {
      at += 1;
    } else {
      let end = at + 1;
      while (end < text.length && !'{}[],:"'.includes(text[end]) && !isSpace(text[end])) end += 1;
      goesOn = emit(/[-\d]/.test(character) ? "number" : "word", text.slice(at, end));
      at = end;
    }
    if (!goesOn) return false;
  }
  return true;
}

function isSpace(character) {
  return character === " " || character === "\n" || character === "\r" || character === "\t";
}

function afterSpace(text, at) {
  while (at < text.length && isSpace(text[at])) at += 1;
  return at;
}

function endOfString(text, at) {
  let end = at + 1;
  while (end < text.length && text[end] !== '"') end += text[end] === "\\" ? 2 : 1;
  return end + 1;
}

/** The whole formatted text for copying, with escapes for invisible characters, so that it is equivalent JSON. */
function pretty(text) {
  const pieces = [];
  layOut(text, (kind, piece) => pieces.push(kind === "space" ? piece : visible(piece)) > 0);
  return pieces.join("");
}

// Numbers for people

function seconds(value) {
  if (value < 0.00995) return (value * 1000).toFixed(value < 0.000995 ? 2 : 1) + " ms";
  if (value < 0.9995) return Math.round(value * 1000) + " ms";
  if (value < 9.995) return value.toFixed(2) + " s";
  if (value < 99.95) return value.toFixed(1) + " s";
  if (value < 3600) return Math.floor(value / 60) + " min " + Math.floor(value % 60) + " s";
  return Math.floor(value / 3600) + " h " + Math.floor((value % 3600) / 60) + " min";
}

function count(number, one, many) {
  return number.toLocaleString("en") + " " + (number === 1 ? one : many);
}

function size(bytes) {
  if (bytes < 1000) return count(bytes, "character", "characters");
  if (bytes < 1e6) return (bytes / 1e3).toFixed(1) + " thousand characters";
  return (bytes / 1e6).toFixed(1) + " million characters";
}

/** Creates an element with elements and texts as children. A string always becomes a text node. */
function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}
