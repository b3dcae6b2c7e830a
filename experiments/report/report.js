"use strict";
// Draws the plots of the report: one for each element of class "plot", of the data that the page holds.

const page = JSON.parse(document.getElementById("data").textContent);
const SVG = document.createRange().createContextualFragment("<svg></svg>").firstChild.namespaceURI;
const ROUND = "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0";
const SHAPES = {o: ROUND, s: "M-3-3h6v6h-6z", D: "M0-4l4 4l-4 4l-4-4z", "^": "M0-4l4 7h-8z", v: "M0 4l4-7h-8z"};
const NEAREST = 8; // curves in the tooltip, at most

function make(parent, tag, attributes = {}, text = "") {
  const drawing = tag === "svg" || parent.namespaceURI === SVG;
  const node = drawing ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.textContent = text;
  return parent.appendChild(node);
}

function button(parent, text, pressed, act) {
  const node = make(parent, "button", {type: "button"}, text);
  if (pressed !== null) node.setAttribute("aria-pressed", pressed);
  node.addEventListener("click", () => act(node));
  return node;
}

function choice(parent, text, options, chosen, act) {
  const node = make(make(parent, "label", {}, text), "select");
  for (const [value, name] of options) make(node, "option", {value}, name);
  node.value = chosen;
  node.addEventListener("change", () => act(node.value));
}

function show(value) {
  const size = Math.abs(value);
  if (!Number.isFinite(value)) return value > 0 ? "infinite" : "–";
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? String(Number(value.toPrecision(4)).toExponential()).replace("e+", "e")
    : String(Number(value.toPrecision(size >= 1000 ? 6 : 4)));
}

// The value at x of points (xs, ys), linear between them; infinite after the last.
function interpolate(xs, ys, x) {
  let low = 0, high = xs.length - 1;
  if (x > xs[high]) return Infinity;
  if (x <= xs[0]) return ys[0];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] < x) low = middle; else high = middle;
  }
  return xs[high] === x ? ys[high] : ys[low] + (ys[high] - ys[low]) * (x - xs[low]) / (xs[high] - xs[low]);
}

