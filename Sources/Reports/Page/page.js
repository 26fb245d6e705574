// Fills the table from the rows, makes a take's details when they are opened, and keeps the page's state in the address, so that a link or
// a reload shows the same. It never makes markup of text.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const rows = data.rows;
rows.forEach((row, index) => {
  row.index = index;
  row.measures = new Map(data.measures.map((name, place) => [name, data.measured[index][place]]).filter(([, value]) => typeof value === "number"));
});
const byId = (id) => document.getElementById(id);
const columns = [...document.querySelectorAll("#table th[data-key]")];
const defaults = { q: "", outcome: "", severity: "", split: "", reader: "", task: "", success: "", measure: "", from: "", to: "", code: "", sort: "outcome", down: "", page: "1", size: "50", open: "" };
const controls = ["q", "outcome", "severity", "split", "reader", "task", "success", "measure", "from", "to", "code", "size"].filter(byId);
let state = { ...defaults };
let open = new Set();
let printing = false;

// Elements

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) if (value !== null && value !== undefined) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function drawn(drawing, label) {
  const space = "http://www.w3.org/2000/svg";
  const make = (name, attributes) => {
    const made = document.createElementNS(space, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const svg = make("svg", { viewBox: `0 0 ${drawing.w} ${drawing.h}`, width: drawing.w, height: drawing.h, role: "img", class: "drawing" });
  svg.setAttribute("aria-label", label ? `${label}: ${drawing.title}` : drawing.title);
  for (const [style, path] of drawing.lines) svg.append(make("path", { class: style, d: path }));
  for (const [x, y, text, anchor] of drawing.labels) {
    const made = make("text", { x, y, "text-anchor": anchor });
    made.textContent = text;
    svg.append(made);
  }
  return svg;
}

function figure(caption, ...children) { return element("figure", {}, element("figcaption", {}, caption), ...children); }

// Text of a finding's page, in which names of files and options are between backticks.
function explained(page) {
  const parts = `${page.meaning} ${page.advice}`.split("`");
  return element("p", { class: "explain" }, ...parts.map((part, index) => index % 2 ? element("code", {}, part) : part));
}

function badge(kind, text) { return element("span", { class: `badge ${kind}` }, text); }

// Numbers

const number = (value, digits) => value === undefined ? "" : value.toLocaleString("en-US", { minimumFractionDigits: digits || 0, maximumFractionDigits: digits || 0 });

function size(bytes) {
  if (bytes === undefined) return "";
  let [value, unit] = [bytes, 0];
  while (value >= 999.5 && unit < 4) { value /= 1000; unit += 1; }
  return `${unit === 0 ? value : value.toPrecision(3).replace(/\.?0+$/, (zeros) => zeros.includes(".") ? "" : zeros)} ${["bytes", "kB", "MB", "GB", "TB"][unit]}`;
}

// Which rows, in which order

const severities = { error: ["error"], warning: ["error", "warning"], info: ["error", "warning", "info"], none: ["none"] };

const measure = (row) => row.measures.get(state.measure);

// Whether the chosen measure of a row lies within the bounds.
function isMeasured(row) {
  if (!state.measure || state.from === "" && state.to === "") return true;
  const value = measure(row);
  return value !== undefined && (state.from === "" || value >= Number(state.from)) && (state.to === "" || value < Number(state.to));
}

function matches(row, words) {
  if (state.outcome && row.outcome !== state.outcome) return false;
  if (state.severity && !(severities[state.severity] || []).includes(row.severity)) return false;
  if (state.split && (row.split || "none") !== state.split) return false;
  if (state.reader && (row.reader || "none") !== state.reader) return false;
  if (state.task && (row.task || "none") !== state.task) return false;
  if (state.success && (row.success || "none") !== state.success) return false;
  if (!isMeasured(row)) return false;
  if (state.code && !row.codes.includes(state.code)) return false;
  if (!words.length) return true;
  const text = [row.id, row.reader, row.variant, row.outcome, row.reason, row.problem, row.split, row.verified && row.verified.text, row.task, ...row.tags || [], ...row.codes].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

const keys = {
  id: (row) => row.id, outcome: (row) => row.index, findings: (row) => row.codes.length, split: (row) => row.split, reader: (row) => row.reader,
  task: (row) => row.task, success: (row) => row.success, measure, frames: (row) => row.frames, seconds: (row) => row.seconds, missing: (row) => row.frames_missing,
  error: (row) => row.alignment_error_ms, bytes: (row) => row.bytes, verified: (row) => row.verified && row.verified.text,
};

function compare(a, b, key) {
  const [x, y] = [keys[key](a), keys[key](b)];
  // Rows without a value are last in both directions.
  if (x === undefined || y === undefined) return x === y ? a.index - b.index : x === undefined ? 1 : -1;
  const order = typeof x === "string" ? (x < y ? -1 : x > y ? 1 : 0) : x - y;
  return (state.down ? -order : order) || a.index - b.index;
}

// The column that is sorted by: one that is shown.
function sorting() { return keys[state.sort] && (state.sort !== "measure" || state.measure) ? state.sort : "outcome"; }

function selected() {
  const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
  const key = sorting();
  return rows.filter((row) => matches(row, words)).sort((a, b) => compare(a, b, key));
}

// Details

function details(row) { return JSON.parse(byId(`take-${row.index}`).textContent); }

function strip(found, row) {
  const times = found.times.join(", ");
  const words = `${found.times.length === 1 ? `One ${found.depth ? "depth map" : "image"}` : `${found.times.length} ${found.depth ? "depth maps" : "images"}`} of ${row.id} at ${times} s`;
  const image = element("img", { src: `data:image/jpeg;base64,${found.jpeg}`, alt: words, width: found.w * found.times.length, height: found.h });
  const parts = [found.key, ` at ${times} s`, found.missing ? ` (${found.missing} missing)` : ""];
  const legend = found.depth
    ? element("span", { class: "legend" }, "near, 0.5 m", element("span", { class: "ramp", role: "img", "aria-label": "cyan to magenta" }), "far, 5 m", element("span", { class: "hole", role: "img", "aria-label": "orange" }), "no depth")
    : null;
  return element("figure", { class: "strip" }, element("figcaption", {}, parts.join(""), legend),
    element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": found.depth ? "Depth maps" : "Images" }, image));
}

function findingList(found) {
  const list = element("ul", { class: "findings" });
  for (const finding of found) {
    const page = data.codes[finding.code] || {};
    const place = [finding.file, finding.field].filter(Boolean).join("");
    list.append(element("li", {},
      badge(finding.severity, finding.severity), " ", element("code", {}, finding.code), finding.count > 1 ? ` ${number(finding.count)} times` : "", ": ",
      place ? element("span", { class: "place" }, `${place}: `) : null, finding.message,
      page.meaning ? explained(page) : null));
  }
  return list;
}

function verification(found) {
  const kind = { complete: "ok", partial: "warning", none: "plain" }[found.state];
  const facts = element("dl", { class: "facts" });
  for (const [name, value] of [...found.facts, ["levels", found.levels.join(", ")]]) facts.append(element("dt", {}, name), element("dd", {}, value));
  const cannot = element("ul", {}, ...found.not_verified.map((sentence) => element("li", {}, sentence)));
  return element("div", { class: "verification" }, element("h3", {}, badge(kind, found.text)), facts,
    element("div", {}, element("p", {}, "Not verified, because these files cannot show it:"), cannot));
}

function streamTable(take) {
  const head = ["Stream", "Shape", "Unit", "Rows with a sample", "Median error", "95 % within", "Largest", "Sample time minus row time", "Alignment"];
  const body = element("tbody", {});
  const milliseconds = (value) => value === undefined ? "" : `${Number(value.toPrecision(3)).toLocaleString("en-US", { maximumFractionDigits: 6 })} ms`;
  for (const stream of take.streams) {
    const histogram = take.histograms && take.histograms[stream.name];
    const isZero = stream.max_ms === 0;
    body.append(element("tr", {}, element("th", { scope: "row" }, stream.name), element("td", {}, stream.shape), element("td", {}, stream.unit),
      element("td", { class: "number" }, `${number(stream.valid)} of ${number(stream.rows)}`), element("td", { class: "number" }, milliseconds(stream.median_ms)),
      element("td", { class: "number" }, milliseconds(stream.p95_ms)), element("td", { class: "number" }, milliseconds(stream.max_ms)),
      element("td", {}, histogram ? drawn(histogram) : isZero ? "0 in every row" : stream.max_ms === undefined ? "no sample" : ""),
      element("td", {}, [stream.method, stream.offset, stream.residual].filter(Boolean).join(", "))));
  }
  const headings = element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name)));
  return element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Streams and alignment errors" },
    element("table", { class: "streams" }, element("thead", {}, headings), body));
}

