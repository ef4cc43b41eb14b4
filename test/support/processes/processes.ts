import { readdirSync, readlinkSync } from 'node:fs';

/** Whether there is a process with this id. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** The environment without the additions of npm and Jest for this test run. */
export function outsideEnvironment(): NodeJS.ProcessEnv {
  const { NODE_OPTIONS, npm_config_local_prefix, ...rest } = process.env;
  return rest;
}

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
