import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { typescriptNodeOptions } from '../../test/support/typescript/node-options.js';
import type { Summary } from './simulate.js';

/** A simulation in a process of its own. @returns what it printed, where it came to an objection. */
export function simulateApart(
  execPath: string,
  seed: number,
  requests: number,
): Promise<Summary | string> {
  const program = join(import.meta.dirname, 'main.ts');
  const args = ['--seed', String(seed), '--requests', String(requests), '--json'];
  return new Promise((resolve, reject) => {
    const child = spawn(execPath, [...typescriptNodeOptions, program, ...args], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
    child.once('error', reject).once('close', (status) => {
      resolve(status === 0 ? (JSON.parse(output) as Summary) : output);
    });
  });
}

/** Works through jobs, some at a time. @returns their results, in order. */
export async function inParallel<Job, Result>(
  jobs: readonly Job[],
  atOnce: number,
  work: (job: Job) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  const waiting = jobs.entries();
  const worker = async () => {
    for (const [index, job] of waiting) results[index] = await work(job);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  return results;
}
