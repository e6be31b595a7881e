/**
 * Says by how much a picture of a page is turned, and turns it back: a classifier of four classes.
 * The two addresses are those of `tapml serve`; on a server of your own, copy the module and the model beside the page.
 */
import { load } from "../../runtime/tapml-runtime.js";

const MODEL = "../../models/page-orientation.tapml/";
/** What the classes say: by how many degrees, clockwise, the page was turned. */
const DEGREES = [0, 90, 180, 270];
const SIZE = 224;
/** The shorter side before the middle is cut out. */
const SHORTER = 256;
/** Of the pictures that it was trained with. */
const MEAN = [0.485, 0.456, 0.406];
const DEVIATION = [0.229, 0.224, 0.225];
const MOST_PIXELS = 1600;

const element = (id) => document.getElementById(id);
const file = element("file");
const turn = element("turn");
const progress = element("progress");
let picture = sample();
/** Once the model is here: what it says of a picture. */
let classify = null;
/** The picture that was chosen last: what is said of one before it comes too late. */
let latest = 0;

function tell(text, failed = false) {
  element("status").textContent = text;
  element("status").classList.toggle("failed", failed);
}

/** Is the last word that a file could not be opened? */
const refused = () => element("status").classList.contains("failed");

function blank(width, height) {
  const made = new OffscreenCanvas(width, height);
  const context = made.getContext("2d", { willReadFrequently: true });
  context.fillStyle = "#fff";
  context.fillRect(0, 0, width, height);
  context.imageSmoothingQuality = "high";
  return [made, context];
}

/** A page to begin with. */
function sample() {
  const [made, context] = blank(480, 360);
  context.fillStyle = "#222";
  context.font = "bold 26px Georgia, serif";
  context.fillText("The winter timetable", 30, 52);
  context.font = "17px Georgia, serif";
  const lines = [
    "From the first of December the ferry leaves the",
    "northern harbour every forty minutes. On Sundays",
    "and holidays the first boat leaves at nine.",
    "",
    "Bicycles travel free of charge. Dogs are welcome",
    "on the lower deck, and must be kept on a lead.",
    "",
    "Please buy your ticket before boarding. Groups of",
    "more than ten people should write to us a week",
    "before they travel, so that we can keep seats.",
  ];
  lines.forEach((line, number) => context.fillText(line, 30, 92 + 25 * number));
  return made;
}

/** The picture, turned clockwise by a multiple of 90 degrees. */
function turned(image, degrees) {
  const across = degrees % 180 === 0;
  const [width, height] = across ? [image.width, image.height] : [image.height, image.width];
  const [made, context] = blank(width, height);
  context.translate(width / 2, height / 2);
  context.rotate((degrees * Math.PI) / 180);
  context.drawImage(image, -image.width / 2, -image.height / 2);
  return made;
}

function show(name, image) {
  const canvas = element(name);
  canvas.width = image.width;
  canvas.height = image.height;
  canvas.getContext("2d").drawImage(image, 0, 0);
}

/** The middle of the picture as the model takes it: [1, 3, 224, 224], colour by colour. */
function tensorOf(image) {
  const scale = SHORTER / Math.min(image.width, image.height);
  const [width, height] = [image.width * scale, image.height * scale];
  const [, context] = blank(SIZE, SIZE);
  context.drawImage(image, (SIZE - width) / 2, (SIZE - height) / 2, width, height);
  const { data } = context.getImageData(0, 0, SIZE, SIZE);
  const count = SIZE * SIZE;
  const tensor = new Float32Array(3 * count);
  for (let pixel = 0; pixel < count; pixel++) {
    for (let colour = 0; colour < 3; colour++) {
      tensor[colour * count + pixel] = (data[4 * pixel + colour] / 255 - MEAN[colour]) / DEVIATION[colour];
    }
  }
  return tensor;
}

function showShares(shares) {
  const rows = DEGREES.flatMap((degrees, at) => {
    const name = Object.assign(document.createElement("dt"), { textContent: `${degrees}°` });
    const meter = Object.assign(document.createElement("meter"), { min: 0, max: 1, value: shares[at] });
    meter.setAttribute("aria-hidden", "true");
    const percent = Object.assign(document.createElement("span"), { textContent: `${(100 * shares[at]).toFixed(0)} %` });
    const value = document.createElement("dd");
    value.append(meter, percent);
    return [name, value];
  });
  element("shares").replaceChildren(...rows);
}

/** For whoever uses the page: what the runtime says of a lost device is for whoever writes it. */
function said(error) {
  return error.kind === "device-lost"
    ? "This browser lost its connection to the graphics card: load the page again"
    : error.message;
}

function clear() {
  const upright = element("upright");
  upright.getContext("2d").clearRect(0, 0, upright.width, upright.height);
  element("shares").replaceChildren();
  element("answer").textContent = "";
}

/** What was said of another picture does not stand beside an error. */
function fail(text) {
  clear();
  tell(text, true);
}

/** Shows a picture, and which way up it is. Before the model is here it waits. */
async function choose(image) {
  picture = image;
  show("given", picture);
  if (!classify) return tell("Loading the model…");
  const mine = ++latest;
  const begun = performance.now();
  try {
    const shares = await classify(image);
    if (mine !== latest) return;
    const degrees = DEGREES[shares.indexOf(Math.max(...shares))];
    show("upright", turned(image, 360 - degrees));
    showShares(shares);
    element("answer").textContent = degrees ? `It was turned by ${degrees}°` : "It is upright";
    tell(`${(performance.now() - begun).toFixed(0)} ms, in this browser`);
  } catch (error) {
    if (mine === latest) fail(said(error));
  }
}

async function opened(chosen) {
  let image;
  try {
    image = await createImageBitmap(chosen);
  } catch {
    latest++;
    fail(`${chosen.name} is no picture that this browser can open`);
    return;
  }
  const scale = Math.min(1, MOST_PIXELS / Math.max(image.width, image.height));
  const [made, context] = blank(Math.round(image.width * scale), Math.round(image.height * scale));
  context.drawImage(image, 0, 0, made.width, made.height);
  await choose(made);
}

/** Pictures are taken from the beginning on: one that was dropped while the model loads would open in the page's place. */
function listen() {
  const drop = element("drop");
  file.addEventListener("change", () => file.files[0] && opened(file.files[0]));
  drop.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    const [dropped] = event.dataTransfer.files;
    if (dropped) opened(dropped);
  });
  turn.addEventListener("click", () => choose(turned(picture, 90)));
}

async function start() {
  show("given", picture);
  listen();
  const model = await load(MODEL, {
    onProgress: ({ bytes, totalBytes, kernels, totalKernels }) => {
      progress.value = (bytes + kernels) / (totalBytes + totalKernels);
      if (!refused()) tell(`Loading the model: ${(bytes / 1e6).toFixed(1)} of ${(totalBytes / 1e6).toFixed(1)} MB, ${kernels} of ${totalKernels} kernels`);
    },
  });
  progress.hidden = true;
  const [input] = model.inputs;
  const [output] = model.outputs;
  classify = async (image) => (await model.run({ [input.name]: tensorOf(image) }))[output.name];
  turn.disabled = false;
  if (!refused()) await choose(picture);
}

start().catch((error) => {
  progress.hidden = true;
  tell(said(error), true);
});
