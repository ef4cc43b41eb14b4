import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Child } from '../../../test/support/processes/child.js';
import { projectRoot } from '../../../test/support/project-root.js';

/** The benchmark of a commit. */
export interface BenchCode {
  readonly folder: string;
  /** What lets Node run its TypeScript. */
  readonly loader: string;
}

export interface WorkerOptions {
  /** Another Node than this one. */
  readonly execPath?: string;
  /** Another benchmark than this one. */
  readonly code?: BenchCode;
}

/** Where the benchmark is in a commit: the first one that is there. */
export const BENCH_FOLDERS = ['lab/bench', 'test/lab/bench'] as const;

export const LOADER = 'test/support/typescript/register.mjs';

const OWN: BenchCode = {
  folder: join(projectRoot, BENCH_FOLDERS[0]),
  loader: join(projectRoot, LOADER),
};

/** Starts one of the processes that `protocol.ts` is about. */
export function startWorker(
  program: 'store/worker.ts' | 'http/server.ts',
  env: Readonly<Record<string, string>>,
  { execPath = process.execPath, code = OWN }: WorkerOptions = {},
): Promise<Child> {
  const file = pathToFileURL(join(code.folder, program));
  return Child.start(file, { execPath, loader: code.loader, env });
}
