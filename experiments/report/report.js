"use strict";
// Has plotly draw the report: a plot for each element of class "plot", of the data that the page holds.

const page = JSON.parse(document.getElementById("data").textContent);
const TOGETHER = 10; // curves whose numbers are shown in one box, at most; of more, those of the one pointed at
const BEYOND = 10; // times the ends of the frame: where what is outside of it is drawn to
const NARROW = 700; // pixels: below, the legend is under the plot
const BUTTONS = [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]]; // none that shares data
const CONFIG = {responsive: true, displaylogo: false, modeBarButtons: BUTTONS, doubleClick: "reset"};

function make(parent, tag, attributes = {}, text = "") {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.textContent = text;
  return parent.appendChild(node);
}

function button(parent, text, act) {
  const node = make(parent, "button", {type: "button"}, text);
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

// A name in lines of at most so many letters, where it has blanks; plotly takes some HTML, but names are none.
function lines(text, most) {
  const found = [""];
  for (const word of text.split(" ")) {
    if (found.at(-1) && found.at(-1).length + word.length >= most) found.push("");
    found.push(`${found.pop()} ${word}`.trim());
  }
  return found.join("\n").replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll("\n", "<br>");
}

const within = (value, most) => Math.max(0, Math.min(most, value));

function look(index) {
  const {colours, dashes, symbols} = page.look, turn = Math.floor(index / colours.length);
  const color = colours[index % colours.length];
  return {line: {color, width: 1.6, dash: dashes[(index + turn) % dashes.length]},
    marker: {color, size: 7, maxdisplayed: 8, symbol: symbols[index % symbols.length]}};
}

// What plotly draws of a curve: the line of the medians, and the band of the repeats where there are several.
function traces({name, note, curve, index, points, visible}, {frame, log, heading}) {
  const [low, high] = frame ?? [1, 1], top = high > 0 ? BEYOND * high : high + BEYOND * (high - low);
  const inside = value => Math.min(log ? Math.max(value, low / BEYOND) : value, top);
  const short = lines(name.length > 72 ? `${name.slice(0, 70)}…` : name, 80);
  const numbers = ({y, low, high}) => `${short}: ${show(y)}${low === high ? "" : ` [${show(low)}, ${show(high)}]`}`;
  const shared = {legendgroup: index, meta: index, visible: visible ? true : "legendonly"}, {line, marker} = look(index);
  const known = points.filter(({y}) => !Number.isNaN(y)), back = [...known].reverse();
  const drawn = points.length ? points : [{x: null, y: null}]; // plotly's legend leaves out what has no point
  const middle = {...shared, line, marker, mode: "lines+markers", name: lines(`${name} (${note})`, 36),
    x: drawn.map(({x}) => x), y: drawn.map(({y}) => log && y <= 0 ? null : Math.min(y, top)),
    text: points.map(numbers), hovertemplate: `${heading}%{text}<extra></extra>`};
  const band = {...shared, mode: "none", fill: "toself", fillcolor: line.color, opacity: 0.14, hoverinfo: "skip",
    showlegend: false, x: [...known, ...back].map(({x}) => x),
    y: [...known.map(({high}) => inside(high)), ...back.map(({low}) => inside(low))]};
  return curve.runs.length > 1 && known.length ? [band, middle] : [middle];
}

function layout({log, title, frame, together, listed, width}) {
  const narrow = width < NARROW, font = {size: 12, color: "#333", family: getComputedStyle(document.body).fontFamily};
  const axis = {tickformat: "~g", gridcolor: "#e3e3e3", linecolor: "#777", mirror: true, ticks: "outside", zeroline: false};
  const few = narrow ? 3 : 5, middle = {x: 0.5, y: 0.5, xref: "paper", yref: "paper", showarrow: false};
  const [low, high] = !frame ? [0, 1] : log.y ? frame.map(Math.log10) : frame, pad = 0.04 * (high - low) || 0.5;
  return {
    xaxis: {...axis, type: log.x ? "log" : "linear", title: {text: title.x}, nticks: log.x ? few : 0, hoverformat: ".6~g",
      unifiedhovertitle: {text: `${title.x}: %{x}`}},
    yaxis: {...axis, type: log.y ? "log" : "linear", title: {text: title.y}, nticks: log.y ? 8 : 0, automargin: true,
      range: [low - pad, high + pad]},
    height: narrow ? 380 + Math.min(30 * listed, 400) : 460,
    margin: {l: 60, r: 10, t: 32, b: 50},
    legend: {itemwidth: 44, tracegroupgap: 4, ...(narrow ? {orientation: "h", y: -0.2, yanchor: "top"} : {x: 1.01, y: 1})},
    showlegend: true,
    hovermode: together ? "x unified" : "closest",
    hoverlabel: {align: "left", bgcolor: "#fffffff2", font},
    font,
    annotations: frame ? [] : [{text: "no curve to show", ...middle}],
  };
}

function draw(box, plot) {
  const first = (names, wanted) => names.includes(wanted) ? wanted : names[0];
  const state = {x: first(plot.x, "exchanges"), y: first(plot.y, "objective"), log: {x: true, y: true}};
  state.fixed = plot.dimensions.map(({fixed}) => fixed ? 0 : null);
  state.hidden = new Set(plot.curves.filter(({shown}) => !shown));
  const label = name => page.labels[name] ?? name;
  let drawn = [], reader = null;

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
    const log = button(group, `log ${axis}`, () => {
      state.log[axis] = !state.log[axis];
      log.setAttribute("aria-pressed", state.log[axis]);
      update();
    });
    log.className = `log-${axis}`;
    log.setAttribute("aria-pressed", true);
  }
  const graph = make(box, "div", {class: "drawing", tabindex: 0, role: "img"});
  const switches = make(box, "div", {class: "switches"});
  button(switches, "show all", () => { state.hidden.clear(); update(); });
  button(switches, "hide all", () => { state.hidden = new Set(plot.curves); update(); });

  function name(curve) {
    const words = plot.dimensions.map(({values}, i) => values[curve.place[i]]);
    const free = words.filter((_, i) => state.fixed[i] === null);
    return [free, words].map(part => part.filter(Boolean).join(", ")).find(Boolean) ?? "all runs";
  }

  function note(curve, points) {
    const repeats = curve.runs.length, diverged = curve.runs.filter(run => run.diverged).length;
    const wrong = [diverged && `${diverged} diverged`, !points.length && "not recorded"].filter(Boolean);
    return [`${repeats} run${repeats > 1 ? "s" : ""}`, ...wrong].join(", ");
  }

  function update() {
    const chosen = plot.curves.filter(({place}) => place.every((value, i) => value === (state.fixed[i] ?? value)));
    drawn = chosen.map((curve, index) => {
      const all = points(plot, curve, state.x, state.y), shown = all.filter(({x}) => !state.log.x || x > 0);
      return {curve, index, name: name(curve), note: note(curve, all), points: shown, visible: !state.hidden.has(curve)};
    });
    const seen = drawn.filter(({visible}) => visible), frame = ends(seen, state.log.y), together = seen.length <= TOGETHER;
    const title = {x: label(state.x), y: label(state.y)}, heading = together ? "" : `${title.x}: %{x}<br>`;
    const data = drawn.flatMap(one => traces(one, {frame, log: state.log.y, heading}));
    const size = {listed: drawn.length, width: box.clientWidth};
    Plotly.react(graph, data, layout({log: state.log, title, frame, together, ...size}), CONFIG);
    graph.setAttribute("aria-label", `${title.y} against ${title.x}; the arrow keys read values`);
    reader = {curve: 0, x: NaN};
  }

  // Shows the numbers of a visible curve: steps along its points, and to the next curve.
  function read(along, on) {
    const seen = drawn.filter(({visible, points}) => visible && points.length);
    if (!seen.length) return;
    reader.curve = within(reader.curve + on, seen.length - 1);
    const {points} = seen[reader.curve], before = points.filter(({x}) => x <= reader.x).length - 1;
    const {x, y} = points[within(before + along, points.length - 1)];
    reader.x = x;
    Plotly.Fx.hover(graph, {xval: x, yval: y});
  }

  update();
  graph.on("plotly_legendclick", ({curveNumber, data}) => {
    const {curve} = drawn[data[curveNumber].meta];
    if (!state.hidden.delete(curve)) state.hidden.add(curve);
    update();
    return false; // plotly would hide it by itself, and not know it any more after a choice
  });
  graph.on("plotly_legenddoubleclick", ({curveNumber, data}) => {
    const {curve} = drawn[data[curveNumber].meta];
    state.hidden = new Set(plot.curves.filter(other => other !== curve));
    update();
    return false;
  });
  graph.addEventListener("keydown", event => {
    const step = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}[event.key];
    if (event.key === "Escape") Plotly.Fx.unhover(graph);
    if (!step) return;
    event.preventDefault();
    read(...step);
  });
}

document.querySelectorAll(".plot").forEach((box, number) => {
  if (page.plots[number].curves.length) draw(box, page.plots[number]);
});
