// What was learned: the newest coefficients with their intervals, and how they and epsilon went from epoch to epoch; and
// what panels answered to questions.
const short = v => String(Number(v.toPrecision(3)));
const widest = 24; // coefficients that the first picture shows, the largest
const lines = 8; // coefficients that the second picture tells apart

// named says what coefficient i stands for. Names come from the schema of features: they are written as text, never as
// markup.
const named = (names, i) => names ? names[i] : "θ" + (i + 1);
const escaped = text => text.replace(/[&<>"']/g, c => "&#" + c.charCodeAt(0) + ";");
const shortened = text => text.length > 26 ? text.slice(0, 25) + "…" : text;

const tone = i => "hsl(" + (185 + 137 * i) % 360 + " 55% 48%)";
const bySize = theta => theta.map((_, i) => i).sort((a, b) => Math.abs(theta[b]) - Math.abs(theta[a]));
const svg = (w, h, label, inner) => '<svg viewBox="0 0 ' + w + " " + h + '" role="img" aria-label="' + label + '">' + inner + "</svg>";
const line = (x1, y1, x2, y2, stroke, width) => '<line x1="' + x1.toFixed(1) + '" y1="' + y1.toFixed(1) + '" x2="' + x2.toFixed(1) + '" y2="' + y2.toFixed(1) + '" stroke="' + stroke + '" stroke-width="' + (width || 1) + '"/>';
const label = (x, y, text, anchor, fill) => '<text x="' + x.toFixed(1) + '" y="' + y.toFixed(1) + '" text-anchor="' + anchor + '" fill="' + (fill || "var(--soft)") + '">' + text + "</text>";

// whiskers draws a row for each of the largest coefficients: a point, and its interval where there is one.
function whiskers(last, names) {
  const shown = bySize(last.theta).slice(0, widest).sort((a, b) => a - b), half = i => last.half_width ? last.half_width[i] : 0;
  const reach = Math.max(1e-9, ...shown.map(i => Math.abs(last.theta[i]) + half(i)));
  const w = 480, right = 10, step = 20, left = names ? 16 + 6.2 * Math.max(...shown.map(i => shortened(names[i]).length)) : 34, h = 26 + step * shown.length, x = v => left + (w - left - right) * (v / reach + 1) / 2;
  let out = line(x(0), 4, x(0), h - 20, "var(--soft)");
  for (const v of [-reach, 0, reach]) out += label(x(v), h - 5, short(v), v < 0 ? "start" : v > 0 ? "end" : "middle");
  shown.forEach((i, row) => {
    const y = 14 + step * row, t = last.theta[i], clear = Math.abs(t) > half(i), ink = clear ? "var(--tint)" : "var(--tint-soft)";
    out += label(left - 8, y + 4, escaped(shortened(named(names, i))), "end");
    if (last.half_width) out += line(x(t - half(i)), y, x(t + half(i)), y, ink, 2) + line(x(t - half(i)), y - 4, x(t - half(i)), y + 4, ink, 2) + line(x(t + half(i)), y - 4, x(t + half(i)), y + 4, ink, 2);
    out += '<circle cx="' + x(t).toFixed(1) + '" cy="' + y + '" r="4" fill="' + ink + '"/>';
  });
  return svg(w, h, "Coefficients with their intervals", out);
}

// trend draws the coefficients over the epochs, and below them epsilon.
function trend(epochs, names) {
  const w = 480, top = 8, floor = 150, base = 206, h = 224, left = 44, n = epochs.length;
  const right = names ? 12 + 6.2 * Math.max(...names.map(name => shortened(name).length)) : 34;
  const all = epochs.flatMap(e => e.theta), high = Math.max(1e-9, ...all), low = Math.min(-1e-9, ...all);
  const wide = Math.min(26, (w - left - right) / n * .6), room = w - left - right - wide;
  const x = k => left + wide / 2 + (n === 1 ? room / 2 : room * k / (n - 1)), y = v => floor - (floor - top) * (v - low) / (high - low);
  let out = line(left, y(0), w - right, y(0), "var(--line)") + label(left - 6, y(0) + 4, "0", "end");
  for (const v of [low, high]) if (Math.abs(y(v) - y(0)) > 12) out += label(left - 6, y(v) + 4, short(v), "end");
  const first = bySize(epochs[n - 1].theta);
  let free = [];
  first.forEach((i, rank) => {
    const points = epochs.map((e, k) => x(k).toFixed(1) + "," + y(e.theta[i]).toFixed(1)).join(" "), told = rank < lines;
    out += '<polyline points="' + points + '" fill="none" stroke="' + (told ? tone(i) : "var(--line)") + '" stroke-width="' + (told ? 2 : 1) + '"/>';
    if (told && n === 1) out += '<circle cx="' + x(0) + '" cy="' + y(epochs[0].theta[i]).toFixed(1) + '" r="3" fill="' + tone(i) + '"/>';
    const at = y(epochs[n - 1].theta[i]);
    if (told && free.every(v => Math.abs(v - at) > 11)) { free.push(at); out += label(w - right + 6, at + 4, escaped(shortened(named(names, i))), "start", tone(i)); }
  });
  const most = Math.max(1e-9, ...epochs.map(e => e.epsilon ?? 0));
  epochs.forEach((e, k) => {
    const tall = e.epsilon === null ? 36 : 36 * e.epsilon / most;
    out += '<rect x="' + (x(k) - wide / 2).toFixed(1) + '" y="' + (base - tall).toFixed(1) + '" width="' + wide.toFixed(1) + '" height="' + tall.toFixed(1) + '" rx="2" fill="' + (e.epsilon === null ? "var(--bad)" : "var(--tint-soft)") + '"/>';
    if (n <= 12 || k === 0 || k === n - 1) out += label(x(k), h - 4, e.epoch, "middle");
  });
  return svg(w, h, "Coefficients and epsilon of each epoch", out + line(left, base, w - right, base, "var(--line)") + label(left - 6, base - 14, "ε", "end"));
}

// lifts draws the lift of each epoch with its interval, and a line at no lift.
function lifts(epochs) {
  const known = epochs.filter(e => e.lift), w = 480, top = 8, floor = 130, h = 152, left = 44, right = 10;
  const high = Math.max(1e-9, ...known.map(e => e.lift.lift_high)), low = Math.min(-1e-9, ...known.map(e => e.lift.lift_low));
  const x = k => left + (w - left - right) * (k + .5) / known.length, y = v => floor - (floor - top) * (v - low) / (high - low);
  let out = line(left, y(0), w - right, y(0), "var(--soft)") + label(left - 6, y(0) + 4, "0", "end");
  for (const v of [low, high]) if (Math.abs(y(v) - y(0)) > 12) out += label(left - 6, y(v) + 4, short(v), "end");
  known.forEach((e, k) => {
    const l = e.lift, ink = l.lift_low > 0 ? "var(--tint)" : l.lift_high < 0 ? "var(--bad)" : "var(--tint-soft)";
    out += line(x(k), y(l.lift_low), x(k), y(l.lift_high), ink, 2) + '<circle cx="' + x(k).toFixed(1) + '" cy="' + y(l.lift).toFixed(1) + '" r="4" fill="' + ink + '"/>';
    if (known.length <= 12 || k === 0 || k === known.length - 1) out += label(x(k), h - 4, e.epoch, "middle");
  });
  return svg(w, h, "Lift over the control group in each epoch", out);
}

// compared says in words what the control group shows, and what a rule did.
function compared(l) {
  const out = [], last = l.epochs.length - 1, e = l.epochs[last], t = l.total;
  const numbers = (at, v) => ["lift ", field(at + "lift", v.lift, short(v.lift)), ", 95 % interval ", field(at + "lift_low", v.lift_low, short(v.lift_low)), " to ", field(at + "lift_high", v.lift_high, short(v.lift_high))];
  if (t) out.push(el("div", { class: "under" }, "Over all decisions so far the policy brings a mean reward of ", field("learned.total.treated", t.treated, short(t.treated)), " and the default arm, in the control group, ", field("learned.total.control", t.control, short(t.control)), ": ", ...numbers("learned.total.", t), "."));
  if (e.lift) out.push(el("div", { class: "under" }, "In epoch " + e.epoch + ": ", ...numbers("learned.epochs." + last + ".lift.", e.lift), "."));
  if (e.unchanged) out.push(el("div", { class: "under" }, "If the world is what it was before, sums as far from what was known as those of the last epoch have probability ", field("learned.epochs." + last + ".unchanged", e.unchanged, short(e.unchanged)), "."));
  if (l.action) out.push(el("div", { class: "under warn" }, "After epoch ", field("learned.acted", l.acted), " the lift was below a floor, and a rule acted: ", field("learned.action", l.action, l.action === "stop" ? "everybody gets the default arm since" : "the policy before was taken up again"), "."));
  return out;
}

function learned(s) {
  const l = s.learned;
  $("learnedcard").hidden = !l;
  if (!l) return;
  const n = l.epochs.length - 1, last = l.epochs[n], opened = $("learned").querySelector("details")?.open;
  if (!last) return fill("learned", el("div", { class: "empty" }, l.interval));
  const picture = (caption, drawn) => { const f = el("figure", {}); f.innerHTML = drawn; f.append(el("figcaption", {}, caption)); return f; };
  const at = "learned.epochs." + n + ".", p = l.predicted, most = last.theta.length > widest ? " The " + widest + " largest of " + last.theta.length + " are drawn." : "";
  const rows = bySize(last.theta).slice(0, widest).sort((a, b) => a - b).map(i => el("tr", {}, el("td", {}, named(l.names, i)), el("td", {}, field(at + "theta." + i, last.theta[i], short(last.theta[i]))),
    ...(last.half_width ? [el("td", {}, "± ", field(at + "half_width." + i, last.half_width[i], short(last.half_width[i]))), el("td", {}, short(last.theta[i] - last.half_width[i]) + " … " + short(last.theta[i] + last.half_width[i]))] : [])));
  fill("learned",
    el("div", { class: "under" }, "From ", field("learned.cohorts", l.cohorts), l.cohorts === 1 ? " cohort" : " cohorts", ", after epoch ", field(at + "epoch", last.epoch), ", which cost each of its people at most ε\u00a0", field(at + "epsilon", last.epsilon, eps(last.epsilon)), "."),
    el("div", { class: "pictures" }, picture("The estimate now" + (last.half_width ? ", with intervals; pale where an interval holds 0." : ".") + most, whiskers(last, l.names)), picture("The estimate and ε after each epoch" + (l.epochs.length > 1 && l.epochs[0].epoch > 1 ? ", the newest." : "."), trend(l.epochs, l.names)), ...(l.epochs.some(e => e.lift) ? [picture("The lift over the control group in each epoch, with 95 % intervals.", lifts(l.epochs))] : [])),
    ...compared(l),
    el("div", { class: "under" }, field("learned.interval", l.interval, l.interval)),
    el("div", { class: "under" }, "By this model the mean reward of every arm, and so the value of every policy, is between ", field("learned.predicted.least", p.least, short(p.least)), " and ", field("learned.predicted.most", p.most, short(p.most)), "; an arm of zeros has ", field("learned.predicted.neutral", p.neutral, short(p.neutral)),
      l.total ? "." : ". The value for the people of a cohort cannot be had from its sums, which hold neither its rewards nor its arms."),
    el("details", { open: opened ? "" : undefined }, el("summary", {}, "The numbers"), el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, ...["Coefficient", "Estimate", ...(last.half_width ? ["Half width", "Interval"] : [])].map(t => el("th", {}, t)))), el("tbody", {}, ...rows)))));
}