function detail(row) {
  const take = details(row);
  const made = element("div", { class: "detail" });
  const add = (...children) => made.append(...children.filter(Boolean));
  if (row.problem) add(element("p", {}, badge("error", "unreadable"), ` ${row.problem}`));
  if (row.reason) add(element("p", {}, badge(row.outcome, row.outcome), ` ${row.reason}`));
  const page = row.outcome === "rejected" && data.codes[row.codes[row.codes.length - 1]];
  if (page) add(explained(page));
  if (take.findings.length) add(findingList(take.findings));
  if (take.verification) add(verification(take.verification));
  for (const found of take.strips || []) add(strip(found, row));
  if (take.timeline) {
    add(figure("Rows in time. Blue: a sample; red: frames missing.", element("div", { class: "scroll timeline", tabindex: "0", role: "group", "aria-label": "Time line" }, drawn(take.timeline))));
  }
  if (take.gaps) add(element("ul", { class: "gaps" }, ...take.gaps.map((gap) => element("li", {}, gap))));
  const plots = element("div", { class: "plots" });
  if (take.trajectory) plots.append(figure(take.trajectory_of ? `Trajectory of ${take.trajectory_of}` : "Trajectory", drawn(take.trajectory)));
  if (take.side_view) plots.append(figure("From the side", drawn(take.side_view)));
  const curves = element("div", { class: "curves" });
  for (const curve of take.curves || []) curves.append(figure(curve.name, drawn(curve.drawing)));
  if (curves.childElementCount) plots.append(curves);
  if (plots.childElementCount) add(plots);
  if (take.streams) add(streamTable(take));
  if (row.outcome === "written" && !row.problem && take.omitted) add(element("p", { class: "note" }, take.omitted));
  const facts = element("dl", { class: "facts" });
  const measures = [...row.measures].map(([name, value]) => `${name} ${value}`).join(", ");
  for (const [name, value] of [...take.facts, ...measures ? [["measures", measures]] : []]) facts.append(element("dt", {}, name), element("dd", {}, value));
  add(facts);
  return made;
}

