/** What a VM may do in one run: held by its own side, where the task is told, and by the page again. */

/** Values that are emitted. */
export const MOST_EMITTED = 1000;
/** Characters of JSON, of a result or of a value that is emitted. */
export const MOST_TEXT = 1_000_000;
/** Fetches, models and SQL that wait for their answers at one time. */
export const MOST_ASKED = 100;
