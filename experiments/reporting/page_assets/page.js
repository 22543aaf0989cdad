// The page itself: sliders, images, traversals, matrices and curves of the runs.
const runs = JSON.parse(document.getElementById("data").textContent);
const byId = (name) => document.getElementById(name);
const SVG = "http://www.w3.org/2000/svg";
const SLOW = 50; // milliseconds a decode may take before the page mentions it
const WELLS = ["a", "b"];

// `model` is null where the page shows pictures that were made before. `values` are the
// numbers that are decoded; `positions` those of the sliders; `sources` says which
// latents are still those of image A or B.
const state = {
  run: null, model: null, loaded: new Map(), turn: 0,
  wells: { a: null, b: null }, values: null, positions: [], sources: [], base: 0, pending: false,
};

// ---- small helpers ----------------------------------------------------------

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key in made && typeof value !== "string") made[key] = value; else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function shape(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function loadImage(source) {
  return new Promise((resolve, reject) => {
    const image = new Image();
    image.onload = () => resolve(image);
    image.onerror = () => reject(new Error("not an image"));
    image.src = source;
  });
}

// Lets the page answer to clicks between two decodings; false if another run was chosen.
async function pause(turn) {
  await new Promise((resolve) => setTimeout(resolve, 0));
  return turn === state.turn;
}

const short = (value) => value.toFixed(2).replace("-", "\u2212");

// ---- pixels -----------------------------------------------------------------

function paint(canvas, pixels, [height, width, channels]) {
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d"), image = context.createImageData(width, height);
  for (let i = 0; i < height * width; i++) {
    for (let c = 0; c < 3; c++) {
      image.data[4 * i + c] = Math.round(255 * pixels[channels === 1 ? i : i * channels + c]);
    }
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}

// The middle of an image at the model's size, as numbers from 0 to 1.
function pixelsOf(image, [height, width, channels]) {
  const canvas = element("canvas", { width, height });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const scale = Math.max(width / image.width, height / image.height);
  const [w, h] = [image.width * scale, image.height * scale];
  context.imageSmoothingQuality = "high";
  context.fillRect(0, 0, width, height);
  context.drawImage(image, (width - w) / 2, (height - h) / 2, w, h);
  const data = context.getImageData(0, 0, width, height).data;
  const pixels = new Float32Array(height * width * channels);
  for (let i = 0; i < height * width; i++) {
    const [r, g, b] = data.subarray(4 * i, 4 * i + 3);
    if (channels === 1) pixels[i] = (0.299 * r + 0.587 * g + 0.114 * b) / 255;
    else pixels.set([r / 255, g / 255, b / 255], 3 * i);
  }
  return pixels;
}

// ---- choosing a run ----------------------------------------------------------

async function chooseRun(index) {
  const turn = ++state.turn;
  const run = state.run = runs[index];
  byId("run").value = index;
  byId("facts").textContent = run.facts;
  byId("verdict").textContent = run.verdict;
  byId("verdict").hidden = !run.verdict;
  document.body.dataset.ready = "";
  showMatrices();
  showCurves();
  say(run.model ? "Unpacking the model…" : "This model cannot run in the page: " + run.reason
    + "." + (run.pictures ? " The pictures below were made when it was scored." : ""));
  const model = run.model ? await modelOf(run) : null;
  if (turn !== state.turn) return;
  state.model = model;
  const pictures = run.pictures || { bases: [], sprites: [], codes: [], latents: 0 };
  state.pictures = pictures;
  for (const name of ["wells", "blending", "hint", "redraw"]) byId(name).hidden = !model && name !== "wells";
  if (!model) await showMade(turn);
  else await showLive(turn);
  if (turn === state.turn) document.body.dataset.ready = String(index);
}

function say(text) {
  byId("notice").textContent = text;
  byId("notice").hidden = !text;
}

async function modelOf(run) {
  if (!state.loaded.has(run)) {
    try {
      state.loaded.set(run, await Runtime.load(run.model));
    } catch (error) {
      run.model = null;
      run.reason = "this browser cannot unpack it (" + error.message + ")";
      say("This model cannot run in the page: " + run.reason + ".");
      return null;
    }
  }
  return state.loaded.get(run);
}

// ---- a model that runs in the page --------------------------------------------

async function showLive(turn) {
  const { model, pictures } = state, latent = model.latent;
  document.querySelector(".columns").hidden = false; // a run without pictures hides them
  byId("traversal").hidden = false;
  state.values = new Float32Array(latent.num * latent.size);
  state.sources = Array(latent.num).fill(null);
  state.reach = Array(latent.num).fill(3); // how far the sliders of continuous latents go
  state.orders = latent.isContinuous ? null : [...Array(latent.num).keys()].map((j) => latent.codesOf(j));
  state.wells = { a: null, b: null };
  for (const name of WELLS) showWell(name);
  showSliders();
  const images = [];
  for (const source of pictures.bases) images.push(await loadImage(source).catch(() => null));
  if (turn !== state.turn) return;
  const known = images.filter(Boolean);
  const blank = element("canvas", { width: model.image[1], height: model.image[0] });
  fillWell("b", known[1] || known[0] || blank);
  fillWell("a", known[0] || blank);
  const duration = timeDecode();
  byId("hint").dataset.milliseconds = duration.toFixed(2);
  say(duration < SLOW ? "" : "This decoder is large: an image takes about " + Math.round(duration)
    + " ms here, so that the sliders answer with a delay.");
  if (duration < SLOW) { await drawTraversal(turn); await drawSwaps(turn); }
  else {
    byId("traversal").querySelector(".rows").replaceChildren();
    byId("swaps").hidden = true;
  }
}

// Smallest of a few: what the machine does besides does not count.
function timeDecode() {
  let least = Infinity;
  for (let i = 0; i < 5; i++) {
    const start = performance.now();
    state.model.decode(state.values);
    least = Math.min(least, performance.now() - start);
  }
  return least;
}

function showWell(name) {
  const well = byId("well-" + name), title = "Image " + name.toUpperCase();
  const thumbs = element("div", { class: "thumbs", role: "group", "aria-label": title + ": examples" });
  state.pictures.bases.forEach((source, i) => {
    const button = element("button", { type: "button", "aria-label": title + ": example " + (i + 1) });
    const image = element("img", { alt: "" });
    image.src = source;
    button.append(image);
    button.onclick = () => loadImage(source).then((loaded) => fillWell(name, loaded));
    thumbs.append(button);
  });
  const file = element("input", { type: "file", accept: "image/*", "aria-label": title + ": a file of your own" });
  file.onchange = () => { if (file.files.length) openFile(name, file.files[0]); file.value = ""; };
  const all = element("button", { type: "button" }, "All from " + name.toUpperCase());
  all.onclick = () => takeAll(name);
  const canvas = element("canvas", { class: "chosen", role: "img", "aria-label": title });
  well.replaceChildren(
    element("h3", {}, title), canvas, thumbs,
    element("span", { class: "buttons" }, element("label", { class: "button" }, "Open…", file), all),
  );
}

async function openFile(name, file) {
  const turn = state.turn;
  try {
    const image = await createImageBitmap(file);
    if (turn === state.turn) fillWell(name, image);
  } catch (error) {
    byId("caption").textContent = "This file is not an image that the browser can read.";
  }
}

function fillWell(name, image) {
  const { model } = state, pixels = pixelsOf(image, model.image);
  const { codes, values } = model.encode(pixels);
  state.wells[name] = { pixels, codes, values };
  paint(byId("well-" + name).querySelector("canvas"), pixels, model.image);
  byId("well-" + name).dataset.codes = codes ? codes.join(",") : "";
  if (name === "a") takeAll("a");
  else { showSources(); show(); }
  widenSliders();
}

function takeAll(name) {
  for (let j = 0; j < state.model.latent.num; j++) take(j, name);
  byId("blend").value = name === "a" ? 0 : 100;
  changed("latents of image " + name.toUpperCase());
}

// One latent of an image, exactly as the encoder gives it.
function take(j, name) {
  const { model, wells } = state, size = model.latent.size, start = j * size;
  if (!wells[name]) return;
  state.values.set(wells[name].values.subarray(start, start + size), start);
  state.positions[j] = positionIn(name, j);
  state.sources[j] = name;
}

function positionIn(name, j) {
  const well = state.wells[name];
  return well.codes ? state.orders[j].indexOf(well.codes[j]) : well.values[j];
}

function moveTo(j, position) {
  const latent = state.model.latent;
  state.positions[j] = position;
  state.sources[j] = null;
  if (latent.isContinuous) state.values[j] = position;
  else state.values.set(latent.valueOf(j, state.orders[j][position]), j * latent.size);
}

// Between the two images: ordered values move step by step, codes without an order jump.
function blend(share) {
  const latent = state.model.latent;
  for (let j = 0; j < latent.num; j++) {
    const [from, to] = WELLS.map((name) => positionIn(name, j));
    if (share === 0 || from === to) take(j, "a");
    else if (share === 1) take(j, "b");
    else if (latent.isVector) take(j, share < 0.5 ? "a" : "b");
    else {
      const between = from + (to - from) * share;
      moveTo(j, latent.isContinuous ? between : Math.round(between));
    }
  }
  changed(Math.round(100 * share) + " % of the way from A to B");
}

function randomCodes() {
  const { model, pictures } = state, shares = pictures.frequencies;
  for (let j = 0; j < model.latent.num; j++) {
    if (model.latent.isContinuous) { moveTo(j, state.reach[j] * (2 * Math.random() - 1)); continue; }
    let rest = Math.random(), code = null;
    if (shares) code = shares[j].findIndex((share) => (rest -= share) < 0);
    const position = shares ? state.orders[j].indexOf(code) : Math.floor(rest * state.orders[j].length);
    moveTo(j, Math.max(position, 0));
  }
  changed("latents drawn at random" + (shares ? ", by how often each code is used" : ""));
}

function changed(text) {
  byId("caption").textContent = text;
  state.positions.forEach((position, j) => showPosition(j, position));
  showSources();
  show();
}

function show() {
  if (state.pending) return;
  state.pending = true;
  requestAnimationFrame(() => {
    state.pending = false;
    if (!state.model) return;
    const canvas = byId("decoded");
    paint(canvas, state.model.decode(state.values), state.model.image);
    canvas.dataset.shown = state.positions.join(",");
  });
}

// ---- sliders -------------------------------------------------------------------

function latentName(j) {
  return "latent " + j;
}

function knownBy(j) {
  const best = state.run.knows[j];
  if (!best) return "";
  return best.active ? best.source + " " + short(best.value) : "inactive";
}

function showSliders() {
  const { model, pictures } = state, box = byId("sliders");
  const count = model ? model.latent.num : pictures.latents;
  const rows = [];
  for (let j = 0; j < count; j++) {
    const continuous = model && model.latent.isContinuous;
    const most = model && !continuous ? state.orders[j].length : (pictures.values || [])[j];
    const slider = element("input", {
      type: "range", min: String(continuous ? -3 : 0), max: String(continuous ? 3 : most - 1),
      step: String(continuous ? 0.01 : 1), id: "latent-" + j,
    });
    slider.oninput = () => slide(j, Number(slider.value));
    const name = element("label", { class: "name", for: "latent-" + j }, element("b", {}, latentName(j)), " ");
    name.append(element("span", { class: "knows" }, knownBy(j)));
    const row = element("div", { class: "latent" }, name, slider, element("output", { for: "latent-" + j }));
    const usage = usageOf(j);
    if (usage) row.append(usage);
    if (model) row.append(takers(j));
    rows.push(row);
  }
  box.replaceChildren(...rows);
}

function takers(j) {
  const box = element("span", { class: "takers", role: "group", "aria-label": latentName(j) + ": take from" });
  for (const name of WELLS) {
    const button = element("button", { type: "button", "aria-label": latentName(j) + " from image " + name.toUpperCase() });
    button.textContent = name.toUpperCase();
    button.onclick = () => { take(j, name); changed(latentName(j) + " from image " + name.toUpperCase()); };
    box.append(button);
  }
  return box;
}

// How often each code is used: in the order of the slider where the model runs in the page,
// by its number where only pictures are known.
function usageOf(j) {
  const rows = state.pictures.frequencies, shares = rows && rows[j];
  if (!shares) return null;
  const order = state.model && state.orders ? state.orders[j] : [...shares.keys()];
  const most = Math.max(...shares) || 1, used = shares.filter((share) => share > 0).length;
  const svg = shape("svg", {
    class: "usage", viewBox: "0 0 " + order.length + " 1", preserveAspectRatio: "none", role: "img",
    "aria-label": latentName(j) + " uses " + used + " of " + shares.length + " codes",
  });
  order.forEach((code, k) => {
    const height = (shares[code] || 0) / most;
    const bar = shape("rect", { x: k + 0.06, y: 1 - height, width: 0.88, height });
    bar.append(shape("title", {}, "code " + code + ": used by " + (100 * (shares[code] || 0)).toFixed(1) + " % of the images"));
    svg.append(bar);
  });
  return svg;
}

function slide(j, position) {
  if (!state.model) { slideMade(j, position); return; }
  moveTo(j, position);
  changed(latentName(j) + " at " + valueText(j));
}

function valueText(j) {
  const latent = state.model.latent;
  if (latent.isContinuous) return short(state.values[j]);
  const code = state.orders[j][state.positions[j]];
  return latent.isVector ? "code " + code : short(state.values[j]);
}

function showPosition(j, position) {
  const row = byId("sliders").children[j];
  row.querySelector("input").value = position;
  const text = state.model ? valueText(j) : String(position);
  row.querySelector("output").value = text;
  row.querySelector("input").setAttribute("aria-valuetext", text);
  // A column of a picture is a value of the traversal; which code has it is not known.
  row.querySelectorAll("rect").forEach((bar, k) => bar.classList.toggle("now", Boolean(state.model) && k === position));
}

function showSources() {
  [...byId("sliders").children].forEach((row, j) => {
    row.querySelectorAll(".takers button").forEach((button, k) => {
      button.setAttribute("aria-pressed", state.sources[j] === WELLS[k]);
    });
  });
}

// Continuous latents have no ends: the sliders reach what the images need.
function widenSliders() {
  if (!state.model.latent.isContinuous) return;
  for (let j = 0; j < state.model.latent.num; j++) {
    const found = WELLS.filter((name) => state.wells[name]).map((name) => Math.abs(state.wells[name].values[j]));
    const reach = state.reach[j] = Math.max(state.reach[j], Math.ceil(1.2 * Math.max(...found)));
    const slider = byId("latent-" + j);
    slider.min = -reach;
    slider.max = reach;
    showPosition(j, state.positions[j] || 0);
  }
}

// ---- traversals and swaps --------------------------------------------------------

function traversalRow(j, columns, values) {
  const tiles = element("div", { class: "tiles" });
  for (let k = 0; k < columns; k++) {
    tiles.append(element("figure", { class: "tile" }, element("canvas", {}), element("figcaption", {}, values[k])));
  }
  const name = element("div", { class: "row-name" }, element("b", {}, latentName(j)), element("span", { class: "knows" }, knownBy(j)));
  return element("div", { class: "row" }, name, tiles);
}

// At most ten values of a latent: [value text, numbers].
function stopsOf(j) {
  const latent = state.model.latent, most = 10;
  if (latent.isContinuous) {
    const step = state.reach[j] / 4;
    return [...Array(9).keys()].map((k) => [short((k - 4) * step), Float32Array.of((k - 4) * step)]);
  }
  const order = state.orders[j], count = Math.min(most, order.length);
  return [...Array(count).keys()].map((k) => {
    const code = order[Math.round(k * (order.length - 1) / Math.max(count - 1, 1))];
    const value = latent.valueOf(j, code);
    return [latent.isVector ? "code " + code : short(value[0]), value];
  });
}

async function drawTraversal(turn) {
  const { model } = state, box = byId("traversal").querySelector(".rows"), size = model.latent.size;
  const base = Float32Array.from(state.values);
  box.replaceChildren();
  box.classList.toggle("wide", stopsOf(0).length > 6);
  for (let j = 0; j < model.latent.num; j++) {
    const stops = stopsOf(j), row = traversalRow(j, stops.length, stops.map((stop) => stop[0]));
    const canvases = row.querySelectorAll("canvas");
    box.append(row);
    for (let k = 0; k < stops.length; k++) {
      const values = Float32Array.from(base);
      values.set(stops[k][1], j * size);
      paint(canvases[k], model.decode(values), model.image);
    }
    if (!(await pause(turn))) return;
  }
}

async function drawSwaps(turn) {
  const { model, wells } = state, size = model.latent.size, figure = byId("swaps");
  const tiles = figure.querySelector(".tiles");
  figure.hidden = false;
  tiles.replaceChildren();
  const add = (pixels, text) => {
    const canvas = element("canvas", {});
    paint(canvas, pixels, model.image);
    tiles.append(element("figure", { class: "tile" }, canvas, element("figcaption", {}, text)));
  };
  add(wells.a.pixels, "A");
  add(wells.b.pixels, "B");
  for (let j = 0; j < model.latent.num; j++) {
    const values = Float32Array.from(wells.a.values);
    values.set(wells.b.values.subarray(j * size, (j + 1) * size), j * size);
    add(model.decode(values), j + (knownBy(j) ? " · " + knownBy(j) : ""));
    if (!(await pause(turn))) return;
  }
}

// ---- pictures that were made when the run was scored --------------------------------

async function showMade(turn) {
  const { pictures } = state, images = [];
  state.orders = null;
  for (const source of pictures.sprites) images.push(await loadImage(source).catch(() => null));
  if (turn !== state.turn) return;
  state.sprites = images;
  byId("swaps").hidden = !pictures.swaps;
  if (pictures.swaps) {
    const image = await loadImage(pictures.swaps).catch(() => null);
    byId("swaps").querySelector(".tiles").replaceChildren(...(image ? [image] : []));
  }
  document.querySelector(".columns").hidden = !images.length;
  byId("traversal").hidden = !images.length;
  showSliders();
  showMadeBases();
  if (images.length) chooseBase(0);
}

function showMadeBases() {
  const group = element("div", { class: "thumbs", role: "group", "aria-label": "base image" });
  state.pictures.bases.forEach((source, i) => {
    const image = element("img", { alt: "" });
    image.src = source;
    const button = element("button", { type: "button", "aria-label": "base image " + (i + 1) }, image);
    button.onclick = () => chooseBase(i);
    group.append(button);
  });
  byId("well-a").replaceChildren(group);
  byId("well-b").replaceChildren();
}

function chooseBase(i) {
  state.base = i;
  byId("well-a").querySelectorAll("button").forEach((button, k) => button.setAttribute("aria-pressed", k === i));
  state.positions = [...state.pictures.codes[i]];
  state.positions.forEach((position, j) => showPosition(j, position));
  byId("caption").textContent = "Move a slider.";
  const { side, latents, values } = state.pictures, rows = [];
  for (let j = 0; j < latents; j++) {
    const row = traversalRow(j, values[j], [...Array(values[j]).keys()].map(String));
    row.querySelectorAll("canvas").forEach((canvas, k) => drawMade(canvas, j, k, side));
    rows.push(row);
  }
  const box = byId("traversal").querySelector(".rows");
  box.classList.toggle("wide", Math.max(...values) > 6);
  box.replaceChildren(...rows);
  if (latents) showMadeValue(0, state.positions[0]);
}

// One latent at a time: a sprite holds every value of every latent of one base image.
function slideMade(j, position) {
  state.pictures.codes[state.base].forEach((own, other) => showPosition(other, other === j ? position : own));
  byId("caption").textContent = latentName(j) + " at value " + position;
  showMadeValue(j, position);
}

function showMadeValue(j, position) {
  const canvas = byId("decoded");
  drawMade(canvas, j, position, state.pictures.side);
  canvas.dataset.shown = state.base + "/" + j + "/" + position;
}

function drawMade(canvas, j, k, side) {
  canvas.width = canvas.height = side;
  const sprite = state.sprites[state.base];
  if (sprite) canvas.getContext("2d").drawImage(sprite, k * side, j * side, side, side, 0, 0, side, side);
}

// ---- matrices and curves ---------------------------------------------------------------

function showMatrices() {
  const figures = state.run.matrices.map(matrixFigure);
  for (const [name, caption] of [["infomec", "Which latent knows which source"], ["dci", "Which latent predicts which source"]]) {
    if (!state.run[name]) continue;
    const image = element("img", { alt: caption, class: "wide" });
    image.src = state.run[name];
    figures.push(element("figure", {}, element("figcaption", {}, caption), image));
  }
  byId("matrices").replaceChildren(...figures);
}

function matrixFigure({ caption, sources, rows, active }) {
  const head = element("tr", {}, element("th", { scope: "col" }, "latent"));
  active.forEach((flag, j) => {
    const cell = element("th", { scope: "col", class: flag ? "" : "inactive" }, String(j));
    cell.title = latentName(j) + (flag ? "" : " is inactive");
    head.append(cell);
  });
  const body = rows.map((row, i) => {
    const line = element("tr", {}, element("th", { scope: "row" }, sources[i]));
    row.forEach((value, j) => {
      const cell = element("td", {}, value === null ? "" : value.toFixed(2).replace(/^(-?)0/, "$1"));
      cell.title = sources[i] + ", " + latentName(j) + ": " + value;
      const share = Math.min(Math.abs(value || 0), 1);
      cell.style.backgroundColor = "color-mix(in srgb, var(--accent) " + Math.round(85 * share) + "%, transparent)";
      cell.classList.toggle("strong", share > 0.55);
      line.append(cell);
    });
    return line;
  });
  const table = element("table", { class: "heat" }, element("thead", {}, head), element("tbody", {}, ...body));
  const note = active.includes(false) ? "; struck-out latents are inactive" : "";
  const box = element("div", { class: "scroll", role: "region", "aria-label": caption }, table);
  box.tabIndex = 0;
  return element("figure", {}, element("figcaption", {}, caption + note), box);
}

function showCurves() {
  const box = byId("curves").querySelector(".plots");
  const plots = Object.entries(state.run.curves).filter(([, points]) => points.length > 1);
  byId("curves").hidden = !plots.length;
  box.replaceChildren(...plots.map(([name, points]) => curve(name, points)));
}

function curve(name, points) {
  const width = 270, height = 136, left = 48, right = 8, top = 24, bottom = 20;
  const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
  const x0 = Math.min(...xs), x1 = Math.max(...xs);
  const y0 = Math.min(...ys), y1 = Math.max(...ys);
  const place = ([x, y]) => [
    left + (width - left - right) * (x - x0) / (x1 - x0 || 1),
    top + (height - top - bottom) * (1 - (y - y0) / (y1 - y0 || 1)),
  ];
  const last = ys[ys.length - 1];
  const svg = shape("svg", { viewBox: "0 0 " + width + " " + height, width, role: "img", "aria-label": name + ", last " + last.toPrecision(3) });
  const text = (x, y, words, more) => svg.append(shape("text", { x, y, ...more }, words));
  text(left, 13, name.length > 26 ? name.slice(0, 25) + "…" : name);
  text(width - right, 13, last.toPrecision(3), { "text-anchor": "end", class: "soft" });
  for (const [value, y] of [[y1, top], [y0, height - bottom]]) {
    svg.append(shape("line", { x1: left, x2: width - right, y1: y, y2: y, stroke: "var(--line)" }));
    text(left - 5, y + 4, String(Number(value.toPrecision(3))), { "text-anchor": "end", class: "soft" });
  }
  svg.append(shape("polyline", {
    points: points.map((p) => place(p).map((v) => v.toFixed(1)).join(",")).join(" "),
    fill: "none", stroke: "var(--accent)", "stroke-width": 1.6,
  }));
  text(left, height - 4, "step " + x0, { class: "soft" });
  text(width - right, height - 4, String(x1), { "text-anchor": "end", class: "soft" });
  return svg;
}

// ---- start -------------------------------------------------------------------------------

function wellUnder(target) {
  return target instanceof Element && target.closest("#well-b") ? "b" : "a";
}

document.addEventListener("dragover", (event) => {
  if (!state.model) return;
  event.preventDefault();
  for (const name of WELLS) byId("well-" + name).classList.toggle("over", wellUnder(event.target) === name);
});
document.addEventListener("dragleave", () => {
  for (const name of WELLS) byId("well-" + name).classList.remove("over");
});
document.addEventListener("drop", (event) => {
  if (!state.model) return;
  event.preventDefault();
  for (const name of WELLS) byId("well-" + name).classList.remove("over");
  const files = event.dataTransfer.files;
  if (files.length) openFile(wellUnder(event.target), files[0]);
});
byId("blend").oninput = (event) => blend(Number(event.target.value) / 100);
byId("random").onclick = randomCodes;
byId("redraw").onclick = async () => { const turn = state.turn; await drawTraversal(turn); await drawSwaps(turn); };
runs.forEach((run, i) => byId("run").append(element("option", { value: String(i) }, run.name)));
byId("run").onchange = (event) => chooseRun(Number(event.target.value));
if (runs.length) chooseRun(0); else byId("explorer").hidden = true;
