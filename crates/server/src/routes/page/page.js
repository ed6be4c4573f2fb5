"use strict";
const $ = (id) => document.getElementById(id);
const element = (tag, className, text) => {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
};
/** Methods of the server: name and whether each is lossless. */
let methods = [];
/** The file to ask about, and its id on the server once it is uploaded. */
let chosen = null;
/** Ends what is going on. */
let running = null;

const key = () => ($("key").value ? { Authorization: `Bearer ${$("key").value}` } : {});

/** Fetch, and make the server's error object an Error. */
async function call(path, options = {}) {
  const response = await fetch(path, { ...options, headers: { ...options.headers, ...key() } });
  if (response.ok) return response;
  if (response.status === 401) $("key-label").hidden = false;
  let words = `${response.status} ${response.statusText}`;
  try { words = (await response.json()).error.message; } catch { /* no object */ }
  throw new Error(words);
}

/** The data of server-sent events. */
async function* parts(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const events = rest.split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const data = event.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart());
      if (data.length) yield data.join("\n");
    }
  }
}

function token({ text, role, why }) {
  const span = element("span", role, text);
  if (why) span.title = why;
  return span;
}

function legend() {
  for (const { role, name, why } of VERDICTS) {
    if ($("legend").childNodes.length) $("legend").append(" · ");
    $("legend").append(token({ text: name, role, why }));
  }
}

function addMethod(name) {
  const select = element("select");
  const isFirst = !$("methods").children.length;
  const label = element("label", "", isFirst ? "with " : "then ");
  if (!isFirst) {
    const none = element("option", "", "no further method");
    none.value = "";
    select.append(none);
    select.addEventListener("change", () => select.value || label.remove());
  }
  for (const method of methods) {
    const option = element("option", "", `${method.name} (${method.lossless ? "lossless" : "lossy"})`);
    option.value = method.name;
    select.append(option);
  }
  select.value = name;
  label.append(select);
  $("methods").append(label);
  return select;
}

async function start() {
  legend();
  try {
    const props = await (await call("/props")).json();
    methods = props.specreel.methods;
    $("methods").replaceChildren();
    addMethod(props.specreel.method);
    const { drafter, device, dtype } = props.specreel;
    say(`ready: ${[props.model_alias, drafter].filter(Boolean).join(" with ")}, ${device}, ${dtype}`);
  } catch (error) {
    say(error.message, true);
  }
}

function say(words, failed = false) {
  $("status").textContent = words;
  $("status").className = failed ? "failed" : "";
}

function choose(file) {
  if (!file) return;
  chosen = { file };
  $("chosen").textContent = `${file.name}, ${(file.size / 1e6).toFixed(1)} MB`;
  const isPicture = file.type.startsWith("image/");
  const [shown, other] = isPicture ? [$("picture"), $("preview")] : [$("preview"), $("picture")];
  URL.revokeObjectURL(shown.src);
  shown.src = URL.createObjectURL(file);
  shown.hidden = false;
  other.hidden = true;
}

/** What `video_url` names: an uploaded file, or the embedded clip if none was chosen. */
async function source(signal) {
  if (!chosen) return "demo";
  if (!chosen.id) {
    say(`uploading ${chosen.file.name}`);
    const form = new FormData();
    form.append("purpose", "user_data");
    form.append("file", chosen.file);
    const file = chosen;
    file.id = (await (await call("/v1/files", { method: "POST", body: form, signal })).json()).id;
  }
  return chosen.id;
}

function figures(report, usage) {
  const { prompt_tokens: all, prompt_tokens_details: { cached_tokens: kept } } = usage;
  const rows = [...report.account, ["prompt", `${all} tokens, ${kept} of them kept from an earlier request`]];
  return rows.map(([name, words]) => {
    const row = element("tr");
    row.append(element("td", "name", name), element("td", "", words));
    return row;
  });
}

function step(row) {
  const line = element("tr");
  const pieces = element("td");
  for (const { text, mark } of row.pieces) pieces.append(element("span", mark, text));
  pieces.title = row.reason;
  line.append(element("td", "number", row.number), pieces, element("td", "number", row.counts),
    element("td", "number", `${row.draft_ms.toFixed(1)} ms`), element("td", "number", `${row.verify_ms.toFixed(1)} ms`));
  return line;
}