const told = v => Math.abs(v) < 1000 ? String(Number(v.toPrecision(4))) : count(Math.round(v));

// answers lists what panels answered, the newest question first.
function answers(s) {
  const all = s.answers || [];
  $("answerscard").hidden = !all.length;
  fill("answers", ...all.map((a, i) => {
    const at = "answers." + i + ".", spread = a.values.some(v => v.deviation);
    const row = (at, v) => el("tr", {}, el("td", {}, field(at + "of", v.of)), ...(v.unbounded ? [el("td", {}, "–"), el("td", {}, "none: too much noise")] : [
      el("td", {}, field(at + "value", v.value, told(v.value))), el("td", {}, field(at + "low", v.low, told(v.low)), " … ", field(at + "high", v.high, told(v.high)))]),
      ...(spread ? [el("td", {}, v.deviation ? field(at + "deviation", v.deviation, told(v.deviation)) : "")] : []));
    return el("div", {}, el("div", { class: "under" }, field(at + "kind", a.kind), " ", field(at + "name", a.name), ", epoch ", field(at + "epoch", a.epoch), ", ", field(at + "reports", a.reports), a.reports === 1 ? " report" : " reports"),
      el("table", {}, el("thead", {}, el("tr", {}, ...["Of", "Estimate", "Interval", ...(spread ? ["Standard deviation"] : [])].map(t => el("th", {}, t)))), el("tbody", {}, row(at + "count.", a.count), ...a.values.map((v, k) => row(at + "values." + k + ".", v)))));
  }).reverse());
}