// Table

function thumbnail(row) {
  if (row.outcome !== "written") return null;
  const found = (details(row).strips || [])[0];
  if (!found) return null;
  const image = element("img", { src: `data:image/jpeg;base64,${found.jpeg}`, alt: "" });
  const scale = Math.min(64 / found.w, 48 / found.h);
  const middle = Math.floor((found.times.length - 1) / 2);
  const frame = element("span", { class: "thumbnail" }, image);
  [frame.style.width, frame.style.height] = [`${found.w * scale}px`, `${found.h * scale}px`];
  [image.style.height, image.style.width] = [`${found.h * scale}px`, `${found.w * found.times.length * scale}px`];
  image.style.marginLeft = `${-middle * found.w * scale}px`;
  return frame;
}

function line(row) {
  const isOpen = open.has(row.id);
  const button = element("button", { type: "button", class: "toggle", "aria-expanded": String(isOpen), id: `toggle-${row.index}` }, row.id);
  button.addEventListener("click", () => toggle(row));
  const outcome = element("td", {}, badge(row.problem ? "error" : row.outcome, row.problem ? "unreadable" : row.outcome));
  const shown = row.codes.slice(0, 2).join(", ") + (row.codes.length > 2 ? ` and ${row.codes.length - 2} more` : "");
  const findings = element("td", { class: "codes" }, row.severity === "none" ? "" : badge(row.severity, row.severity), " ", shown);
  const verified = row.verified ? badge({ complete: "ok", partial: "warning", none: "plain" }[row.verified.state], row.verified.text) : "";
  const missing = row.gaps === undefined ? "" : row.gaps === 0 ? "0" : `${number(row.frames_missing)} in ${number(row.gaps)}`;
  const cells = {
    id: element("th", { scope: "row" }, button), outcome, findings, split: row.split || "", reader: row.reader || "", frames: number(row.frames),
    task: row.task || "", success: row.success || "", measure: measure(row) === undefined ? "" : String(measure(row)),
    seconds: row.seconds === undefined ? "" : `${number(row.seconds, 2)} s`, missing,
    error: row.alignment_error_ms === undefined ? "" : `${number(row.alignment_error_ms, 1)} ms`, bytes: size(row.bytes), verified,
  };
  const made = element("tr", { class: "take", id: `row-${row.index}` }, element("td", { class: "picture" }, thumbnail(row)));
  for (const column of columns) {
    if (column.hidden) continue;
    const cell = cells[column.dataset.key];
    made.append(cell.tagName === "TD" || cell.tagName === "TH" ? cell : element("td", { class: column.className }, cell));
  }
  return made;
}

