/** The session protocol's types, made from their one definition (docs/protocol.md is the prose). */
export * from "./generated/messages";
