import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { entryUrl } from '../library/built-entry.js';
import { spreadsOf, type Measurement, type Sample } from '../measuring/interleave.js';
import { installed } from '../measuring/versions.js';
import type { Findings, Part } from './part.js';

const run = promisify(execFile);

const COUNTER = fileURLToPath(new URL('../startup/loaded-bytes.mjs', import.meta.url));

const ENTRIES = ['.', './redis', './postgres', './memory'];

/** The size of the packed package, and of what an import of each entry loads. */
export const sizePart: Part = {
  name: 'size',
  needsPeers: false,
  run: async ({ library }) => measureSize(library),
};

async function measureSize(library: string): Promise<Findings> {
  const measurements: Measurement[] = [await packed(library)];
  for (const name of ENTRIES) {
    const entry = `nestjs-idempotency${name.slice(1)}`;
    const dist = pathToFileURL(join(library, 'dist/')).href;
    const env = { ...process.env, NODE_OPTIONS: '' };
    const { stdout } = await run(process.execPath, [COUNTER, entryUrl(library, name), dist], {
      env,
    });
    for (const [loaded, sample] of Object.entries(JSON.parse(stdout) as Record<string, Sample>)) {
      measurements.push({ factors: { entry }, entrant: loaded, metrics: spreadsOf([sample]) });
    }
  }
  const versions = { Nest: installed('@nestjs/core') };
  return { measurements, rounds: { rounds: 1, roundMs: 0, warmUpMs: 0 }, versions };
}

async function packed(library: string): Promise<Measurement> {
  const args = ['pack', '--dry-run', '--ignore-scripts', '--json'];
  const { stdout } = await run('npm', args, { cwd: library });
  const [result] = JSON.parse(stdout) as { size: number; unpackedSize: number; files: object[] }[];
  const { size = NaN, unpackedSize = NaN, files = [] } = result ?? {};
  const sample = { files: files.length, bytes: unpackedSize, packedBytes: size };
  return { factors: { entry: 'package' }, entrant: 'itself', metrics: spreadsOf([sample]) };
}
