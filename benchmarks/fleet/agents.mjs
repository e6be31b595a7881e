/**
 * Agents of a fleet (`make bench-fleet`): each pulls a task, runs it in a Python VM of its own, sends what it emits through its tunnel, and stays until all of
 * that is acknowledged. So many of them have a VM at the same time, for one takes a hundred megabytes. Prints a JSON line for each agent.
 */
const [base, service, tunnelUrl, key, agents, runs, atOnce] = process.argv.slice(2);
const { createAgent } = await import(new URL("tapml-agent.js", base));
const { spawn } = await import(new URL("tapml-agent-node.js", base));
const { Tunnel } = await import(new URL("tapml-tunnel.js", base));

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** As a page does: where the service cannot be reached, later. */
async function patiently(work) {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (error.kind !== "service") throw error;
      await pause(200 + 600 * Math.random());
    }
  }
}

/** Node.js 20 says of a connection that was refused that it failed, and never that it is closed, as browsers do. */
function connect(url) {
  const socket = new WebSocket(url);
  socket.onerror = () => socket.readyState === WebSocket.CONNECTING && socket.onclose();
  return socket;
}

const unexpected = [];

async function agent(number) {
  const made = await createAgent({ service, key, app: "1.0", base, spawn });
  const tunnel = new Tunnel(made, { url: tunnelUrl, consent: () => true, connect });
  let pulls = 0;
  made.on("failed", (failure) => failure.kind !== "pull" && unexpected.push(failure));
  await patiently(async () => {
    pulls++;
    await made.pull();
    if (made.tasks.size === 0) throw Object.assign(new Error("a file did not come"), { kind: "service" });
  });
  const task = made.tasks.get("shop/highlight");
  const done = [];
  for (let run = 0; run < Number(runs); run++) {
    const events = Array.from({ length: 20 }, (_, i) => ({ kind: i ? "click" : "enter", id: `item-${i * run}`, time: i }));
    const { failed, result } = await task.start({ run, events });
    if (!failed) done.push(result);
  }
  made.close(); // its VM ends; the tunnel goes on until all is acknowledged
  return { number, device: made.device, pulls, done, tunnel };
}

let next = 0;
const finished = [];
await Promise.all(
  Array.from({ length: Number(atOnce) }, async () => {
    while (next < Number(agents)) {
      const { tunnel, ...found } = await agent(next++);
      finished.push(
        (async () => {
          while (tunnel.state.waiting > 0) await pause(50);
          const { dropped } = tunnel.state;
          tunnel.close();
          console.log(JSON.stringify({ ...found, dropped }));
        })(),
      );
    }
  }),
);
await Promise.all(finished);
console.log(JSON.stringify({ unexpected }));
process.exit(0);
