"use strict";
// What the report's plots show of the repeats of a run: the median and the range at every x, and the frame for all curves.

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

const least = values => values.reduce((a, b) => Math.min(a, b), Infinity);
const most = values => values.reduce((a, b) => Math.max(a, b), -Infinity);

// The highest value of the curves that stay in the frame: those that end a thousand times above their start and the others
// leave it.
function highest(seen) {
  const columns = seen.flatMap(({points}) => [points.map(({y}) => y), points.map(({high}) => high)]);
  const curves = columns.map(ys => ys.map(Math.abs).filter(v => Number.isFinite(v) && v > 0)).filter(ys => ys.length);
  const middle = ys => [...ys].sort((a, b) => a - b)[ys.length >> 1], usual = least(curves.map(middle));
  const kept = curves.filter(ys => most(ys) <= 1e3 * Math.max(ys[0], usual) || ys.at(-1) <= 1e-3 * most(ys));
  return !kept.length || kept.length === curves.length ? Infinity : most(kept.map(most));
}

// The least and the largest value to show of curves; none where there is nothing to. What leaves the frame is seen to do so.
function ends(seen, log) {
  const values = seen.flatMap(({points}) => points.flatMap(({y, low, high}) => [y, low, high]));
  const top = highest(seen) * (log ? 10 : 1.1);
  const shown = values.filter(v => Number.isFinite(v) && v <= top && (v > 0 || !log));
  return shown.length ? [least(shown), most(shown)] : null;
}
