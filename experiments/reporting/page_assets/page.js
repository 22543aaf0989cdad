"use strict";
const runs = JSON.parse(document.getElementById("data").textContent);
const byId = (name) => document.getElementById(name);
const state = { run: null, base: 0, sprites: [] };
const SVG = "http://www.w3.org/2000/svg";

function make(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes || {})) {
    element.setAttribute(key, value);
  }
  if (text !== undefined) element.textContent = text;
  return element;
}

function loadImage(source) {
  const image = new Image();
  image.src = source;
  return image;
}

function chooseRun(index) {
  state.run = runs[index];
  state.base = 0;
  byId("run").value = index;
  byId("facts").textContent = state.run.facts;
  state.sprites = state.run.sprites.map((pair) => loadImage(pair[1]));
  showBases();
  showSliders();
  chooseBase(0);
  for (const name of ["nmi", "dci", "swaps"]) showPicture(name, state.run[name], name === "swaps" ? 2 : 1);
  showCodes();
  showCurves();
}

function showPicture(name, source, scale) {
  const figure = byId(name);
  figure.querySelectorAll("img").forEach((old) => old.remove());
  figure.hidden = !source;
  if (!source) return;
  const image = loadImage(source);
  image.alt = figure.textContent.trim();
  image.onload = () => { image.style.width = image.naturalWidth * scale + "px"; };
  figure.append(image);
}

function showBases() {
  const box = byId("bases");
  box.replaceChildren();
  state.run.sprites.forEach((pair, i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-label", "base image " + (i + 1));
    button.append(loadImage(pair[0]));
    button.onclick = () => chooseBase(i);
    box.append(button);
  });
}

function showSliders() {
  const box = byId("sliders");
  box.replaceChildren();
  for (let j = 0; j < state.run.latents; j++) {
    const label = document.createElement("label");
    const name = document.createElement("span");
    name.textContent = "latent " + j;
    const slider = document.createElement("input");
    slider.type = "range";
    slider.min = 0;
    slider.max = state.run.values[j] - 1;
    slider.dataset.latent = j;
    const output = document.createElement("output");
    slider.oninput = () => { resetOthers(j); output.value = slider.value; draw(j, Number(slider.value)); };
    label.append(name, slider, output);
    box.append(label);
  }
}

function chooseBase(i) {
  state.base = i;
  [...byId("bases").children].forEach((button, k) => button.setAttribute("aria-pressed", k === i));
  resetOthers(-1);
  byId("caption").textContent = "Move a slider.";
  showPicture("traversal", state.run.sprites.length ? state.run.sprites[i][1] : null, 1.5);
  draw(0, state.run.codes[i] ? state.run.codes[i][0] : 0, true);
}

function resetOthers(kept) {
  const positions = state.run.codes[state.base] || [];
  byId("sliders").querySelectorAll("input").forEach((slider, j) => {
    if (j === kept) return;
    slider.value = positions[j];
    slider.nextElementSibling.value = positions[j];
  });
}

// One latent at a time: a sprite holds every value of every latent of one base image.
function draw(latent, value, silent) {
  const canvas = byId("decoded");
  const sprite = state.sprites[state.base];
  if (!sprite) return;
  if (!sprite.complete) { sprite.onload = () => draw(latent, value, silent); return; }
  const side = state.run.side;
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(sprite, value * side, latent * side, side, side, 0, 0, canvas.width, canvas.height);
  canvas.dataset.shown = state.base + "/" + latent + "/" + value;
  if (!silent) byId("caption").textContent = "latent " + latent + " at value " + value;
}

function showCodes() {
  const rows = state.run.frequencies;
  byId("codes").hidden = !rows;
  if (!rows) return;
  const width = 150, height = 64, gap = 16, columns = 6;
  const lines = Math.ceil(rows.length / columns);
  const svg = make("svg", { width: columns * (width + gap), height: lines * (height + 34), role: "img" });
  rows.forEach((row, j) => {
    const x = (j % columns) * (width + gap), y = Math.floor(j / columns) * (height + 34) + 16;
    const most = Math.max(...row), step = width / row.length;
    svg.append(make("text", { x, y: y - 3, class: "soft" }, "latent " + j));
    row.forEach((share, k) => {
      const bar = height * share / most;
      const rect = make("rect", { x: x + k * step, y: y + height - bar, width: Math.max(step - 1, 0.6), height: bar, fill: "var(--accent)" });
      rect.append(make("title", {}, "code " + k + ": " + (100 * share).toFixed(1) + " %"));
      svg.append(rect);
    });
    svg.append(make("line", { x1: x, x2: x + width, y1: y + height, y2: y + height, stroke: "var(--line)" }));
  });
  byId("codes").querySelector(".plot").replaceChildren(svg);
}

function showCurves() {
  const box = byId("curves").querySelector(".plots");
  box.replaceChildren();
  for (const [name, points] of Object.entries(state.run.curves)) {
    if (points.length > 1) box.append(curve(name, points));
  }
}

function curve(name, points) {
  const width = 250, height = 120, left = 6, top = 22;
  const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
  const x0 = Math.min(...xs), x1 = Math.max(...xs);
  const y0 = Math.min(...ys), y1 = Math.max(...ys);
  const place = ([x, y]) => [
    left + (width - 2 * left) * (x - x0) / (x1 - x0 || 1),
    top + (height - top - 18) * (1 - (y - y0) / (y1 - y0 || 1)),
  ];
  const svg = make("svg", { width, height, role: "img" });
  svg.append(make("text", { x: left, y: 13 }, name));
  const range = ys[ys.length - 1].toPrecision(4);
  svg.append(make("text", { x: width - left, y: 13, "text-anchor": "end", class: "soft" }, range));
  svg.append(make("polyline", {
    points: points.map((p) => place(p).map((v) => v.toFixed(1)).join(",")).join(" "),
    fill: "none", stroke: "var(--accent)", "stroke-width": 1.6,
  }));
  svg.append(make("text", { x: left, y: height - 3, class: "soft" }, "step " + x0));
  svg.append(make("text", { x: width - left, y: height - 3, "text-anchor": "end", class: "soft" }, String(x1)));
  return svg;
}

runs.forEach((run, i) => {
  const option = document.createElement("option");
  option.value = i;
  option.textContent = run.name;
  byId("run").append(option);
});
byId("run").onchange = (event) => chooseRun(Number(event.target.value));
if (runs.length) chooseRun(0); else byId("explorer").hidden = true;
