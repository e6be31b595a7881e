export { type CollectOptions, collect } from "./collect";
export { isEvent, KINDS, type Kind, type PageEvent } from "./event";
export { EventProcessor, type Storage } from "./processor";
export { Sequences, type Visit } from "./sequences";
export { Source, Stream, type Window, type WindowOptions } from "./streams";
export { startByEvents, type TaskHolder, type TriggeredTask } from "./tasks";
export { ANY, ANY_NUMBER, Triggers } from "./triggers";
