/** Browsers' own messages, brought down to what a person needs. */

/**
 * Chromium appends how it came there (" - While finishing [CommandEncoder]..."). Firefox draws the source: of
 * "Shader '' parsing error: no definition..." followed by a frame, the first line, the label under the carets and
 * the notes ("= note") are kept.
 */
export function tidyGpuMessage(message: string): string {
  const lines = message.trim().split("\n");
  const first = (lines[0] ?? "").replace(/^Shader '[^']*' (?:parsing|validation) error: /, "").trim();
  const label = lines
    .map((line) => /[\^─]+\s+(\S.*)$/.exec(line)?.[1])
    .find((found) => found && !/^wgsl:/.test(found));
  const notes = lines.slice(1).flatMap((line) => {
    const note = /^\s*=\s*(?:note: )?(.+)$/.exec(line)?.[1];
    return note ? [note.trim()] : [];
  });
  const framed = lines.some((line) => line.includes("┌─"));
  const rest =
    framed || notes.length ? [] : lines.slice(1).filter((line) => line.trim() && !/^\s*- While /.test(line));
  return [framed && label ? `${first} (${label})` : first, ...notes, ...rest].join("; ");
}