/** Ask with one method. Returns the texts of the tokens. */
async function answer(url, method, signal) {
  const article = $("answer").content.cloneNode(true).querySelector("article");
  const at = (selector) => article.querySelector(selector);
  const { lossless } = methods.find(({ name }) => name === method) ?? {};
  at("h2").append(method, " ", element("span", lossless ? "" : "lossy", lossless ? "lossless" : "lossy"));
  $("answers").append(article);
  at(".caption").setAttribute("aria-busy", "true");
  say(`${method}: waiting`);
  const body = {
    model: "specreel", stream: true, stream_options: { include_usage: true },
    max_completion_tokens: $("length").valueAsNumber || 256,
    messages: [{ role: "user", content: [{ type: "video_url", video_url: { url } }, { type: "text", text: $("prompt").value }] }],
    specreel: { method, display: true },
  };
  const texts = [];
  let report, finish;
  try {
    const response = await call("/v1/chat/completions",
      { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
    for await (const data of parts(response)) {
      if (data === "[DONE]") break;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new Error(chunk.error.message);
      finish = chunk.choices?.[0]?.finish_reason ?? finish;
      for (const one of chunk.specreel?.tokens ?? []) {
        texts.push(one.text);
        at(".caption").append(token(one));
      }
      if (chunk.specreel?.row) at(".steps tbody").append(step(chunk.specreel.row));
      if (chunk.specreel?.method) report = chunk.specreel;
      if (report && chunk.usage) at(".figures tbody").replaceChildren(...figures(report, chunk.usage));
      if (texts.length) say(`${method}: ${texts.length} tokens`);
    }
    if (finish === "length") at(".outcome").textContent = "Cut off at the length limit.";
  } catch (error) {
    const cancelled = error.name === "AbortError";
    at(".outcome").className = cancelled ? "outcome" : "outcome failed";
    at(".outcome").textContent = cancelled ? "Cancelled." : error.message;
    throw error;
  } finally {
    at(".caption").setAttribute("aria-busy", "false");
  }
  return { article, texts };
}

/** How an answer compares with the first one. */
function compared(first, other) {
  const at = first.texts.findIndex((text, i) => text !== other.texts[i]);
  const same = at < 0 && first.texts.length === other.texts.length;
  const words = same ? `Identical to the first, ${other.texts.length} of ${other.texts.length} tokens`
    : `Differs from the first at token ${(at < 0 ? Math.min(first.texts.length, other.texts.length) : at) + 1}`;
  const place = other.article.querySelector(".outcome");
  place.textContent = [place.textContent, words].filter(Boolean).join(" ");
}

async function run(event) {
  event.preventDefault();
  if (running) return;
  running = new AbortController();
  const { signal } = running;
  $("run").disabled = true;
  $("cancel").disabled = false;
  $("answers").replaceChildren();
  try {
    if (!methods.length) await start();
    const url = await source(signal);
    let first = null;
    for (const select of $("methods").querySelectorAll("select")) {
      const one = await answer(url, select.value, signal);
      if (first) compared(first, one);
      first ??= one;
    }
    say("done");
  } catch (error) {
    // The server forgets uploads after a while.
    if (chosen) chosen.id = undefined;
    say(error.name === "AbortError" ? "cancelled" : error.message, error.name !== "AbortError");
  } finally {
    running = null;
    $("run").disabled = false;
    $("cancel").disabled = true;
  }
}

$("ask").addEventListener("submit", run);
$("cancel").addEventListener("click", () => running?.abort());
$("add").addEventListener("click", () => addMethod(methods[0]?.name).focus());
$("file").addEventListener("change", () => choose($("file").files[0]));
for (const kind of ["dragover", "dragleave", "drop"]) {
  $("drop").addEventListener(kind, (event) => {
    event.preventDefault();
    $("drop").classList.toggle("over", kind === "dragover");
    if (kind === "drop") choose(event.dataTransfer.files[0]);
  });
}
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") running?.abort();
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("ask").requestSubmit();
});
start();
