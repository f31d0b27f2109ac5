import { Riffle } from "./riffle/index.js";

const exercises = [
  { id: "walk", name: "A brisk walk", how: "Ten minutes around the block, fast enough that singing would be hard." },
  { id: "stretch", name: "Stretch", how: "Reach up, fold forward, open the chest. Hold each for five slow breaths." },
  { id: "breathe", name: "Breathe", how: "Sit. Breathe in for four counts and out for six, for five minutes." },
  { id: "strength", name: "Strength", how: "Three rounds: ten squats, eight push-ups against a wall, a plank of twenty seconds." },
];
const $ = (id) => document.getElementById(id);
const say = (text) => { $("said").textContent = text; };
let riffle, decision;

async function start() {
  const answer = await fetch("riffle.json");
  $("login").hidden = answer.ok;
  if (!answer.ok) return $("login").elements.name.focus();
  $("today").hidden = false;
  $("today").elements.time.value = new Date().getHours() >= 17 ? "evening" : "day";
  const last = last_();
  if (last) $("before").textContent = `Last time you did: ${last.name}. You will be offered something else.`;
  riffle = await Riffle.open({ ...(await answer.json()), onEvent: (e) => e.type === "status" && show() });
  await show();
  $("today").querySelector("button").disabled = false;
  const open = localStorage.getItem("open");
  if (!open) return;
  offer(JSON.parse(open));
  say("You were offered this last time. How was it?");
}

// The page keeps a decision until its answer, which may come in a page of tomorrow.
const keep = (of) => localStorage.setItem("open", JSON.stringify(of));
const forget = () => localStorage.removeItem("open");

function offer(of) {
  decision = of;
  const { id, name, how } = exercises[of.arm];
  $("name").textContent = name;
  $("how").textContent = how;
  Object.assign($("offer").dataset, { id, sampled: of.sampled, reason: of.reason ?? "" });
  $("offer").hidden = $("rate").hidden = false;
  $("offer").focus();
}

// What the person did before stays here, and only keeps the same exercise from coming twice in a row.
const last_ = () => exercises.find((e) => e.id === localStorage.getItem("last"));

async function show() {
  const [status, ledger] = [await riffle.status(), await riffle.ledger()];
  $("promise").textContent = ledger.guarantee || status.detail || "You take no part, so nothing of you is used.";
  $("spent").textContent = ledger.words;
  $("out").checked = status.reason === "opted_out";
}

$("login").addEventListener("submit", async (e) => {
  e.preventDefault();
  await fetch("login", { method: "POST", body: new URLSearchParams(new FormData(e.target)) });
  await start();
});

$("today").addEventListener("submit", async (e) => {
  e.preventDefault();
  const { feel, time } = Object.fromEntries(new FormData(e.target));
  const last = exercises.indexOf(last_());
  e.target.querySelector("button").disabled = true;
  say("Your browser asks for a place…");
  // The device calls this once it has its place, so that having one cannot depend on what is in here.
  const made = await riffle.decide(
    () => ({ context: { tired: feel === "tired", evening: time === "evening" }, arms: exercises.map(({ id }) => ({ id })) }),
    last < 0 ? {} : { exclude: [last] },
  );
  localStorage.setItem("last", exercises[made.arm].id);
  if (made.sampled) keep(made);
  offer(made);
  $("today").hidden = true;
  say(decision.sampled ? "" : "This time your answer will not be used: " + (decision.detail || "it was used before."));
  await show();
});

$("rate").addEventListener("submit", async (e) => {
  e.preventDefault();
  const taken = await riffle.reward(decision, Number(new FormData(e.target).get("good")));
  if (decision.sampled) forget();
  $("rate").hidden = true;
  say(taken.accepted ? "Thank you. Your device keeps this answer to itself." : "Thank you. Nothing of this is used.");
  await show();
});

$("out").addEventListener("change", async (e) => {
  forget();
  await riffle?.optOut(e.target.checked);
  await show();
});

await start();