function detailLine(row) {
  const content = element("td", { colspan: columns.filter((column) => !column.hidden).length + 1 }, detail(row));
  return element("tr", { class: "details", id: `details-${row.index}` }, content);
}

function toggle(row) {
  const button = byId(`toggle-${row.index}`);
  if (open.delete(row.id)) {
    byId(`details-${row.index}`).remove();
  } else {
    open.add(row.id);
    byId(`row-${row.index}`).after(detailLine(row));
  }
  button.setAttribute("aria-expanded", String(open.has(row.id)));
  remember();
}

function show() {
  for (const column of columns) {
    if (column.dataset.key !== "measure") continue;
    column.hidden = !state.measure;
    column.querySelector("button").textContent = state.measure || "Measure";
  }
  const found = selected();
  const perPage = printing ? found.length || 1 : Math.max(1, Number(state.size) || 50);
  const pages = Math.max(1, Math.ceil(found.length / perPage));
  const page = printing ? 1 : Math.min(Math.max(1, Number(state.page) || 1), pages);
  if (!printing) state.page = String(page);
  const body = byId("rows");
  body.replaceChildren();
  for (const row of found.slice((page - 1) * perPage, page * perPage)) {
    body.append(line(row));
    if (open.has(row.id)) body.append(detailLine(row));
  }
  const all = `${number(rows.length)} ${rows.length === 1 ? "entry" : "entries"}`;
  const words = found.length === rows.length ? all : `${number(found.length)} of ${all}`;
  if (byId("count").textContent !== words) byId("count").textContent = words;
  byId("place").textContent = `Page ${number(page)} of ${number(pages)}`;
  for (const [id, isAtEnd] of [["first", page === 1], ["previous", page === 1], ["next", page === pages], ["last", page === pages]]) byId(id).disabled = isAtEnd;
  byId("last").dataset.page = pages;
  for (const column of columns) {
    const isSorted = column.dataset.key === sorting();
    if (isSorted) column.setAttribute("aria-sort", state.down ? "descending" : "ascending"); else column.removeAttribute("aria-sort");
  }
  remember();
}