const median = sorted => (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;

// Points of a curve: the median, lowest and highest of its repeats, as far as all of them go that did not diverge.
function points(plot, curve, x, y) {
  const runs = curve.runs.filter(run => x in run.columns && y in run.columns && plot.columns[run.columns[x]].length);
  const column = (run, name) => plot.columns[run.columns[name]].map(v => v ?? NaN);
  const data = runs.map(run => [column(run, x), column(run, y)]);
  const end = Math.min(...data.filter((_, i) => !runs[i].diverged).map(([xs]) => xs.at(-1)));
  const grid = [...new Set(data.flatMap(([xs]) => xs))].filter(v => v <= end).sort((a, b) => a - b);
  return grid.map(at => {
    const values = data.map(([xs, ys]) => interpolate(xs, ys, at)).sort((a, b) => a - b);
    return values.some(Number.isNaN) ? {x: at, y: NaN, low: NaN, high: NaN}
      : {x: at, y: median(values), low: values[0], high: values.at(-1)};
  });
}

// Maps values to pixels from..to; NaN for what a logarithmic axis cannot show.
function scale(values, log, from, to) {
  const map = v => log ? (v > 0 ? Math.log10(v) : NaN) : v;
  const finite = values.map(map).filter(Number.isFinite);
  let low = finite.reduce((a, b) => Math.min(a, b), Infinity), high = finite.reduce((a, b) => Math.max(a, b), -Infinity);
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  const pixel = v => from + (map(v) - low) / (high - low) * (to - from);
  return {pixel, empty: !finite.length, ticks: ticks(low, high, log, Math.max(2, Math.abs(to - from) / (to > from ? 75 : 50)))};
}

function ticks(low, high, log, count) {
  if (!(high > low)) return [];
  if (log && high - low > 0.8) {
    const every = Math.max(1, Math.ceil((high - low) / count)), found = [];
    for (let k = Math.floor(low); k <= high; k += every) {
      for (const part of high - low < 2 ? [1, 2, 5] : [1]) found.push(Number(`${part}e${k}`));
    }
    return found.filter(v => Math.log10(v) >= low - 1e-9 && Math.log10(v) <= high + 1e-9);
  }
  if (log) [low, high] = [10 ** low, 10 ** high];
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find(v => v * power >= raw) * power;
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(k * step);
  return found.map(v => Number(v.toPrecision(12)));
}

// The highest value to show: curves that end a million times above their start and the others have diverged, and leave the frame.
function highest(drawn) {
  const columns = drawn.flatMap(({seen}) => [seen.map(({y}) => y), seen.map(({high}) => high)]);
  const curves = columns.map(ys => ys.map(Math.abs).filter(v => Number.isFinite(v) && v > 0)).filter(ys => ys.length);
  const top = ys => ys.reduce((a, b) => Math.max(a, b), 0), middle = ys => [...ys].sort((a, b) => a - b)[ys.length >> 1];
  const usual = curves.map(middle).reduce((a, b) => Math.min(a, b), Infinity);
  const kept = curves.filter(ys => top(ys) <= 1e6 * Math.max(ys[0], usual) || ys.at(-1) <= 1e-3 * top(ys));
  return !kept.length || kept.length === curves.length ? Infinity : 10 * top(kept.map(top));
}

const within = (value, most) => Math.max(0, Math.min(most, value));

function style(index) {
  const turn = Math.floor(index / page.colours.length), dash = page.dashes[(index + turn) % page.dashes.length];
  const stroke = page.colours[index % page.colours.length], shape = SHAPES[page.markers[index % page.markers.length]];
  return {stroke, shape, "stroke-dasharray": dash.map(length => length * 1.6).join(" ") || "none"};
}

function swatch(parent, index) {
  const {shape, ...look} = style(index), node = make(parent, "svg", {width: 40, height: 12, "aria-hidden": "true"});
  make(node, "path", {class: "sample", d: "M1 6H39", fill: "none", "stroke-width": 1.6, ...look});
  make(node, "path", {d: shape, transform: "translate(20 6)", fill: look.stroke});
}

function draw(box, plot) {
  const first = (names, wanted) => names.includes(wanted) ? wanted : names[0];
  const state = {x: first(plot.x, "exchanges"), y: first(plot.y, "objective"), log: {x: true, y: true}};
  state.fixed = plot.dimensions.map(({fixed}) => fixed ? 0 : null);
  state.hidden = new Set(plot.curves.filter(({shown}) => !shown));
  const label = name => page.labels[name] ?? name;
  let drawn = [], cursor = null, width = 0;

  const controls = make(box, "div", {class: "controls"});
  plot.dimensions.forEach(({name, values}, i) => {
    if (values.length < 2) return;
    const options = [["", "all"], ...values.map((value, k) => [k, value || "–"])];
    choice(controls, name, options, state.fixed[i] ?? "", value => {
      state.fixed[i] = value === "" ? null : Number(value);
      update();
    });
  });
  for (const axis of ["y", "x"]) {
    const group = make(controls, "div");
    choice(group, axis, plot[axis].map(name => [name, label(name)]), state[axis], value => { state[axis] = value; update(); });
    button(group, `log ${axis}`, true, node => {
      state.log[axis] = !state.log[axis];
      node.setAttribute("aria-pressed", state.log[axis]);
      update();
    }).className = `log-${axis}`;
  }
  const frame = make(box, "div", {style: "position: relative"});
  const canvas = make(frame, "svg", {class: "drawing", tabindex: 0, role: "img"});
  const tip = make(frame, "div", {class: "tip", role: "status", hidden: ""});
  const switches = make(box, "div", {class: "switches"}), legend = make(box, "div", {class: "legend"});
  button(switches, "show all", null, () => { state.hidden.clear(); update(); });
  button(switches, "hide all", null, () => { state.hidden = new Set(plot.curves); update(); });

  function name(curve) {
    const words = plot.dimensions.map(({values}, i) => values[curve.place[i]]);
    const free = words.filter((_, i) => state.fixed[i] === null);
    return [free, words].map(part => part.filter(Boolean).join(", ")).find(Boolean) ?? "all runs";
  }

  function update() {
    const chosen = plot.curves.filter(({place}) => place.every((value, i) => value === (state.fixed[i] ?? value)));
    const all = chosen.map((curve, index) => ({curve, index, points: points(plot, curve, state.x, state.y)}));
    drawn = all.filter(({curve, points}) => !state.hidden.has(curve) && points.length);
    const scrolled = legend.scrollTop;
    legend.replaceChildren();
    for (const {curve, index, points} of all) {
      const node = button(legend, "", !state.hidden.has(curve), () => {
        if (!state.hidden.delete(curve)) state.hidden.add(curve);
        update();
        legend.children[index].focus({preventScroll: true});
      });
      const repeats = curve.runs.length, diverged = curve.runs.filter(run => run.diverged).length;
      swatch(node, index);
      const text = make(node, "span");
      make(text, "span", {class: "name"}, name(curve));
      make(text, "small", {}, ` ${repeats} run${repeats > 1 ? "s" : ""}${diverged ? `, ${diverged} diverged` : ""}`
        + (points.length ? "" : "; not recorded"));
    }
    legend.scrollTop = scrolled;
    render();
  }

  function render() {
    width = frame.clientWidth;
    const height = Math.round(Math.max(280, Math.min(460, 0.5 * width)));
    const [left, right, top, bottom] = [64, width - 14, 12, height - 46];
    canvas.replaceChildren();
    canvas.setAttribute("height", height);
    canvas.setAttribute("viewBox", `0 0 ${width} ${height}`);
    canvas.setAttribute("aria-label", `${label(state.y)} against ${label(state.x)}; the arrow keys read values`);
    point(null);
    for (const one of drawn) one.seen = one.points.filter(({x}) => !state.log.x || x > 0);
    const seen = drawn.flatMap(one => one.seen), across = scale(seen.map(({x}) => x), state.log.x, left + 6, right - 6);
    const most = highest(drawn);
    const up = scale(seen.flatMap(p => [p.y, p.low, p.high]).filter(v => !(v > most)), state.log.y, bottom - 8, top + 8);
    make(canvas, "rect", {class: "frame", x: left, y: top, width: right - left, height: bottom - top});
    make(canvas, "text", {x: (left + right) / 2, y: height - 8, "text-anchor": "middle"}, label(state.x));
    const turned = `translate(13 ${(top + bottom) / 2}) rotate(-90)`;
    make(canvas, "text", {transform: turned, "text-anchor": "middle"}, label(state.y));
    if (across.empty || up.empty) {
      make(canvas, "text", {x: (left + right) / 2, y: height / 2, "text-anchor": "middle"}, "no curve to show");
      return;
    }
    for (const value of across.ticks) {
      make(canvas, "path", {class: "grid", d: `M${across.pixel(value)} ${top}V${bottom}`});
      make(canvas, "text", {class: "tick-x", x: across.pixel(value), y: bottom + 17, "text-anchor": "middle"}, show(value));
    }
    for (const value of up.ticks) {
      make(canvas, "path", {class: "grid", d: `M${left} ${up.pixel(value)}H${right}`});
      make(canvas, "text", {class: "tick-y", x: left - 6, y: up.pixel(value) + 4, "text-anchor": "end"}, show(value));
    }
    const edge = (value, end) => Number.isNaN(value) ? NaN : Number.isFinite(up.pixel(value)) ? Math.max(top, up.pixel(value)) : end;
    for (const one of drawn) {
      const {shape, ...look} = style(one.index), mark = 0.15 * Math.hypot(right - left, bottom - top);
      one.pixels = one.seen.map(p => ({...p, px: across.pixel(p.x), py: up.pixel(p.y)}));
      const band = one.pixels.filter(p => !Number.isNaN(p.y));
      if (one.curve.runs.length > 1 && band.length) {
        const upper = band.map(p => `${p.px.toFixed(1)} ${edge(p.high, top).toFixed(1)}`);
        const lower = band.map(p => `${p.px.toFixed(1)} ${edge(p.low, p.low > 0 ? top : bottom).toFixed(1)}`).reverse();
        make(canvas, "path", {class: "band", d: `M${[...upper, ...lower].join("L")}Z`, fill: look.stroke});
      }
      let d = "", last = null, next = (one.index % 5) * mark / 5, far = 0;
      const marks = [];
      for (const p of one.pixels) {
        if (!Number.isFinite(p.py)) { last = null; continue; }
        if (p.py < top) {  // out of the frame, on the way that the line takes
          if (last) d += `L${(last.px + (p.px - last.px) * (top - last.py) / (p.py - last.py)).toFixed(1)} ${top}`;
          last = null;
          continue;
        }
        d += `${last ? "L" : "M"}${p.px.toFixed(1)} ${p.py.toFixed(1)}`;
        far += last ? Math.hypot(p.px - last.px, p.py - last.py) : 0;
        if (far >= next) { marks.push(p); next = far + mark; }
        last = p;
      }
      one.pixels = one.pixels.filter(p => Number.isFinite(p.py) && p.py >= top);
      if (d) make(canvas, "path", {class: "line", d, ...look});
      for (const p of marks) make(canvas, "path", {d: shape, transform: `translate(${p.px} ${p.py})`, fill: look.stroke});
    }
  }

  // Shows what is nearest to a place in pixels, or nothing at all.
  function point(place) {
    canvas.querySelectorAll(".spot").forEach(node => node.remove());
    cursor = place;
    tip.hidden = true;
    const nearest = list => list.reduce((a, b) => Math.abs(b.px - place.x) < Math.abs(a.px - place.x) ? b : a);
    const lines = place ? drawn.filter(({pixels}) => pixels?.length).map(one => ({one, p: nearest(one.pixels)})) : [];
    if (!lines.length) return;
    lines.sort((a, b) => Math.hypot(a.p.px - place.x, a.p.py - place.y) - Math.hypot(b.p.px - place.x, b.p.py - place.y));
    const at = lines[0].p.x;
    tip.replaceChildren();
    make(tip, "div", {}, `${label(state.x)}: ${show(at)}`);
    lines.slice(0, NEAREST).forEach(({one, p}, i) => {
      const line = make(tip, "div", i ? {} : {class: "nearest"});
      swatch(line, one.index);
      const text = name(one.curve), short = text.length > 72 ? `${text.slice(0, 70)}…` : text;
      const range = p.low === p.high ? "" : ` [${show(p.low)}, ${show(p.high)}]`;
      make(line, "span", {}, `${short}: ${show(p.y)}${range}${p.x === at ? "" : ` at ${show(p.x)}`}`);
      make(canvas, "circle", {class: "spot", cx: p.px, cy: p.py, r: 4.5, fill: "none", stroke: "#000", "stroke-width": 1.5});
    });
    tip.hidden = false;
    const room = width - tip.offsetWidth, beside = place.x + 14 > room ? place.x - 14 - tip.offsetWidth : place.x + 14;
    tip.style.left = `${within(beside, room)}px`;
    tip.style.top = `${within(place.y - tip.offsetHeight / 2, frame.clientHeight - tip.offsetHeight)}px`;
  }

  for (const type of ["pointermove", "pointerdown"]) canvas.addEventListener(type, event => {
    const {left, top} = canvas.getBoundingClientRect();
    point({x: event.clientX - left, y: event.clientY - top});
  });
  for (const type of ["pointerleave", "blur"]) canvas.addEventListener(type, () => point(null));
  canvas.addEventListener("keydown", event => {
    const step = {ArrowLeft: [-12, 0], ArrowRight: [12, 0], ArrowUp: [0, -12], ArrowDown: [0, 12]}[event.key];
    if (event.key === "Escape") point(null);
    if (!step) return;
    event.preventDefault();
    const {x, y} = cursor ?? {x: width / 2, y: frame.clientHeight / 2};
    point({x: within(x + step[0], width), y: within(y + step[1], frame.clientHeight)});
  });
  update();
  new ResizeObserver(() => { if (frame.clientWidth !== width) render(); }).observe(frame);
}

document.querySelectorAll(".plot").forEach((box, number) => {
  if (page.plots[number].curves.length) draw(box, page.plots[number]);
});
