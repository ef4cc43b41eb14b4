import { spawnSync } from 'node:child_process';
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import TestSequencer from '@jest/test-sequencer';
import { closureOf } from './closure.mjs';
import { programsFor } from './programs.mjs';

const ROOT = join(import.meta.dirname, '../..');
const REGISTER = join(ROOT, 'test/support/typescript/register.mjs');
const PROVISION = join(ROOT, 'test/support/provision/main.ts');

/** Of test/support/provision/main.ts. */
const LEFT_OUT = 3;

/**
 * Jest's own order, the most expensive of the last run first; before the first file, what the chosen files
 * need is provisioned.
 */
export default class Sequencer extends TestSequencer {
  sort(tests) {
    note({ chosen: tests.length });
    if (!process.argv.includes('--listTests')) provision(tests.map(({ path }) => path));
    return super.sort(tests);
  }
}

function provision(files) {
  const programs = programsFor(closureOf(files, ROOT));
  if (programs.length === 0) return;
  const args = ['--import', REGISTER, PROVISION, ...programs];
  const { status } = spawnSync(process.execPath, args, {
    stdio: ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, NODE_OPTIONS: '' },
  });
  if (status === LEFT_OUT) note({ leftOut: programs });
  else if (status !== 0) throw new Error('Something that the tests need is missing: see above.');
}

function note(line) {
  if (process.env.TEST_REPORT) appendFileSync(process.env.TEST_REPORT, `${JSON.stringify(line)}\n`);
}
