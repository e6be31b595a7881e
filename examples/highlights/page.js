/**
 * A page with an agent of the field (docs/field.md): its task decides about images, and emits those that it is not sure
 * of, which leave by the tunnel. Copy it together with the folder `task`, which is what is published.
 */
import { load } from "../../runtime/tapml-runtime.js";
import { createAgent } from "../../static/agent/tapml-agent.js";
import { Tunnel } from "../../static/agent/tapml-tunnel.js";

/** A page of your own has them in its text: the key whose versions it runs, and the service's tunnel. */
const { key, tunnel: url } = Object.fromEntries(new URLSearchParams(location.search));
const TASK = "highlights/recognise";
const SIDE = 8;

const element = (id) => document.getElementById(id);

function tell(text, failed = false) {
  element("status").textContent = text;
  element("status").classList.toggle("failed", failed);
}

function drawn(pixels) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = SIDE;
  const image = new ImageData(SIDE, SIDE);
  for (const [at, ink] of pixels.entries())
    image.data.set([255 - 15 * ink, 255 - 15 * ink, 255 - 15 * ink, 255], 4 * at);
  // Drawn by the CPU: the GPU is the model's.
  canvas.getContext("2d", { willReadFrequently: true }).putImageData(image, 0, 0);
  return canvas;
}

function show(pixels, { label, unsure }) {
  const item = document.createElement("li");
  item.classList.toggle("unsure", unsure);
  item.append(drawn(pixels), String(label));
  element("images").append(item);
}

let recognised = null;

/** All images, one after the other; what the task said of each, and how long its run took. */
async function recognise(agent, tunnel, images) {
  element("start").disabled = true;
  const found = [];
  const begun = performance.now();
  let first = 0;
  for (const [image, pixels] of images.entries()) {
    const { result, failure, ms } = await agent.tasks.get(TASK).start({ image, pixels });
    if (failure !== null) throw new Error(failure.message);
    first ||= performance.now() - begun;
    show(pixels, result);
    found.push({ ...result, ms });
    tell(`${image + 1} of ${images.length}, of which ${found.filter((one) => one.unsure).length} were sent`);
  }
  while (tunnel.state.waiting > 0) await new Promise((resolve) => setTimeout(resolve, 20));
  return { found, first, left: tunnel.log().length };
}

async function begin() {
  const agent = await createAgent({ service: new URL("../../field/", location.href), key, app: "1.0", load });
  agent.on("failed", ({ message }) => tell(message, true));
  const tunnel = new Tunnel(agent, { url, consent: () => true });
  await agent.pull();
  const images = await (await fetch("../images.json")).json();
  globalThis.recognise = () => (recognised ??= recognise(agent, tunnel, images));
  element("start").addEventListener("click", () => globalThis.recognise());
  element("start").disabled = false;
  tell(`${images.length} images`);
}

/** For who drives this page. */
globalThis.ready = begin();
globalThis.ready.catch((error) => tell(String(error), true));
