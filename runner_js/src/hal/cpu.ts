interface Process {
  cpuUsage?: () => { user: number; system: number };
}

/** CPU time of this process, all of its threads: in node and Deno that of a GPU in software, too. Null in a browser. */
export function cpuSeconds(): number | null {
  const { process } = globalThis as { process?: Process };
  const spent = process?.cpuUsage?.();
  return spent ? (spent.user + spent.system) / 1e6 : null;
}