// State

function remember() {
  if (printing) return;
  state.open = [...open].join("\n");
  const changed = Object.entries(state).filter(([key, value]) => value !== defaults[key]);
  const text = new URLSearchParams(changed).toString();
  if (location.hash.slice(1) === text) return;
  try { history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search); } catch { /* The address cannot be changed here. */ }
}

function recall() {
  const given = new URLSearchParams(location.hash.slice(1));
  state = { ...defaults };
  for (const key of Object.keys(defaults)) if (given.has(key)) state[key] = given.get(key);
  if (!data.measures.includes(state.measure)) state.measure = "";
  for (const bound of ["from", "to"]) if (!state.measure || !Number.isFinite(Number(state[bound]))) state[bound] = "";
  open = new Set(state.open.split("\n").filter(Boolean));
  for (const key of controls) byId(key).value = state[key];
}

function change(changes) {
  Object.assign(state, changes);
  show();
}

for (const key of controls) {
  const event = key === "q" ? "input" : "change";
  byId(key).addEventListener(event, () => {
    // Bounds of one measure say nothing of another.
    if (key === "measure") for (const bound of ["from", "to"]) state[bound] = byId(bound).value = "";
    change({ [key]: byId(key).value, page: "1" });
  });
}
byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("filters").addEventListener("reset", (event) => {
  event.preventDefault();
  state = { ...defaults, sort: state.sort, down: state.down, size: state.size };
  for (const key of controls) byId(key).value = state[key];
  show();
});
for (const column of columns) {
  column.querySelector("button").addEventListener("click", () => {
    const key = column.dataset.key;
    change({ down: state.sort === key && !state.down ? "1" : "", sort: key, page: "1" });
  });
}
const goTo = { first: () => 1, previous: () => Number(state.page) - 1, next: () => Number(state.page) + 1, last: () => byId("last").dataset.page };
for (const [id, page] of Object.entries(goTo)) byId(id).addEventListener("click", () => change({ page: String(page()) }));
byId("open-all").addEventListener("click", () => {
  for (const button of document.querySelectorAll("#rows .toggle")) open.add(rows[Number(button.id.slice("toggle-".length))].id);
  show();
});
byId("close-all").addEventListener("click", () => {
  open.clear();
  show();
});
addEventListener("hashchange", () => {
  if (document.getElementById(location.hash.slice(1))) return;
  recall();
  show();
  byId("takes").focus({ preventScroll: true });
  byId("takes").scrollIntoView();
});
// On paper there are no pages of a table.
addEventListener("beforeprint", () => { printing = true; show(); });
addEventListener("afterprint", () => { printing = false; show(); });

// Reloading while a run is in progress

function keep(key, value) { try { sessionStorage.setItem(key, value); } catch { /* Nothing is kept between reloads. */ } }
function kept(key) { try { return sessionStorage.getItem(key); } catch { return null; } }

if (data.reload) {
  const pause = byId("pause");
  let typed = 0;
  addEventListener("input", () => { typed = Date.now(); });
  pause.addEventListener("click", () => pause.setAttribute("aria-pressed", String(pause.getAttribute("aria-pressed") !== "true")));
  setInterval(() => {
    if (pause.getAttribute("aria-pressed") === "true" || document.hidden || Date.now() - typed < 3000) return;
    keep("scroll", String(scrollY));
    keep("focus", document.activeElement ? document.activeElement.id : "");
    location.reload();
  }, data.reload * 1000);
}

recall();
show();
if (kept("scroll") !== null) {
  scrollTo(0, Number(kept("scroll")));
  const focused = kept("focus") && byId(kept("focus"));
  if (focused) focused.focus({ preventScroll: true });
  try { sessionStorage.clear(); } catch { /* There is none. */ }
}
