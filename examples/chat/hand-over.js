/** A recorded call, to the server that `tapml serve` or `tapml demo` runs with the model's suite: how did each kernel do? */
const SERVER = "../../api";
const PAUSE = 300;
const WORST_LAST = ["pass", "unsupported", "unbounded", "fail", "error"];

const element = (id) => document.getElementById(id);

function tell(sentence, failed = false) {
  element("carved-status").textContent = sentence;
  element("carved-status").classList.toggle("failed", failed);
}

async function asked(path, request) {
  const response = await fetch(`${SERVER}/${path}`, request);
  const answer = await response.json().catch(() => null);
  if (response.ok && answer) return answer;
  if (answer?.error) throw new Error(answer.error);
  throw new Error("This server takes no recordings: download it, and give it to `tapml import FILE --into MODEL.suite`.");
}

async function ended(job) {
  for (let next = 0; ; ) {
    const found = await asked(`jobs/${job}?after=${next}`);
    next = found.next;
    const last = found.events.findLast(({ type }) => type === "compare");
    if (last) tell(`Computing the same on the server's processor: ${last.done} of ${last.total} calls`);
    if (found.state === "done") return found.document;
    if (found.state !== "running") throw new Error(found.error ?? "The server has ended this.");
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

/** A row for each kernel, with its worst verdict. */
function show(calls) {
  const kernels = [...new Set(calls.map(({ kernel }) => kernel))];
  const rows = kernels.map((kernel) => {
    const ones = calls.filter((call) => call.kernel === kernel);
    const worst = ones.reduce((a, b) => (WORST_LAST.indexOf(b.verdict) > WORST_LAST.indexOf(a.verdict) ? b : a));
    const remarks = [worst.message || worst.suspicious, ...worst.notes].filter(Boolean).join("; ");
    const row = document.createElement("tr");
    const right = worst.verdict === "pass";
    for (const text of [kernel, ones.length, remarks ? `${worst.verdict}: ${remarks}` : worst.verdict]) {
      row.append(Object.assign(document.createElement("td"), { textContent: text }));
    }
    row.lastChild.classList.toggle("wrong", !right);
    return { row, right };
  });
  const wrongFirst = [...rows.filter(({ right }) => !right), ...rows.filter(({ right }) => right)];
  element("verdicts").tBodies[0].replaceChildren(...wrongFirst.map(({ row }) => row));
  element("verdicts").hidden = false;
}

/** Has the page's server the suite that the recorded model was built from? One that serves files alone has not. */
export async function isTaken(file) {
  try {
    const length = new DataView(await file.slice(0, 8).arrayBuffer()).getBigUint64(0, true);
    const header = JSON.parse(await file.slice(8, 8 + Number(length)).text());
    const { model } = JSON.parse(header.__metadata__.tapml);
    return Boolean((await asked(`captures/${model.sha256}`)).suite);
  } catch {
    return false;
  }
}

export async function handOver(file) {
  element("hand-over").disabled = true;
  tell("Sending…");
  try {
    const { job, suite } = await asked("captures", { method: "POST", headers: { "X-Tapml": "1" }, body: file });
    const { calls, summary, path } = await ended(job);
    show(calls);
    const tests = calls.map(({ test }) => test).filter(Boolean);
    const link = document.createElement("a");
    link.href = `../../suites/${encodeURIComponent(suite)}`;
    link.textContent = path;
    const lie = tests.length ? ` ${tests.length} are tests now of ` : " None could be kept in ";
    tell(`${summary.pass} of ${calls.length} calls pass.${lie}`, summary.pass < calls.length);
    element("carved-status").append(link, ".");
  } catch (error) {
    tell(error.message, true);
    element("hand-over").disabled = false;
  }
}
