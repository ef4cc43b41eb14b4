import { open, readFile, rm } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { isRunning } from './processes.js';

const POLL_MS = 100;

/** Runs it while no other process holds the same lock. The end of a process releases its lock. */
export async function withLock<T>(file: string, action: () => Promise<T>): Promise<T> {
  while (!(await take(file))) {
    const holder = Number(await readFile(file, 'utf8').catch(() => ''));
    // 0: it is just being written, or has just been removed.
    if (holder !== 0 && !isRunning(holder)) await rm(file, { force: true });
    await delay(POLL_MS);
  }
  try {
    return await action();
  } finally {
    await rm(file, { force: true });
  }
}

async function take(file: string): Promise<boolean> {
  try {
    const handle = await open(file, 'wx');
    await handle.writeFile(String(process.pid));
    await handle.close();
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}
