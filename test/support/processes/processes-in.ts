import { readdirSync, readlinkSync } from 'node:fs';

/** The processes whose working directory is `dir`, even if that has been removed. Linux only. */
export function processesIn(dir: string): number[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.filter((pid) => workingDirectory(pid)?.startsWith(dir)).map(Number);
}

function workingDirectory(pid: string): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    // It has ended, or belongs to another user.
    return undefined;
  }
}
