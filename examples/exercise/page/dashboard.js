const $ = (id) => document.getElementById(id);
const percent = (x) => Math.round(100 * x) + " %";

function element(name, attributes = {}, ...children) {
  const svg = ["svg", "rect", "text", "line", "polyline", "circle", "title"].includes(name);
  const e = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  e.append(...children);
  return e;
}

function situation({ name, exercises }) {
  const box = element("div", {}, element("h3", {}, name));
  const svg = element("svg", { viewBox: "0 0 260 124", role: "img", "aria-label": `${name}: ` +
    exercises.map((e) => `${e.id} ${e.good.toFixed(2)}, picked ${percent(e.picked)}`).join("; ") });
  exercises.forEach((e, i) => {
    const y = 8 + 29 * i;
    svg.append(element("text", { x: 0, y: y + 14 }, e.id),
      element("rect", { x: 66, y, width: 130, height: 20, rx: 4, fill: "var(--line)" }),
      element("rect", { x: 66, y, width: 130 * e.good, height: 20, rx: 4, fill: "var(--main)", opacity: e.best ? 1 : 0.55 }),
      element("text", { x: 203, y: y + 14 }, percent(e.picked)));
  });
  box.append(svg);
  return box;
}

function curve(epochs) {
  const [w, h] = [640, 220], x = (i) => 50 + ((w - 70) * i) / Math.max(1, epochs.length - 1), y = (v) => h - 30 - (h - 50) * v;
  const svg = element("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": "Expected good: " +
    epochs.map((e) => `policy ${e.epoch} ${e.good.toFixed(2)}`).join(", ") });
  for (const v of [0, 0.5, 1]) {
    svg.append(element("line", { x1: 45, x2: w - 15, y1: y(v), y2: y(v), stroke: "var(--line)" }), element("text", { x: 8, y: y(v) + 4 }, v));
  }
  const line = (key, dash) => element("polyline", { points: epochs.map((e, i) => `${x(i)},${y(e[key])}`).join(" "),
    fill: "none", stroke: "var(--main)", "stroke-width": 3, "stroke-dasharray": dash });
  svg.append(line("lot", "6 6"), line("good", ""));
  epochs.forEach((e, i) => svg.append(element("circle", { cx: x(i), cy: y(e.good), r: 5, fill: "var(--main)" }),
    element("text", { x: x(i), y: h - 8, "text-anchor": "middle" }, e.final ? "last" : `${e.epoch}`)));
  return svg;
}

async function draw() {
  const d = await (await fetch("dashboard.json")).json();
  $("step").textContent = d.epochs.length;
  $("steps").textContent = d.planned;
  $("people").textContent = d.reports;
  $("open").textContent = d.final ? "learning is over" : `the open cohort takes ${d.cohort}`;
  const latest = d.epochs.at(-1);
  $("gain").textContent = percent(latest.good);
  $("first").textContent = percent(latest.lot);
  $("situations").replaceChildren(...d.situations.map(situation));
  $("curve").replaceChildren(curve(d.epochs));
  const head = element("tr", {}, ...["What", "Weight"].map((t) => element("th", { scope: "col" }, t)));
  $("terms").replaceChildren($("terms").caption, head, ...d.terms.map((t) =>
    element("tr", {}, element("td", {}, t.name), element("td", { class: "n" }, t.weight.toFixed(2)))));
  $("guarantee").textContent = d.guarantee;
}

await draw();
setInterval(draw, 5000);
