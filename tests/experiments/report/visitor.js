// What a visitor of the report does, and what is seen then: the tests in test_browser.py look at it.
{
const all = query => [...document.querySelectorAll(query)], texts = query => all(query).map(node => node.textContent);
const graph = document.querySelector(".drawing"), ground = () => graph.querySelector(".nsewdrag"), seen = {};
const pause = time => new Promise(done => setTimeout(done, time));
const labels = () => texts(".hoverlayer text"), shown = () => all(".scatterlayer .js-line").length;
async function hover(line, part) {
  const path = all(".scatterlayer .js-line")[line], place = path.getPointAtLength(part * path.getTotalLength());
  const {x, y} = place.matrixTransform(path.getScreenCTM());
  ground().dispatchEvent(new MouseEvent("mousemove", {clientX: x, clientY: y, bubbles: true}));
  await pause(200);
  return labels();
}
async function choose(axis, name) {
  const select = all(".controls select").find(node => [...node.options].some(({value}) => value === name));
  select.value = name;
  select.dispatchEvent(new Event("change"));
  await pause(200);
}
async function click(node, times = 1) {
  for (let k = 0; k < times; k++) {
    for (const kind of ["mousedown", "mouseup", "click"]) node.dispatchEvent(new MouseEvent(kind, {bubbles: true}));
  }
  await pause(400);
}
async function press(key) {
  graph.dispatchEvent(new KeyboardEvent("keydown", {key}));
  await pause(200);
  return labels();
}
const name = number => all(".infolayer .legend .legendtoggle")[number], frame = () => graph.layout.yaxis.range;
async function visit() {
  await pause(400);
  seen.names = texts(".infolayer .legend .legendtext");
  seen.strokes = all(".scatterlayer .js-line").map(({style}) => style.stroke + style.strokeDasharray);
  seen.bands = all(".scatterlayer .js-fill").filter(node => node.getAttribute("d")).length;
  seen.titles = texts(".g-xtitle text, .g-ytitle text");
  seen.buttons = all(".modebar-btn").map(node => node.dataset.title);
  seen.log = texts(".xtick text");
  seen.frame = frame();
  seen.end = await hover(0, 1);
  ground().dispatchEvent(new MouseEvent("mouseout", {bubbles: true}));
  await pause(200);
  seen.left = labels().length;
  seen.keys = [await press("ArrowRight"), await press("ArrowRight"), await press("ArrowLeft")];
  await click(document.querySelector(".log-x"));
  seen.linear = texts(".xtick text");
  seen.pressed = document.querySelector(".log-x").getAttribute("aria-pressed");
  seen.start = await hover(0, 0);
  await click(name(1));
  seen.hidden = [shown(), graph.data.map(({visible}) => visible)];
  await choose("y", "disagreement");
  await choose("x", "seconds");
  seen.still = shown();
  await click(name(1));
  seen.again = shown();
  await click(document.querySelector(".log-x"));
  seen.other = await hover(0, 1);
  await click(name(2), 2);
  seen.alone = shown();
  for (const node of all(".switches button")) {
    await click(node);
    seen[node.textContent] = [shown(), texts(".annotation-text")];
  }
  seen.foreign = all("#x").length;
  seen.wide = document.documentElement.scrollWidth - innerWidth;
  seen.fetched = performance.getEntriesByType("resource").map(({name}) => name);
}
visit().catch(error => problems.push(String(error))).then(() => {
  seen.problems = problems;
  document.body.append(Object.assign(document.createElement("pre"), {id: "seen", textContent: JSON.stringify(seen)}));
});
}
