// A simulated person at the page: it answers, takes what is offered, and tells how it was, or leaves before.
(async () => {
  const { name, tired, evening, lot, leaves, good } = PERSON;
  const $ = (id) => document.getElementById(id);
  const until = async (what) => { while (!what()) await new Promise((r) => setTimeout(r, 50)); };
  await until(() => !$("login").hidden || !$("today").hidden);
  if (!$("login").hidden) {
    $("login").elements.name.value = name;
    $("login").requestSubmit();
  }
  const button = $("today").querySelector("button");
  await until(() => !button.disabled);
  $("today").elements.feel.value = tired ? "tired" : "fresh";
  $("today").elements.time.value = evening ? "evening" : "day";
  button.click();
  await until(() => !$("offer").hidden);
  const { id, sampled, reason } = $("offer").dataset;
  if (!leaves) {
    $("rate").elements.good.value = lot < good[id] ? "1" : "0";
    $("rate").requestSubmit();
    await until(() => $("rate").hidden && $("said").textContent.startsWith("Thank"));
  }
  return JSON.stringify({ id, sampled: sampled === "true", reason, said: $("said").textContent });
})()
